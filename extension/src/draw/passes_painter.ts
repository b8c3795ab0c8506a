// One bar per backward pass, as high as its gradient or as it took long, and above it the sign of
// the gravest finding: the overview of all that was recorded. Any number of them costs no more than
// the pixels that they fill. Pure drawing.

import { SIGNS, gravest } from '../model/findings/finding';
import type { Heights, Passes } from '../model/passes';
import { heightsOf, tallestOf } from '../model/passes';
import type { Palette } from './palette';
import { LABELS_WIDTH } from './timeline_painter';

export const PASSES_HEIGHT = 40;
const RIGHT = 14;
const WIDEST = 14;
/** room for the signs */
const TOP = 14;
const LEAST = 2;
/** pixels of one sign */
const SIGN = 11;

/** Pixels of one bar; less than one where several share a pixel. */
export function barWidth(count: number, width: number): number {
  return Math.min(WIDEST, Math.max(0, width - LABELS_WIDTH - RIGHT) / Math.max(1, count));
}

/** The pass at a pixel: of several one with a finding, else the tallest; -1 beside the bars. */
export function passAt(passes: Passes, width: number, x: number, by: Heights = 'time'): number {
  const count = passes.ids.length;
  const wide = barWidth(count, width);
  const at = Math.floor((x - LABELS_WIDTH) / wide);
  if (at < 0 || at >= count) {
    return -1;
  }
  const to = Math.min(count, Math.max(at + 1, Math.floor(at + 1 / wide)));
  for (let i = at; i < to; i++) if (passes.kinds[i] !== 0) return i;
  return tallestOf(heightsOf(passes, by), at, to);
}

export function paintPasses(
  ctx: CanvasRenderingContext2D,
  passes: Passes,
  shown: number | null,
  palette: Palette,
  width: number,
  by: Heights = 'time'
): void {
  const count = passes.ids.length;
  const wide = barWidth(count, width);
  const high = PASSES_HEIGHT - TOP - 2;
  const heights = heightsOf(passes, by);
  ctx.fillStyle = palette.bg;
  ctx.fillRect(0, 0, width, PASSES_HEIGHT);
  ctx.font = `11px ${palette.font}`;
  ctx.fillStyle = palette.ink3;
  ctx.fillText('passes', 14, TOP + high - 5);
  const bar = (i: number, x: number, thick: number): void => {
    const own = passes.ids[i] === shown;
    const tall = Math.max(LEAST, heights[i] * high);
    const ended = passes.ended[i];
    const colour = ended === 'in error' ? palette.bad : ended === 'no' ? palette.run : palette.done;
    // What is forgotten cannot be shown: its bar is pale.
    ctx.fillStyle = own ? palette.accent : passes.kept[i] ? colour : palette.line2;
    if (passes.unwatched[i]) {
      // Its height is not known: hollow, and as high as half of the strip.
      const top = TOP + high / 2;
      if (thick > 2) {
        ctx.strokeStyle = ctx.fillStyle;
        ctx.strokeRect(x + 0.5, top + 0.5, thick - 1, high / 2 - 1);
      } else {
        // No room for a hollow: the box's upper and lower side, which a row of them shares.
        ctx.fillRect(x, top, thick, 1);
        ctx.fillRect(x, TOP + high - 1, thick, 1);
      }
    } else {
      ctx.fillRect(x, TOP + high - tall, thick, tall);
    }
    // Those before it that nobody watched: dots in their place.
    if (passes.missed[i] > 0 && thick > 2) {
      ctx.fillStyle = palette.ink3;
      for (let y = TOP; y < TOP + high; y += 4) ctx.fillRect(x - 1, y, 1, 2);
      ctx.fillStyle = own ? palette.accent : colour;
    }
    // Not the colour alone: the one on screen stands on a foot of its own.
    if (own) ctx.fillRect(x, TOP + high, Math.max(2, thick), 2);
  };
  if (wide >= 1) {
    const gap = wide >= 4 ? 1 : 0;
    for (let i = 0; i < count; i++) bar(i, LABELS_WIDTH + i * wide, wide - gap);
  } else {
    for (let x = 0; x < count * wide; x++) {
      const from = Math.floor(x / wide);
      if (from >= count) break;
      const to = Math.min(count, Math.max(from + 1, Math.floor((x + 1) / wide)));
      bar(tallestOf(heights, from, to), LABELS_WIDTH + x, 1);
    }
    const at = shown === null ? -1 : passes.ids.indexOf(shown);
    if (at >= 0) bar(at, Math.round(LABELS_WIDTH + at * wide), 1);
  }
  paintSigns(ctx, passes, palette, wide);
}

/** The gravest of the passes that share the room of one sign. */
function paintSigns(
  ctx: CanvasRenderingContext2D,
  passes: Passes,
  palette: Palette,
  wide: number
): void {
  const each = Math.max(1, Math.ceil(SIGN / wide));
  ctx.fillStyle = palette.bad;
  for (let from = 0; from < passes.ids.length; from += each) {
    let kinds = 0;
    let first = -1;
    for (let i = from; i < from + each && i < passes.ids.length; i++) {
      kinds |= passes.kinds[i];
      if (first < 0 && passes.kinds[i] !== 0) first = i;
    }
    const kind = gravest(kinds);
    if (kind === null) continue;
    const sign = SIGNS[kind];
    const middle = LABELS_WIDTH + (first + 0.5) * wide;
    ctx.fillText(sign, middle - ctx.measureText(sign).width / 2, TOP - 4);
  }
}
