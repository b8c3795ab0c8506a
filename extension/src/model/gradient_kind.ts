// What is remarkable about a gradient: told by shape and pattern as well as by colour. Pure.

import type { States } from './states';
import { Flag, State } from './states';
import { UNWATCHED } from './store';

export type GradientKind = 'none' | 'zero' | 'vanishing' | 'plain' | 'exploding' | 'nonfinite';

/** Below this share of the largest gradient of the pass, and below this norm, one vanishes. */
const VANISHING = 1e-6;
/** Above so many times the gradient that the pass began with, one explodes. */
const EXPLODING = 1e4;

export const KIND_SIGNS: Record<GradientKind, string> = {
  none: '–',
  zero: '○',
  vanishing: '▽',
  plain: '',
  exploding: '△',
  nonfinite: '✕'
};

export const KIND_WORDS: Record<GradientKind, string> = {
  none: 'no gradient',
  zero: 'zero gradient',
  vanishing: 'vanishing gradient',
  plain: '',
  exploding: 'exploding gradient',
  nonfinite: 'NaN or ∞ in the gradient'
};

/** The kinds that a legend names, the gravest first. */
export const REMARKABLE = ['nonfinite', 'exploding', 'vanishing', 'zero', 'none'] as const;

/** The gradient that came to a node; 'plain' also where none came yet. */
export function gradientKind(states: States, index: number): GradientKind {
  const norm = states.norm[index];
  if (states.flags[index] & Flag.nonfinite || Number.isNaN(norm) || norm === Infinity) {
    return 'nonfinite';
  }
  if (norm < 0) {
    return norm !== UNWATCHED && states.node[index] === State.done ? 'none' : 'plain';
  }
  if (norm === 0) {
    return 'zero';
  }
  if (norm < VANISHING && norm < VANISHING * states.peak) {
    return 'vanishing';
  }
  return norm > EXPLODING * Math.max(states.start, VANISHING) ? 'exploding' : 'plain';
}
