// Two profiles by name, module or line: what became faster or slower, what is new or gone. Pure.

import type { LaneKind } from './groups';
import type { Profile } from './profile';
import type { NameRow } from './summary';
import { keyText, keysOf, rowsBy } from './summary';

export type Change = 'faster' | 'slower' | 'alike' | 'new' | 'gone';

export interface Difference {
  name: string;
  /** its longest slice in the later profile, -1: none */
  row: number;
  change: Change;
  /** ns of self time, and calls, in each */
  before: number;
  after: number;
  calls: [before: number, after: number];
}

export interface Differences {
  /** the largest difference first */
  rows: Difference[];
  /** ns of all that ran */
  before: number;
  after: number;
}

/** Share of the larger time, and ns, below which two times are alike: runs differ by as much. */
const NOISE = 0.1;
const LEAST = 1000;

function changeOf(before: NameRow | undefined, after: NameRow | undefined): Change {
  if (!before) return 'new';
  if (!after) return 'gone';
  const by = after.self - before.self;
  if (Math.abs(by) <= Math.max(LEAST, NOISE * Math.max(before.self, after.self))) return 'alike';
  return by < 0 ? 'faster' : 'slower';
}

/** A cell's lines by their text: run again they have other numbers. Others as they are called. */
function sameIn(profile: Profile, kind: LaneKind): (text: string) => string {
  const known = new Map<string, string>();
  if (kind === 'line') {
    for (const [row, { cell, text }] of profile.places) {
      known.set(profile.texts[row], JSON.stringify([cell, text.trim()]));
    }
  }
  return text => known.get(text) ?? text;
}

export function compareProfiles(
  before: Profile,
  after: Profile,
  kind: LaneKind = 'thread'
): Differences {
  const sums = [before, after].map(profile => {
    const keys = keysOf(profile, kind);
    const same = sameIn(profile, kind);
    const named = new Map<string, NameRow & { text: string }>();
    let busy = 0;
    for (const row of rowsBy(profile, { from: profile.from, to: profile.to + 1 }, keys)) {
      const text = keyText(keys, row.name);
      const known = named.get(same(text));
      busy += row.self;
      if (known) {
        known.self += row.self;
        known.count += row.count;
      } else {
        named.set(same(text), { ...row, text });
      }
    }
    return { busy, named };
  });
  const [a, b] = sums;
  const rows = [...new Set([...a.named.keys(), ...b.named.keys()])].map(key => {
    const [one, other] = [a.named.get(key), b.named.get(key)];
    return {
      name: other?.text ?? one?.text ?? '',
      row: other?.longest ?? -1,
      change: changeOf(one, other),
      before: one?.self ?? 0,
      after: other?.self ?? 0,
      calls: [one?.count ?? 0, other?.count ?? 0] as [number, number]
    };
  });
  rows.sort((x, y) => Math.abs(y.after - y.before) - Math.abs(x.after - x.before));
  return { rows, before: a.busy, after: b.busy };
}
