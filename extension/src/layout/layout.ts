// The layered layout, in two levels: the nodes of each source line in rows inside a frame, then the
// frames in rows. Rows stand below each other, or beside each other: x and y below are those of the
// first kind, and are exchanged at the end for the second one. Pure: no DOM, linear in nodes and
// edges but for sorting within a row, no recursion. Yields so that it can be run in pieces.

import { LANE, COLUMN_GAP, FRAME_BOTTOM, FRAME_LEFT, FRAME_RIGHT, FRAME_TOP } from './measures';
import { ACROSS_GROUP_GAP, ACROSS_ROW_GAP, GROUP_GAP, NODE_HEIGHT, ROW_GAP } from './measures';
import type { Layout, LayoutInput } from './measures';
import type { End, Passing } from './lanes';
import { RowBuilder, layPassing, onLongestWay, pulls } from './lanes';
import { ranks } from './ranks';
import { sweep } from './sweep';

/** Sizes within rows and along edges: widths and heights, or the other way round. */
interface Sizes {
  /** where edges attach, from a node's edge in its row */
  middle: number;
  /** by node, with what stands beside it */
  inRow: Float32Array;
  along: Float32Array;
  rowGap: number;
  groupGap: number;
  /** of a frame: before and after its content, in a row and along edges */
  pad: { before: number; after: number; top: number; bottom: number };
}

function sizesOf({ across, nodeWidth, boxWidth, boxHeight }: LayoutInput): Sizes {
  return across
    ? {
        middle: NODE_HEIGHT / 2,
        inRow: boxHeight,
        along: boxWidth,
        rowGap: ACROSS_ROW_GAP,
        groupGap: ACROSS_GROUP_GAP,
        pad: { before: FRAME_TOP, after: FRAME_BOTTOM, top: FRAME_LEFT, bottom: FRAME_RIGHT }
      }
    : {
        middle: nodeWidth / 2,
        inRow: boxWidth,
        along: boxHeight,
        rowGap: ROW_GAP,
        groupGap: GROUP_GAP,
        pad: { before: FRAME_LEFT, after: FRAME_RIGHT, top: FRAME_TOP, bottom: FRAME_BOTTOM }
      };
}

/** What the first level found: places relative to the group's content box. */
interface Inside {
  x: Float64Array;
  y: Float64Array;
  /** size of the content box by group */
  width: Float64Array;
  height: Float64Array;
  /** lanes by edge: within a group, out of the first one, into the second one */
  passing: Passing;
  leaving: Passing;
  entering: Passing;
  laneX: (item: number) => number;
  laneTop: (item: number) => number;
  laneBottom: (item: number) => number;
  /** where a node's row ends, below its content's top */
  rowEnd: (node: number) => number;
}

