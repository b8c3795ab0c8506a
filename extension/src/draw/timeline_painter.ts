// The time axis as a picture: forward, backward, gradient norms, the moment shown. Pure drawing.
// Any number of events costs no more than the pixels that they fill.

import type { Axis } from '../model/axis';
import type { States } from '../model/states';
import { Flag, State } from '../model/states';
import type { Graph } from '../model/graph';
import type { Store } from '../model/store';
import type { Palette } from './palette';

export function timelineHeight(axis: Axis): number {
  return axis.slots > 0 ? TIMELINE_HEIGHT : FORWARD_HEIGHT;
}

export interface TimelineFrame {
  store: Store;
  graph: Graph;
  axis: Axis;
  states: States;
  cursor: number | null;
  selected: number | null;
  palette: Palette;
  width: number;
  ratio: number;
  /** norms that did not arrive yet at the moment shown are left out */
  hidesComing?: boolean;
}

/** Height of all three rows, and of the first alone where no backward was recorded. */
export const TIMELINE_HEIGHT = 76;
export const FORWARD_HEIGHT = 32;
/** Room for the rows' names. */
export const LABELS_WIDTH = 106;
const RIGHT = 14;
const BETWEEN = 20;
const ROW = { forward: 8, backward: 32, norm: 55, height: 15, normHeight: 16 };

/** Pixels per share of the axis, and where its two parts begin. */
export interface TimelineScale {
  forward: number;
  backward: number;
  perShare: number;
}

export function timelineScale(axis: Axis, width: number): TimelineScale {
  const shares = axis.forwardX[axis.forward.length] + axis.backwardX[axis.slots];
  const between = axis.slots > 0 ? BETWEEN : 0;
  const perShare = Math.min(
    38,
    Math.max(0, width - LABELS_WIDTH - RIGHT - between) / Math.max(1, shares)
  );
  return {
    forward: LABELS_WIDTH,
    backward: LABELS_WIDTH + axis.forwardX[axis.forward.length] * perShare + between,
    perShare
  };
}

/** Left edge of a position of the axis in pixels. */
export function xOfPosition(axis: Axis, scale: TimelineScale, position: number): number {
  const count = axis.forward.length;
  return position < count
    ? scale.forward + axis.forwardX[position] * scale.perShare
    : scale.backward + axis.backwardX[Math.min(position - count, axis.slots)] * scale.perShare;
}

