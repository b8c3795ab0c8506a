// The largest value of a staircase between two moments, without looking at each of its steps.

import type { MemoryCurve } from '../../model/profile/profile';

const BLOCK = 64;

export class Staircase {
  private readonly most: Float64Array;

  constructor(readonly curve: MemoryCurve) {
    const { total } = curve;
    this.most = new Float64Array(Math.ceil(total.length / BLOCK));
    for (let i = 0; i < total.length; i++) {
      const block = (i / BLOCK) | 0;
      if (total[i] > this.most[block]) this.most[block] = total[i];
    }
  }

  /** Index of the first step after a moment. */
  after(time: number): number {
    const { time: times } = this.curve;
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /**
   * The largest value from one step up to another; what holds at the first began one before it.
   * Both as `after` gives them.
   */
  peak(from: number, to: number): number {
    const { total } = this.curve;
    let most = from > 0 ? total[from - 1] : 0;
    for (let i = from; i < to; ) {
      if (i % BLOCK === 0 && i + BLOCK <= to) {
        most = Math.max(most, this.most[i / BLOCK]);
        i += BLOCK;
      } else {
        most = Math.max(most, total[i++]);
      }
    }
    return most;
  }
}
