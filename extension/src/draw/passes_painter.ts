// One bar per backward pass, as high as it took long: the overview of all that was recorded. Any
// number of them costs no more than the pixels that they fill. Pure drawing.

import type { Passes } from '../model/passes';
import { longestOf } from '../model/passes';
import type { Palette } from './palette';
import { LABELS_WIDTH } from './timeline_painter';

export const PASSES_HEIGHT = 28;
const RIGHT = 14;
const WIDEST = 14;
const TOP = 3;
const LEAST = 2;

/** Pixels of one bar; less than one where several share a pixel. */
export function barWidth(count: number, width: number): number {
  return Math.min(WIDEST, Math.max(0, width - LABELS_WIDTH - RIGHT) / Math.max(1, count));
}

/** The pass at a pixel: of several the longest; -1 beside the bars. */
export function passAt(passes: Passes, width: number, x: number): number {
  const count = passes.ids.length;
  const wide = barWidth(count, width);
  const at = Math.floor((x - LABELS_WIDTH) / wide);
  if (at < 0 || at >= count) {
    return -1;
  }
  return longestOf(passes, at, Math.min(count, Math.max(at + 1, Math.floor(at + 1 / wide))));
}

export function paintPasses(
  ctx: CanvasRenderingContext2D,
  passes: Passes,
  shown: number | null,
  palette: Palette,
  width: number
): void {
  const count = passes.ids.length;
  const wide = barWidth(count, width);
  const high = PASSES_HEIGHT - TOP - 2;
  ctx.fillStyle = palette.bg;
  ctx.fillRect(0, 0, width, PASSES_HEIGHT);
  ctx.font = `11px ${palette.font}`;
  ctx.fillStyle = palette.ink3;
  ctx.fillText('passes', 14, TOP + high - 5);
  const bar = (i: number, x: number, thick: number): void => {
    const own = passes.ids[i] === shown;
    const tall = Math.max(LEAST, (passes.ms[i] / Math.max(1e-9, passes.longest)) * high);
    const ended = passes.ended[i];
    const colour = ended === 'in error' ? palette.bad : ended === 'no' ? palette.run : palette.done;
    ctx.fillStyle = own ? palette.accent : colour;
    ctx.fillRect(x, TOP + high - tall, thick, tall);
    // Not the colour alone: the one on screen stands on a foot of its own.
    if (own) ctx.fillRect(x, TOP + high, Math.max(2, thick), 2);
  };
  if (wide >= 1) {
    const gap = wide >= 4 ? 1 : 0;
    for (let i = 0; i < count; i++) bar(i, LABELS_WIDTH + i * wide, wide - gap);
    return;
  }
  for (let x = 0; x < count * wide; x++) {
    const from = Math.floor(x / wide);
    if (from >= count) break;
    const to = Math.min(count, Math.max(from + 1, Math.floor((x + 1) / wide)));
    bar(longestOf(passes, from, to), LABELS_WIDTH + x, 1);
  }
  const at = shown === null ? -1 : passes.ids.indexOf(shown);
  if (at >= 0) bar(at, Math.round(LABELS_WIDTH + at * wide), 1);
}
