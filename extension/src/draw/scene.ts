// A laid-out graph made ready for drawing: rectangles, curves and texts, with grids to find what is
// in view. Built once per layout; states, selection and camera change without touching it.

import type { Container } from '../model/container';
import { isNamed } from '../model/container';
import { countText, plural, shapeText } from '../model/format';
import type { Store } from '../model/store';
import type { View } from '../model/view';
import { headerOf } from '../model/view';
import { badgeTexts, badgeWidth } from '../layout/input';
import type { Layout } from '../layout/measures';
import { NODE_HEIGHT, SIDE_GAP, BADGE_HEIGHT, BADGE_PITCH } from '../layout/measures';
import type { Box } from './camera';
import { Grid } from './grid';

/** What is under a point. */
export type Hit = { kind: 'node'; index: number } | { kind: 'badge'; badge: number; node: number };

export const LEAVES = 1;
export const ARRIVES = 2;
/** How far from a node a lane may run to be reached from the node's side. */
const SIDE_REACH = 130;
/** An outline reaches so far beyond its frames, and more around other outlines. */
const OUTLINE_PAD = 5;
const OUTLINE_STEP = 4;
/** The band at an outline's left side, which holds its name. */
export const OUTLINE_BAND = 18;
/** Size of the corner of a frame that opens and closes it. */
const HANDLE = 28;
/** Of a header's text, below the frame's top. */
const HEADER_LINE = 16;

export interface OutlineBox {
  container: Container;
  box: Box;
}

export class Scene {
  readonly nodes: Grid;
  readonly badges: Grid;
  readonly edges: Grid;
  readonly groups: Grid;
  readonly badgeX: Float64Array;
  readonly badgeY: Float64Array;
  readonly badgeWidth: Float64Array;
  readonly badgeNode: Uint32Array;
  /** points of edge e, from node to node: pathStart[e] .. pathStart[e + 1] */
  readonly pathStart: Uint32Array;
  /** LEAVES and ARRIVES where an edge leaves or enters at a node's left side */
  readonly sideways: Uint8Array;
  /** x at which edges cross the header of a group; NaN: at several, Infinity: at none */
  readonly entryX: Float64Array;
  readonly pathX: Float64Array;
  readonly pathY: Float64Array;
  /** the outermost first */
  readonly outlines: OutlineBox[];

  constructor(
    private readonly store: Store,
    public graph: View,
    readonly layout: Layout
  ) {
    const { x, y, nodeWidth, width, height } = layout;
    const count = graph.seqs.length;
    const badges = graph.badgeSeq.length;
    this.badgeX = new Float64Array(badges);
    this.badgeY = new Float64Array(badges);
    this.badgeWidth = new Float64Array(badges);
    this.badgeNode = new Uint32Array(badges);
    const widths = new Map<number, number>();
    for (let i = 0; i < count; i++) {
      for (let s = graph.badgeStart[i]; s < graph.badgeStart[i + 1]; s++) {
        const key = 4 * graph.badgeSeq[s] + graph.badgeKnown[s];
        let wide = widths.get(key);
        if (wide === undefined) {
          const { label, shape } = this.badgeText(s);
          wide = badgeWidth(label, shape);
          widths.set(key, wide);
        }
        this.badgeX[s] = x[i] + nodeWidth + SIDE_GAP;
        this.badgeY[s] =
          y[i] + (NODE_HEIGHT - BADGE_HEIGHT) / 2 + (s - graph.badgeStart[i]) * BADGE_PITCH;
        this.badgeWidth[s] = wide;
        this.badgeNode[s] = i;
      }
    }
    const add = (a: Float64Array, by: (i: number) => number): Float64Array =>
      a.map((value, i) => value + by(i));
    this.nodes = new Grid(
      x,
      y,
      add(x, () => nodeWidth),
      add(y, () => NODE_HEIGHT),
      width,
      height
    );
    this.badges = new Grid(
      this.badgeX,
      this.badgeY,
      add(this.badgeX, s => this.badgeWidth[s]),
      add(this.badgeY, () => BADGE_HEIGHT),
      width,
      height
    );
    const { groupX, groupY, groupWidth, groupHeight } = layout;
    this.groups = new Grid(
      groupX,
      groupY,
      add(groupX, g => groupWidth[g]),
      add(groupY, g => groupHeight[g]),
      width,
      height
    );

    const edges = graph.edgeFrom.length;
    this.sideways = new Uint8Array(edges);
    this.pathStart = new Uint32Array(edges + 1);
    const points = layout.routeX.length + 2 * edges;
    this.pathX = new Float64Array(points);
    this.pathY = new Float64Array(points);
    const left = new Float64Array(edges);
    const right = new Float64Array(edges);
    const top = new Float64Array(edges);
    const bottom = new Float64Array(edges);
    let at = 0;
    for (let e = 0; e < edges; e++) {
      this.pathStart[e] = at;
      const [a, b] = [graph.edgeFrom[e], graph.edgeTo[e]];
      const [first, last] = [layout.routeStart[e], layout.routeStart[e + 1] - 1];
      const leaves = last >= first && this.opensLeft(a, layout.routeX[first]);
      const arrives = last >= first && this.opensLeft(b, layout.routeX[last]);
      this.sideways[e] = (leaves ? LEAVES : 0) | (arrives ? ARRIVES : 0);
      this.pathX[at] = leaves ? x[a] : x[a] + nodeWidth / 2;
      this.pathY[at++] = y[a] + (leaves ? NODE_HEIGHT / 2 : layout.upward ? 0 : NODE_HEIGHT);
      for (let p = layout.routeStart[e]; p < layout.routeStart[e + 1]; p++) {
        this.pathX[at] = layout.routeX[p];
        this.pathY[at++] = layout.routeY[p];
      }
      this.pathX[at] = arrives ? x[b] : x[b] + nodeWidth / 2;
      this.pathY[at++] = y[b] + (arrives ? NODE_HEIGHT / 2 : layout.upward ? NODE_HEIGHT : 0);
      left[e] = top[e] = Infinity;
      right[e] = bottom[e] = -Infinity;
      for (let p = this.pathStart[e]; p < at; p++) {
        left[e] = Math.min(left[e], this.pathX[p]);
        right[e] = Math.max(right[e], this.pathX[p]);
        top[e] = Math.min(top[e], this.pathY[p]);
        bottom[e] = Math.max(bottom[e], this.pathY[p]);
      }
    }
    this.pathStart[edges] = at;
    this.edges = new Grid(left, top, right, bottom, width, height);
    this.entryX = this.entries();
    this.outlines = this.outlineBoxes();
  }

