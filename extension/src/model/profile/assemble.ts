// Loose slices become a profile: sorted, nested, with self times. What a file says about nesting is
// not asked: what begins while another of its track runs is inside of it.

import { plural } from '../format';
import type { Loose } from './loose';
import type { Pauses } from './pauses';
import { NO_PAUSES, pausedIn } from './pauses';
import type { Blocks, LinePlace, MemoryCurve, Profile } from './profile';
import { Hue } from './profile';

/** ns by which an inner slice may end late: files round starts and lengths apart. */
const ROUNDING = 1000;

export interface Beside {
  names: string[];
  texts: string[];
  memory: MemoryCurve[];
  pauses?: Pauses;
  places?: Map<number, LinePlace>;
  overhead?: number;
  notices: string[];
}

/**
 * Rows by track, then start; the longer of two that start together first. Null where they are in
 * this order already, as in every file of ours.
 */
function sorted(loose: Loose): Int32Array | null {
  const { count, start, end, track, tracks } = loose;
  if (inOrder(loose)) return null;
  const places = new Int32Array(tracks.length + 1);
  for (let i = 0; i < count; i++) places[track[i] + 1]++;
  for (let t = 0; t < tracks.length; t++) places[t + 1] += places[t];
  const order = new Int32Array(count);
  const next = places.slice();
  for (let i = 0; i < count; i++) order[next[track[i]]++] = i;
  const compare = (a: number, b: number): number =>
    start[a] - start[b] || end[b] - end[a] || a - b;
  for (let t = 0; t < tracks.length; t++) {
    const rows = order.subarray(places[t], places[t + 1]);
    // Many files are in order already: looking is cheaper than sorting.
    for (let i = 1; i < rows.length; i++) {
      if (compare(rows[i - 1], rows[i]) > 0) {
        rows.sort(compare);
        break;
      }
    }
  }
  return order;
}

/** Whether rows stand as `sorted` puts them. */
function inOrder({ count, start, end, track }: Loose): boolean {
  for (let i = 1; i < count; i++) {
    const by = track[i] - track[i - 1] || start[i] - start[i - 1] || end[i - 1] - end[i];
    if (by < 0) return false;
  }
  return true;
}

function picked<T extends Float64Array | Int32Array | Uint8Array>(
  from: T,
  order: Int32Array | null,
  count: number
): T {
  if (!order) return from.length === count ? from : (from.slice(0, count) as T);
  const make = from.constructor as new (length: number) => T;
  const to = new make(order.length);
  for (let i = 0; i < order.length; i++) to[i] = from[order[i]];
  return to;
}

interface Nesting {
  own: Float64Array;
  parent: Int32Array;
  depth: Int32Array;
  last: Int32Array;
  /** slices that end after the one in which they begin */
  crossing: number;
}

function nested(
  start: Float64Array,
  end: Float64Array,
  track: Int32Array,
  pauses: Pauses
): Nesting {
  const count = start.length;
  const own = new Float64Array(count);
  const parent = new Int32Array(count);
  const depth = new Int32Array(count);
  const last = new Int32Array(count);
  let crossing = 0;
  let top = -1;
  for (let i = 0; i < count; i++) {
    while (top >= 0 && (track[top] !== track[i] || end[top] <= start[i])) {
      last[top] = i;
      top = parent[top];
    }
    parent[i] = top;
    depth[i] = top < 0 ? 0 : depth[top] + 1;
    own[i] = end[i] - start[i] - pausedIn(pauses, track[i], start[i], end[i]);
    if (top >= 0) {
      const stop = Math.min(end[i], end[top]);
      if (end[i] > end[top] + ROUNDING) crossing++;
      own[top] -= stop - start[i] - pausedIn(pauses, track[i], start[i], stop);
    }
    top = i;
  }
  for (; top >= 0; top = parent[top]) last[top] = count;
  return { own, parent, depth, last, crossing };
}

/** Of each row that runs backward: the last op that begins with the number of its node. */
function forwards(seq: Float64Array, hue: Uint8Array, backward: Uint8Array): Int32Array {
  const made = new Map<number, number>();
  for (let i = 0; i < seq.length; i++) {
    const op = hue[i] === Hue.forward || hue[i] === Hue.made;
    if (seq[i] >= 0 && !backward[i] && op) made.set(seq[i], i);
  }
  const rows = new Int32Array(seq.length).fill(-1);
  for (let i = 0; i < seq.length; i++) {
    if (backward[i] && seq[i] >= 0) rows[i] = made.get(seq[i]) ?? -1;
  }
  return rows;
}

