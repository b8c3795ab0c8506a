// One frame of the graph: what is in view, at the detail that the zoom allows, in the states of the
// moment.

import type { Colouring } from '../model/colouring';
import type { Marks } from '../model/compare/model';
import type { States } from '../model/states';
import { Flag, State } from '../model/states';
import type { Store } from '../model/store';
import { NODE_HEIGHT, BADGE_HEIGHT, UNDER_INDENT } from '../layout/measures';
import type { Camera } from './camera';
import { chipsOf } from './chips';
import { drawConnector, drawEdges } from './edges';
import type { Labels } from './labels';
import { markChips, markColour } from './marks';
import type { Brush } from './nodes';
import {
  detailAt,
  drawChips,
  drawFrame,
  drawHeader,
  drawOutline,
  drawOutlineName,
  drawNode,
  drawRing,
  drawBadge,
  farColour,
  toneStep
} from './nodes';
import type { Palette } from './palette';
import type { Scene } from './scene';

export interface Frame {
  scene: Scene | null;
  states: States;
  store: Store;
  camera: Camera;
  palette: Palette;
  labels: Labels;
  ratio: number;
  /** node number of a leaf that is selected; nodes and containers are told by their box */
  selected: number | null;
  selectedBox: number;
  /** node number under the pointer */
  over: number | null;
  hits: ReadonlySet<number>;
  hitBoxes: ReadonlySet<number>;
  /** of a comparison */
  marks?: Marks | null;
  /** of a measure */
  colouring?: Colouring | null;
}

const DOTS = 22;

function drawDots(ctx: CanvasRenderingContext2D, frame: Frame): void {
  const { camera, palette } = frame;
  const pitch = DOTS * camera.k;
  if (pitch < 9) {
    return;
  }
  ctx.fillStyle = palette.line;
  const size = camera.k > 0.8 ? 1.4 : 1;
  const x0 = ((camera.x % pitch) + pitch) % pitch;
  const y0 = ((camera.y % pitch) + pitch) % pitch;
  for (let y = y0; y < camera.height; y += pitch) {
    for (let x = x0; x < camera.width; x += pitch) ctx.fillRect(x, y, size, size);
  }
}

