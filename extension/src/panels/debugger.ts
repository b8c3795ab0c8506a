// Commands of a debugger to a backward that is paused, and moving through what was recorded. Where
// nothing waits (and in a recording) a step moves the moment that is shown.

import { containerAt } from '../model/containers';
import type { Container } from '../model/container';
import type { InspectorModel } from '../model/inspector';
import type { Commands, State } from '../protocol/schema';
import type { Presenter } from './presenter';

export class Debugger {
  private readonly model: InspectorModel;

  constructor(private readonly presenter: Presenter) {
    this.model = presenter.model;
  }

  /**
   * Runs one box: a node, or all of a closed group. In a recording, moves the moment shown. False
   * where the kernel did not do it.
   */
  step(): Promise<boolean> {
    const paused = this.stopped();
    if (!paused) {
      this.scrubBy(1);
      return Promise.resolve(true);
    }
    const fold = this.model.foldOf(paused.seq);
    return fold ? this.stepPast(fold) : this.presenter.command('step', {});
  }

  /** Runs one node, also where it is hidden in a closed group. */
  stepInto(): void {
    if (!this.stopped()) {
      this.scrubBy(1);
      return;
    }
    void this.presenter.command('step', {});
  }

  /** Runs on to the first node outside of the group around the node that waits. */
  stepOut(): void {
    const paused = this.stopped();
    const { model } = this;
    const index = paused ? model.graph.indexOf.get(paused.seq) : -1;
    if (index >= 0) {
      const around = containerAt(model.root, index);
      if (around.kind === 'root') void this.presenter.command('continue', {});
      else void this.stepPast(model.foldOf(model.graph.seqs[index]) ?? around);
    }
  }

  stepToProblem(): void {
    if (this.stopped()) void this.presenter.command('step_to_problem', {});
  }

  /** Brings the node that waits into view and selects it. */
  showCurrent(): void {
    const { paused } = this.model.store.state;
    if (paused) this.presenter.goTo(paused.seq);
  }

  private stepPast({ first, last }: Container): Promise<boolean> {
    // Newest first: the last index has the lowest number.
    const { seqs } = this.model.graph;
    return this.presenter.command('step_past', { first: seqs[last - 1], last: seqs[first] });
  }

  /** Where the backward waits, if it can be told to go on; then the newest moment is shown. */
  private stopped(): State['paused'] {
    if (!this.presenter.paused || !this.presenter.commandable) {
      return null;
    }
    this.model.scrub(null);
    return this.model.store.state.paused;
  }

  /** Changes the gradient that waits; what is known of it is asked for again. */
  async edit(how: Commands['edit']['args']['how'], value?: number, at?: number): Promise<void> {
    const args = { how, ...(value === undefined ? {} : { value }) };
    if (await this.presenter.command('edit', at === undefined ? args : { ...args, at })) {
      this.presenter.answers.edited();
    }
  }

  continue(): void {
    if (this.presenter.paused && this.presenter.commandable) {
      this.model.scrub(null);
      void this.presenter.command('continue', {});
    }
  }

  pause(): void {
    const { presenter } = this;
    if (presenter.commandable && !presenter.paused) void presenter.command('pause', {});
  }

  runToSelected(): void {
    const { selected } = this.model;
    if (selected !== null && this.presenter.paused && this.presenter.commandable)
      void this.presenter.command('run_to', { seq: selected });
  }

  /** Sets a breakpoint on a node, or removes the one that is there. */
  toggleBreakpoint(seq: number): void {
    const there = this.model.store.state.breakpoints.some(
      point => point.kind === 'node' && point.seq === seq
    );
    if (this.presenter.commandable) void this.presenter.command('breakpoint', { on: !there, seq });
  }

  scrubBy(steps: number): void {
    const { model } = this;
    const from = model.cursor ?? model.length;
    const to = from + steps;
    // Past the end means: follow what happens again.
    model.scrub(to >= model.length && this.presenter.live ? null : to);
  }
}
