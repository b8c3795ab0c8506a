// Predict, then reveal: which node is asked about, what was answered, the score of this sitting.
// While a prediction is open, no panel shows a gradient that has not arrived yet.

import type { Guess, Mark, Question, Score } from '../model/prediction';
import { edgeNames } from '../model/inputs';
import { isGuess, mark, productIn, questionsOf } from '../model/prediction';
import { State } from '../model/states';
import { nextAt } from './player';
import type { Presenter } from './presenter';

export interface Asked {
  /** names the moment: one question for each */
  readonly key: string;
  readonly seq: number;
  /** null while the kernel is asked */
  questions: Question[] | null;
  /** why there is nothing to predict */
  why: string;
  guesses: Guess[];
  /** null until it is revealed */
  marks: Mark[] | null;
  skipped: boolean;
  /** by question, what the right number is a product of, from the op's formula; '' unknown */
  products: string[];
}

const REMEMBERED = 500;
const NO_GUESS: Guess = { shape: null, value: null, sign: '' };

export class Predictor {
  on = false;
  score: Score = { predicted: 0, right: 0, skipped: 0 };
  /** what is asked at the moment shown */
  now: Asked | null = null;
  private readonly known = new Map<string, Asked>();

  constructor(private readonly presenter: Presenter) {}

  /** A prediction is open. */
  get asking(): boolean {
    return this.now !== null && this.now.marks === null && !this.now.skipped && this.now.why === '';
  }

  setOn(on: boolean): void {
    this.on = on;
    if (on) {
      this.known.clear();
      this.score = { predicted: 0, right: 0, skipped: 0 };
    }
    this.refreshed();
    this.presenter.show();
  }

  /** Where a question was asked, what did not arrive yet at that moment is not shown anywhere. */
  get hidesComing(): boolean {
    return this.on && this.now !== null;
  }

  /** The gradient of this node may not be shown: it did not arrive yet. */
  hides(seq: number): boolean {
    if (!this.hidesComing || seq === this.now?.seq) {
      return false;
    }
    const state = this.presenter.model.stateOf(seq);
    return state !== State.done && state !== State.running && state !== State.problem;
  }

  /** The moment may have changed. */
  refreshed(): void {
    const place = this.on ? this.place() : null;
    if (place?.key === this.now?.key) {
      return;
    }
    const left = this.now;
    if (left && this.asking && left.questions) {
      // Gone on without an answer.
      left.skipped = true;
      this.score = { ...this.score, skipped: this.score.skipped + left.questions.length };
    }
    this.now = place ? this.ask(place.key, place.seq) : null;
    // A live stop is selected by itself; a moment of a recording is, where something is asked.
    if (this.now && this.asking) this.presenter.model.select(this.now.seq);
  }

  guess(index: number, change: Partial<Guess>): void {
    const { now } = this;
    if (now && this.asking) {
      now.guesses = now.guesses.map((guess, i) => (i === index ? { ...guess, ...change } : guess));
      this.presenter.show();
    }
  }

  /** Something was answered. */
  get ready(): boolean {
    const { now } = this;
    return this.asking && (now?.questions ?? []).some((q, i) => isGuess(q, now!.guesses[i]));
  }

  reveal(): void {
    const { now } = this;
    if (!now?.questions || !this.ready) {
      return;
    }
    now.marks = now.questions.map((question, i) => mark(question, now.guesses[i]));
    now.questions.forEach((question, i) => {
      const answered = isGuess(question, now.guesses[i]);
      const { predicted, right, skipped } = this.score;
      this.score = answered
        ? { predicted: predicted + 1, right: right + Number(now.marks![i].right), skipped }
        : { predicted, right, skipped: skipped + 1 };
    });
    void this.explain(now);
    this.presenter.show();
  }

  skip(): void {
    const { now } = this;
    if (now && this.asking) {
      now.skipped = true;
      const count = now.questions?.length ?? 0;
      this.score = { ...this.score, skipped: this.score.skipped + count };
      void this.explain(now);
      this.presenter.show();
    }
  }

  /** Asks for the op's formula with the numbers of what was asked in it. */
  private async explain(asked: Asked): Promise<void> {
    const { controller, model } = this.presenter;
    const { seq, questions } = asked;
    try {
      const card = await controller.request('card', { seq, name: model.store.nameOf(seq) });
      const names = edgeNames(card.edges ?? [], model.store.edgesOf.rows(seq).length);
      for (const [i, { position, element, gives }] of (questions ?? []).entries()) {
        const numbers = await controller.request('numbers', {
          seq,
          input: names[position] ?? '',
          at: element
        });
        asked.products[i] = productIn(numbers, gives[element]);
        this.presenter.show();
      }
    } catch {
      // The product of gradient and local derivative stands there.
    }
  }

  /** Where the backward stands, live or at an earlier moment; null where it stands nowhere. */
  private place(): { key: string; seq: number } | null {
    const { model, paused, commandable } = this.presenter;
    const { store, cursor, length, axis } = model;
    const task = model.shownTask()?.task ?? -1;
    const stopped = store.state.paused;
    const moment = `${store.session} ${store.epoch} ${task}`;
    if (cursor === null || cursor >= length) {
      const here = paused && commandable && stopped && stopped.task === task;
      if (!here) return null;
      return { key: `${moment} ${stopped.order}`, seq: stopped.seq };
    }
    const seq = cursor >= axis.forward.length ? nextAt(this.presenter) : null;
    return seq === null ? null : { key: `${moment} ${cursor - axis.forward.length}`, seq };
  }

  private ask(key: string, seq: number): Asked | null {
    const { presenter } = this;
    const before = this.known.get(key);
    if (before) {
      return before;
    }
    if (presenter.model.store.leafRow.has(seq)) {
      return null; // a leaf keeps what it gets
    }
    const asked: Asked = {
      key,
      seq,
      questions: null,
      why: '',
      guesses: [],
      marks: null,
      skipped: false,
      products: []
    };
    if (this.known.size > REMEMBERED) this.known.clear();
    this.known.set(key, asked);
    presenter.controller.request('local', { seq }).then(
      numbers => {
        asked.questions = questionsOf(numbers);
        asked.guesses = asked.questions.map(() => NO_GUESS);
        if (asked.questions.length === 0) {
          asked.why = numbers.why || 'This node hands on no gradient that is known.';
        }
        presenter.show();
      },
      (error: unknown) => {
        const said = error instanceof Error ? error.message : String(error);
        asked.why =
          said ||
          'The gradients of this recording were not kept. Record with torch.record(scalars=True).';
        presenter.show();
      }
    );
    return asked;
  }
}