function moved(forward: Int32Array, order: Int32Array | null): Int32Array {
  if (!order) return forward;
  const place = new Int32Array(order.length);
  for (let i = 0; i < order.length; i++) place[order[i]] = i;
  return picked(forward, order, order.length).map(row =>
    row >= 0 && row < place.length ? place[row] : -1
  );
}

/** ns after a slice in which what it made may still be told. */
const SOON = 10_000;

/** The innermost slice of its track in which each piece of memory came; -1 where there is none. */
function makers(
  { from, track: on }: Blocks,
  { start, end, track, parent, hue }: Pick<Profile, 'start' | 'end' | 'track' | 'parent' | 'hue'>
): Int32Array {
  const count = start.length;
  const found = new Int32Array(from.length);
  // Of each track, the row after the last one that began before a piece came: pieces come in time.
  const next = new Map<number, { at: number; time: number }>();
  for (let block = 0; block < from.length; block++) {
    const [time, thread] = [from[block], on[block]];
    let known = next.get(thread);
    if (!known || known.time > time) {
      known = { at: firstOf(track, thread), time };
      next.set(thread, known);
    }
    let { at } = known;
    while (at < count && track[at] === thread && start[at] <= time) at++;
    [known.at, known.time] = [at, time];
    let row = at - 1;
    if (row < 0 || track[row] !== thread) row = -1;
    let before = row;
    while (row >= 0 && end[row] < time) {
      before = row;
      row = parent[row];
    }
    // A step makes nothing; a gradient is told when it has been accumulated.
    if (row < 0 || hue[row] === Hue.step) {
      const justEnded = before >= 0 && hue[before] !== Hue.step && end[before] < time;
      row = justEnded && time - end[before] < SOON ? before : -1;
    }
    found[block] = row;
  }
  return found;
}

/** The first row of a track, of rows sorted by track. */
function firstOf(track: Int32Array, wanted: number): number {
  let [low, high] = [0, track.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (track[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function assemble(loose: Loose, beside: Beside): Profile {
  const order = sorted(loose);
  const pauses = beside.pauses ?? NO_PAUSES;
  const { count } = loose;
  const pick = <T extends Float64Array | Int32Array | Uint8Array>(from: T): T =>
    picked(from, order, count);
  const [start, end] = [pick(loose.start), pick(loose.end)];
  const [seq, hue] = [pick(loose.seq), pick(loose.hue)];
  const [track, backward] = [pick(loose.track), pick(loose.backward)];
  const { own, parent, depth, last, crossing } = nested(start, end, track, pauses);
  // What is called while a node runs is part of the backward.
  for (let i = 0; i < count; i++) {
    const within = parent[i] >= 0 && hue[parent[i]] === Hue.backward;
    if (within && hue[i] === Hue.forward) hue[i] = Hue.backward;
  }
  const notices = [...beside.notices];
  if (crossing > 0) {
    notices.push(
      `${plural(crossing, 'slice')} ended after the slice in which they began: ` +
        'they are drawn inside of it, and count only there.'
    );
  }
  let [from, to] = [Infinity, -Infinity];
  for (let i = 0; i < count; i++) {
    from = Math.min(from, start[i]);
    to = Math.max(to, end[i]);
  }
  for (const { time } of beside.memory) {
    if (time.length > 0) {
      from = Math.min(from, time[0]);
      to = Math.max(to, time[time.length - 1]);
    }
  }
  if (!(to > from)) [from, to] = [Number.isFinite(from) ? from : 0, (from || 0) + 1000];
  for (const { blocks } of beside.memory) {
    if (blocks) blocks.row = makers(blocks, { start, end, track, parent, hue });
  }
  const forward = loose.forward
    ? moved(loose.forward, order)
    : forwards(seq, hue, backward);
  return {
    count: count,
    ...{ start, end, own, seq, hue, track, parent, depth, last, forward },
    name: pick(loose.name),
    note: pick(loose.note),
    line: pick(loose.line),
    names: beside.names,
    texts: beside.texts,
    tracks: loose.tracks,
    memory: beside.memory,
    pauses,
    modules: null,
    places: beside.places ?? new Map<number, LinePlace>(),
    from,
    to,
    overhead: beside.overhead ?? 0,
    notices
  };
}
