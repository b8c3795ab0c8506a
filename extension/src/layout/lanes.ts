// Lanes: the places where an edge passes rows that it has no business in, so that it runs beside
// their nodes.

import type { Rows, Segments } from './sweep';
import { LANE } from './measures';
import { ranks } from './ranks';

/**
 * Pull of an edge that a straight column follows, within a lane, to a short side branch, between a
 * node and a lane.
 */
const SPINE = 1;
const WITHIN_LANE = 1e-3;
const BRANCH = 1e-4;
const TO_LANE = 1e-5;

/**
 * How strongly each edge wants to be vertical. An edge that leads to a much shorter rest of the
 * graph than another edge of the same vertex gives way: otherwise a chain with side branches would
 * drift like a staircase.
 */
export function pulls(count: number, from: ArrayLike<number>, to: ArrayLike<number>): Float64Array {
  const height = ranks(count, to, from);
  const tallest = new Int32Array(count);
  for (let e = 0; e < from.length; e++)
    tallest[from[e]] = Math.max(tallest[from[e]], height[to[e]] + 1);
  return Float64Array.from({ length: from.length }, (_, e) =>
    2 * (height[to[e]] + 1) > tallest[from[e]] ? SPINE : BRANCH
  );
}

/** Edges on the longest way on from their vertex, by the same heights. */
export function onLongestWay(
  count: number,
  from: ArrayLike<number>,
  to: ArrayLike<number>
): Uint8Array {
  const height = ranks(count, to, from);
  return Uint8Array.from({ length: from.length }, (_, e) =>
    height[to[e]] + 1 === height[from[e]] ? 1 : 0
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

/** Where an edge attaches: an item and the place on it, from its left edge. */
export interface End {
  item: number;
  port: number;
}

/**
 * How a kind of passing edge is laid: in which rows, between what, and which edges may share lanes.
 */
export interface Course {
  /** rows that the edge leaves and reaches; only those between them need lanes */
  from: (edge: number) => number;
  to: (edge: number) => number;
  /** edges with the same number may share the lanes of their source, or those of their target */
  source: (edge: number) => number;
  target: (edge: number) => number;
  /** what the lanes connect to; null where the edge goes on outside of these rows */
  begin: (edge: number) => End | null;
  end: (edge: number) => End | null;
  /** edges that a straight column follows also where they pass what stands beside it */
  straight?: (edge: number) => boolean;
}

/**
 * Edges over several rows, each with the lanes that it runs through: first[e] .. first[e] +
 * length[e] - 1.
 */
export interface Passing {
  first: Int32Array;
  length: Uint32Array;
}

/**
 * Lanes for the edges that pass at least one row. Edges into the same vertex share one chain of
 * lanes, which they join one after the other, as their gradients join; where a vertex fans out more
 * than its targets fan in, its edges share one that they leave. So a vertex that a thousand others
 * use costs one chain and not a thousand.
 */
export function layPassing(
  builder: RowBuilder,
  edges: readonly number[],
  count: number,
  course: Course,
  budget: number
): Passing {
  const first = new Int32Array(count).fill(-1);
  const length = new Uint32Array(count);
  const long = edges.filter(e => course.to(e) - course.from(e) > 1);
  const [out, into] = [new Map<number, number>(), new Map<number, number>()];
  for (const e of long) {
    out.set(course.source(e), (out.get(course.source(e)) ?? 0) + 1);
    into.set(course.target(e), (into.get(course.target(e)) ?? 0) + 1);
  }
  // A chain is named by its vertex: sources by 2v, targets by 2v + 1.
  const nameOf = (e: number): number => {
    const [source, target] = [course.source(e), course.target(e)];
    return (out.get(source) ?? 0) > (into.get(target) ?? 0) ? 2 * source : 2 * target + 1;
  };
  const chains = new Map<
    number,
    { top: number; bottom: number; first: number; edge: number; weight?: number }
  >();
  for (const e of long) {
    const [name, top, bottom] = [nameOf(e), course.from(e) + 1, course.to(e) - 1];
    const chain = chains.get(name);
    const weight = course.straight?.(e) ? SPINE : undefined;
    if (!chain) {
      chains.set(name, { top, bottom, first: -1, edge: e, weight });
    } else {
      chain.weight ??= weight;
      chain.top = Math.min(chain.top, top);
      chain.bottom = Math.max(chain.bottom, bottom);
    }
  }
  const join = (end: End | null, lane: number, above: boolean, weight?: number): void => {
    if (end && above) builder.connect(end.item, end.port, lane, LANE / 2, weight);
    else if (end) builder.connect(lane, LANE / 2, end.item, end.port, weight);
  };
  const spans = Array.from(chains.values(), ({ top, bottom }) => bottom - top + 1);
  const longest = longestChain(spans, budget);
  for (const [name, chain] of chains) {
    const span = chain.bottom - chain.top + 1;
    if (span > longest) {
      continue;
    }
    chain.first = builder.chain(chain.top, span, chain.weight);
    const { first: top, edge, weight } = chain;
    if (name % 2 === 0) join(course.begin(edge), top, true, weight);
    else join(course.end(edge), top + span - 1, false, weight);
  }
  // Each edge is traced along its chain: edges that would make this more than linear go straight.
  const reach = longestChain(
    long.map(e => course.to(e) - course.from(e) - 1),
    20 * count + 50_000
  );
  for (const e of long) {
    const name = nameOf(e);
    const chain = chains.get(name);
    length[e] = course.to(e) - course.from(e) - 1;
    if (!chain || chain.first < 0 || length[e] > reach) {
      continue;
    }
    first[e] = chain.first + course.from(e) + 1 - chain.top;
    const weight = course.straight?.(e) ? SPINE : undefined;
    if (name % 2 === 0) join(course.end(e), first[e] + length[e] - 1, false, weight);
    else join(course.begin(e), first[e], true, weight);
  }
  return { first, length };
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

  connect(
    upper: number,
    upperPort: number,
    lower: number,
    lowerPort: number,
    weight = TO_LANE
  ): void {
    this.upper.push(upper);
    this.upperPort.push(upperPort);
    this.lower.push(lower);
    this.lowerPort.push(lowerPort);
    this.weight.push(weight);
  }

  /** A chain of lanes in `length` rows from `row` on; gives its first item. */
  chain(row: number, length: number, weight = WITHIN_LANE): number {
    const first = this.items;
    for (let k = 0; k < length; k++) {
      this.rowOf.push(row + k);
      if (k > 0) this.connect(first + k - 1, LANE / 2, first + k, LANE / 2, weight);
    }
    return first;
  }

  /** Rows with the lanes at the left and the real items after them in the order of `key`. */
  pack(
    key: Float64Array,
    width: (item: number) => number,
    margin: number
  ): { rows: Rows; segments: Segments } {
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
        const sorted = Array.from(items.subarray(firstReal[r], start[r + 1])).sort(
          (a, b) => key[a] - key[b]
        );
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
