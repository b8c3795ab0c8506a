// Every number of a tiny graph, and how numbers depend on each other: what the drawing of numbers
// is made from. Pure.

import type { Numbers } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { numberText, shapeText, signedText } from './format';

/** One number: element `element` of output `output` of node `seq`. */
export interface Num {
  group: number;
  seq: number;
  output: number;
  element: number;
  /** '0,1' in its tensor; empty for a single number */
  place: string;
  value: number | null;
  gradient: number | null;
}

/** The numbers of one tensor. */
export interface Group {
  seq: number;
  leaf: boolean;
  title: string;
  detail: string;
  /** nums[first .. first + count) */
  first: number;
  count: number;
  shape: number[];
}

/** `to` depends on `from`, with this local derivative. */
export interface Link {
  from: number;
  to: number;
  slope: number;
}

/** A tensor that was made from another one, by local derivatives that are not known. */
export interface Tie {
  /** groups */
  from: number;
  to: number;
}

export interface NumberGraph {
  groups: Group[];
  nums: Num[];
  links: Link[];
  ties: Tie[];
  /** links by the number that they leave, and by the one that they come to */
  leaving: number[][];
  coming: number[][];
  /** sentences about nodes whose local derivatives are not known */
  gaps: string[];
}

/** 'tanh' for TanhBackward0, 'mul' for MulBackward0. */
export function opName(name: string): string {
  const plain = name.replace(/^.*::/, '').replace(/Backward\d*$/, '');
  return plain.charAt(0).toLowerCase() + plain.slice(1);
}

function placeIn(shape: readonly number[], element: number): string {
  const places: number[] = [];
  let rest = element;
  for (let i = shape.length - 1; i >= 0; i--) {
    places.unshift(rest % shape[i]);
    rest = Math.floor(rest / shape[i]);
  }
  // A row of a batch of one has no need of its first index.
  while (places.length > 1 && shape[shape.length - places.length] === 1) places.shift();
  return places.join(',');
}

const sized = (shape: readonly number[]): number => shape.reduce((product, n) => product * n, 1);

/** Whether the op works element by element: then a derivative of 0 is a link all the same. */
function elementwise(slopes: readonly (number | null)[], rows: number, columns: number): boolean {
  return (
    rows === columns &&
    slopes.every((slope, i) => slope === 0 || Math.floor(i / columns) === i % columns)
  );
}

/** The numbers of these nodes; `label` names leaves as the rest of the page does. */
export function numberGraph(
  nodes: readonly Numbers[],
  label: (seq: number) => string
): NumberGraph {
  const groups: Group[] = [];
  const nums: Num[] = [];
  const links: Link[] = [];
  const ties: Tie[] = [];
  const gaps: string[] = [];
  const firstOf = new Map<string, number>();
  for (const node of nodes) {
    const leaf = node.inputs.length === 0;
    const named = oneLine(label(node.seq) || node.label, 24);
    node.outputs.forEach((output, number) => {
      const { shape } = output;
      const count = sized(shape);
      const op = oneLine(opName(node.name), 24);
      const title = leaf ? named || 'leaf' : named && number === 0 ? `${named} = ${op}` : op;
      const group = groups.length;
      firstOf.set(`${node.seq} ${number}`, nums.length);
      groups.push({
        seq: node.seq,
        leaf,
        title: node.outputs.length > 1 ? `${title} [${number}]` : title,
        detail: shape.length > 0 ? shapeText(shape) : '',
        first: nums.length,
        count,
        shape
      });
      for (let element = 0; element < count; element++) {
        nums.push({
          group,
          seq: node.seq,
          output: number,
          element,
          place: count > 1 ? placeIn(shape, element) : '',
          value: output.values?.[element] ?? null,
          gradient: output.gradient?.[element] ?? null
        });
      }
    });
  }
  for (const node of nodes) {
    const outputs = node.outputs.flatMap(({ shape }, number) => {
      const first = firstOf.get(`${node.seq} ${number}`) ?? 0;
      return Array.from({ length: sized(shape) }, (_, i) => first + i);
    });
    if (node.why && node.inputs.some(({ seq }) => seq !== null)) gaps.push(oneLine(node.why, 200));
    // An input that is given twice (x * x) is one number with the sum of both derivatives.
    const sums = new Map<string, Link>();
    for (const { seq, index, shape, slopes } of node.inputs) {
      const first = firstOf.get(`${seq} ${index}`);
      if (seq === null || first === undefined) continue;
      if (slopes === null) {
        const from = nums[first].group;
        for (const to of new Set(outputs.map(output => nums[output].group))) {
          if (!ties.some(tie => tie.from === from && tie.to === to)) ties.push({ from, to });
        }
        continue;
      }
      const columns = sized(shape);
      const each = elementwise(slopes, outputs.length, columns);
      slopes.forEach((slope, i) => {
        const row = Math.floor(i / columns);
        const column = i % columns;
        if (row >= outputs.length || (slope === 0 && !(each && row === column))) return;
        const key = `${first + column} ${outputs[row]}`;
        const link = sums.get(key) ?? { from: first + column, to: outputs[row], slope: 0 };
        link.slope += slope ?? NaN;
        sums.set(key, link);
      });
    }
    links.push(...sums.values());
  }
  const leaving: number[][] = nums.map(() => []);
  const coming: number[][] = nums.map(() => []);
  links.forEach(({ from, to }, i) => {
    leaving[from].push(i);
    coming[to].push(i);
  });
  return { groups, nums, links, ties, leaving, coming, gaps };
}

