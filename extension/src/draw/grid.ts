// Rectangles in a grid: what is in view, what is under the pointer. Pure; linear to build.

import type { Box } from './camera';

/** A rectangle that covers more cells than this is kept aside and always tested. */
const MANY = 24;

export class Grid {
  private readonly columns: number;
  private readonly lines: number;
  private readonly cell: { width: number; height: number };
  private readonly start: Uint32Array;
  private readonly items: Uint32Array;
  private readonly large: number[] = [];
  private readonly seen: Uint32Array;
  private stamp = 0;

  /** x, y, right, bottom of every rectangle. */
  constructor(
    private readonly x: ArrayLike<number>,
    private readonly y: ArrayLike<number>,
    private readonly right: ArrayLike<number>,
    private readonly bottom: ArrayLike<number>,
    width: number,
    height: number
  ) {
    const count = x.length;
    const wanted = Math.max(1, Math.min(count, 40_000));
    const size = Math.max(220, Math.sqrt((Math.max(1, width) * Math.max(1, height)) / wanted) * 2);
    this.cell = { width: size * 1.5, height: size };
    this.columns = Math.max(1, Math.ceil(width / this.cell.width));
    this.lines = Math.max(1, Math.ceil(height / this.cell.height));
    const start = new Uint32Array(this.columns * this.lines + 1);
    const each = (i: number, visit: (cell: number) => void): boolean => {
      const [c0, c1] = [this.column(x[i]), this.column(right[i])];
      const [l0, l1] = [this.line(y[i]), this.line(bottom[i])];
      if ((c1 - c0 + 1) * (l1 - l0 + 1) > MANY) {
        return false;
      }
      for (let l = l0; l <= l1; l++) {
        for (let c = c0; c <= c1; c++) visit(l * this.columns + c);
      }
      return true;
    };
    for (let i = 0; i < count; i++) {
      if (!each(i, cell => start[cell + 1]++)) this.large.push(i);
    }
    for (let cell = 0; cell + 1 < start.length; cell++) start[cell + 1] += start[cell];
    const at = start.slice();
    this.items = new Uint32Array(start[start.length - 1]);
    for (let i = 0; i < count; i++) each(i, cell => (this.items[at[cell]++] = i));
    this.start = start;
    this.seen = new Uint32Array(count);
  }

  /** Calls back once for every rectangle that touches the box. */
  within(box: Box, visit: (index: number) => void): void {
    const stamp = ++this.stamp;
    const [x1, y1] = [box.x + box.width, box.y + box.height];
    const test = (i: number): void => {
      if (this.seen[i] === stamp) {
        return;
      }
      this.seen[i] = stamp;
      if (this.x[i] <= x1 && this.right[i] >= box.x && this.y[i] <= y1 && this.bottom[i] >= box.y)
        visit(i);
    };
    for (const i of this.large) test(i);
    const [c0, c1] = [this.column(box.x), this.column(x1)];
    const [l0, l1] = [this.line(box.y), this.line(y1)];
    for (let l = l0; l <= l1; l++) {
      for (let c = c0; c <= c1; c++) {
        const cell = l * this.columns + c;
        for (let n = this.start[cell]; n < this.start[cell + 1]; n++) test(this.items[n]);
      }
    }
  }

  /** A rectangle at a point, or -1. */
  at(x: number, y: number): number {
    let found = -1;
    this.within({ x, y, width: 0, height: 0 }, i => (found = i));
    return found;
  }

  private column(x: number): number {
    return Math.min(this.columns - 1, Math.max(0, Math.floor(x / this.cell.width)));
  }

  private line(y: number): number {
    return Math.min(this.lines - 1, Math.max(0, Math.floor(y / this.cell.height)));
  }
}
