// What a run of a program is remarkable for: the words of it, and when it was seen. Pure data.

import type { Site } from '../../protocol/schema';

/** Signs differ by shape; in the order of gravity. */
export const SIGNS = {
  nonfinite: '✕',
  failed: '!',
  accumulating: '+',
  exploding: '△',
  vanishing: '▽',
  dead: '○',
  detached: '⁄⁄',
  none: '–',
  zero: '◌'
} as const;

export type Kind = keyof typeof SIGNS;

export const KINDS = Object.keys(SIGNS) as Kind[];

export const KIND_NAMES: Record<Kind, string> = {
  nonfinite: 'NaN or ∞',
  failed: 'error',
  accumulating: 'gradients never zeroed',
  exploding: 'exploding gradient',
  vanishing: 'vanishing gradient',
  dead: 'dead units',
  detached: 'graph break',
  none: 'no gradient',
  zero: 'zero gradient'
};

/** A line of the user's code and what happened there. */
export interface Line {
  site: Site;
  says: string;
}

export interface Advice {
  text: string;
  /** what to write instead, where that can be said */
  code: string | null;
}

/** What a finder says of one pass. Words hold code between backticks. */
export interface Found {
  kind: Kind;
  /** equal for the same thing in another pass, and when its cell runs again */
  key: string;
  /** it keeps the network from learning: counted in the badge */
  matters: boolean;
  title: string;
  detail: string;
  /** the line to blame first, then the one that suffers */
  lines: Line[];
  /** `model.blocks.3.fc2`, '' where unknown */
  module: string;
  advice: Advice | null;
  /** node or leaf to look at, null where there is none */
  seq: number | null;
  /** memory of parameters that get no gradient, unless another pass of the run gives them one */
  starving?: number[];
  /** variables that get no gradient by it, unless another pass of the run gives them one */
  without?: string[];
  /** the same of a function whose parameters are not known */
  called?: string;
  /** the way in which a value left the graph: 'detach', 'no_grad', ... */
  how?: string;
  /** the run of that node after which it shows, by its order; -1: the end of the pass */
  order: number;
}

/** Where something was seen. */
export interface Seen {
  /** number of the pass, from 1 */
  pass: number;
  task: number;
  seq: number | null;
  order: number;
}

export interface Finding extends Omit<Found, 'seq' | 'order'> {
  first: Seen;
  last: Seen;
  /** passes of the newest run with it, and all passes of that run */
  passes: number;
  of: number;
  /** passes of that run were not recorded */
  partial: boolean;
  /** runs of the cell in which it was seen */
  times: number;
  /** the cell ran again, and so far, without it */
  solved: boolean;
}

export function bitOf(kind: Kind): number {
  return 1 << KINDS.indexOf(kind);
}

/** The gravest of the kinds in a set of bits; null for none. */
export function gravest(bits: number): Kind | null {
  return KINDS.find(kind => bits & bitOf(kind)) ?? null;
}