function* layInside(input: LayoutInput, sizes: Sizes): Generator<void, Inside> {
  const { count, edgeFrom, edgeTo, groupOf, groups } = input;
  const { middle, inRow, along, rowGap } = sizes;
  const edges = edgeFrom.length;
  const inner: number[] = [];
  const outer: number[] = [];
  for (let e = 0; e < edges; e++) {
    (groupOf[edgeFrom[e]] === groupOf[edgeTo[e]] ? inner : outer).push(e);
  }
  const rank = ranks(
    count,
    inner.map(e => edgeFrom[e]),
    inner.map(e => edgeTo[e])
  );
  const depth = new Int32Array(groups);
  for (let v = 0; v < count; v++) depth[groupOf[v]] = Math.max(depth[groupOf[v]], rank[v] + 1);
  const base = new Uint32Array(groups + 1);
  for (let g = 0; g < groups; g++) base[g + 1] = base[g] + depth[g];
  const rowOf = new Uint32Array(count);
  for (let v = 0; v < count; v++) rowOf[v] = base[groupOf[v]] + rank[v];
  yield;

  const builder = new RowBuilder(count, rowOf, base[groups]);
  const pull = pulls(count, edgeFrom, edgeTo);
  for (const e of inner) {
    const [a, b] = [edgeFrom[e], edgeTo[e]];
    if (rank[b] === rank[a] + 1) builder.connect(a, middle, b, middle, pull[e]);
  }
  const budget = 2 * (count + edges) + 1000;
  const begin = (e: number): End => ({ item: edgeFrom[e], port: middle });
  const end = (e: number): End => ({ item: edgeTo[e], port: middle });
  const from = (e: number): number => rowOf[edgeFrom[e]];
  const to = (e: number): number => rowOf[edgeTo[e]];
  const source = (e: number): number => edgeFrom[e];
  const target = (e: number): number => edgeTo[e];
  const longest = onLongestWay(count, edgeFrom, edgeTo);
  const straight = (e: number): boolean => longest[e] === 1;
  const passing = layPassing(
    builder,
    inner,
    edges,
    { from, to, source, target, begin, end },
    budget
  );
  // Edges to other groups run down to the last row of theirs, and from the first row of the other
  // to their node.
  const leaving = layPassing(
    builder,
    outer,
    edges,
    {
      from,
      to: e => base[groupOf[edgeFrom[e]] + 1],
      source,
      target: e => groupOf[edgeFrom[e]] * count + edgeTo[e],
      begin,
      end: () => null,
      straight
    },
    budget
  );
  const entering = layPassing(
    builder,
    outer,
    edges,
    {
      from: e => base[groupOf[edgeTo[e]]] - 1,
      to,
      source: e => groupOf[edgeTo[e]] * count + edgeFrom[e],
      target,
      begin: () => null,
      end,
      straight
    },
    budget
  );
  yield;

  // Where nothing stood before, what was created first stands left, as its operands are written.
  const key = new Float64Array(count);
  for (let v = 0; v < count; v++) {
    const before = input.before ? input.before[v] : NaN;
    key[v] = Number.isNaN(before) ? 1e12 - v : before;
  }
  const packed = builder.pack(key, v => inRow[v], COLUMN_GAP / 2);
  const x = yield* sweep(packed.rows, packed.segments);

  const { start, items, width } = packed.rows;
  const rowCount = base[groups];
  const rowTop = new Float64Array(rowCount);
  const rowHeight = new Float64Array(rowCount);
  for (let v = 0; v < count; v++) rowHeight[rowOf[v]] = Math.max(rowHeight[rowOf[v]], along[v]);
  const boxWidth = new Float64Array(groups);
  const boxHeight = new Float64Array(groups);
  for (let g = 0; g < groups; g++) {
    let left = Infinity;
    let right = -Infinity;
    let y = 0;
    for (let r = base[g]; r < base[g + 1]; r++) {
      rowTop[r] = y;
      y += rowHeight[r] + rowGap;
      // The items of a row stand from left to right.
      left = Math.min(left, x[items[start[r]]]);
      const last = items[start[r + 1] - 1];
      right = Math.max(right, x[last] + width[last]);
    }
    for (let i = start[base[g]]; i < start[base[g + 1]]; i++) x[items[i]] -= left;
    boxWidth[g] = right - left;
    boxHeight[g] = y - rowGap;
    if (input.upward) {
      for (let r = base[g]; r < base[g + 1]; r++)
        rowTop[r] = boxHeight[g] - rowTop[r] - rowHeight[r];
    }
  }
  const y = new Float64Array(count);
  for (let v = 0; v < count; v++) y[v] = rowTop[rowOf[v]];
  return {
    x,
    y,
    width: boxWidth,
    height: boxHeight,
    passing,
    leaving,
    entering,
    laneX: item => x[item] + LANE / 2,
    laneTop: item => rowTop[builder.rowOfItem(item)],
    laneBottom: item => rowTop[builder.rowOfItem(item)] + rowHeight[builder.rowOfItem(item)],
    rowEnd: v => rowTop[rowOf[v]] + rowHeight[rowOf[v]]
  };
}

/** What the second level found: the frames and the lanes between them. */
interface Outside {
  x: Float64Array;
  y: Float64Array;
  width: Float64Array;
  height: Float64Array;
  contentX: (group: number) => number;
  contentY: (group: number) => number;
  rowEnd: Float64Array;
  passing: Passing;
  laneX: (item: number) => number;
  laneTop: (item: number) => number;
  laneBottom: (item: number) => number;
}