  /** Open containers of several frames, the outermost first, but those that others stand in. */
  private outlineBoxes(): OutlineBox[] {
    const { groupX, groupY, groupWidth, groupHeight } = this.layout;
    const found: OutlineBox[] = [];
    for (const { container, from, to, height } of this.graph.outlines) {
      let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
      for (let g = from; g < to; g++) {
        left = Math.min(left, groupX[g]);
        top = Math.min(top, groupY[g]);
        right = Math.max(right, groupX[g] + groupWidth[g]);
        bottom = Math.max(bottom, groupY[g] + groupHeight[g]);
      }
      const pad = OUTLINE_PAD + OUTLINE_STEP * height;
      const band = OUTLINE_BAND * (height + 1);
      const box = {
        x: left - band,
        y: top - pad,
        width: right - left + band + pad,
        height: bottom - top + 2 * pad
      };
      let alone = true;
      this.groups.within(box, g => {
        const out = groupX[g] + groupWidth[g] <= box.x || groupX[g] >= box.x + box.width;
        const away = groupY[g] + groupHeight[g] <= box.y || groupY[g] >= box.y + box.height;
        if ((g < from || g >= to) && !out && !away) alone = false;
      });
      if (alone) found.push({ container, box });
    }
    return found.reverse();
  }

  /** The control of an open container at a point: a frame's triangle, an outline's band. */
  control(x: number, y: number): Container | null {
    const group = this.groups.at(x, y);
    if (group >= 0 && this.framed(group)) {
      const { groupX, groupY } = this.layout;
      const near = x - groupX[group] < HANDLE && y - groupY[group] < HANDLE;
      if (near) return this.graph.frames[group].container;
    }
    for (let i = this.outlines.length - 1; i >= 0; i--) {
      const { container, box } = this.outlines[i];
      const within = y >= box.y && y <= box.y + box.height;
      if (within && x >= box.x && x <= box.x + OUTLINE_BAND - 2) return container;
    }
    return null;
  }

  /** Whether an edge may leave or enter a node at its left side, for a lane that runs close by. */
  private opensLeft(node: number, laneX: number): boolean {
    const { x, y } = this.layout;
    const reach = x[node] - laneX;
    if (reach < 4 || reach > SIDE_REACH) {
      return false;
    }
    let free = true;
    const between = { x: laneX, y: y[node] + 4, width: reach - 1, height: NODE_HEIGHT - 8 };
    this.nodes.within(between, () => (free = false));
    this.badges.within(between, () => (free = false));
    return free;
  }

