// Lanes: the places where an edge passes rows that it has no business in, so that it runs beside their nodes.

import type { Rows, Segments } from './sweep';
import { LANE } from './measures';

/** Chains of lanes: chain c takes the items first[c] .. first[c] + length[c] - 1, one per row. */
export interface Chains {
  first: Uint32Array;
  length: Uint32Array;
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

  connect(upper: number, upperPort: number, lower: number, lowerPort: number): void {
    this.upper.push(upper);
    this.upperPort.push(upperPort);
    this.lower.push(lower);
    this.lowerPort.push(lowerPort);
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
      margin: new Float64Array(count),
      lane: new Uint8Array(count)
    };
    for (let item = 0; item < count; item++) {
      const isLane = item >= this.real;
      rows.lane[item] = isLane ? 1 : 0;
      rows.width[item] = isLane ? LANE : width(item);
      rows.margin[item] = isLane ? 2 : margin;
    }
    const segments: Segments = {
      upper: Uint32Array.from(this.upper),
      lower: Uint32Array.from(this.lower),
      upperPort: Float64Array.from(this.upperPort),
      lowerPort: Float64Array.from(this.lowerPort)
    };
    return { rows, segments };
  }
}
