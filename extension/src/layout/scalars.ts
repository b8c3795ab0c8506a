// Where the numbers of a tiny graph stand: made from left to right, the loss at the right, what an
// op uses in the column before it. Pure, linear but for a few sweeps.

import type { NumberGraph } from '../model/scalars';

export const BOX = { width: 86, height: 40, gap: 6 };
const COLUMN_GAP = 80;
const GROUP_GAP = 42;
const MARGIN = { x: 12, top: 34, bottom: 12 };
const SWEEPS = 4;

export interface NumberPlaces {
  width: number;
  height: number;
  /** left upper corner by number */
  x: Float64Array;
  y: Float64Array;
  /** column by group */
  column: number[];
  /** groups by column, from the top */
  columns: number[][];
}

/** Columns: an op stands after all that it uses, a leaf just before what uses it first. */
function columnsOf({ groups, nums, links }: NumberGraph): number[] {
  const count = groups.length;
  const before: Set<number>[] = groups.map(() => new Set());
  const after: Set<number>[] = groups.map(() => new Set());
  for (const { from, to } of links) {
    const [a, b] = [nums[from].group, nums[to].group];
    if (a !== b) {
      before[b].add(a);
      after[a].add(b);
    }
  }
  const column = new Array<number>(count).fill(0);
  const waiting = before.map(set => set.size);
  const ready = [...waiting.keys()].filter(group => waiting[group] === 0);
  for (let group = ready.pop(); group !== undefined; group = ready.pop()) {
    for (const next of after[group]) {
      column[next] = Math.max(column[next], column[group] + 1);
      if (--waiting[next] === 0) ready.push(next);
    }
  }
  groups.forEach(({ leaf }, group) => {
    if (leaf && after[group].size > 0) {
      column[group] = Math.min(...[...after[group]].map(next => column[next])) - 1;
    }
  });
  return column;
}

export function placeNumbers(graph: NumberGraph): NumberPlaces {
  const { groups, nums, links } = graph;
  const column = columnsOf(graph);
  const last = Math.max(0, ...column);
  const columns: number[][] = Array.from({ length: last + 1 }, () => []);
  groups.forEach((_, group) => columns[column[group]].push(group));
  const x = new Float64Array(nums.length);
  const y = new Float64Array(nums.length);
  const tall = (group: number): number => groups[group].count * (BOX.height + BOX.gap) - BOX.gap;
  /** What was computed stands on one line with the rest of the flow; what was given, below it. */
  const settle = (): void => {
    columns.forEach((list, at) => {
      const flow = list.filter(group => !groups[group].leaf);
      if (flow.length === 0) flow.push(...list.slice(0, 1));
      const below = list.filter(group => !flow.includes(group));
      const height = flow.reduce((sum, group) => sum + tall(group), GROUP_GAP * (flow.length - 1));
      let top = -height / 2;
      for (const group of [...flow, ...below]) {
        const { first, count } = groups[group];
        for (let i = first; i < first + count; i++) {
          x[i] = MARGIN.x + at * (BOX.width + COLUMN_GAP);
          y[i] = top + (i - first) * (BOX.height + BOX.gap);
        }
        top += tall(group) + GROUP_GAP;
      }
    });
  };
  settle();
  const middle = (group: number): number => {
    let sum = 0;
    let found = 0;
    for (const { from, to } of links) {
      if (nums[from].group === group || nums[to].group === group) {
        sum += nums[from].group === group ? y[to] : y[from];
        found++;
      }
    }
    return found > 0 ? sum / found : 0;
  };
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const list of columns) {
      // Leaves stay in the order in which the program used them.
      const wanted = new Map(list.map(group => [group, groups[group].leaf ? 0 : middle(group)]));
      list.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0) || a - b);
    }
    settle();
  }
  const top = Math.min(0, ...y);
  const bottom = Math.max(0, ...Array.from(y, value => value + BOX.height));
  for (let i = 0; i < y.length; i++) y[i] += MARGIN.top - top;
  return {
    width: 2 * MARGIN.x + (last + 1) * BOX.width + last * COLUMN_GAP,
    height: MARGIN.top + bottom - top + MARGIN.bottom,
    x,
    y,
    column,
    columns
  };
}

export interface Label {
  link: number;
  x: number;
  y: number;
  width: number;
}

const LABEL_HEIGHT = 14;
const WHERE = [0.3, 0.42, 0.54, 0.66, 0.2, 0.78, 0.36, 0.48, 0.6, 0.72];

/** A point of a link's curve, 0 at the number that it leaves. */
export function pointOf(
  places: NumberPlaces,
  from: number,
  to: number,
  t: number
): [number, number] {
  const [x0, y0] = [places.x[from] + BOX.width, places.y[from] + BOX.height / 2];
  const [x3, y3] = [places.x[to], places.y[to] + BOX.height / 2];
  const bend = (x3 - x0) / 2;
  const s = 1 - t;
  const at = (a: number, b: number, c: number, d: number): number =>
    s * s * s * a + 3 * s * s * t * b + 3 * s * t * t * c + t * t * t * d;
  return [at(x0, x0 + bend, x3 - bend, x3), at(y0, y0, y3, y3)];
}

/** Where the texts of links stand: on their line, where no other stands if there is room. */
export function placeLabels(
  { links }: NumberGraph,
  places: NumberPlaces,
  texts: ReadonlyMap<number, string>
): Label[] {
  const found: Label[] = [];
  const overlap = (a: Label): number =>
    found.reduce((sum, b) => {
      const w =
        Math.min(a.x + a.width / 2, b.x + b.width / 2) -
        Math.max(a.x - a.width / 2, b.x - b.width / 2);
      const h = LABEL_HEIGHT - Math.abs(a.y - b.y);
      return w > 0 && h > 0 ? sum + w * h : sum;
    }, 0);
  for (const [link, text] of texts) {
    const { from, to } = links[link];
    const width = 6.5 * text.length + 6;
    let best: Label | null = null;
    let least = Infinity;
    for (const t of WHERE) {
      const [px, py] = pointOf(places, from, to, t);
      const label = { link, x: px, y: py, width };
      const covered = overlap(label);
      if (covered < least) [best, least] = [label, covered];
      if (covered === 0) break;
    }
    if (best) found.push(best);
  }
  return found;
}