  /** Where edges cross each group's header: one place, NaN for several, Infinity for none. */
  private entries(): Float64Array {
    const { graph, layout, pathX, pathY, pathStart } = this;
    const { upward } = layout;
    // Headers stand at the top of frames: what crosses them comes from above, or leads there.
    const [inside, outside] = upward
      ? [graph.edgeFrom, graph.edgeTo]
      : [graph.edgeTo, graph.edgeFrom];
    const entryX = new Float64Array(graph.frames.length).fill(Infinity);
    for (let e = 0; e < graph.edgeFrom.length; e++) {
      const group = graph.groupOf[inside[e]];
      if (group === graph.groupOf[outside[e]]) {
        continue;
      }
      const line = layout.groupY[group] + HEADER_LINE;
      // From the top of the path down.
      const [first, last] = [pathStart[e], pathStart[e + 1] - 1];
      const [begin, end, step] = upward ? [last, first, -1] : [first, last, 1];
      let p = begin;
      while (p !== end && pathY[p] < line) p += step;
      const at = pathX[p];
      if (this.sideways[e] & (upward ? LEAVES : ARRIVES) && p === end) {
        continue;
      }
      const before = p - step;
      const slant = p !== begin && Math.abs(pathX[before] - at) > 12 && pathY[before] < line;
      if (slant) entryX[group] = NaN;
      else if (entryX[group] === Infinity) entryX[group] = at;
      else if (Math.abs(entryX[group] - at) > 1) entryX[group] = NaN;
    }
    return entryX;
  }

  /** Takes a graph of the same signature in place of its own: same shape, other node numbers. */
  adopt(graph: View): void {
    this.graph = graph;
  }

  get bounds(): Box {
    return { x: 0, y: 0, width: this.layout.width, height: this.layout.height };
  }

  /** The closed container that a box stands for. */
  fold(index: number): Container | null {
    return this.graph.folds[index];
  }

  name(index: number): string {
    const fold = this.graph.folds[index];
    if (fold) {
      return fold.title;
    }
    return this.store.nameOf(this.graph.seqs[index]);
  }

  shape(index: number): string {
    const fold = this.graph.folds[index];
    if (fold) {
      const each = fold.times > 0 && fold.nodes % fold.times === 0 ? fold.nodes / fold.times : 0;
      return each > 0
        ? `${countText(fold.times)} × ${plural(each, 'node')}`
        : plural(fold.nodes, 'node') + (isNamed(fold) ? `   ${fold.detail}` : '');
    }
    const row = this.store.nodeRow.get(this.graph.seqs[index]);
    return row < 0 ? '' : shapeText(this.store.string(this.store.nodes.at.shape[row]));
  }

  badgeText(badge: number): { label: string; shape: string } {
    return badgeTexts(this.store, this.graph.badgeSeq[badge], this.graph.badgeKnown[badge]);
  }

  header(group: number): { place: string; line: string } {
    return headerOf(this.graph.frames[group]);
  }

  framed(group: number): boolean {
    return this.graph.frames[group].container !== null;
  }

  /** The box of a node, or of the first badge of a leaf; null when it is not in the graph. */
  boxOf(seq: number): Box | null {
    const index = this.graph.indexOf.get(seq);
    const { x, y, nodeWidth } = this.layout;
    const stub = this.graph.stubOf.get(seq);
    if (stub !== undefined) {
      return this.badgeBox(index, stub);
    }
    if (index >= 0) {
      return { x: x[index], y: y[index], width: nodeWidth, height: NODE_HEIGHT };
    }
    const user = this.graph.leafUses.get(seq)?.[0];
    if (user === undefined) {
      return null;
    }
    if (this.graph.folds[user] && !this.hasBadge(user, seq)) {
      return { x: x[user], y: y[user], width: nodeWidth, height: NODE_HEIGHT };
    }
    return this.badgeBox(user, seq);
  }

  /** The badge of a leaf at a node. */
  private badgeBox(user: number, seq: number): Box | null {
    for (let s = this.graph.badgeStart[user]; s < this.graph.badgeStart[user + 1]; s++) {
      if (this.graph.badgeSeq[s] === seq) {
        return {
          x: this.badgeX[s],
          y: this.badgeY[s],
          width: this.badgeWidth[s],
          height: BADGE_HEIGHT
        };
      }
    }
    return null;
  }

  private hasBadge(index: number, seq: number): boolean {
    const { badgeStart, badgeSeq } = this.graph;
    return badgeSeq.subarray(badgeStart[index], badgeStart[index + 1]).includes(seq);
  }

  /** The frame of a node's line, or of the line that uses a leaf first. */
  frameOf(seq: number): Box | null {
    const index = this.graph.indexOf.get(seq);
    const user = index >= 0 ? index : this.graph.leafUses.get(seq)?.[0];
    if (user === undefined) {
      return null;
    }
    const group = this.graph.groupOf[user];
    const { groupX, groupY, groupWidth, groupHeight } = this.layout;
    return {
      x: groupX[group],
      y: groupY[group],
      width: groupWidth[group],
      height: groupHeight[group]
    };
  }

  hit(x: number, y: number): Hit | null {
    const index = this.nodes.at(x, y);
    if (index >= 0) {
      return { kind: 'node', index };
    }
    const badge = this.badges.at(x, y);
    return badge >= 0 ? { kind: 'badge', badge, node: this.badgeNode[badge] } : null;
  }

  seqOf(hit: Hit): number {
    return hit.kind === 'node' ? this.graph.seqs[hit.index] : this.graph.badgeSeq[hit.badge];
  }
}
