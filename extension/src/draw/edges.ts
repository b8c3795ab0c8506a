// Edges by what has flowed along them: colour and width tell done, about to flow and waiting apart.

import type { GradientKind } from '../model/gradient_kind';
import { gradientKind } from '../model/gradient_kind';
import type { States } from '../model/states';
import { State } from '../model/states';
import type { Box } from './camera';
import type { Colours, Palette } from './palette';
import type { Scene } from './scene';
import { ARRIVES, LEAVES } from './scene';
import { levelCurve, quarterCurve, verticalCurve } from './shapes';

interface Style {
  colour: keyof Colours;
  width: number;
  /** tells gradients apart without colour */
  dash?: readonly number[];
}

const STYLES: readonly Style[] = [
  { colour: 'line2', width: 1.5 },
  { colour: 'line', width: 1.2 },
  { colour: 'done', width: 2 },
  { colour: 'done', width: 3 },
  { colour: 'done', width: 4 },
  { colour: 'run', width: 4 },
  { colour: 'bad', width: 3, dash: [9, 5] },
  { colour: 'bad', width: 6 },
  { colour: 'save', width: 1.6, dash: [2, 4] },
  { colour: 'ink3', width: 1.6, dash: [1, 6] }
];
const [WAITING, FUTURE, THIN, MIDDLE, WIDE, NEXT] = [0, 1, 2, 3, 4, 5];
const [NONFINITE, EXPLODING, VANISHING, ZERO] = [6, 7, 8, 9];

const BY_KIND: Partial<Record<GradientKind, number>> = {
  nonfinite: NONFINITE,
  exploding: EXPLODING,
  vanishing: VANISHING,
  zero: ZERO,
  none: ZERO
};

function reached(state: number): boolean {
  return state === State.done || state === State.running;
}

/**
 * Wide where the gradient is near the largest of this pass, thin where it is a thousandth of it.
 */
function flowStyle(norm: number, peak: number): number {
  if (!(norm > 0) || !(peak > 0)) {
    return THIN;
  }
  const share = norm / peak;
  return share > 0.2 ? WIDE : share > 0.01 ? MIDDLE : THIN;
}

function styleOf(states: States, from: number, to: number): number {
  const above = states.node[from];
  const below = states.node[to];
  if (above === State.future || below === State.future) {
    return FUTURE;
  }
  if (!reached(above)) {
    return WAITING;
  }
  if (below === State.next) {
    return NEXT;
  }
  const remarkable = BY_KIND[gradientKind(states, states.norm[to] < 0 ? from : to)];
  if (remarkable !== undefined) {
    return remarkable;
  }
  return flowStyle(states.norm[to] >= 0 ? states.norm[to] : states.norm[from], states.peak);
}

function trace(ctx: CanvasRenderingContext2D, scene: Scene, edge: number, straight: boolean): void {
  const { pathX, pathY, pathStart, sideways } = scene;
  const { across } = scene.layout;
  const first = pathStart[edge];
  const last = pathStart[edge + 1] - 1;
  ctx.moveTo(pathX[first], pathY[first]);
  for (let p = first + 1; p <= last; p++) {
    const leaves = p === first + 1 && (sideways[edge] & LEAVES) !== 0;
    const arrives = p === last && (sideways[edge] & ARRIVES) !== 0;
    if ((leaves || arrives) && !straight) {
      const level = leaves !== across ? 'begins' : 'ends';
      quarterCurve(ctx, pathX[p - 1], pathY[p - 1], pathX[p], pathY[p], level);
    } else {
      const curve = across ? levelCurve : verticalCurve;
      curve(ctx, pathX[p - 1], pathY[p - 1], pathX[p], pathY[p], straight);
    }
  }
}

/** Draws all edges in view, style by style; those that wait at the selected node stand out. */
export function drawEdges(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  states: States,
  palette: Palette,
  view: Box,
  k: number,
  selected: number
): void {
  const byStyle: number[][] = STYLES.map(() => []);
  const near: number[] = [];
  const { edgeFrom, edgeTo } = scene.graph;
  // From very far the edges between neighbouring rows are shorter than a pixel and lie under their
  // nodes.
  const shortest = k < 0.05 ? 1.5 / k : 0;
  const { pathX, pathY, pathStart } = scene;
  scene.edges.within(view, e => {
    if (shortest > 0) {
      const [first, last] = [pathStart[e], pathStart[e + 1] - 1];
      const wide = Math.abs(pathX[last] - pathX[first]);
      if (Math.abs(pathY[last] - pathY[first]) < shortest && wide < shortest) return;
    }
    const style = styleOf(states, edgeFrom[e], edgeTo[e]);
    if (style <= FUTURE && (edgeFrom[e] === selected || edgeTo[e] === selected)) near.push(e);
    else byStyle[style].push(e);
  });
  const straight = k < 0.22;
  // Far away a line keeps about a pixel of width; thousands of them are drawn lighter.
  const thinnest = 0.7 / k;
  const drawn = byStyle.reduce((sum, edges) => sum + edges.length, 0);
  ctx.globalAlpha = k < 0.1 && drawn > 3000 ? 0.55 : 1;
  for (let style = 0; style < STYLES.length; style++) {
    const edges = byStyle[style];
    if (edges.length === 0) {
      continue;
    }
    ctx.strokeStyle = palette[STYLES[style].colour];
    ctx.lineWidth = Math.max(thinnest, STYLES[style].width);
    const { dash } = STYLES[style];
    if (dash && k > 0.2) ctx.setLineDash([...dash]);
    // Paths of thousands of pieces stroke slowly: a few hundred at a time are fastest.
    for (let begin = 0; begin < edges.length; begin += 400) {
      ctx.beginPath();
      for (let i = begin; i < Math.min(begin + 400, edges.length); i++)
        trace(ctx, scene, edges[i], straight);
      ctx.stroke();
    }
    if (dash && k > 0.2) ctx.setLineDash([]);
  }
  ctx.globalAlpha = 1;
  if (near.length > 0) {
    ctx.strokeStyle = palette.ink3;
    ctx.lineWidth = Math.max(2, 1.2 / k);
    ctx.beginPath();
    for (const e of near) trace(ctx, scene, e, straight);
    ctx.stroke();
  }
}

/** The short line from a node to a parameter's badge beside or below it. */
export function drawConnector(
  ctx: CanvasRenderingContext2D,
  palette: Palette,
  x0: number,
  y0: number,
  x1: number,
  y1: number,
  flowed: boolean,
  below = false
): void {
  ctx.strokeStyle = flowed ? palette.done : palette.line2;
  ctx.lineWidth = flowed ? 2.5 : 1.5;
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  if (below) {
    const bend = Math.min(8, x1 - x0);
    ctx.lineTo(x0, y1 - bend);
    ctx.bezierCurveTo(x0, y1, x0, y1, x0 + bend, y1);
    ctx.lineTo(x1, y1);
  } else if (y0 === y1) {
    ctx.lineTo(x1, y1);
  } else {
    const middle = (x0 + x1) / 2;
    ctx.bezierCurveTo(middle, y0, middle, y1, x1, y1);
  }
  ctx.stroke();
}
