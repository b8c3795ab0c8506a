// What is asked about a gradient, and how a guess is marked.

import { describe, expect, it } from 'vitest';
import type { Guess } from '../../src/model/prediction';
import {
  answerText,
  isGuess,
  mark,
  placeOf,
  productIn,
  questionsOf,
  scoreText,
  shapesToChoose
} from '../../src/model/prediction';
import type { CardNumbers, Numbers } from '../../src/protocol/schema';

const input = (
  seq: number | null,
  shape: number[],
  gives: (number | null)[] | null
): Numbers['inputs'][number] => ({ seq, index: 0, shape, slopes: null, gives });

const node = (...inputs: Numbers['inputs']): Numbers => ({
  seq: 9,
  name: 'MulBackward0',
  label: '',
  outputs: [{ shape: [2, 3], values: null, gradient: null }],
  inputs,
  why: ''
});

const NONE: Guess = { shape: null, value: null, sign: '' };

describe('questions', () => {
  it('asks about inputs whose gradient is known', () => {
    const asked = questionsOf(
      node(input(1, [], [6]), input(null, [], null), input(2, [2], null), input(3, [3], [0, -5, 1]))
    );
    expect(asked.map(({ seq, element }) => [seq, element])).toEqual([
      [1, 0],
      [3, 1]
    ]);
    expect(asked[0].shapes).toEqual([]);
    expect(asked[1].shapes).toContainEqual([3]);
  });

  it.each([[[3]], [[2, 2]], [[1, 1]], [[4, 5, 6]], [[2]]])('has one right shape: %j', shape => {
    const choices = shapesToChoose(shape, [2, 3]).map(one => one.join());
    expect(choices.filter(one => one === shape.join()).length).toBe(1);
    expect(choices.length).toBeGreaterThan(2);
    expect(new Set(choices).size).toBe(choices.length);
  });

  it('names elements', () => {
    expect(placeOf(5, [2, 3])).toBe('[1, 2]');
    expect(placeOf(0, [4])).toBe('[0]');
  });
});

describe('marks', () => {
  const [scalar] = questionsOf(node(input(1, [], [-0.42])));
  const [tensor] = questionsOf(node(input(1, [3], [0, -5, 1])));
  const at = tensor.shapes.findIndex(shape => shape.join() === '3');

  it.each([
    [-0.42, true, 'right'],
    [-0.4215, true, 'right'],
    [0.42, false, 'right size, wrong sign; off by 0.84'],
    [-0.5, false, 'right sign; off by −0.08'],
    [3, false, 'off by 3.42']
  ])('a number: %f', (value, right, words) => {
    expect(mark(scalar, { ...NONE, value })).toEqual({ right, words });
  });

  it('a gradient of zero is right as zero alone', () => {
    const [zero] = questionsOf(node(input(1, [], [0])));
    expect(mark(zero, { ...NONE, value: 0 }).right).toBe(true);
    expect(mark(zero, { ...NONE, value: 0.001 }).right).toBe(false);
  });

  it('a tensor: shape, element or sign', () => {
    expect(mark(tensor, { shape: at, value: -5, sign: '' }).right).toBe(true);
    const { words } = mark(tensor, { shape: at, value: null, sign: '-' });
    expect(words).toBe('shape right, sign right');
    expect(mark(tensor, { shape: at, value: null, sign: '+' }).right).toBe(false);
    const wrong = mark(tensor, { shape: at === 0 ? 1 : 0, value: -5, sign: '' });
    expect(wrong.right).toBe(false);
    expect(wrong.words).toContain('the shape is [3]');
  });

  it('stands beside the right number and what it is a product of', () => {
    const [{ seq, index, shape, gives }] = node(input(1, [], [-1.076])).inputs;
    const of = (slopes: number[] | null, gradient: number[]): Numbers => ({
      ...node(),
      outputs: [{ shape: [], values: null, gradient }],
      inputs: [{ seq, index, shape, slopes, gives }]
    });
    const [known] = questionsOf(of([-1.076], [1]));
    const guess = { ...NONE, value: 1.2 };
    expect(answerText(known, guess, known.product)).toBe('you 1.2, right −1.08 = 1 × (−1.08)');
    const formula = {
      text: '(∂L) / (∂self) = 1 · 2 · (−0.538) = −1.076',
      result: '−1.076'
    } as CardNumbers;
    const product = productIn(formula, known.gives[0]);
    expect(answerText(known, guess, product)).toBe('you 1.2, right −1.08 = 1 × 2 × (−0.538)');
    // The formula may be of another gradient: then it is no answer to this question.
    expect(productIn({ ...formula, result: '−0.538' }, known.gives[0])).toBe('');
    const [unknown] = questionsOf(of(null, [1]));
    expect(answerText(unknown, NONE, unknown.product)).toBe('−1.08');
    const [sum] = questionsOf(of([2, 0, -1], [1, 5, 3]));
    expect(sum.product).toBe('1 × 2 + 3 × (−1)');
  });

  it('has no score before the first answer', () => {
    expect(scoreText({ predicted: 0, right: 0, skipped: 0 })).toBe('');
    expect(scoreText({ predicted: 0, right: 0, skipped: 2 })).toBe('2 skipped');
    expect(scoreText({ predicted: 2, right: 1, skipped: 0 })).toBe('1 of 2 right');
  });

  it('nothing is no guess', () => {
    expect(isGuess(scalar, NONE)).toBe(false);
    expect(isGuess(tensor, NONE)).toBe(false);
    expect(isGuess(tensor, { ...NONE, sign: '+' })).toBe(true);
    expect(mark(tensor, NONE).right).toBe(false);
  });
});
