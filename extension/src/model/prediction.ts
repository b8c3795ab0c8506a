// Predict, then reveal: what is asked about the gradient that a node hands on, and how an answer is
// marked. Pure.

import type { CardNumbers, Numbers } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { numberText, shapeText, signedText } from './format';

/** One input of the node, about whose gradient is asked. */
export interface Question {
  /** who the gradient goes to */
  seq: number;
  shape: number[];
  /** which of the node's inputs it is */
  position: number;
  /** the gradient, its first numbers at least */
  gives: (number | null)[];
  /** what its element is a product of, by local derivatives; '' where these are not known */
  product: string;
  /** for a tensor: which shapes stand to choice, and which element is asked for */
  shapes: number[][];
  element: number;
}

export type Sign = '' | '-' | '0' | '+';

/** What the student put in; '' and null where nothing was. */
export interface Guess {
  shape: number | null;
  value: number | null;
  sign: Sign;
}

export interface Mark {
  right: boolean;
  words: string;
}

/** Numbers agree when they differ by less than this share of the right one. */
const CLOSE = 0.01;
/** So small a number counts as zero. */
const NOTHING = 1e-12;

export function numel(shape: readonly number[]): number {
  return shape.reduce((product, n) => product * n, 1);
}

const same = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((n, i) => n === b[i]);

/** The right shape among wrong ones that come to mind, in an order that does not tell. */
export function shapesToChoose(right: number[], output: number[]): number[][] {
  const wrong = [
    output,
    [...right].reverse(),
    [],
    [numel(right)],
    right.length > 0 ? right.slice(1) : [1],
    [...right, 1]
  ];
  const found: number[][] = [right];
  for (const shape of wrong) {
    if (found.length < 4 && !found.some(known => same(known, shape))) found.push(shape);
  }
  return found.sort(
    (a, b) => numel(a) - numel(b) || a.length - b.length || (a[0] ?? 0) - (b[0] ?? 0)
  );
}

/** The element whose gradient says most: the largest among those that are known. */
function telling(gives: readonly (number | null)[]): number {
  let best = 0;
  gives.forEach((value, i) => {
    if (value !== null && Math.abs(value) > Math.abs(gives[best] ?? 0)) best = i;
  });
  return best;
}

/** What can be asked about a node: one question for each input whose gradient is known. */
export function questionsOf(numbers: Numbers): Question[] {
  const output = numbers.outputs[0]?.shape ?? [];
  return numbers.inputs.flatMap((input, position) => {
    const { seq, shape, gives } = input;
    if (seq === null || gives === null || gives.length === 0) return [];
    const element = telling(gives);
    if (gives[element] === null) return [];
    const scalar = numel(shape) === 1;
    const shapes = scalar ? [] : shapesToChoose(shape, output);
    const product = productOf(numbers, position, element);
    return [{ seq, shape, position, gives, product, shapes, element }];
  });
}

const MOST_TERMS = 3;

/** '0.5 × (−2)': gradients that arrived times local derivatives, summed over the outputs. */
function productOf({ outputs, inputs }: Numbers, position: number, element: number): string {
  const { slopes, shape } = inputs[position];
  const arrived = outputs.flatMap(({ gradient }) => gradient ?? []);
  const columns = numel(shape);
  if (slopes === null || slopes.length !== arrived.length * columns) {
    return '';
  }
  const terms = arrived.flatMap((gradient, row) => {
    const slope = slopes[row * columns + element];
    return slope === 0 ? [] : [`${signedText(gradient)} × ${signedText(slope)}`];
  });
  const more = terms.length > MOST_TERMS ? ` + … (${terms.length} terms)` : '';
  return terms.slice(0, MOST_TERMS).join(' + ') + more;
}

/** The same from the op's own formula: '1 × 2 × (−0.538)'; '' where it is of another number. */
export function productIn({ text, result }: CardNumbers, right: number | null): string {
  const [, ...sides] = oneLine(text, 300).split(' = ');
  const last = Number(result.replace('−', '-'));
  if (sides.length < 2 || right === null || !isClose(last, right)) {
    return '';
  }
  return sides.slice(0, -1).join(' = ').replaceAll(' · ', ' × ');
}

/** 'you 1.2, right −1.08 = 1 × 2 × (−0.538)'. */
export function answerText(question: Question, guess: Guess, product: string): string {
  const { gives, element, shape } = question;
  const place = numel(shape) === 1 ? '' : `${placeOf(element, shape)}: `;
  const own = guess.value === null ? '' : `you ${numberText(guess.value)}, right `;
  const value = numberText(gives[element]);
  return `${place}${own}${value}${product && product !== value ? ` = ${product}` : ''}`;
}

/** '[0, 2]' for a flat index. */
export function placeOf(index: number, shape: readonly number[]): string {
  const places: number[] = [];
  let rest = index;
  for (let i = shape.length - 1; i >= 0; i--) {
    places.unshift(rest % shape[i]);
    rest = Math.floor(rest / shape[i]);
  }
  return `[${places.join(', ')}]`;
}

export function signOf(value: number): Sign {
  return Math.abs(value) < NOTHING ? '0' : value < 0 ? '-' : '+';
}

export function isClose(guess: number, right: number): boolean {
  const near = CLOSE * Math.abs(right) + (signOf(right) === '0' ? 1e-6 : 0);
  return Math.abs(guess - right) <= near + NOTHING;
}

function aboutValue(guess: number, right: number): Mark {
  if (isClose(guess, right)) {
    return { right: true, words: 'right' };
  }
  const off = `off by ${numberText(guess - right)}`;
  if (isClose(-guess, right)) {
    return { right: false, words: `right size, wrong sign; ${off}` };
  }
  return signOf(guess) === signOf(right)
    ? { right: false, words: `right sign; ${off}` }
    : { right: false, words: off };
}

/** Whether a guess says anything. */
export function isGuess(question: Question, guess: Guess): boolean {
  const asked = question.shapes.length > 0;
  return guess.value !== null || (asked && (guess.shape !== null || guess.sign !== ''));
}

/** The mark of a guess: all that was answered must be right. */
export function mark(question: Question, guess: Guess): Mark {
  const right = question.gives[question.element] ?? 0;
  const marks: Mark[] = [];
  if (guess.shape !== null) {
    const fits = same(question.shapes[guess.shape], question.shape);
    const words = fits ? 'shape right' : `the shape is ${shapeText(question.shape)}`;
    marks.push({ right: fits, words });
  }
  if (guess.value !== null) marks.push(aboutValue(guess.value, right));
  else if (guess.sign !== '') {
    const fits = guess.sign === signOf(right);
    marks.push({ right: fits, words: fits ? 'sign right' : 'wrong sign' });
  }
  return {
    right: marks.length > 0 && marks.every(one => one.right),
    words: marks.map(({ words }) => words).join(', ')
  };
}

export interface Score {
  predicted: number;
  right: number;
  skipped: number;
}

/** '' before the first answer. */
export function scoreText({ predicted, right, skipped }: Score): string {
  const parts = [
    predicted > 0 ? `${right} of ${predicted} right` : '',
    skipped > 0 ? `${skipped} skipped` : ''
  ];
  return parts.filter(part => part !== '').join(', ');
}
