// How long frames took, for the benchmark and for whoever asks why a graph is slow.

import type { Frame } from './painter';

export interface PaintStats {
  frames: number;
  lastMs: number;
  p95Ms: number;
  nodesDrawn: number;
  /** nodes of the graph that the newest frame shows, in closed groups and out of view too */
  nodes: number;
  /** runs that the newest frame shows as done */
  done: number;
  /** performance.now() of the first frame with nodes; 0 before it */
  firstPaint: number;
  layoutMs: number;
}

const REMEMBERED = 240;

export class FrameTimes {
  layoutMs = 0;
  private readonly ms = new Float32Array(REMEMBERED);
  private frames = 0;
  private lastMs = 0;
  private nodesDrawn = 0;
  private nodes = 0;
  private done = 0;
  private firstPaint = 0;

  /** A frame that began at this time was painted now. */
  painted(start: number, { scene, states }: Frame, nodesDrawn: number): void {
    const now = performance.now();
    this.nodes = scene?.graph.first.at(-1) ?? 0;
    this.done = states.done;
    this.nodesDrawn = nodesDrawn;
    this.lastMs = now - start;
    this.ms[this.frames++ % REMEMBERED] = this.lastMs;
    if (this.firstPaint === 0 && nodesDrawn > 0) {
      this.firstPaint = now;
      performance.mark('agv:first-paint');
    }
  }

  get stats(): PaintStats {
    const { frames, lastMs, nodesDrawn, nodes, done, firstPaint, layoutMs } = this;
    const known = this.ms.slice(0, Math.min(frames, REMEMBERED)).sort();
    const p95Ms = known[Math.floor(known.length * 0.95)] ?? 0;
    return { frames, lastMs, p95Ms, nodesDrawn, nodes, done, firstPaint, layoutMs };
  }
}
