// Order and x positions of items that stand in rows: barycentre sweeps, then the least-squares
// places that keep the order and the gaps (isotonic regression). Linear per sweep but for the
// sorting within a row.

import type { Packed } from './ranks';
import { packBy } from './ranks';

export interface Rows {
  /** items, packed by row: those of row r are items[start[r]] .. items[start[r + 1] - 1] */
  start: Uint32Array;
  items: Uint32Array;
  width: Float64Array;
  /** room that an item wants at each side */
  margin: Float64Array;
}

/** Connections between items of rows that follow each other. */
export interface Segments {
  upper: Uint32Array;
  lower: Uint32Array;
  /** where they attach, from the item's left edge */
  upperPort: Float64Array;
  lowerPort: Float64Array;
  /** how strongly the ends want to stand above each other */
  weight: Float64Array;
}

const ORDER_SWEEPS = 4;
const PLACE_SWEEPS = 8;
/** Weight of an item that no edge holds. */
const IDLE = 1e-8;

/** After so much work the caller may let others run. */
const BREATH = 20_000;

/** Left edges of all items; `rows.items` ends up in the order found. Yields now and then. */
export function* sweep(rows: Rows, segments: Segments): Generator<void, Float64Array> {
  const count = rows.width.length;
  const rowCount = rows.start.length - 1;
  const below = packBy(segments.upper, count);
  const above = packBy(segments.lower, count);
  const { items, width, margin } = rows;
  const { weight: pulls } = segments;
  const position = new Float64Array(count);
  let work = 0;

  for (let r = 0; r < rowCount; r++) {
    for (let i = rows.start[r]; i < rows.start[r + 1]; i++) position[items[i]] = i - rows.start[r];
  }

  const key = new Float64Array(count);
  for (let pass = 0; pass < ORDER_SWEEPS; pass++) {
    const down = pass % 2 === 0;
    const side = down ? above : below;
    const other = down ? segments.upper : segments.lower;
    const port = down ? segments.upperPort : segments.lowerPort;
    for (let step = 0; step < rowCount; step++) {
      const r = down ? step : rowCount - 1 - step;
      const first = rows.start[r];
      const last = rows.start[r + 1];
      if (last - first < 2) {
        continue;
      }
      for (let i = first; i < last; i++) {
        const item = items[i];
        let sum = 0;
        for (let n = side.start[item]; n < side.start[item + 1]; n++) {
          const s = side.items[n];
          sum += position[other[s]] + port[s] / Math.max(1, width[other[s]]);
        }
        const degree = side.start[item + 1] - side.start[item];
        key[item] = degree > 0 ? sum / degree : position[item] + 0.5;
      }
      sortBy(items, first, last, key);
      for (let i = first; i < last; i++) position[items[i]] = i - first;
      work += last - first;
      if (work > BREATH) {
        work = 0;
        yield;
      }
    }
  }

  const x = new Float64Array(count);
  for (let r = 0; r < rowCount; r++) {
    let at = 0;
    for (let i = rows.start[r]; i < rows.start[r + 1]; i++) {
      x[items[i]] = at + margin[items[i]];
      at = x[items[i]] + width[items[i]] + margin[items[i]];
    }
  }
  let widest = 0;
  for (let r = 0; r < rowCount; r++) widest = Math.max(widest, rows.start[r + 1] - rows.start[r]);
  const wish = new Float64Array(widest);
  const weight = new Float64Array(widest);
  const level = new Float64Array(widest);
  const mass = new Float64Array(widest);
  const size = new Uint32Array(widest);

  for (let pass = 0; pass < PLACE_SWEEPS; pass++) {
    const down = pass % 2 === 0;
    const both = pass >= PLACE_SWEEPS - 2;
    for (let step = 0; step < rowCount; step++) {
      const r = down ? step : rowCount - 1 - step;
      const first = rows.start[r];
      const length = rows.start[r + 1] - first;
      let offset = 0;
      for (let k = 0; k < length; k++) {
        const item = items[first + k];
        let sum = 0;
        let pull = 0;
        if (down || both) {
          for (let n = above.start[item]; n < above.start[item + 1]; n++) {
            const s = above.items[n];
            const other = segments.upper[s];
            sum += pulls[s] * (x[other] + segments.upperPort[s] - segments.lowerPort[s]);
            pull += pulls[s];
          }
        }
        if (!down || both) {
          for (let n = below.start[item]; n < below.start[item + 1]; n++) {
            const s = below.items[n];
            const other = segments.lower[s];
            sum += pulls[s] * (x[other] + segments.lowerPort[s] - segments.upperPort[s]);
            pull += pulls[s];
          }
        }
        if (k > 0) {
          const left = items[first + k - 1];
          offset += width[left] + margin[left] + margin[item];
        }
        wish[k] = (pull > 0 ? sum / pull : x[item]) - offset;
        weight[k] = pull > 0 ? pull : IDLE;
      }
      // Pool neighbours that would overlap into blocks at their weighted mean.
      let blocks = 0;
      for (let k = 0; k < length; k++) {
        level[blocks] = wish[k];
        mass[blocks] = weight[k];
        size[blocks] = 1;
        while (blocks > 0 && level[blocks - 1] > level[blocks]) {
          const total = mass[blocks - 1] + mass[blocks];
          level[blocks - 1] =
            (level[blocks - 1] * mass[blocks - 1] + level[blocks] * mass[blocks]) / total;
          mass[blocks - 1] = total;
          size[blocks - 1] += size[blocks];
          blocks--;
        }
        blocks++;
      }
      let k = 0;
      offset = 0;
      for (let b = 0; b < blocks; b++) {
        for (let n = 0; n < size[b]; n++, k++) {
          const item = items[first + k];
          if (k > 0) {
            const left = items[first + k - 1];
            offset += width[left] + margin[left] + margin[item];
          }
          x[item] = level[b] + offset;
        }
      }
      work += length;
      if (work > BREATH) {
        work = 0;
        yield;
      }
    }
  }
  yield* straighten(rows, segments, above, below, x);
  return x;
}

