// Remarkable gradients are told apart, and what is ordinary is left alone.

import { describe, expect, it } from 'vitest';
import type { GradientKind } from '../../src/model/gradient_kind';
import { KIND_SIGNS, gradientKind } from '../../src/model/gradient_kind';
import type { States } from '../../src/model/states';
import { Flag, State } from '../../src/model/states';

function statesOf(norms: number[], state: number = State.done): States {
  return {
    node: Uint8Array.from(norms, () => state),
    flags: new Uint8Array(norms.length),
    norm: Float64Array.from(norms),
    leaf: new Map(),
    leafNorm: new Map(),
    next: -1,
    nextLeaf: -1,
    done: norms.length,
    peak: Math.max(0, ...norms.filter(Number.isFinite)),
    start: norms.find(norm => norm > 0 && Number.isFinite(norm)) ?? 0,
    t: Infinity
  };
}

describe('gradientKind', () => {
  it.each<[number[], GradientKind[]]>([
    [[1, 0.5, 2], ['plain', 'plain', 'plain']],
    [[1, 1e-9], ['plain', 'vanishing']],
    // A whole pass of small numbers is a small loss, not a vanishing gradient.
    [[1e-9, 2e-9], ['plain', 'plain']],
    [[1, 2e4], ['plain', 'exploding']],
    [[1e6, 2e6], ['plain', 'plain']],
    [[1, 0, -1], ['plain', 'zero', 'none']],
    [[1, NaN, Infinity], ['plain', 'nonfinite', 'nonfinite']]
  ])('of norms %j', (norms, kinds) => {
    const states = statesOf(norms);
    expect(norms.map((_, i) => gradientKind(states, i))).toEqual(kinds);
  });

  it('is plain where nothing came yet', () => {
    expect(gradientKind(statesOf([-1], State.waiting), 0)).toBe('plain');
  });

  it('believes the flag: a NaN among finite sums', () => {
    const states = statesOf([1]);
    states.flags[0] = Flag.nonfinite;
    expect(gradientKind(states, 0)).toBe('nonfinite');
  });

  it('has a sign of its own for each', () => {
    const signs = Object.values(KIND_SIGNS);
    expect(new Set(signs).size).toBe(signs.length);
  });
});
