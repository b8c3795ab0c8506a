// A span of time, by name, by module or by line: total, self, count, average and bytes, and the
// tree of what called what.

import type { LaneKind } from './groups';
import { belonging } from './groups';
import { pausedIn } from './pauses';
import type { Profile } from './profile';
import { Hue } from './profile';

export interface Span {
  from: number;
  to: number;
}

/** What slices are put together by: a name, a module or a line of each, -1: none is known. */
export interface Keys {
  of: Int32Array;
  keys: readonly string[];
  /** what those are called that have none */
  none: string;
}

export function keysOf(profile: Profile, kind: LaneKind): Keys {
  if (kind === 'thread') return { of: profile.name, keys: profile.names, none: '(no name)' };
  const none = kind === 'module' ? 'outside of modules' : 'no line known';
  return { ...belonging(profile, kind), none };
}

export function keyText({ keys, none }: Keys, key: number): string {
  return keys[key] ?? none;
}

export interface NameRow {
  /** row of `keys`, -1: none */
  name: number;
  hue: number;
  /** the longest slice */
  longest: number;
  /** ns of the span in which it ran; in itself it is counted once */
  total: number;
  /** ns in it and in nothing inside */
  self: number;
  /** 0: it was made, and never ran */
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

/** Sums by key, of slices that come in their order. */
class Rows {
  readonly found = new Map<number, NameRow>();
  private readonly most = new Map<number, number>();
  /** by key: the row after the outermost slice with it */
  private readonly until: Int32Array;

  constructor(
    private readonly profile: Profile,
    { keys }: Pick<Keys, 'keys'>
  ) {
    this.until = new Int32Array(keys.length + 1);
  }

  add(key: number, row: number, total: number, self: number): void {
    const { hue, last } = this.profile;
    let known = this.found.get(key);
    if (!known) {
      known = { name: key, hue: hue[row], longest: row, total: 0, self: 0, count: 0 };
      this.found.set(key, known);
    }
    if (total > (this.most.get(key) ?? -1)) {
      this.most.set(key, total);
      known.longest = row;
      known.hue = hue[row];
    }
    if (hue[row] !== Hue.made) known.count++;
    known.self += self;
    if (row >= this.until[key + 1]) {
      this.until[key + 1] = last[row];
      known.total += total;
    }
  }
}

/** The sums of a span by any keys; steps are left out. */
export function rowsBy(profile: Profile, span: Span, keys: Keys): NameRow[] {
  const rows = new Rows(profile, keys);
  within(profile, span, row => {
    if (profile.hue[row] === Hue.step) return;
    const total = clipped(profile, row, span);
    rows.add(keys.of[row], row, total, selfWithin(profile, row, span, total));
  });
  return [...rows.found.values()];
}

export interface Allocated {
  /** bytes that came in the span, and those of them that are there at its end */
  bytes: number;
  alive: number;
  /** bytes that came, by key */
  by: Map<number, number>;
}

/** What was allocated in a span; null: the file tells no single pieces. */
export function allocatedIn(profile: Profile, span: Span, { of }: Keys): Allocated | null {
  let found: Allocated | null = null;
  for (const { blocks } of profile.memory) {
    if (!blocks) continue;
    found ??= { bytes: 0, alive: 0, by: new Map() };
    const { from, to, bytes, row } = blocks;
    for (let i = 0; i < from.length; i++) {
      if (from[i] <= span.from || from[i] > span.to) continue;
      found.bytes += bytes[i];
      if (to[i] >= span.to) found.alive += bytes[i];
      const key = row[i] < 0 ? -1 : of[row[i]];
      found.by.set(key, (found.by.get(key) ?? 0) + bytes[i]);
    }
  }
  return found;
}

/** Steps are bands around everything: they are no work and are left out. */
export function summarize(profile: Profile, span: Span): Summary {
  const { name, hue, parent, names } = profile;
  const rows = new Rows(profile, { keys: names });
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
    rows.add(of, row, total, self);
    if (hue[row] === Hue.made) return;
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
  return { rows: [...rows.found.values()], count, busy: root.total, root };
}

export type SortKey = 'name' | 'total' | 'self' | 'count' | 'average' | 'allocated';

export function sortRows(
  keys: Keys,
  rows: readonly NameRow[],
  key: SortKey,
  falling: boolean,
  allocated: Allocated | null = null
): NameRow[] {
  const value = (row: NameRow): number => {
    if (key === 'average') return row.total / Math.max(1, row.count);
    if (key === 'allocated') return allocated?.by.get(row.name) ?? 0;
    return key === 'name' ? 0 : row[key];
  };
  const sign = falling ? -1 : 1;
  return [...rows].sort(
    (a, b) =>
      sign *
      (key === 'name'
        ? keyText(keys, a.name).localeCompare(keyText(keys, b.name))
        : value(a) - value(b))
  );
}