/** First index with edges[index] >= value. */
function firstAtLeast(edges: Float64Array, value: number): number {
  let [low, high] = [0, edges.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (edges[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The position of the axis nearest to a pixel. */
export function positionAt(axis: Axis, scale: TimelineScale, x: number): number {
  const count = axis.forward.length;
  const inForward = axis.slots === 0 || x < scale.backward - BETWEEN / 2;
  const edges = inForward ? axis.forwardX : axis.backwardX;
  const share = (x - (inForward ? scale.forward : scale.backward)) / scale.perShare;
  let found = firstAtLeast(edges, share);
  if (found > 0 && share - edges[found - 1] < edges[found] - share) found--;
  return (inForward ? 0 : count) + Math.min(found, inForward ? count : axis.runs.length);
}

/** One slot of the picture: a node by its index, or a row of `runs`. */
export type Slice = { kind: 'node'; node: number } | { kind: 'run'; run: number };

/** The slice at a pixel; null between and beside them. */
export function sliceAt(axis: Axis, scale: TimelineScale, x: number): Slice | null {
  const within = (edges: Float64Array, left: number, count: number): number => {
    const share = (x - left) / scale.perShare;
    const at = firstAtLeast(edges, share);
    const slot = edges[at] > share ? at - 1 : at;
    return share >= 0 && slot < count ? slot : -1;
  };
  if (axis.slots === 0 || x < scale.backward - BETWEEN / 2) {
    const slot = within(axis.forwardX, scale.forward, axis.forward.length);
    return slot < 0 ? null : { kind: 'node', node: axis.forward[slot] };
  }
  const slot = within(axis.backwardX, scale.backward, axis.runs.length);
  return slot < 0 ? null : { kind: 'run', run: axis.runs[slot] };
}

/** Draws slots of a row, skipping to the next pixel where several fall into one. */
function slots(
  ctx: CanvasRenderingContext2D,
  edges: Float64Array,
  count: number,
  left: number,
  perShare: number,
  top: number,
  colour: (slot: number) => string
): void {
  let slot = 0;
  while (slot < count) {
    const x = left + edges[slot] * perShare;
    const right = left + edges[slot + 1] * perShare;
    ctx.fillStyle = colour(slot);
    if (right - x >= 3) {
      const gap = right - x > 8 ? 2 : 1;
      ctx.beginPath();
      ctx.roundRect(x, top, right - x - gap, ROW.height, right - x > 8 ? 3 : 1);
      ctx.fill();
      slot++;
    } else {
      ctx.fillRect(x, top, Math.max(1, right - x), ROW.height);
      slot = Math.max(slot + 1, firstAtLeast(edges, (Math.floor(x) + 1 - left) / perShare));
    }
  }
}

export function paintTimeline(ctx: CanvasRenderingContext2D, frame: TimelineFrame): void {
  const { axis, states, graph, palette, width, ratio, store } = frame;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = palette.bg;
  const height = timelineHeight(axis);
  ctx.fillRect(0, 0, width, height);
  ctx.font = `11px ${palette.font}`;
  ctx.fillStyle = palette.ink3;
  ctx.fillText('forward', 14, ROW.forward + 12);
  if (axis.slots > 0) {
    ctx.fillText('backward', 14, ROW.backward + 12);
    ctx.fillText('gradient norm', 14, ROW.norm + 13);
  }
  const count = axis.forward.length;
  if (count === 0) {
    return;
  }
  const scale = timelineScale(axis, width);
  const { perShare } = scale;
  slots(ctx, axis.forwardX, count, scale.forward, perShare, ROW.forward, slot => {
    const index = axis.forward[slot];
    if (graph.seqs[index] === frame.selected) return palette.accent;
    return states.node[index] === State.future ? palette.line : palette.line2;
  });
  slots(ctx, axis.backwardX, axis.slots, scale.backward, perShare, ROW.backward, slot => {
    if (slot < axis.runs.length) {
      const row = axis.runs[slot];
      const seq = store.runs.at.seq[row];
      if (seq === frame.selected) return palette.accent;
      if (slot < states.done) return store.runs.at.flags[row] & 1 ? palette.bad : palette.done;
      if (slot > states.done) return palette.line2;
    }
    return slot === states.done && (states.next >= 0 || states.nextLeaf >= 0)
      ? palette.run
      : palette.line2;
  });
  paintNorms(ctx, frame, scale);

  const position = frame.cursor ?? count + axis.runs.length;
  const x = xOfPosition(axis, scale, position) - 1;
  ctx.strokeStyle = palette.ink;
  ctx.fillStyle = palette.ink;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.moveTo(x, 4);
  ctx.lineTo(x, height - 2);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(x - 5, 0);
  ctx.lineTo(x + 5, 0);
  ctx.lineTo(x + 5, 5);
  ctx.lineTo(x, 10);
  ctx.lineTo(x - 5, 5);
  ctx.fill();
}

/**
 * Norms on a logarithmic scale of their own, at most eight decades; NaN and infinity are red marks.
 */
function paintNorms(
  ctx: CanvasRenderingContext2D,
  frame: TimelineFrame,
  scale: TimelineScale
): void {
  const { axis, palette, store, states, graph } = frame;
  const { norm, flags } = store.runs.at;
  const seqs = store.runs.at.seq;
  let peak = 0;
  let least = Infinity;
  for (const row of axis.runs) {
    if (Number.isFinite(norm[row]) && norm[row] > 0) {
      peak = Math.max(peak, norm[row]);
      least = Math.min(least, norm[row]);
    }
  }
  if (axis.runs.length === 0) {
    return;
  }
  const span = peak > 0 ? Math.min(8, Math.max(1, Math.log10(peak / least))) : 1;
  const y = (value: number): number => {
    const decades =
      value > 0 && peak > 0 ? Math.min(span, Math.max(0, Math.log10(peak / value))) : span;
    return ROW.norm + 1 + (decades / span) * (ROW.normHeight - 2);
  };
  ctx.strokeStyle = palette.accent;
  ctx.lineWidth = 1.5;
  ctx.lineJoin = 'round';
  ctx.beginPath();
  let open = false;
  let column = -1;
  let [low, high] = [0, 0];
  const flush = (): void => {
    if (column < 0) return;
    if (open) ctx.lineTo(column, high);
    else ctx.moveTo(column, high);
    if (low !== high) ctx.lineTo(column, low);
    open = true;
  };
  const bad: number[] = [];
  const end = frame.hidesComing ? Math.min(states.done, axis.runs.length) : axis.runs.length;
  for (let i = 0; i < end; i++) {
    const row = axis.runs[i];
    const middle = (axis.backwardX[i] + axis.backwardX[i + 1]) / 2;
    const x = scale.backward + middle * scale.perShare;
    // Leaves have the gradient of the node before them; the line shows the flow through nodes.
    if (graph.indexOf.get(seqs[row]) < 0 && !(flags[row] & 1)) continue;
    if (flags[row] & 1 || !Number.isFinite(norm[row])) {
      if (bad.length === 0 || x - bad[bad.length - 1] > 2) bad.push(x);
      continue;
    }
    if (norm[row] < 0) continue;
    const at = y(norm[row]);
    const pixel = scale.perShare < 1.5 ? Math.round(x) : x;
    if (pixel === column) {
      low = Math.max(low, at);
      high = Math.min(high, at);
    } else {
      flush();
      column = pixel;
      low = high = at;
    }
  }
  flush();
  ctx.stroke();
  ctx.fillStyle = palette.bad;
  for (const x of bad) ctx.fillRect(x - 1, ROW.norm, 2, ROW.normHeight);
  if (states.flags.some(flag => (flag & Flag.nonfinite) !== 0) && bad.length > 0) {
    ctx.font = `10px ${palette.font}`;
    ctx.fillText('NaN', Math.min(bad[0] + 4, frame.width - 30), ROW.norm + 12);
  }
}
