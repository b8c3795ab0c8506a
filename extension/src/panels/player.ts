// Plays: steps a paused backward, or a recording's moments, at a pace. Any other control stops it.

import { Flag } from '../model/states';
import { nearestSpeed, pauseFor, SPEEDS } from '../protocol/lesson';
import type { Presenter } from './presenter';

/** Requests that only look: they do not stop the playing. */
const QUESTIONS = new Set([
  ...['hello', 'ack', 'resync', 'node', 'values', 'numbers', 'card', 'check', 'bundle', 'hooks'],
  ...['local', 'scalars']
]);

type Playing =
  | { kind: 'no' }
  /** stepping; `from` names the stop that was left, '' while one is being looked at */
  | { kind: 'live'; task: number; from: string }
  | { kind: 'replay'; at: number | null };

const NOT: Playing = { kind: 'no' };

const NO_COMMANDS = 'Playing stopped: the kernel takes no commands now.';

export class Player {
  speed = 1;
  direction: 'on' | 'back' = 'on';
  private state: Playing = NOT;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** what it does itself is no other control */
  private acting = false;

  constructor(
    private readonly presenter: Presenter,
    /** a prediction is open: playing waits for it */
    private readonly holds: () => boolean
  ) {}

  get playing(): boolean {
    return this.state.kind !== 'no';
  }

  /** There is something to play: a paused backward, or moments. */
  get possible(): boolean {
    const { live, paused, commandable, model } = this.presenter;
    return live && paused ? commandable : model.length > 0;
  }

  toggle(): void {
    if (this.playing) this.stop();
    else this.start();
  }

  setSpeed(speed: number): void {
    this.speed = nearestSpeed(speed);
    if (this.playing && this.timer !== undefined) this.wait();
    this.presenter.show();
  }

  faster(by: 1 | -1): void {
    const at = SPEEDS.indexOf(nearestSpeed(this.speed)) + by;
    if (at >= 0 && at < SPEEDS.length) this.setSpeed(SPEEDS[at]);
  }

  /** Ends the playing; `why` is shown where the reader may wonder. */
  stop(why = ''): void {
    if (!this.playing) {
      return;
    }
    clearTimeout(this.timer);
    this.timer = undefined;
    this.state = NOT;
    if (why) this.presenter.notify('info', why);
    this.presenter.show();
  }

  private start(): void {
    const { presenter } = this;
    const { model, paused, commandable } = presenter;
    if (!this.possible) {
      return;
    }
    const live = paused && commandable && model.cursor === null;
    const stopped = live ? model.store.state.paused : null;
    if (stopped) {
      this.state = { kind: 'live', task: stopped.task, from: '' };
      this.tick();
      return;
    }
    const { axis, length } = model;
    const begin = axis.runs.length > 0 ? axis.forward.length : 0;
    const at = model.cursor ?? length;
    this.state = { kind: 'replay', at: model.cursor };
    if (this.direction === 'on' && at >= length) this.moveTo(begin);
    else if (this.direction === 'back' && at <= 0) this.moveTo(length);
    else this.tick();
    this.wait();
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.state = NOT;
  }

  /** The presenter is about to send a command. */
  commanded(command: string): void {
    if (!this.acting && !QUESTIONS.has(command)) this.stop();
  }

  /** The model was brought up to date: did somebody else act, is the next stop there? */
  refreshed(): void {
    const { state } = this;
    const { model } = this.presenter;
    const { paused } = model.store.state;
    if (state.kind === 'replay') {
      if (!this.acting && model.cursor !== state.at) this.stop();
      return;
    }
    if (state.kind === 'no') {
      return;
    }
    const { ended } = model.store.tasks.get(state.task) ?? { ended: 'no' };
    if (model.status.kind !== 'connected') this.stop('Playing stopped: the kernel is gone.');
    else if (!this.presenter.commandable) this.stop(NO_COMMANDS);
    else if (!paused && ended !== 'no') this.stop();
    else if (model.cursor !== null) this.stop();
    else if (paused && state.from !== '' && `${paused.task} ${paused.order}` !== state.from) {
      this.state = { ...state, task: paused.task, from: '' };
      if (paused.problem) this.stop(`Playing stopped. ${paused.problem}`);
      else if (paused.breakpoint) this.stop('Playing stopped at a breakpoint.');
      else this.wait();
    }
  }

  private wait(): void {
    clearTimeout(this.timer);
    if (!this.playing) {
      return;
    }
    this.timer = setTimeout(() => {
      this.timer = undefined;
      this.tick();
      if (this.state.kind === 'replay') this.wait();
    }, pauseFor(this.speed));
    this.presenter.show();
  }

  private tick(): void {
    const { presenter, state } = this;
    if (this.holds()) {
      this.wait();
    } else if (state.kind === 'live') {
      const { paused } = presenter.model.store.state;
      if (!paused) {
        return;
      }
      // Without commands a step would move the moment shown, away from the pause.
      if (!presenter.commandable) {
        this.stop(NO_COMMANDS);
        return;
      }
      const left: Playing = { ...state, from: `${paused.task} ${paused.order}` };
      this.state = left;
      this.act(() => {
        void presenter.debugger.step().then(done => {
          if (!done && this.state === left) this.stop();
        });
      });
    } else if (state.kind === 'replay') {
      const { model } = presenter;
      const to = (model.cursor ?? model.length) + (this.direction === 'on' ? 1 : -1);
      this.moveTo(to);
      const end = this.direction === 'on' ? to >= model.length : to <= 0;
      if (end) this.stop();
      else this.stopWhereMarked();
    }
  }

  private moveTo(position: number): void {
    const { presenter } = this;
    const { model, live } = presenter;
    this.act(() => model.scrub(live && position >= model.length ? null : position));
    if (this.state.kind === 'replay') this.state = { kind: 'replay', at: model.cursor };
    model.refresh();
    const seq = nextAt(presenter);
    if (seq !== null) presenter.goTo(seq);
  }

  /** A breakpoint stops the playing in a recording, too; so does a NaN that arrived. */
  private stopWhereMarked(): void {
    const { model } = this.presenter;
    const { axis, states, store } = model;
    const next = nextAt(this.presenter);
    if (next !== null && model.hasFlag(next, Flag.breakpoint)) {
      this.stop('Playing stopped at a breakpoint.');
    } else if (this.direction === 'on' && states.done > 0) {
      const run = axis.runs[states.done - 1];
      const before = states.done > 1 ? axis.runs[states.done - 2] : -1;
      const bad = (row: number): boolean => row >= 0 && (store.runs.at.flags[row] & 1) !== 0;
      if (bad(run) && !bad(before)) this.stop('Playing stopped: a NaN or an infinity arrived.');
    }
  }

  private act(what: () => void): void {
    this.acting = true;
    try {
      what();
    } finally {
      this.acting = false;
    }
  }
}

/** The node that is next at the moment shown, or null. */
export function nextAt({ model }: Presenter): number | null {
  const { states, graph } = model;
  return states.next >= 0 ? graph.seqs[states.next] : states.nextLeaf >= 0 ? states.nextLeaf : null;
}
