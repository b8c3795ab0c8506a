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
import { UNDER_GAP, UNDER_INDENT } from '../layout/measures';
import type { Box } from './camera';
import { Grid } from './grid';

/** What is under a point. */
export type Hit = { kind: 'node'; index: number } | { kind: 'badge'; badge: number; node: number };

export const LEAVES = 1;
export const ARRIVES = 2;
/** How far from a node a lane may run to be reached from the node's side. */
const SIDE_REACH = 130;
/** Between pieces that are in line with each other. */
const IN_LINE = 0.75;
/** An outline reaches so far beyond its frames, and more around other outlines. */
const OUTLINE_PAD = 5;
const OUTLINE_STEP = 4;
/** The band at an outline's left side, or at its top, which holds its name. */
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
  /** LEAVES and ARRIVES where an edge leaves or enters at a node's side: its left, or its top */
  readonly sideways: Uint8Array;
  /** by group: where edges cross its header, in order */
  readonly entries: ReadonlyMap<number, readonly number[]>;
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
        const at = (s - graph.badgeStart[i]) * BADGE_PITCH;
        this.badgeX[s] = x[i] + (layout.across ? UNDER_INDENT : nodeWidth + SIDE_GAP);
        this.badgeY[s] =
          y[i] + at + (layout.across ? NODE_HEIGHT + UNDER_GAP : (NODE_HEIGHT - BADGE_HEIGHT) / 2);
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
    // The two ends, and at most four bends: at a row's end, a row of frames and a header.
    const points = layout.routeX.length + 6 * edges;
    const pathX = new Float64Array(points);
    const pathY = new Float64Array(points);
    const left = new Float64Array(edges).fill(Infinity);
    const right = new Float64Array(edges).fill(-Infinity);
    const top = new Float64Array(edges).fill(Infinity);
    const bottom = new Float64Array(edges).fill(-Infinity);
    let at = 0;
    for (let e = 0; e < edges; e++) {
      this.pathStart[e] = at;
      this.trace(e, (px, py) => {
        pathX[at] = px;
        pathY[at++] = py;
        left[e] = Math.min(left[e], px);
        right[e] = Math.max(right[e], px);
        top[e] = Math.min(top[e], py);
        bottom[e] = Math.max(bottom[e], py);
      });
    }
    this.pathStart[edges] = at;
    this.pathX = pathX.slice(0, at);
    this.pathY = pathY.slice(0, at);
    this.edges = new Grid(left, top, right, bottom, width, height);
    this.entries = this.crossings();
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
      const [before, above] = this.layout.across ? [pad, band] : [band, pad];
      const box = {
        x: left - before,
        y: top - above,
        width: right - left + before + pad,
        height: bottom - top + above + pad
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
      const [along, aside] = [
        y >= box.y && y <= box.y + (this.layout.across ? OUTLINE_BAND - 2 : box.height),
        x >= box.x && x <= box.x + (this.layout.across ? box.width : OUTLINE_BAND - 2)
      ];
      if (along && aside) return container;
    }
    return null;
  }

  /**
   * The points of an edge, from node to node. Where it bends, it does so between rows and outside
   * of frames: below what hangs from other nodes of its row, above the title of its frame.
   */
  private trace(edge: number, put: (x: number, y: number) => void): void {
    const { graph, layout } = this;
    const { across, upward, nodeWidth, routeStart, rowEnd } = layout;
    const [rowAxis, edgeAxis] = across ? [layout.y, layout.x] : [layout.x, layout.y];
    const [routeRow, routeEdge] = across
      ? [layout.routeY, layout.routeX]
      : [layout.routeX, layout.routeY];
    const [wide, long] = across ? [NODE_HEIGHT, nodeWidth] : [nodeWidth, NODE_HEIGHT];
    const [a, b] = [graph.edgeFrom[edge], graph.edgeTo[edge]];
    const [first, last] = [routeStart[edge], routeStart[edge + 1] - 1];
    const leaves = last >= first && this.opensAside(a, routeRow[first]);
    const arrives = last >= first && this.opensAside(b, routeRow[last]);
    this.sideways[edge] = (leaves ? LEAVES : 0) | (arrives ? ARRIVES : 0);
    // u counts along a row, v along the edge.
    const far = (node: number): number => edgeAxis[node] + long;
    const begin = leaves
      ? { u: rowAxis[a], v: edgeAxis[a] + long / 2 }
      : { u: rowAxis[a] + wide / 2, v: upward ? edgeAxis[a] : far(a) };
    const end = arrives
      ? { u: rowAxis[b], v: edgeAxis[b] + long / 2 }
      : { u: rowAxis[b] + wide / 2, v: upward ? far(b) : edgeAxis[b] };
    let u = begin.u;
    const add = (nextU: number, nextV: number): void => {
      u = nextU;
      if (across) put(nextV, nextU);
      else put(nextU, nextV);
    };
    const bends = (other: number): boolean => Math.abs(other - u) > IN_LINE;

    // The header that the edge crosses, and the part of the path that is below it.
    const crossed = graph.groupOf[a] === graph.groupOf[b] ? -1 : graph.groupOf[upward ? a : b];
    const framed = crossed >= 0 && this.framed(crossed);
    const border = framed ? (across ? layout.groupX : layout.groupY)[crossed] : NaN;
    const inside = (v: number): boolean => v > border + 1;
    let pending = framed;
    // Beside a short frame a long one may stand: it is passed before the edge bends; so is what a
    // frame has beside its nodes for its title.
    const short = graph.groupOf[upward ? b : a];
    const rowBottom = layout.groupEnd[short];
    const passes = across || rowBottom > layout.groupY[short] + layout.groupHeight[short] + 1;
    let passing = passes && crossed >= 0;

    add(begin.u, begin.v);
    const next = last >= first ? routeRow[first] : end.u;
    if (!leaves && !upward && rowEnd[a] > begin.v + 1 && bends(next)) add(u, rowEnd[a]);
    for (let p = first; p <= last + 1; p++) {
      const [pu, pv] = p > last ? [end.u, end.v] : [routeRow[p], routeEdge[p]];
      // At a node's side it comes through the side of the frame, too.
      const aside = (leaves && p === first) || (arrives && p > last);
      const leavesRow = passing && upward === pv < rowBottom;
      // The title of its own frame comes first, that of its target last.
      if (leavesRow && !upward && !aside && bends(pu)) add(u, rowBottom);
      if (pending && upward !== inside(pv)) {
        if (!aside && bends(pu)) add(upward ? u : pu, border);
        pending = false;
      }
      if (leavesRow && upward && !aside && bends(pu)) add(pu, rowBottom);
      passing &&= !leavesRow;
      if (p > last && !arrives && upward && rowEnd[b] > end.v + 1 && bends(pu)) add(pu, rowEnd[b]);
      add(pu, pv);
    }
  }

  /** Whether an edge may leave or enter a node at its side, for a lane that runs close by. */
  private opensAside(node: number, lane: number): boolean {
    const { x, y, across, nodeWidth } = this.layout;
    const reach = (across ? y : x)[node] - lane;
    if (reach < 4 || reach > (across ? SIDE_REACH / 2 : SIDE_REACH)) {
      return false;
    }
    let free = true;
    const between = across
      ? { x: x[node] + nodeWidth / 2 - 8, y: lane, width: 16, height: reach - 1 }
      : { x: lane, y: y[node] + 4, width: reach - 1, height: NODE_HEIGHT - 8 };
    this.nodes.within(between, () => (free = false));
    this.badges.within(between, () => (free = false));
    return free;
  }

  /** Where edges cross the header of each group; beside each other none do. */
  private crossings(): Map<number, number[]> {
    const { graph, layout, pathX, pathY, pathStart } = this;
    const found = new Map<number, number[]>();
    const inside = layout.upward ? graph.edgeFrom : graph.edgeTo;
    for (let e = 0; e < graph.edgeFrom.length && !layout.across; e++) {
      const group = graph.groupOf[inside[e]];
      if (graph.groupOf[graph.edgeFrom[e]] === graph.groupOf[graph.edgeTo[e]]) {
        continue;
      }
      const line = layout.groupY[group] + HEADER_LINE;
      for (let p = pathStart[e]; p + 1 < pathStart[e + 1]; p++) {
        if ((pathY[p] - line) * (pathY[p + 1] - line) > 0) continue;
        const own = found.get(group);
        const x = Math.abs(pathX[p] - pathX[p + 1]) < IN_LINE ? pathX[p] : NaN;
        if (Number.isNaN(x)) continue;
        if (!own) found.set(group, [x]);
        else if (!own.some(one => Math.abs(one - x) < 1)) own.push(x);
      }
    }
    for (const own of found.values()) own.sort((p, q) => p - q);
    return found;
  }

  /** Takes a graph of the same signature in place of its own: same shape, other node numbers. */
  adopt(graph: View): void {
    this.graph = graph;
  }

  /** All that is drawn, outlines included. */
  get bounds(): Box {
    let [left, top, right, bottom] = [0, 0, this.layout.width, this.layout.height];
    for (const { box } of this.outlines) {
      left = Math.min(left, box.x);
      top = Math.min(top, box.y);
      right = Math.max(right, box.x + box.width);
      bottom = Math.max(bottom, box.y + box.height);
    }
    return { x: left, y: top, width: right - left, height: bottom - top };
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

  /** Whether a node or a parameter lies in a box, if only in part. */
  anyIn(box: Box): boolean {
    let found = false;
    const visit = (): void => {
      found = true;
    };
    this.nodes.within(box, visit);
    this.badges.within(box, visit);
    return found;
  }

  seqOf(hit: Hit): number {
    return hit.kind === 'node' ? this.graph.seqs[hit.index] : this.graph.badgeSeq[hit.badge];
  }
}
