// When the model is refreshed: soon after something is complete, rarely while a pass is still being
// recorded, and never so often that a huge graph leaves the page no time for its reader.

import type { Disposable } from '../protocol/signal';

/**
 * 'reader': somebody did something here; 'whole': the kernel told all of something; 'growing': more
 * of the same pass is on its way.
 */
export type Trigger = 'reader' | 'whole' | 'growing';

/** So long the beginning of a pass waits for its rest. */
const GROWING_MS = 60;
/** A training loop that tells one step after the other is shown so often. */
const SPACING_MS = 50;
/** After a refresh of n ms the next one waits at least this many times n. */
const BREATHER: Record<Trigger, number> = { reader: 0, whole: 1, growing: 3 };
/** Cheaper refreshes need no rest. */
const CHEAP_MS = 20;

export class Refresher implements Disposable {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private due = Infinity;
  private frame = 0;
  private lastCost = 0;
  private lastEnd = -Infinity;
  /** when something whole was last shown */
  private lastWhole = -Infinity;
  private whole = false;
  private disposed = false;

  constructor(
    private readonly refresh: () => void,
    private readonly clock = (): number => performance.now()
  ) {}

  /** Something changed; one refresh serves all that ask before it. */
  ask(trigger: Trigger): void {
    if (this.disposed || this.frame) {
      return;
    }
    if (document.hidden) {
      // Nobody looks: the next frame comes when somebody does.
      clearTimeout(this.timer);
      this.frame = requestAnimationFrame(() => this.run());
      return;
    }
    const now = this.clock();
    const rest = this.lastCost > CHEAP_MS ? BREATHER[trigger] * this.lastCost : 0;
    const wait = { reader: now, whole: this.lastWhole + SPACING_MS, growing: now + GROWING_MS };
    const due = Math.max(now, wait[trigger], this.lastEnd + rest);
    this.whole ||= trigger === 'whole';
    if (due < this.due) {
      this.due = due;
      clearTimeout(this.timer);
      // A task of its own even when it is due: what has already arrived comes before it.
      this.timer = setTimeout(() => this.run(), due - now);
    }
  }

  /** Refreshes now. */
  run(): void {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.due = Infinity;
    const start = this.clock();
    this.refresh();
    this.lastEnd = this.clock();
    this.lastCost = this.lastEnd - start;
    if (this.whole) this.lastWhole = this.lastEnd;
    this.whole = false;
  }

  dispose(): void {
    this.disposed = true;
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
  }
}