/** Which number the reader chose. */
export interface ChosenNumber {
  seq: number;
  output: number;
  element: number;
}

/**
 * The number that is chosen while a node is selected, or -1: the one that was, also where another
 * pass took the place of its own and the selection was carried over; else the node's first.
 */
export function numberAt(
  nums: readonly Num[],
  selected: number | null,
  chosen: ChosenNumber | null
): number {
  const first = nums.findIndex(({ seq }) => seq === selected);
  if (!chosen || (chosen.seq !== selected && nums.some(({ seq }) => seq === chosen.seq))) {
    return first;
  }
  const same = nums.findIndex(
    ({ seq, output, element }) =>
      seq === selected && output === chosen.output && element === chosen.element
  );
  return same < 0 ? first : same;
}

/** 'W1[0,1]' */
export function nameOf({ groups, nums }: NumberGraph, num: number): string {
  const { group, place } = nums[num];
  const title = groups[group].title.replace(/ = .*$/, '');
  return place ? `${title}[${place}]` : title;
}

/** Whose gradients these are: the result's variable, or L. */
function rootOf({ groups, leaving, ties }: NumberGraph): string {
  const root = groups.find(
    ({ leaf, first }, group) =>
      !leaf && leaving[first].length === 0 && !ties.some(({ from }) => from === group)
  );
  return root?.title.includes(' = ') ? root.title.replace(/ = .*$/, '') : 'L';
}

/** Why a number has no line that leaves it. */
function roots({ groups, nums, coming }: NumberGraph, num: number): string {
  const leaf = groups[nums[num].group].leaf;
  return !leaf && coming[num].length > 0
    ? 'the backward begins here'
    : 'no other number here depends on it';
}

/**
 * The chain rule at one number, to be read aloud: the gradient is the sum over the lines that leave
 * it of local derivative times gradient. `known` says whether a number's gradient is shown.
 */
export function chainText(
  graph: NumberGraph,
  num: number,
  known: (num: number) => boolean
): string {
  const name = `∂${rootOf(graph)}/∂${nameOf(graph, num)}`;
  const links = graph.leaving[num].map(i => graph.links[i]);
  const gradient = known(num) ? numberText(graph.nums[num].gradient) : '?';
  if (graph.ties.some(({ from }) => from === graph.nums[num].group)) {
    return `${name} = ${gradient}: the local derivatives of what was made from it are gone.`;
  }
  if (links.length === 0) {
    return `${name} = ${gradient}: ${roots(graph, num)}.`;
  }
  const MOST = 8;
  const terms = links.slice(0, MOST).map(({ to, slope }) => {
    const above = known(to) ? signedText(graph.nums[to].gradient) : '?';
    return `${numberText(slope)} × ${above}`;
  });
  const more = links.length > MOST ? ` + … (${links.length} terms)` : '';
  return `${name} = ${terms.join(' + ')}${more} = ${gradient}`;
}