function* layOutside(
  input: LayoutInput,
  sizes: Sizes,
  inside: Inside
): Generator<void, Outside> {
  const { edgeFrom, edgeTo, groupOf, groups, framed, headerWidth, across } = input;
  const { middle, groupGap, pad } = sizes;
  const edges = edgeFrom.length;
  const crossing: number[] = [];
  for (let e = 0; e < edges; e++) {
    if (groupOf[edgeFrom[e]] !== groupOf[edgeTo[e]]) crossing.push(e);
  }
  const upper = crossing.map(e => groupOf[edgeFrom[e]]);
  const lower = crossing.map(e => groupOf[edgeTo[e]]);
  const rank = ranks(groups, upper, lower);
  const pull = pulls(groups, upper, lower);
  let rowCount = 0;
  for (let g = 0; g < groups; g++) rowCount = Math.max(rowCount, rank[g] + 1);
  yield;

  const width = new Float64Array(groups);
  const height = new Float64Array(groups);
  for (let g = 0; g < groups; g++) {
    width[g] = inside.width[g];
    height[g] = inside.height[g];
    if (framed[g]) {
      width[g] += pad.before + pad.after;
      height[g] += pad.top + pad.bottom;
      const headed = across ? height : width;
      headed[g] = Math.max(headed[g], headerWidth[g]);
    }
  }
  const leftPad = (g: number): number => (framed[g] ? pad.before : 0);
  const leavesAt = (e: number): number => {
    const { first, length } = inside.leaving;
    const v = edgeFrom[e];
    const x = first[e] < 0 ? inside.x[v] + middle : inside.laneX(first[e] + length[e] - 1);
    return leftPad(groupOf[v]) + x;
  };
  const entersAt = (e: number): number => {
    const { first } = inside.entering;
    const v = edgeTo[e];
    return leftPad(groupOf[v]) + (first[e] < 0 ? inside.x[v] + middle : inside.laneX(first[e]));
  };

  const builder = new RowBuilder(groups, rank, rowCount);
  for (const [i, e] of crossing.entries()) {
    const [above, below] = [groupOf[edgeFrom[e]], groupOf[edgeTo[e]]];
    if (rank[below] === rank[above] + 1)
      builder.connect(above, leavesAt(e), below, entersAt(e), pull[i]);
  }
  const passing = layPassing(
    builder,
    crossing,
    edges,
    {
      from: e => rank[groupOf[edgeFrom[e]]],
      to: e => rank[groupOf[edgeTo[e]]],
      source: e => edgeFrom[e],
      target: e => edgeTo[e],
      begin: e => ({ item: groupOf[edgeFrom[e]], port: leavesAt(e) }),
      end: e => ({ item: groupOf[edgeTo[e]], port: entersAt(e) })
    },
    4 * (groups + crossing.length) + 2000
  );
  yield;

  const key = new Float64Array(groups);
  const known = new Uint32Array(groups);
  const { before } = input;
  if (before) {
    for (let v = 0; v < input.count; v++) {
      if (!Number.isNaN(before[v])) {
        key[groupOf[v]] += before[v];
        known[groupOf[v]]++;
      }
    }
  }
  for (let g = 0; g < groups; g++) key[g] = known[g] > 0 ? key[g] / known[g] : 1e12 - g;
  const packed = builder.pack(key, g => width[g], COLUMN_GAP / 2);
  const x = yield* sweep(packed.rows, packed.segments);

  const top = new Float64Array(rowCount);
  const rowHeight = new Float64Array(rowCount);
  for (let g = 0; g < groups; g++) rowHeight[rank[g]] = Math.max(rowHeight[rank[g]], height[g]);
  for (let r = 1; r < rowCount; r++) top[r] = top[r - 1] + rowHeight[r - 1] + groupGap;
  if (input.upward && rowCount > 0) {
    const whole = top[rowCount - 1] + rowHeight[rowCount - 1];
    for (let r = 0; r < rowCount; r++) top[r] = whole - top[r] - rowHeight[r];
  }
  let left = Infinity;
  for (let item = 0; item < builder.items; item++) left = Math.min(left, x[item]);
  for (let item = 0; item < builder.items; item++) x[item] -= left;
  const y = new Float64Array(groups);
  const rowEnd = new Float64Array(groups);
  for (let g = 0; g < groups; g++) {
    y[g] = top[rank[g]];
    rowEnd[g] = y[g] + rowHeight[rank[g]];
  }
  return {
    x,
    y,
    width,
    height,
    contentX: g => x[g] + leftPad(g),
    contentY: g => y[g] + (framed[g] ? pad.top : 0),
    rowEnd,
    passing,
    laneX: item => x[item] + LANE / 2,
    laneTop: item => top[builder.rowOfItem(item)],
    laneBottom: item => top[builder.rowOfItem(item)] + rowHeight[builder.rowOfItem(item)]
  };
}

