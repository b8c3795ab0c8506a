// Asks the kernel what a profile that runs has collected, as long as somebody looks at it.

import type { Controller } from '../../protocol/controller';
import type { Disposable } from '../../protocol/signal';
import { RunningProfile } from '../../model/profile/running';

export class Following implements Disposable {
  private running: RunningProfile | null = null;
  private asking: ReturnType<typeof setTimeout> | undefined;
  private underWay = false;
  private disposed = false;
  /** the one that the kernel has not any more */
  private gone = -1;

  constructor(
    private readonly controller: Controller,
    private readonly most: number,
    private readonly came: (running: RunningProfile) => void
  ) {}

  /** What has come of the profile that was asked for last. */
  get newest(): RunningProfile | null {
    return this.running;
  }

  dispose(): void {
    this.disposed = true;
    clearTimeout(this.asking);
  }

  /** Asks in so many ms for what is new of a profile; one question at a time. */
  ask(number: number, wait: number): void {
    const done = number === this.gone || (this.running?.number === number && this.running.done);
    if (done || this.underWay || this.asking !== undefined) {
      return;
    }
    this.asking = setTimeout(() => {
      this.asking = undefined;
      void this.more(number);
    }, wait);
  }

  private async more(number: number): Promise<void> {
    this.underWay = true;
    try {
      if (this.running?.number !== number) this.running = new RunningProfile(number, this.most);
      const { running } = this;
      const piece = await this.controller.request('profile', { number, since: running.since });
      if (this.disposed) return;
      running.take(piece);
      this.underWay = false;
      this.came(running);
    } catch {
      // Another one began meanwhile, or the kernel went: what came until then stays.
      this.gone = number;
    } finally {
      this.underWay = false;
    }
  }
}
