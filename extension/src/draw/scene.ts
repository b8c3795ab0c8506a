// A laid-out graph made ready for drawing: rectangles, curves and texts, with grids to find what is in view.
// Built once per layout; states, selection and camera change without touching it.

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
        this.stubY[s] = y[i] + (NODE_HEIGHT - STUB_HEIGHT) / 2 + (s - graph.stubStart[i]) * STUB_PITCH;
        this.stubWidth[s] = wide;
        this.stubNode[s] = i;
      }
    }
    const add = (a: Float64Array, by: (i: number) => number): Float64Array => a.map((value, i) => value + by(i));
    this.nodes = new Grid(x, y, add(x, () => nodeWidth), add(y, () => NODE_HEIGHT), width, height);
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
      this.pathX[at] = x[a] + nodeWidth / 2;
      this.pathY[at++] = y[a] + NODE_HEIGHT;
      for (let p = layout.routeStart[e]; p < layout.routeStart[e + 1]; p++) {
        this.pathX[at] = layout.routeX[p];
        this.pathY[at++] = layout.routeY[p];
      }
      this.pathX[at] = x[b] + nodeWidth / 2;
      this.pathY[at++] = y[b];
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
        return { x: this.stubX[s], y: this.stubY[s], width: this.stubWidth[s], height: STUB_HEIGHT };
      }
    }
    return null;
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