/** Way points of all edges, in the order in which they pass. */
class Routes {
  private readonly x: number[] = [];
  private readonly y: number[] = [];
  readonly start: Uint32Array;

  constructor(
    edges: number,
    private readonly upward: boolean
  ) {
    this.start = new Uint32Array(edges + 1);
  }

  begin(edge: number): void {
    this.start[edge] = this.x.length;
  }

  /** A vertical piece, as it is passed; pieces in line with each other become one. */
  along(edge: number, x: number, top: number, bottom: number): void {
    const [begin, end] = this.upward ? [bottom, top] : [top, bottom];
    const last = this.x.length - 1;
    if (last > this.start[edge] && Math.abs(this.x[last] - x) < 0.75) {
      this.y[last] = end;
      return;
    }
    this.x.push(x, x);
    this.y.push(begin, end);
  }

  end(edges: number): { x: Float64Array; y: Float64Array } {
    this.start[edges] = this.x.length;
    return { x: Float64Array.from(this.x), y: Float64Array.from(this.y) };
  }
}

/** Lays the graph out; run it to its end at once, or in pieces (see run.ts). */
export function* layoutSteps(input: LayoutInput): Generator<void, Layout> {
  const { count, edgeFrom, edgeTo, groupOf, groups, nodeWidth } = input;
  const sizes = sizesOf(input);
  const inside = yield* layInside(input, sizes);
  const outside = yield* layOutside(input, sizes, inside);
  const x = new Float64Array(count);
  const y = new Float64Array(count);
  const rowEnd = new Float64Array(count);
  for (let v = 0; v < count; v++) {
    x[v] = outside.contentX(groupOf[v]) + inside.x[v];
    y[v] = outside.contentY(groupOf[v]) + inside.y[v];
    rowEnd[v] = outside.contentY(groupOf[v]) + inside.rowEnd(v);
  }
  yield;

  const upward = input.upward ?? false;
  const routes = new Routes(edgeFrom.length, upward);
  const insideLanes = (e: number, g: number, { first, length }: Passing): void => {
    for (let item = first[e]; first[e] >= 0 && item < first[e] + length[e]; item++) {
      const at = outside.contentX(g) + inside.laneX(item);
      const above = outside.contentY(g);
      routes.along(e, at, above + inside.laneTop(item), above + inside.laneBottom(item));
    }
  };
  const { first, length } = outside.passing;
  for (let e = 0; e < edgeFrom.length; e++) {
    routes.begin(e);
    const [above, below] = [groupOf[edgeFrom[e]], groupOf[edgeTo[e]]];
    if (above === below) {
      insideLanes(e, above, inside.passing);
      continue;
    }
    insideLanes(e, above, inside.leaving);
    for (let item = first[e]; first[e] >= 0 && item < first[e] + length[e]; item++) {
      routes.along(e, outside.laneX(item), outside.laneTop(item), outside.laneBottom(item));
    }
    insideLanes(e, below, inside.entering);
  }
  const { x: routeX, y: routeY } = routes.end(edgeFrom.length);

  let width = 0;
  let height = 0;
  for (let g = 0; g < groups; g++) {
    width = Math.max(width, outside.x[g] + outside.width[g]);
    height = Math.max(height, outside.y[g] + outside.height[g]);
  }
  const groupEnd = outside.rowEnd;
  const common = { nodeWidth, upward, rowEnd, groupEnd, routeStart: routes.start };
  const groupX = outside.x.slice(0, groups);
  const { y: groupY, width: groupWidth, height: groupHeight } = outside;
  return input.across
    ? {
        ...common,
        across: true,
        ...{ x: y, y: x, groupX: groupY, groupY: groupX },
        ...{ groupWidth: groupHeight, groupHeight: groupWidth },
        ...{ routeX: routeY, routeY: routeX, width: height, height: width }
      }
    : {
        ...common,
        across: false,
        ...{ x, y, groupX, groupY, groupWidth, groupHeight, routeX, routeY, width, height }
      };
}

export function layOut(input: LayoutInput): Layout {
  const steps = layoutSteps(input);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}