/** Paints a frame; gives the number of nodes that were drawn. */
export function paint(ctx: CanvasRenderingContext2D, frame: Frame): number {
  const { scene, states, camera, palette, labels, ratio } = frame;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = palette.pane;
  ctx.fillRect(0, 0, camera.width, camera.height);
  drawDots(ctx, frame);
  if (!scene || scene.graph.seqs.length === 0) {
    return 0;
  }
  const { k } = camera;
  // Whole device pixels keep text and straight edges sharp.
  const x = Math.round(camera.x * ratio);
  const y = Math.round(camera.y * ratio);
  ctx.setTransform(ratio * k, 0, 0, ratio * k, x, y);
  const detail = detailAt(k);
  const { marks, colouring } = frame;
  const brush: Brush = { ctx, palette, labels, k, marks, colouring };
  const view = camera.view;
  // Chips and rings reach beyond their node.
  const wide = {
    x: view.x - 240,
    y: view.y - 30,
    width: view.width + 480,
    height: view.height + 60
  };
  const { graph, layout } = scene;

  const groups: number[] = [];
  scene.groups.within(view, group => {
    if (scene.framed(group)) groups.push(group);
  });
  for (const outline of scene.outlines) drawOutline(brush, outline, view, layout.across);
  for (const group of groups) drawFrame(brush, scene, group);

  drawEdges(ctx, scene, states, palette, view, k, frame.selectedBox);
  for (const outline of scene.outlines) drawOutlineName(brush, outline, view, layout.across);

  const nodes: number[] = [];
  scene.nodes.within(wide, index => nodes.push(index));
  if (detail === 'far') {
    drawFar(ctx, frame, scene, nodes);
  } else {
    const badges: number[] = [];
    scene.badges.within(wide, badge => badges.push(badge));
    for (const badge of badges) {
      const index = scene.badgeNode[badge];
      const flowed =
        states.node[index] === State.done && states.leaf.get(graph.badgeSeq[badge]) === State.done;
      const at = scene.badgeY[badge] + BADGE_HEIGHT / 2;
      // From the node's right, or from below it.
      const [fromX, fromY] = layout.across
        ? [layout.x[index] + UNDER_INDENT / 2, layout.y[index] + NODE_HEIGHT]
        : [layout.x[index] + layout.nodeWidth, layout.y[index] + NODE_HEIGHT / 2];
      drawConnector(ctx, palette, fromX, fromY, scene.badgeX[badge], at, flowed, layout.across);
    }
    for (const index of nodes) drawNode(brush, scene, states, index, detail);
    for (const badge of badges) drawBadge(brush, scene, states, badge, detail);
    if (detail === 'full') {
      const noted =
        Flag.stale | Flag.breakpoint | Flag.hook | Flag.nonfinite | Flag.ownOutput | Flag.detached;
      for (const index of nodes) {
        if (marks) {
          drawChips(brush, scene, index, markChips(marks, index));
        } else if (states.flags[index] & noted) {
          drawChips(brush, scene, index, chipsOf(frame.store, graph, states, index));
        }
      }
    }
    if (detail === 'full') for (const group of groups) drawHeader(brush, scene, group, view);
    for (const badge of badges) {
      const seq = graph.badgeSeq[badge];
      const kind =
        seq === frame.selected
          ? 'selected'
          : frame.hits.has(seq)
            ? 'hit'
            : seq === frame.over
              ? 'over'
              : null;
      if (kind)
        drawRing(
          brush,
          scene.badgeX[badge],
          scene.badgeY[badge],
          scene.badgeWidth[badge],
          BADGE_HEIGHT,
          kind
        );
    }
  }
  const overBox = frame.over === null ? -1 : graph.indexOf.get(frame.over);
  for (const index of nodes) {
    const kind =
      index === frame.selectedBox
        ? 'selected'
        : frame.hitBoxes.has(index)
          ? 'hit'
          : index === overBox
            ? 'over'
            : null;
    if (kind)
      drawRing(brush, layout.x[index], layout.y[index], layout.nodeWidth, NODE_HEIGHT, kind);
  }
  return nodes.length;
}

/**
 * Thousands of nodes: rectangles, sorted by colour so that the colour changes a handful of times.
 * Where several fall into one pixel, one of each colour is drawn.
 */
function drawFar(ctx: CanvasRenderingContext2D, frame: Frame, scene: Scene, nodes: number[]): void {
  const { x, y, nodeWidth } = scene.layout;
  const { camera, colouring, marks, states } = frame;
  const height = Math.max(NODE_HEIGHT, 1.2 / camera.k);
  const byColour = new Map<string, number[]>();
  const dense = NODE_HEIGHT * camera.k < 0.5;
  const taken = new Uint32Array(dense ? camera.width * camera.height : 0);
  for (const index of nodes) {
    if (dense) {
      const [px, py] = [Math.floor(camera.screenX(x[index])), Math.floor(camera.screenY(y[index]))];
      const pixel = py * camera.width + px;
      const step = marks ? -1 : toneStep(colouring, states, index);
      const mark = 1 << (step >= 0 ? 7 + step : marks ? marks.kind[index] : states.node[index]);
      if (pixel >= 0 && pixel < taken.length) {
        if (taken[pixel] & mark) continue;
        taken[pixel] |= mark;
      }
    }
    const colour = marks
      ? markColour(frame.palette, marks, index)
      : farColour(frame.palette, states, index, colouring);
    const list = byColour.get(colour);
    if (list) list.push(index);
    else byColour.set(colour, [index]);
  }
  for (const [colour, list] of byColour) {
    ctx.fillStyle = colour;
    for (const index of list) ctx.fillRect(x[index], y[index], nodeWidth, height);
  }
}
