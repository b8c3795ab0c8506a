// Expressions that students type: what they are worth, and what is refused with a reason.

import { describe, expect, it } from 'vitest';
import { work } from '../../src/model/arithmetic';

const value = (text: string): number => {
  const worked = work(text);
  if (worked.kind === 'wrong') throw new Error(worked.why);
  return worked.value;
};

describe('arithmetic', () => {
  it.each([
    ['2*3', 6],
    ['1/4', 0.25],
    ['-2^2', -4],
    ['2^3^2', 512],
    ['2**-1', 0.5],
    ['1 - 2 - 3', -4],
    ['8/4/2', 1],
    ['-(1+2)*3', -9],
    ['--2', 2],
    ['.5e1', 5],
    ['−0,5'.replace(',', '.'), -0.5],
    ['2 × 3 ÷ 4', 1.5],
    ['3²', 9],
    ['tanh(0)', 0],
    ['1 - TANH(0.5)^2', 1 - Math.tanh(0.5) ** 2],
    ['sigmoid(0) * e', 0.5 * Math.E],
    ['cos(pi)', -1]
  ])('%s', (text, wanted) => {
    expect(value(text)).toBeCloseTo(wanted, 12);
  });

  it.each([
    ['', 'Type a number'],
    ['2*', 'ends where a number'],
    ['2 3', 'nothing should follow'],
    ['(1', 'not closed'],
    ['alert(1)', 'not known'],
    ['constructor', 'not known'],
    ['tanh 2', 'with parentheses'],
    ['1;2', 'not understood'],
    ['1/0', 'not a finite number'],
    ['*2', 'before “*”'],
    ['('.repeat(60) + '1', 'too many parentheses'],
    ['1'.repeat(300), 'too long']
  ])('refuses %s', (text, why) => {
    const worked = work(text);
    expect(worked.kind).toBe('wrong');
    expect(worked.kind === 'wrong' && worked.why).toContain(why);
  });
});
