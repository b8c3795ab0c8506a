// Class mode: the lesson that is set, and what it switches: playing, predicting, number by number.

import type { Control, Lesson } from '../protocol/schema';
import { NO_LESSON, nearestSpeed, readLesson } from '../protocol/lesson';
import { oneLine } from '../protocol/text';
import type { InspectorModel } from '../model/inspector';
import { Player } from './player';
import { Predictor } from './predictor';
import type { Presenter } from './presenter';

export class Teaching {
  lesson: Lesson = NO_LESSON;
  readonly player: Player;
  readonly predictor: Predictor;
  /** the graph is drawn number by number */
  scalars = false;
  /** whether the chain rule stands with names or with numbers; null: as it was not chosen yet */
  formula: 'names' | 'numbers' | null = null;
  private last = '';
  /** the lesson's beginning is still to be shown: there is no graph yet */
  private begins = false;

  constructor(private readonly presenter: Presenter) {
    this.predictor = new Predictor(presenter);
    this.player = new Player(presenter, () => this.predictor.asking);
  }

  hides(control: Control): boolean {
    return this.lesson.hide.includes(control);
  }

  /** A lesson begins (null: ends); what of it was not understood is said. */
  take(lesson: Lesson | null, ignored: readonly string[] = []): void {
    const { presenter } = this;
    this.lesson = lesson ?? NO_LESSON;
    const { predict, scalars, speed, direction } = this.lesson;
    this.player.speed = nearestSpeed(speed);
    this.player.direction = direction;
    this.scalars = scalars;
    this.predictor.on = predict;
    this.begins = lesson !== null;
    if ((this.lesson.hide as string[]).includes(presenter.tab.value)) presenter.tab.set('node');
    if (ignored.length > 0) {
      const what = ignored.map(name => `“${oneLine(name, 60)}”`).join(', ');
      presenter.notify('info', `This lesson link says ${what}: unknown here, ignored.`);
    }
    this.begin();
    presenter.show();
  }

  refreshed(): void {
    const { state } = this.presenter.model.store;
    const current = JSON.stringify(state.lesson ?? null);
    if (current !== this.last) {
      this.last = current;
      if (this.presenter.live) this.take(readLesson(state.lesson));
    }
    this.begin();
    this.predictor.refreshed();
    this.player.refreshed();
  }

  setScalars(on: boolean): void {
    this.scalars = on;
    this.presenter.show();
  }

  setFormula(formula: 'names' | 'numbers'): void {
    this.formula = formula;
    this.presenter.show();
  }

  setPredict(on: boolean): void {
    if (on && !this.stopped) this.toBegin();
    this.predictor.setOn(on);
  }

  dispose(): void {
    this.player.dispose();
  }

  /** Something is set that a plain page does not have. */
  get isSet(): boolean {
    const { predictor, scalars, player, lesson } = this;
    return predictor.on || scalars || player.speed !== 1 || lesson !== NO_LESSON;
  }

  /** The lesson that would show what is on screen now. */
  here(): Lesson {
    const { model } = this.presenter;
    const { axis, cursor, selected, length } = model;
    const step = cursor !== null && cursor < length ? cursor - axis.forward.length + 1 : 0;
    return {
      ...this.lesson,
      predict: this.predictor.on,
      scalars: this.scalars,
      speed: this.player.speed,
      direction: this.player.direction,
      step: step >= 1 ? step : null,
      node: selected === null ? '' : String(selected)
    };
  }

  /** A backward waits for this page. */
  private get stopped(): boolean {
    return this.presenter.live && this.presenter.paused;
  }

  /** Shows the moment and the node at which the lesson begins, once there is a graph. */
  private begin(): void {
    const { presenter, lesson } = this;
    const { model } = presenter;
    if (!this.begins || model.graph.seqs.length === 0) {
      return;
    }
    this.begins = false;
    // What opened for a problem of a cell before this lesson covers the card that it speaks of.
    if ((lesson.node || lesson.predict) && presenter.tab.value === 'problems') {
      presenter.tab.set('node');
    }
    if (lesson.step !== null && model.axis.runs.length > 0 && !this.stopped) {
      model.scrub(model.axis.forward.length + lesson.step - 1);
    } else if (lesson.predict && !this.stopped) {
      this.toBegin();
    }
    if (lesson.node) {
      const seq = nodeNamed(model, lesson.node);
      if (seq !== null) presenter.goTo(seq);
      else presenter.notify('info', `The lesson begins at ${oneLine(lesson.node, 80)}: not here.`);
    }
  }

  /** To the first moment of the backward, where nothing is known yet. */
  private toBegin(): void {
    const { model } = this.presenter;
    const { axis, cursor, length } = model;
    if (axis.runs.length > 0 && (cursor === null || cursor >= length)) {
      model.scrub(axis.forward.length);
      if (axis.runs.length > 0) model.select(model.store.runs.at.seq[axis.runs[0]]);
    }
  }
}

/** The node of that number, name or variable; of several with a name the one that runs first. */
export function nodeNamed({ graph, store }: InspectorModel, name: string): number | null {
  const number = Number(name);
  if (graph.indexOf.has(number) || graph.leafUses.has(number)) {
    return number;
  }
  const wanted = name.toLowerCase();
  const named = (seq: number): boolean => {
    const own = store.nameOf(seq).toLowerCase();
    return own === wanted || own === `${wanted}backward0` || store.label(seq) === name;
  };
  for (const seqs of [graph.seqs, graph.leaves]) {
    for (const seq of seqs) {
      if (named(seq)) return seq;
    }
  }
  return null;
}
