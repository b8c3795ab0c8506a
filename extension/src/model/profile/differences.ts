// Two profiles by name: what became faster or slower, what is new, what is gone. Pure.

import type { Profile } from './profile';
import type { NameRow } from './summary';
import { summarize } from './summary';

export type Change = 'faster' | 'slower' | 'alike' | 'new' | 'gone';

export interface Difference {
  name: string;
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

export function compareProfiles(before: Profile, after: Profile): Differences {
  const sums = [before, after].map(profile => {
    const { rows, busy } = summarize(profile, { from: profile.from, to: profile.to + 1 });
    return { busy, named: new Map(rows.map(row => [profile.names[row.name] ?? '', row])) };
  });
  const [a, b] = sums;
  const rows = [...new Set([...a.named.keys(), ...b.named.keys()])].map(name => {
    const [one, other] = [a.named.get(name), b.named.get(name)];
    return {
      name,
      change: changeOf(one, other),
      before: one?.self ?? 0,
      after: other?.self ?? 0,
      calls: [one?.count ?? 0, other?.count ?? 0] as [number, number]
    };
  });
  rows.sort((x, y) => Math.abs(y.after - y.before) - Math.abs(x.after - x.before));
  return { rows, before: a.busy, after: b.busy };
}