/**
 * Puts items that follow each other one to one on one line, as far as their neighbours leave room
 * for it: between where a branch begins and where it ends it would drift.
 */
function* straighten(
  rows: Rows,
  { upper, lower, upperPort, lowerPort }: Segments,
  above: Packed,
  below: Packed,
  x: Float64Array
): Generator<void> {
  const { start, items, width, margin } = rows;
  const count = width.length;
  const rowOf = new Uint32Array(count);
  const place = new Uint32Array(count);
  for (let r = 0; r + 1 < start.length; r++) {
    for (let i = start[r]; i < start[r + 1]; i++) [rowOf[items[i]], place[items[i]]] = [r, i];
  }
  const single = (packed: Packed, item: number): number =>
    packed.start[item + 1] - packed.start[item] === 1 ? packed.items[packed.start[item]] : -1;
  /** The segment that leads on, where both of its ends have no other. */
  const next = (item: number): number => {
    const s = single(below, item);
    return s >= 0 && single(above, lower[s]) === s ? s : -1;
  };
  let work = 0;
  for (let first = 0; first < count; first++) {
    const before = single(above, first);
    if (next(first) < 0 || (before >= 0 && next(upper[before]) === before)) continue;
    // Each item's left edge, less that of the first one where all ports are in line.
    const chain = [first];
    const shift = [0];
    for (let s = next(first); s >= 0; s = next(lower[s])) {
      shift.push(shift[shift.length - 1] + upperPort[s] - lowerPort[s]);
      chain.push(lower[s]);
    }
    let [low, high, begun] = [-Infinity, Infinity, 0];
    const settle = (end: number): void => {
      const part = chain.slice(begun, end);
      const wished = part.map((item, i) => x[item] - shift[begun + i]).sort((a, b) => a - b);
      const line = Math.min(high, Math.max(low, wished[wished.length >> 1]));
      part.forEach((item, i) => (x[item] = line + shift[begun + i]));
    };
    chain.forEach((item, i) => {
      const [at, r] = [place[item], rowOf[item]];
      let [least, most] = [-Infinity, Infinity];
      if (at > start[r]) {
        const left = items[at - 1];
        least = x[left] + width[left] + margin[left] + margin[item] - shift[i];
      }
      if (at + 1 < start[r + 1]) {
        const right = items[at + 1];
        most = x[right] - margin[right] - margin[item] - width[item] - shift[i];
      }
      if (Math.max(low, least) > Math.min(high, most)) {
        // No line is free for all of them: a part ends here.
        settle(i);
        [low, high, begun] = [least, most, i];
      }
      [low, high] = [Math.max(low, least), Math.min(high, most)];
    });
    settle(chain.length);
    work += chain.length;
    if (work > BREATH) {
      work = 0;
      yield;
    }
  }
}

/** Sorts items[first..last) by key; equal keys keep their order. */
function sortBy(items: Uint32Array, first: number, last: number, key: Float64Array): void {
  if (last - first > 24) {
    const sorted = Array.from(items.subarray(first, last)).sort((a, b) => key[a] - key[b]);
    items.set(sorted, first);
    return;
  }
  for (let i = first + 1; i < last; i++) {
    const item = items[i];
    let j = i - 1;
    while (j >= first && key[items[j]] > key[item]) {
      items[j + 1] = items[j];
      j--;
    }
    items[j + 1] = item;
  }
}
