// Where the numbers of a tiny graph stand: made from left to right, the loss at the right, what an
// op uses in the column before it. Pure, linear but for a few sweeps.

import type { NumberGraph } from '../model/scalars';

export const BOX = { width: 96, height: 44, gap: 6 };
const COLUMN_GAP = 80;
const GROUP_GAP = 42;
const MARGIN = { x: 12, top: 34, bottom: 12 };
const SWEEPS = 4;

/** Between lines that pass a column beside each other: their texts fit in. */
const LANE = 17;
/** Between a box and a line that passes it, and above a line where a caption follows below. */
const CLEAR = 16;

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
  /** x and y of the points of each link, and of each tie, that its line goes through */
  routes: number[][];
  tied: number[][];
}

/** Columns: an op stands after all that it uses, a leaf just before what uses it first. */
function columnsOf({ groups, nums, links, ties }: NumberGraph): number[] {
  const count = groups.length;
  const before: Set<number>[] = groups.map(() => new Set());
  const after: Set<number>[] = groups.map(() => new Set());
  const between = [
    ...ties.map(({ from, to }) => [from, to]),
    ...links.map(({ from, to }) => [nums[from].group, nums[to].group])
  ];
  for (const [a, b] of between) {
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

/** What stands in a column: the boxes of a group, or the lines from one group to another. */
interface Item {
  group: number;
  /** a leaf's boxes: they stand below what was computed */
  below: boolean;
  tall: number;
  top: number;
  /** items of the columns beside that lines lead to */
  beside: Item[];
}

/** Lines past columns between two groups, in a lane for each number at the end with fewer. */
interface Bundle {
  lanes: Map<number, number>;
  end: 'from' | 'to';
  passes: Item[];
}

export function placeNumbers(graph: NumberGraph): NumberPlaces {
  const { groups, nums, links, ties } = graph;
  const column = columnsOf(graph);
  const last = Math.max(0, ...column);
  const columns: Item[][] = Array.from({ length: last + 1 }, () => []);
  const items = groups.map(({ count, leaf }, group): Item => {
    const tall = count * (BOX.height + BOX.gap) - BOX.gap;
    const item = { group, below: leaf, tall, top: 0, beside: [] };
    columns[column[group]].push(item);
    return item;
  });
  const bundles = new Map<string, Bundle>();
  const bundleOf = (from: number, to: number): string => `${from} ${to}`;
  const join = (from: number, to: number, ends: { from: Set<number>; to: Set<number> }): void => {
    const end = ends.from.size <= ends.to.size ? 'from' : 'to';
    const lanes = new Map([...ends[end]].sort((a, b) => a - b).map((num, lane) => [num, lane]));
    const passes: Item[] = [];
    let before = items[from];
    for (let at = column[from] + 1; at < column[to]; at++) {
      const tall = LANE * Math.max(0, lanes.size - 1);
      const item: Item = { group: -1, below: false, tall, top: 0, beside: [before] };
      before.beside.push(item);
      columns[at].push(item);
      passes.push((before = item));
    }
    items[to].beside.push(before);
    before.beside.push(items[to]);
    bundles.set(bundleOf(from, to), { lanes, end, passes });
  };
  const ends = new Map<string, { from: Set<number>; to: Set<number> }>();
  for (const { from, to } of links) {
    const key = bundleOf(nums[from].group, nums[to].group);
    const found = ends.get(key) ?? { from: new Set(), to: new Set() };
    found.from.add(from);
    found.to.add(to);
    ends.set(key, found);
  }
  // A tie has a lane of its own, whatever links lie beside it.
  for (const { from, to } of ties) {
    const key = bundleOf(from, to);
    if (!ends.has(key)) ends.set(key, { from: new Set([-1]), to: new Set([-1]) });
  }
  for (const [key, found] of ends) {
    const [from, to] = key.split(' ').map(Number);
    join(from, to, found);
  }

  const gap = (above: Item, under: Item): number =>
    above.group >= 0 && under.group >= 0
      ? GROUP_GAP
      : under.group >= 0
        ? CLEAR + GROUP_GAP / 2
        : above.group >= 0
          ? CLEAR
          : LANE;
  /** What was computed stands on one line with the rest of the flow; what was given, below it. */
  const settle = (): void => {
    for (const list of columns) {
      const flow = list.filter(({ below }) => !below);
      if (flow.length === 0) flow.push(...list.slice(0, 1));
      const under = list.filter(item => !flow.includes(item));
      const ordered = [...flow, ...under];
      const space = (i: number): number => (i === 0 ? 0 : gap(ordered[i - 1], ordered[i]));
      const height = flow.reduce((sum, { tall }, i) => sum + tall + space(i), 0);
      let top = -height / 2;
      ordered.forEach((item, i) => {
        top += space(i);
        item.top = top;
        top += item.tall;
      });
    }
  };
  settle();
  const centre = ({ top, tall }: Item): number => top + tall / 2;
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const list of columns) {
      const wanted = new Map(
        list.map(item => {
          // Leaves stay in the order in which the program used them.
          const near = item.below ? [] : item.beside;
          const sum = near.reduce((total, other) => total + centre(other), 0);
          return [item, near.length > 0 ? sum / near.length : 0];
        })
      );
      const place = new Map(list.map((item, i) => [item, i]));
      list.sort(
        (a, b) =>
          (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0) ||
          Number(a.group < 0) - Number(b.group < 0) ||
          (place.get(a) ?? 0) - (place.get(b) ?? 0)
      );
    }
    settle();
  }

  const every = columns.flat();
  const top = Math.min(0, ...every.map(item => item.top - (item.group < 0 ? LANE / 2 : 0)));
  const bottom = Math.max(0, ...every.map(item => item.top + item.tall + LANE / 2));
  for (const item of every) item.top += MARGIN.top - top;
  const left = (at: number): number => MARGIN.x + at * (BOX.width + COLUMN_GAP);
  const x = Float64Array.from(nums, ({ group }) => left(column[group]));
  const y = Float64Array.from(
    nums,
    ({ group }, i) => items[group].top + (i - groups[group].first) * (BOX.height + BOX.gap)
  );
  const route = (a: number, b: number, y0: number, y1: number, from: number, to: number) => {
    const points = [left(column[a]) + BOX.width, y0];
    const bundle = bundles.get(bundleOf(a, b));
    const lane = bundle?.lanes.get(bundle.end === 'from' ? from : to) ?? 0;
    bundle?.passes.forEach((item, i) => {
      const passed = left(column[a] + 1 + i);
      points.push(passed, item.top + lane * LANE, passed + BOX.width, item.top + lane * LANE);
    });
    points.push(left(column[b]), y1);
    return points;
  };
  return {
    width: 2 * MARGIN.x + (last + 1) * BOX.width + last * COLUMN_GAP,
    height: MARGIN.top + bottom - top + MARGIN.bottom,
    x,
    y,
    column,
    columns: columns.map(list => list.flatMap(({ group }) => (group >= 0 ? [group] : []))),
    routes: links.map(({ from, to }) => {
      const [a, b] = [nums[from].group, nums[to].group];
      return route(a, b, y[from] + BOX.height / 2, y[to] + BOX.height / 2, from, to);
    }),
    tied: ties.map(({ from, to }) =>
      route(from, to, centre(items[from]), centre(items[to]), -1, -1)
    )
  };
}

