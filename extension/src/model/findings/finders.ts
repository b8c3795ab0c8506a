// The list of what is looked for in each backward pass. A kind of finding is one function, and one
// line here.

import { accumulation } from './accumulation';
import { exploding, vanishing } from './depth';
import type { Found } from './finding';
import { growth } from './growth';
import { leftOut } from './left_out';
import { nonfinite } from './nonfinite';
import type { Pass } from './pass';
import { PERSISTENT } from './thresholds';
import { zeros } from './zeros';

/** What is known of the passes of the same line before. */
export interface Before {
  /** memory of what got a gradient in some pass of the run, this one too */
  fed: ReadonlySet<number>;
  /** gradient norms of the last ones, those that were finite */
  norms: readonly number[];
  /** the largest of all */
  peak: number;
}

export interface Finder {
  find(pass: Pass, before: Before): Found[];
  /** passes of a run in a row in which it has to be seen to be told; a shorter run's all */
  inARow: number;
}

export const FINDERS: readonly Finder[] = [
  { find: nonfinite, inARow: 1 },
  { find: accumulation, inARow: 1 },
  { find: (pass, { norms, peak }) => growth(pass, norms, peak), inARow: 1 },
  { find: exploding, inARow: PERSISTENT },
  { find: vanishing, inARow: PERSISTENT },
  { find: zeros, inARow: PERSISTENT },
  { find: leftOut, inARow: 1 }
];
