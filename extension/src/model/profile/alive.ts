// What held memory at one moment: pieces put together by what made them. Pure.

import { belonging } from './groups';
import type { Blocks, MemoryCurve, Profile } from './profile';

/** Pieces of one kind that calls of one name on one line made. */
export interface Held {
  /** row of `kinds` */
  kind: number;
  /** row of `names` of the slice that made them, -1: none did */
  name: number;
  /** in words, '' where it is not known */
  line: string;
  bytes: number;
  count: number;
  /** the slice that made the largest one, -1: none */
  row: number;
  /** ns: when the last of them was given back; Infinity: not in this profile */
  until: number;
}

export interface Alive {
  /** the most first */
  held: Held[];
  bytes: number;
  count: number;
  /** bytes by kind, and by line, the most first */
  kinds: [name: string, bytes: number][];
  lines: [name: string, bytes: number][];
}

/** The moment of the highest step in a time; near: the first one that is as high but for little. */
export function highest(
  { time, total }: MemoryCurve,
  from: number,
  to: number,
  near = 1
): number {
  const lasts = (i: number): boolean => (time[i + 1] ?? Infinity) > from;
  let most = -1;
  for (let i = 0; i < time.length && time[i] <= to; i++) {
    if (lasts(i) && total[i] > most) most = total[i];
  }
  for (let i = 0; i < time.length && time[i] <= to; i++) {
    if (lasts(i) && total[i] >= near * most) return Math.max(from, time[i]);
  }
  return from;
}

/** Rows of the pieces that are there at a moment. */
export function aliveAt({ from, to }: Blocks, time: number): number[] {
  const rows: number[] = [];
  for (let i = 0; i < from.length; i++) if (from[i] <= time && to[i] > time) rows.push(i);
  return rows;
}

function falling(sums: Map<string, number>): [string, number][] {
  return [...sums].filter(([name]) => name !== '').sort((a, b) => b[1] - a[1]);
}

export function aliveIn(profile: Profile, blocks: Blocks, time: number): Alive {
  const { of, keys } = belonging(profile, 'line');
  const found = new Map<string, Held & { largest: number }>();
  const kinds = new Map<string, number>();
  const lines = new Map<string, number>();
  const rows = aliveAt(blocks, time);
  let bytes = 0;
  for (const i of rows) {
    const [kind, row, size] = [blocks.kind[i], blocks.row[i], blocks.bytes[i]];
    const name = row < 0 ? -1 : profile.name[row];
    const line = row < 0 ? '' : (keys[of[row]] ?? '');
    const key = `${kind} ${name} ${line}`;
    let held = found.get(key);
    if (!held) {
      const none = { bytes: 0, count: 0, row: -1, until: 0, largest: -1 };
      found.set(key, (held = { kind, name, line, ...none }));
    }
    held.bytes += size;
    held.count++;
    held.until = Math.max(held.until, blocks.to[i]);
    if (size > held.largest) [held.largest, held.row] = [size, row];
    bytes += size;
    const called = blocks.kinds[kind] ?? '';
    kinds.set(called, (kinds.get(called) ?? 0) + size);
    lines.set(line, (lines.get(line) ?? 0) + size);
  }
  return {
    held: [...found.values()].sort((a, b) => b.bytes - a.bytes),
    ...{ bytes, count: rows.length, kinds: falling(kinds), lines: falling(lines) }
  };
}