export interface Label {
  link: number;
  x: number;
  y: number;
  width: number;
}

const LABEL_HEIGHT = 16;
/** Where along its line a text may stand, the best places first. */
const WHERE = [0.3, 0.42, 0.54, 0.66, 0.2, 0.78, 0.36, 0.48, 0.6, 0.72];

/** A point of a line, 0 at its beginning: curves between columns, straight where it passes one. */
export function pointOf(route: readonly number[], t: number): [number, number] {
  const end = route.length - 2;
  const x = route[0] + t * (route[end] - route[0]);
  let i = 0;
  while (i + 4 <= end && x > route[i + 2]) i += 2;
  const [x0, y0, x3, y3] = route.slice(i, i + 4);
  const bend = (x3 - x0) / 2;
  const part = x3 > x0 ? (x - x0) / (x3 - x0) : 0;
  const s = 1 - part;
  const at = (a: number, b: number, c: number, d: number): number =>
    s * s * s * a + 3 * s * s * part * b + 3 * s * part * part * c + part * part * part * d;
  return [at(x0, x0 + bend, x3 - bend, x3), at(y0, y0, y3, y3)];
}

/** A line as SVG path data. */
export function pathOf(route: readonly number[]): string {
  let path = `M${route[0]} ${route[1]}`;
  for (let i = 2; i < route.length; i += 2) {
    const [x0, y0, x1, y1] = route.slice(i - 2, i + 2);
    const bend = (x1 - x0) / 2;
    path += `C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`;
  }
  return path;
}

/** Where the texts of links stand: on their line, where no box and no other text is if possible. */
export function placeLabels(
  { routes, x, y }: NumberPlaces,
  texts: ReadonlyMap<number, string>
): Label[] {
  const found: Label[] = [];
  const [halfWide, halfHigh] = [BOX.width / 2, BOX.height / 2];
  const common = (a: Label, bx: number, by: number, wide: number, high: number): number => {
    const w = Math.min(a.x + a.width / 2, bx + wide) - Math.max(a.x - a.width / 2, bx - wide);
    const h = LABEL_HEIGHT / 2 + high - Math.abs(a.y - by);
    return w > 0 && h > 0 ? w * Math.min(h, LABEL_HEIGHT) : 0;
  };
  const overlap = (a: Label): number => {
    let sum = 0;
    for (const b of found) sum += common(a, b.x, b.y, b.width / 2, LABEL_HEIGHT / 2);
    x.forEach((at, i) => (sum += common(a, at + halfWide, y[i] + halfHigh, halfWide, halfHigh)));
    return sum;
  };
  for (const [link, text] of texts) {
    const width = 7.6 * text.length + 6;
    let best: Label | null = null;
    let least = Infinity;
    for (const t of WHERE) {
      const [px, py] = pointOf(routes[link], t);
      const label = { link, x: px, y: py, width };
      const covered = overlap(label);
      if (covered < least) [best, least] = [label, covered];
      if (covered === 0) break;
    }
    if (best) found.push(best);
  }
  return found;
}
