// A span of time, by name: total, self, count and average, and the tree of what called what.

import { pausedIn } from './pauses';
import type { Profile } from './profile';
import { Hue } from './profile';

export interface Span {
  from: number;
  to: number;
}

export interface NameRow {
  name: number;
  hue: number;
  /** ns of the span in which it ran; in itself it is counted once */
  total: number;
  /** ns in it and in nothing inside */
  self: number;
  count: number;
}

/** A call and its like under the same callers, added up. */
export interface Call {
  name: number;
  hue: number;
  total: number;
  self: number;
  count: number;
  inner: Call[];
}

export interface Summary {
  rows: NameRow[];
  /** slices that ran in the span */
  count: number;
  /** ns of the outermost slices, all tracks added up */
  busy: number;
  /** a call of nothing, around the outermost ones; the longest of siblings first */
  root: Call;
}

/** ns of a slice within the span in which it was not paused. */
function clipped({ start, end, track, pauses }: Profile, row: number, span: Span): number {
  const [from, to] = [Math.max(start[row], span.from), Math.min(end[row], span.to)];
  return to - from - pausedIn(pauses, track[row], from, to);
}

/** The part of its self time that lies in the span: where it is cut, what is inside counts off. */
function selfWithin(profile: Profile, row: number, span: Span, total: number): number {
  const { start, end, last, own } = profile;
  if (start[row] >= span.from && end[row] <= span.to) {
    return own[row];
  }
  let self = total;
  for (let i = row + 1; i < last[row]; i = last[i]) {
    self -= Math.max(0, Math.min(clipped(profile, i, span), total));
  }
  return Math.max(0, self);
}

/** Calls `each` for every slice that runs in the span, the outer one first. */
export function within(profile: Profile, span: Span, each: (row: number) => void): void {
  const { count, start, end, last } = profile;
  for (let i = 0; i < count; ) {
    const outside = end[i] <= span.from || start[i] >= span.to;
    if (outside && end[i] > start[i]) i = last[i];
    else each(i++);
  }
}

/** Steps are bands around everything: they are no work and are left out. */
export function summarize(profile: Profile, span: Span): Summary {
  const { name, hue, last, parent, names } = profile;
  const rows = new Map<number, NameRow>();
  /** by name: the row after the outermost slice with it */
  const until = new Int32Array(names.length + 1);
  const root: Call = { name: -1, hue: Hue.other, total: 0, self: 0, count: 0, inner: [] };
  /** numbers of calls by caller and name, the calls by number, and that of each slice */
  const calls = new Map<number, number>();
  const numbered: Call[] = [root];
  const callOf = new Int32Array(profile.count);
  let count = 0;
  within(profile, span, row => {
    const caller = parent[row] < 0 ? 0 : callOf[parent[row]];
    if (hue[row] === Hue.step) {
      callOf[row] = caller;
      return;
    }
    count++;
    const total = clipped(profile, row, span);
    const self = selfWithin(profile, row, span, total);
    const of = name[row];
    let known = rows.get(of);
    if (!known) rows.set(of, (known = { name: of, hue: hue[row], total: 0, self: 0, count: 0 }));
    known.count++;
    known.self += self;
    if (row >= until[of + 1]) {
      until[of + 1] = last[row];
      known.total += total;
    }
    const key = caller * (names.length + 1) + of + 1;
    let at = calls.get(key);
    if (at === undefined) {
      at = numbered.length;
      calls.set(key, at);
      numbered.push({ name: of, hue: hue[row], total: 0, self: 0, count: 0, inner: [] });
      numbered[caller].inner.push(numbered[at]);
    }
    callOf[row] = at;
    const call = numbered[at];
    call.count++;
    call.total += total;
    call.self += self;
  });
  for (const call of numbered) call.inner.sort((a, b) => b.total - a.total);
  root.total = root.inner.reduce((sum, call) => sum + call.total, 0);
  return { rows: [...rows.values()], count, busy: root.total, root };
}

export type SortKey = 'name' | 'total' | 'self' | 'count' | 'average';

export function sortRows(
  profile: Profile,
  rows: readonly NameRow[],
  key: SortKey,
  falling: boolean
): NameRow[] {
  const value = (row: NameRow): number =>
    key === 'average' ? row.total / row.count : key === 'name' ? 0 : row[key];
  const sign = falling ? -1 : 1;
  return [...rows].sort(
    (a, b) =>
      sign *
      (key === 'name'
        ? (profile.names[a.name] ?? '').localeCompare(profile.names[b.name] ?? '')
        : value(a) - value(b))
  );
}
