// Lanes: the places where an edge passes rows that it has no business in, so that it runs beside their nodes.

import type { Rows, Segments } from './sweep';
import { LANE } from './measures';
import { ranks } from './ranks';

/** Pull of an edge that a straight column follows, of one that leads to a short side branch, of one in a lane. */
const SPINE = 1;
const BRANCH = 1e-4;
const PASSING = 1e-5;

/**
 * How strongly each edge wants to be vertical. An edge that leads to a much shorter rest of the graph than
 * another edge of the same vertex gives way: otherwise a chain with side branches would drift like a staircase.
 */
export function pulls(count: number, from: ArrayLike<number>, to: ArrayLike<number>): Float64Array {
  const height = ranks(count, to, from);
  const tallest = new Int32Array(count);
  for (let e = 0; e < from.length; e++) tallest[from[e]] = Math.max(tallest[from[e]], height[to[e]] + 1);
  return Float64Array.from({ length: from.length }, (_, e) =>
    2 * (height[to[e]] + 1) >= tallest[from[e]] ? SPINE : BRANCH
  );
}

/**
 * The longest chain that is still laid, so that all of them together stay linear in the graph:
 * thousands of edges over thousands of rows would be millions of lanes that nobody can follow.
 */
export function longestChain(spans: ArrayLike<number>, budget: number): number {
  for (let limit = 1 << 20; limit > 1; limit >>= 1) {
    let total = 0;
    for (let i = 0; i < spans.length; i++) {
      if (spans[i] <= limit) total += spans[i];
    }
    if (total <= budget) return limit;
  }
  return 1;
}

/** Collects items and their connections row by row, then packs them for the sweep. */
export class RowBuilder {
  private readonly rowOf: number[] = [];
  private readonly upper: number[] = [];
  private readonly lower: number[] = [];
  private readonly upperPort: number[] = [];
  private readonly lowerPort: number[] = [];
  private readonly weight: number[] = [];

  constructor(
    private readonly real: number,
    private readonly rowOfReal: ArrayLike<number>,
    private readonly rowCount: number
  ) {}

  get items(): number {
    return this.real + this.rowOf.length;
  }

  rowOfItem(item: number): number {
    return item < this.real ? this.rowOfReal[item] : this.rowOf[item - this.real];
  }

  connect(upper: number, upperPort: number, lower: number, lowerPort: number, weight = PASSING): void {
    this.upper.push(upper);
    this.upperPort.push(upperPort);
    this.lower.push(lower);
    this.lowerPort.push(lowerPort);
    this.weight.push(weight);
  }

  /** A chain of lanes in `length` rows from `row` on; gives its first item. */
  chain(row: number, length: number): number {
    const first = this.items;
    for (let k = 0; k < length; k++) {
      this.rowOf.push(row + k);
      if (k > 0) this.connect(first + k - 1, LANE / 2, first + k, LANE / 2);
    }
    return first;
  }

  /** Rows with the lanes at the left and the real items after them in the order of `key`. */
  pack(key: Float64Array, width: (item: number) => number, margin: number): { rows: Rows; segments: Segments } {
    const count = this.items;
    const start = new Uint32Array(this.rowCount + 1);
    for (let item = 0; item < count; item++) start[this.rowOfItem(item) + 1]++;
    for (let r = 0; r < this.rowCount; r++) start[r + 1] += start[r];
    const at = start.slice(0, this.rowCount);
    const items = new Uint32Array(count);
    for (let item = this.real; item < count; item++) items[at[this.rowOfItem(item)]++] = item;
    const firstReal = at.slice();
    for (let item = 0; item < this.real; item++) items[at[this.rowOfItem(item)]++] = item;
    for (let r = 0; r < this.rowCount; r++) {
      if (start[r + 1] - firstReal[r] > 1) {
        const sorted = Array.from(items.subarray(firstReal[r], start[r + 1])).sort((a, b) => key[a] - key[b]);
        items.set(sorted, firstReal[r]);
      }
    }
    const rows: Rows = {
      start,
      items,
      width: new Float64Array(count),
      margin: new Float64Array(count)
    };
    for (let item = 0; item < count; item++) {
      const isLane = item >= this.real;
      rows.width[item] = isLane ? LANE : width(item);
      rows.margin[item] = isLane ? 2 : margin;
    }
    const segments: Segments = {
      upper: Uint32Array.from(this.upper),
      lower: Uint32Array.from(this.lower),
      upperPort: Float64Array.from(this.upperPort),
      lowerPort: Float64Array.from(this.lowerPort),
      weight: Float64Array.from(this.weight)
    };
    return { rows, segments };
  }
}
