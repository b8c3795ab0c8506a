// A laid-out graph made ready for drawing: rectangles, curves and texts, with grids to find what is
// in view. Built once per layout; states, selection and camera change without touching it.

import type { Graph } from '../model/graph';
import { shapeText } from '../model/format';
import type { Store } from '../model/store';
import { headerText, stubTexts, stubWidth } from '../layout/input';
import type { Layout } from '../layout/measures';
import { NODE_HEIGHT, SIDE_GAP, STUB_HEIGHT, STUB_PITCH } from '../layout/measures';
import type { Box } from './camera';
import { Grid } from './grid';

/** What is under a point. */
export type Hit = { kind: 'node'; index: number } | { kind: 'stub'; stub: number; node: number };

export const LEAVES = 1;
export const ARRIVES = 2;
/** How far from a node a lane may run to be reached from the node's side. */
const SIDE_REACH = 130;
/** Of a header's text, below the frame's top. */
const HEADER_LINE = 16;

export class Scene {
  readonly nodes: Grid;
  readonly stubs: Grid;
  readonly edges: Grid;
  readonly groups: Grid;
  readonly stubX: Float64Array;
  readonly stubY: Float64Array;
  readonly stubWidth: Float64Array;
  readonly stubNode: Uint32Array;
  /** points of edge e, from node to node: pathStart[e] .. pathStart[e + 1] */
  readonly pathStart: Uint32Array;
  /** LEAVES and ARRIVES where an edge leaves or enters at a node's left side */
  readonly sideways: Uint8Array;
  /** x at which edges cross the header of a group; NaN: at several, Infinity: at none */
  readonly entryX: Float64Array;
  readonly pathX: Float64Array;
  readonly pathY: Float64Array;

  constructor(
    private readonly store: Store,
    public graph: Graph,
    readonly layout: Layout
  ) {
    const { x, y, nodeWidth, width, height } = layout;
    const count = graph.seqs.length;
    const stubs = graph.stubSeq.length;
    this.stubX = new Float64Array(stubs);
    this.stubY = new Float64Array(stubs);
    this.stubWidth = new Float64Array(stubs);
    this.stubNode = new Uint32Array(stubs);
    const widths = new Map<number, number>();
    for (let i = 0; i < count; i++) {
      for (let s = graph.stubStart[i]; s < graph.stubStart[i + 1]; s++) {
        const seq = graph.stubSeq[s];
        let wide = widths.get(seq);
        if (wide === undefined) {
          const { label, shape } = this.stubText(s);
          wide = stubWidth(label, shape);
          widths.set(seq, wide);
        }
        this.stubX[s] = x[i] + nodeWidth + SIDE_GAP;
        this.stubY[s] =
          y[i] + (NODE_HEIGHT - STUB_HEIGHT) / 2 + (s - graph.stubStart[i]) * STUB_PITCH;
        this.stubWidth[s] = wide;
        this.stubNode[s] = i;
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
    this.stubs = new Grid(
      this.stubX,
      this.stubY,
      add(this.stubX, s => this.stubWidth[s]),
      add(this.stubY, () => STUB_HEIGHT),
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
      this.pathY[at++] = leaves ? y[a] + NODE_HEIGHT / 2 : y[a] + NODE_HEIGHT;
      for (let p = layout.routeStart[e]; p < layout.routeStart[e + 1]; p++) {
        this.pathX[at] = layout.routeX[p];
        this.pathY[at++] = layout.routeY[p];
      }
      this.pathX[at] = arrives ? x[b] : x[b] + nodeWidth / 2;
      this.pathY[at++] = arrives ? y[b] + NODE_HEIGHT / 2 : y[b];
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
    this.stubs.within(between, () => (free = false));
    return free;
  }

  /** Where edges cross each group's header: one place, NaN for several, Infinity for none. */
  private entries(): Float64Array {
    const { graph, layout } = this;
    const entryX = new Float64Array(graph.groups.length).fill(Infinity);
    for (let e = 0; e < graph.edgeFrom.length; e++) {
      const group = graph.groupOf[graph.edgeTo[e]];
      if (group === graph.groupOf[graph.edgeFrom[e]]) {
        continue;
      }
      const line = layout.groupY[group] + HEADER_LINE;
      let p = this.pathStart[e];
      while (p < this.pathStart[e + 1] - 1 && this.pathY[p] < line) p++;
      const at = this.pathX[p];
      if (this.sideways[e] & ARRIVES && p === this.pathStart[e + 1] - 1) {
        continue;
      }
      const slant =
        p > this.pathStart[e] && Math.abs(this.pathX[p - 1] - at) > 12 && this.pathY[p - 1] < line;
      if (slant) entryX[group] = NaN;
      else if (entryX[group] === Infinity) entryX[group] = at;
      else if (Math.abs(entryX[group] - at) > 1) entryX[group] = NaN;
    }
    return entryX;
  }

  /** Takes a graph of the same signature in place of its own: same shape, other node numbers. */
  adopt(graph: Graph): void {
    this.graph = graph;
  }

  get bounds(): Box {
    return { x: 0, y: 0, width: this.layout.width, height: this.layout.height };
  }

  name(index: number): string {
    return this.store.nameOf(this.graph.seqs[index]);
  }

  shape(index: number): string {
    const row = this.store.nodeRow.get(this.graph.seqs[index]);
    return row < 0 ? '' : shapeText(this.store.string(this.store.nodes.at.shape[row]));
  }

  stubText(stub: number): { label: string; shape: string } {
    return stubTexts(this.store, this.graph.stubSeq[stub], this.graph.stubKnown[stub] === 1);
  }

  header(group: number): { place: string; line: string } {
    return headerText(this.graph.groups[group]);
  }

  framed(group: number): boolean {
    return this.graph.groups[group].site !== null;
  }

  /** The box of a node, or of the first stub of a leaf; null when it is not in the graph. */
  boxOf(seq: number): Box | null {
    const index = this.graph.indexOf.get(seq);
    const { x, y, nodeWidth } = this.layout;
    if (index >= 0) {
      return { x: x[index], y: y[index], width: nodeWidth, height: NODE_HEIGHT };
    }
    const user = this.graph.leafUses.get(seq)?.[0];
    if (user === undefined) {
      return null;
    }
    for (let s = this.graph.stubStart[user]; s < this.graph.stubStart[user + 1]; s++) {
      if (this.graph.stubSeq[s] === seq) {
        return {
          x: this.stubX[s],
          y: this.stubY[s],
          width: this.stubWidth[s],
          height: STUB_HEIGHT
        };
      }
    }
    return null;
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
    const stub = this.stubs.at(x, y);
    return stub >= 0 ? { kind: 'stub', stub, node: this.stubNode[stub] } : null;
  }

  seqOf(hit: Hit): number {
    return hit.kind === 'node' ? this.graph.seqs[hit.index] : this.graph.stubSeq[hit.stub];
  }
}
