// Ops that give NaN or infinity, or have such a derivative, at some numbers: what is said of them
// and what helps. Pure text.

import type { Advice } from './finding';

/** Counts of one saved tensor: columns of the table `odd`. */
export interface Counts {
  name: string;
  own: boolean;
  /** an input to which no gradient goes: no node made it */
  data: boolean;
  elements: number;
  nan: number;
  inf: number;
  zero: number;
  negative: number;
  beyond: number;
}

interface Edge {
  /** what is at the edge, where anything is: 'gave −∞', 'has an infinite derivative' */
  at(counts: Counts): { says: string; what: string; count: number } | null;
  advice(text: string, argument: string, before: string): Advice;
}

/** `torch.log(p)` -> 'p', `p.log()` -> 'p'; '' where it cannot be told. */
export function argumentOf(text: string): string {
  const method = /^([A-Za-z_][\w.]*(?:\[[^[\]]*\])?)\.\w+\(\)$/.exec(text);
  const call = /^[\w.]+\(([^(),]+)\)$/.exec(text);
  return (call?.[1] ?? method?.[1] ?? '').trim();
}

function wrapped(text: string, argument: string, by: string): string | null {
  const inside = by.replace('$', argument);
  const called = text.startsWith(`${argument}.`) && by.includes(' ');
  return argument === '' ? null : text.replace(argument, called ? `(${inside})` : inside);
}

const log: Edge = {
  at: ({ zero, negative }) =>
    negative > 0
      ? { says: 'gave NaN', what: 'below 0', count: negative }
      : zero > 0
        ? { says: 'gave −∞', what: '0', count: zero }
        : null,
  advice(text, argument, before) {
    if (before.startsWith('Softmax')) {
      return {
        text: '`log_softmax` computes both in one step, and never a log of 0',
        code: null
      };
    }
    if (before.startsWith('Sigmoid')) {
      return {
        text:
          '`nn.functional.binary_cross_entropy_with_logits` (or `logsigmoid`) takes what goes ' +
          'into the sigmoid, and never a log of 0',
        code: null
      };
    }
    return {
      text: 'Keep what goes in above 0',
      code: wrapped(text, argument, '$.clamp_min(1e-8)')
    };
  }
};

const root: Edge = {
  at: ({ zero, nan, own, negative }) =>
    nan > 0 || (!own && negative > 0)
      ? { says: 'gave NaN', what: 'NaN', count: Math.max(nan, negative) }
      : zero > 0
        ? { says: 'has an infinite derivative at 0', what: '0', count: zero }
        : null,
  advice: (text, argument) => ({
    text: 'Keep what goes in above 0',
    code: wrapped(text, argument, '$ + 1e-8')
  })
};

const norm: Edge = {
  at: ({ zero }) =>
    zero > 0 ? { says: 'has no derivative at 0', what: '0', count: zero } : null,
  advice: () => ({
    text: 'Add a small number under the root: `(x * x).sum().add(1e-12).sqrt()`',
    code: null
  })
};

const quotient: Edge = {
  at: ({ zero }) =>
    zero > 0 ? { says: 'divided by 0', what: '0', count: zero } : null,
  advice: () => ({
    text: 'Keep the divisor away from 0: add a small number to it, or `clamp_min(1e-8)`',
    code: null
  })
};

const overflow: Edge = {
  at: ({ inf }) => (inf > 0 ? { says: 'gave ∞', what: '∞', count: inf } : null),
  advice: () => ({
    text: 'Subtract the largest first, as `logsumexp` and `softmax` do, or clamp what goes in',
    code: null
  })
};

const angle: Edge = {
  at: ({ beyond }) =>
    beyond > 0
      ? { says: 'has no finite derivative there', what: 'at ±1 or beyond', count: beyond }
      : null,
  advice: (text, argument) => ({
    text: 'Keep what goes in between −1 and 1',
    code: wrapped(text, argument, '$.clamp(-1 + 1e-6, 1 - 1e-6)')
  })
};

const power: Edge = {
  at: ({ zero, negative, name }) =>
    name !== 'self'
      ? null
      : negative > 0
        ? { says: 'gave NaN', what: 'below 0', count: negative }
        : zero > 0
          ? { says: 'has an infinite derivative at 0', what: '0', count: zero }
          : null,
  advice: (text, argument) => ({
    text: 'Keep what is raised to the power above 0',
    code: wrapped(text, argument, '$.clamp_min(1e-8)')
  })
};

export const EDGES: Readonly<Record<string, Edge>> = {
  LogBackward0: log,
  Log2Backward0: log,
  Log10Backward0: log,
  SqrtBackward0: root,
  RsqrtBackward0: overflow,
  ReciprocalBackward0: overflow,
  ExpBackward0: overflow,
  DivBackward0: quotient,
  PowBackward0: power,
  AcosBackward0: angle,
  AsinBackward0: angle,
  AtanhBackward0: angle,
  NormBackward0: norm,
  NormBackward1: norm,
  LinalgVectorNormBackward0: norm
};
