// Paints a timeline: overview, ruler, steps, memory, and the lanes of slices. What a frame costs
// grows with its pixels and not with the slices behind them.

import { bytesText, plural } from '../../model/format';
import type { Profile } from '../../model/profile/profile';
import { partners } from '../../model/profile/profile';
import type { Lanes } from '../../layout/profile/lanes';
import { firstAfter, levelFor } from '../../layout/profile/lanes';
import type { Places } from './places';
import { CURVE, HEAD, LANE, OVERVIEW, RULER, STEP_BAND, topOfLane } from './places';
import type { Staircase } from './staircase';
import type { TimeColours } from './colours';
import type { Window } from './view';
import { lengthText, momentText, roundStep } from './view';

export interface TimeFrame {
  profile: Profile;
  lanes: Lanes;
  places: Places;
  curves: readonly Staircase[];
  colours: TimeColours;
  window: Window;
  /** pixels that the tracks are scrolled by */
  scroll: number;
  width: number;
  height: number;
  ratio: number;
  selected: number | null;
  span: Window | null;
  marks: readonly Window[];
  /** by row of `names`: is sought; null: nothing is */
  sought: Uint8Array | null;
  /** the moment of which it is told what held memory */
  moment: { curve: number; time: number } | null;
  /** the whole profile as `paintOverview` drew it: it stays while colours and width do */
  overview: CanvasImageSource | null;
  /** widths of names that were measured, by row of `names` */
  widths: Map<number, number>;
}

/** Narrowest slice with a name in it. */
const NAMED = 34;
/** Overview: so many of the first tracks. */
const OVERVIEW_TRACKS = 4;
const EVALUATES = 'autograd::engine::evaluate_function: ';

/** A name as it stands on a slice. */
export function labelOf({ names }: Profile, name: number): string {
  const text = names[name] ?? '(no name)';
  return text.startsWith(EVALUATES) ? `evaluate ${text.slice(EVALUATES.length)}` : text;
}

/** The text, or its beginning where there is less room. */
export function fitted(text: string, wide: number, room: number): string {
  const keep = Math.floor((text.length * (room - 9)) / Math.max(1, wide));
  return wide <= room ? text : keep < 2 ? '' : `${text.slice(0, keep)}…`;
}

/** Paints a frame; how many blocks it drew. */
export function paintTime(ctx: CanvasRenderingContext2D, frame: TimeFrame): number {
  const { colours, width, height, ratio, places, window } = frame;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = colours.pane;
  ctx.fillRect(0, 0, width, height);
  ctx.textBaseline = 'alphabetic';
  ctx.font = `11px ${colours.font}`;
  const step = roundStep(((window.to - window.from) / Math.max(1, width)) * 90);
  paintBands(ctx, frame);
  paintGrid(ctx, frame, step);
  const drawn = paintTracks(ctx, frame);
  paintPauses(ctx, frame);
  paintChosen(ctx, frame);
  ctx.fillStyle = colours.bg;
  ctx.fillRect(0, 0, width, places.tracks);
  paintWindow(ctx, frame);
  paintRuler(ctx, frame, step);
  paintSteps(ctx, frame);
  frame.curves.forEach((curve, i) => paintCurve(ctx, frame, curve, places.curves + i * CURVE));
  paintMoment(ctx, frame);
  paintSpan(ctx, frame);
  return drawn;
}

function xOf({ window, width }: TimeFrame, time: number): number {
  return ((time - window.from) / (window.to - window.from)) * width;
}

/** Every other step has a ground of its own, through all tracks. */
function paintBands(ctx: CanvasRenderingContext2D, frame: TimeFrame): void {
  const { profile, window, colours, places, height } = frame;
  ctx.fillStyle = colours.band;
  eachStep(frame, (row, index) => {
    if (index % 2 === 1) {
      const x = xOf(frame, Math.max(window.from, profile.start[row]));
      const right = xOf(frame, Math.min(window.to, profile.end[row]));
      ctx.fillRect(x, places.tracks, right - x, height - places.tracks);
    }
  });
}

/** Calls `each` for the steps in sight; false where they are too many to be told apart. */
function eachStep(frame: TimeFrame, each: (row: number, index: number) => void): boolean {
  const { lanes, profile, window, width } = frame;
  const { steps } = lanes;
  const first = (after: (row: number) => boolean): number => {
    let [low, high] = [0, steps.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (after(steps[middle])) high = middle;
      else low = middle + 1;
    }
    return low;
  };
  const from = first(row => profile.end[row] > window.from);
  const to = first(row => profile.start[row] >= window.to);
  if (to - from > width / 4) {
    return false;
  }
  for (let i = from; i < to; i++) each(steps[i], i);
  return true;
}

function paintGrid(ctx: CanvasRenderingContext2D, frame: TimeFrame, step: number): void {
  const { colours, places, height } = frame;
  ctx.fillStyle = colours.line;
  eachTick(frame, step, x => ctx.fillRect(x, places.tracks, 1, height - places.tracks));
}

function eachTick(frame: TimeFrame, step: number, each: (x: number, time: number) => void): void {
  const { window, profile } = frame;
  const first = Math.ceil((window.from - profile.from) / step);
  const last = Math.floor((window.to - profile.from) / step);
  for (let i = first; i <= last; i++) {
    each(Math.round(xOf(frame, profile.from + i * step)), i * step);
  }
}

function paintRuler(ctx: CanvasRenderingContext2D, frame: TimeFrame, step: number): void {
  const { colours, width, marks } = frame;
  const bottom = OVERVIEW + RULER;
  ctx.fillStyle = colours.line2;
  ctx.fillRect(0, bottom - 1, width, 1);
  for (const { from, to } of marks) {
    const x = xOf(frame, from);
    ctx.fillStyle = colours.runBg;
    ctx.fillRect(x, OVERVIEW, Math.max(2, xOf(frame, to) - x), RULER - 1);
    ctx.fillStyle = colours.run;
    ctx.fillRect(x, OVERVIEW, 2, RULER - 1);
  }
  const length = frame.span ? lengthOn(ctx, frame, frame.span) : null;
  ctx.fillStyle = colours.ink2;
  ctx.font = `11px ${colours.font}`;
  eachTick(frame, step, (x, time) => {
    ctx.fillRect(x, bottom - 6, 1, 5);
    const text = time === 0 ? '0' : momentText(time, step);
    const right = x + 4 + ctx.measureText(text).width;
    const hidden = length !== null && right > length.x && x + 4 < length.x + length.wide;
    if (right <= width && !hidden) ctx.fillText(text, x + 4, bottom - 8);
  });
}

function paintSteps(ctx: CanvasRenderingContext2D, frame: TimeFrame): void {
  const { colours, places, lanes, profile, window } = frame;
  if (lanes.steps.length === 0) {
    return;
  }
  const top = places.steps;
  ctx.font = `11px ${colours.font}`;
  const told = eachStep(frame, row => {
    const x = xOf(frame, Math.max(window.from, profile.start[row]));
    const right = xOf(frame, Math.min(window.to, profile.end[row]));
    ctx.fillStyle = row === frame.selected ? colours.accent : colours.hues[7].fill;
    ctx.fillRect(x, top + 1, Math.max(1, right - x - 1), STEP_BAND - 3);
    write(ctx, frame, row, x, right, top + 13, row === frame.selected);
  });
  if (!told) {
    ctx.fillStyle = colours.hues[7].fill;
    ctx.fillRect(0, top + 1, frame.width, STEP_BAND - 3);
    ctx.fillStyle = colours.ink;
    ctx.fillText(plural(lanes.steps.length, 'step'), 10, top + 13);
  }
}

/** A name where it fits, or its beginning. */
function write(
  ctx: CanvasRenderingContext2D,
  frame: TimeFrame,
  row: number,
  left: number,
  right: number,
  baseline: number,
  chosen = false
): void {
  const room = right - left - 9;
  if (room < NAMED - 9) {
    return;
  }
  const { profile, widths, colours } = frame;
  const name = profile.name[row];
  const text = labelOf(profile, name);
  let wide = widths.get(name);
  if (wide === undefined) {
    wide = ctx.measureText(text).width;
    widths.set(name, wide);
  }
  ctx.fillStyle = chosen ? colours.onAccent : colours.ink;
  ctx.fillText(fitted(text, wide, room), left + 5, baseline);
}

function paintTracks(ctx: CanvasRenderingContext2D, frame: TimeFrame): number {
  const { lanes, places, colours, scroll, width, height } = frame;
  let drawn = 0;
  for (let track = 0; track < lanes.tracks.length; track++) {
    const top = places.tracks + places.top[track] - scroll;
    const bottom = places.tracks + places.top[track + 1] - scroll;
    if (bottom <= places.tracks || top >= height || bottom === top) continue;
    const first = lanes.ofTrack[track];
    const from = first + Math.max(0, Math.floor((places.tracks - top - HEAD) / LANE));
    const to = Math.min(
      lanes.ofTrack[track + 1],
      first + Math.max(0, Math.ceil((height - top - HEAD) / LANE))
    );
    for (let lane = from; lane < to; lane++) {
      drawn += paintLane(ctx, frame, lane, top + HEAD + (lane - first) * LANE);
    }
    const { name, process } = lanes.tracks[track];
    ctx.font = `11px ${colours.font}`;
    const title = process ? `${name} · ${process}` : name;
    ctx.fillStyle = colours.line;
    ctx.fillRect(0, top, width, 1);
    ctx.fillStyle = colours.ink2;
    ctx.fillText(title, 10, top + 14);
  }
  return drawn;
}

/** Time in which a thread stood still: hatched, over what was under way. */
function paintPauses(ctx: CanvasRenderingContext2D, frame: TimeFrame): void {
  const { profile, lanes, places, scroll, height, window, colours } = frame;
  const { track, from, to } = profile.pauses;
  const bottomOf = (lane: number): number => places.tracks + places.top[lane] - scroll;
  for (let i = 0; i < track.length; i++) {
    if (to[i] <= window.from || from[i] >= window.to) continue;
    const whole = lanes.kind !== 'thread';
    const top = Math.max(places.tracks, whole ? places.tracks : bottomOf(track[i]) + HEAD);
    const bottom = Math.min(height, whole ? height : bottomOf(track[i] + 1));
    if (bottom <= top) continue;
    const left = Math.max(-1, xOf(frame, from[i]));
    const right = Math.min(frame.width + 1, xOf(frame, to[i]));
    hatch(ctx, frame, left, top, Math.max(1, right - left), bottom - top);
    const text = `paused ${lengthText(to[i] - from[i])}`;
    ctx.font = `11px ${colours.font}`;
    const wide = ctx.measureText(text).width;
    if (right - left < wide + 20) continue;
    const x = Math.round((left + right - wide) / 2);
    ctx.fillStyle = colours.pane;
    ctx.fillRect(x - 6, top + 1, wide + 12, LANE - 2);
    ctx.fillStyle = colours.ink2;
    ctx.fillText(text, x, top + 13.5);
  }
}

/** Pixels between the lines of a hatched area. */
const HATCH = 8;

function hatch(
  ctx: CanvasRenderingContext2D,
  { colours }: TimeFrame,
  x: number,
  y: number,
  wide: number,
  high: number
): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, wide, high);
  ctx.clip();
  ctx.globalAlpha = 0.75;
  ctx.fillStyle = colours.pane;
  ctx.fillRect(x, y, wide, high);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = colours.line2;
  ctx.lineWidth = 1;
  ctx.beginPath();
  // On one grid, however the area is cut off.
  const first = Math.floor((x - high) / HATCH) * HATCH;
  for (let at = first; at < x + wide; at += HATCH) {
    ctx.moveTo(at, y + high);
    ctx.lineTo(at + high, y);
  }
  ctx.stroke();
  ctx.restore();
}

/** One lane: blocks of a colour that touch are one rectangle. */
function paintLane(
  ctx: CanvasRenderingContext2D,
  frame: TimeFrame,
  lane: number,
  top: number
): number {
  const { profile, lanes, window, width, colours, sought, selected } = frame;
  const perPixel = (window.to - window.from) / width;
  const level = levelFor(lanes, perPixel);
  const end = level.first[lane + 1];
  const high = LANE - 2;
  const wide: number[] = [];
  let drawn = 0;
  let [x, right, colour] = [0, -1, ''];
  const flush = (): void => {
    if (right < 0) return;
    ctx.fillStyle = colour;
    ctx.fillRect(x, top, right - x, high);
    drawn++;
    right = -1;
  };
  let i = firstAfter(level.end, level.first[lane], end, window.from);
  for (; i < end && level.start[i] < window.to; i++) {
    const row = level.row[i];
    const left = Math.max(-2, (level.start[i] - window.from) / perPixel);
    const stop = Math.min(width + 2, (level.end[i] - window.from) / perPixel);
    const hue = colours.hues[profile.hue[row]];
    const found = sought === null || sought[profile.name[row]] === 1;
    const fill = !found ? colours.line2 : sought ? hue.strong : hue.fill;
    if (stop - left >= 3) {
      flush();
      const chosen = row === selected;
      ctx.fillStyle = chosen ? colours.accent : fill;
      ctx.fillRect(left, top, stop - left - 1, high);
      drawn++;
      if (stop - left >= 6) {
        ctx.fillStyle = chosen ? colours.accent : hue.strong;
        ctx.fillRect(left, top, 2, high);
        // A second channel beside the colour: what runs backward has a foot.
        if (profile.hue[row] === 1) ctx.fillRect(left, top + high - 2, stop - left - 1, 2);
        if (stop - left >= NAMED) wide.push(row, left, stop);
      }
      continue;
    }
    if (right >= 0 && fill === colour && left <= right + 0.5) {
      right = Math.max(right, stop, x + 1);
      continue;
    }
    // What ends on the pixel that is painted already adds nothing to it.
    if (right >= 0 && stop <= right) continue;
    flush();
    [x, right, colour] = [left, Math.max(stop, left + 1), fill];
  }
  flush();
  ctx.font = `11px ${colours.font}`;
  for (let at = 0; at < wide.length; at += 3) {
    const row = wide[at];
    const left = Math.max(0, wide[at + 1]);
    const strong = row === selected || (sought !== null && sought[profile.name[row]] === 1);
    write(ctx, frame, row, left, wide[at + 2], top + 12.5, strong);
  }
  return drawn;
}

/** The middle of a slice's lane, and its ends. */
function placeOf(frame: TimeFrame, row: number): { left: number; right: number; y: number } | null {
  const { profile, lanes, places, scroll } = frame;
  const lane = lanes.lane[row];
  if (lane < 0) {
    return null;
  }
  const y = places.tracks + topOfLane(places, lanes, lane) - scroll + (LANE - 2) / 2;
  return { left: xOf(frame, profile.start[row]), right: xOf(frame, profile.end[row]), y };
}

/** A frame around the chosen slice, and arrows from an op to what of it ran backward. */
function paintChosen(ctx: CanvasRenderingContext2D, frame: TimeFrame): void {
  const { selected, colours, width, profile } = frame;
  const place = selected === null ? null : placeOf(frame, selected);
  if (!place || selected === null) {
    return;
  }
  ctx.strokeStyle = colours.ink;
  ctx.lineWidth = 1.5;
  const left = Math.max(-4, place.left - 1);
  const right = Math.min(width + 4, Math.max(place.right, place.left + 2));
  ctx.strokeRect(left, place.y - LANE / 2, right - left, LANE);
  ctx.strokeStyle = colours.accent;
  ctx.fillStyle = colours.accent;
  for (const other of partners(profile, selected)) {
    const there = placeOf(frame, other);
    if (!there) continue;
    const [a, b] = profile.forward[selected] >= 0 ? [there, place] : [place, there];
    ctx.beginPath();
    ctx.moveTo(a.right, a.y);
    const bend = Math.max(24, Math.abs(b.left - a.right) / 3);
    ctx.bezierCurveTo(a.right + bend, a.y, b.left - bend, b.y, b.left - 5, b.y);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(b.left, b.y);
    ctx.lineTo(b.left - 7, b.y - 4);
    ctx.lineTo(b.left - 7, b.y + 4);
    ctx.fill();
  }
}

/** The whole profile in one line. */
export function paintOverview(
  ctx: CanvasRenderingContext2D,
  { profile, lanes }: { profile: Profile; lanes: Lanes },
  colours: TimeColours,
  width: number
): void {
  ctx.fillStyle = colours.bg;
  ctx.fillRect(0, 0, width, OVERVIEW);
  const scale = width / (profile.to - profile.from);
  const level = levelFor(lanes, 1 / scale);
  const tracks = lanes.tracks
    .map((_, track) => lanes.ofTrack[track])
    .filter((lane, track) => lanes.ofTrack[track + 1] > lane)
    .slice(0, OVERVIEW_TRACKS);
  const high = (OVERVIEW - 4) / Math.max(1, tracks.length);
  tracks.forEach((lane, index) => {
    let until = -1;
    for (let i = level.first[lane]; i < level.first[lane + 1]; i++) {
      const x = (level.start[i] - profile.from) * scale;
      const right = Math.max((level.end[i] - profile.from) * scale, x + 0.5);
      if (right <= until) continue;
      ctx.fillStyle = colours.hues[profile.hue[level.row[i]]].fill;
      ctx.fillRect(x, 2 + index * high, right - x, high - 1);
      until = right;
    }
  });
}

/** The overview, with the part that is on screen. */
function paintWindow(ctx: CanvasRenderingContext2D, frame: TimeFrame): void {
  const { profile, width, colours, window, overview } = frame;
  const scale = width / (profile.to - profile.from);
  if (overview) ctx.drawImage(overview, 0, 0, width, OVERVIEW);
  const left = Math.max(0, (window.from - profile.from) * scale);
  const right = Math.min(width, (window.to - profile.from) * scale);
  ctx.globalAlpha = 0.72;
  ctx.fillStyle = colours.pane;
  ctx.fillRect(0, 0, left, OVERVIEW);
  ctx.fillRect(right, 0, width - right, OVERVIEW);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = colours.accent;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(left + 0.75, 0.75, Math.max(2, right - left - 1.5), OVERVIEW - 2.5);
}

function paintCurve(
  ctx: CanvasRenderingContext2D,
  frame: TimeFrame,
  curve: Staircase,
  top: number
): void {
  const { colours, profile, width, window } = frame;
  const perPixel = (window.to - window.from) / width;
  // Beside the profile nobody knows what was held.
  const first = Math.max(0, Math.floor(xOf(frame, profile.from)));
  const last = Math.min(width, Math.ceil(xOf(frame, profile.to)));
  const most = Math.max(1, curve.curve.peak);
  const bottom = top + CURVE - 4;
  const high = CURVE - 22;
  ctx.beginPath();
  ctx.moveTo(first, bottom);
  let step = curve.after(window.from + first * perPixel);
  for (let x = first; x < last; x++) {
    const next = curve.after(window.from + (x + 1) * perPixel);
    const y = bottom - (curve.peak(step, next) / most) * high;
    step = next;
    ctx.lineTo(x, y);
    ctx.lineTo(x + 1, y);
  }
  if (last > first) {
    ctx.lineTo(last, bottom);
    ctx.fillStyle = colours.hues[3].fill;
    ctx.fill();
  }
  ctx.fillStyle = colours.line;
  ctx.fillRect(0, top + CURVE - 1, width, 1);
  ctx.fillStyle = colours.ink2;
  ctx.font = `11px ${colours.font}`;
  const { name, peak } = curve.curve;
  ctx.fillText(`memory, ${name}: peak ${bytesText(peak)}`, 10, top + 12);
}

/** A line through the moment that is spoken of, with a dot on its curve. */
function paintMoment(ctx: CanvasRenderingContext2D, frame: TimeFrame): void {
  const { moment, curves, colours, places, window, height } = frame;
  const curve = moment ? curves[moment.curve] : undefined;
  if (!moment || !curve || moment.time < window.from || moment.time > window.to) {
    return;
  }
  const x = Math.round(xOf(frame, moment.time));
  ctx.fillStyle = colours.ink;
  ctx.fillRect(x, places.curves, 1, height - places.curves);
  const after = curve.after(moment.time);
  const share = curve.peak(after, after) / Math.max(1, curve.curve.peak);
  const bottom = places.curves + (moment.curve + 1) * CURVE - 4;
  ctx.beginPath();
  ctx.arc(x + 0.5, bottom - share * (CURVE - 22), 3.5, 0, 2 * Math.PI);
  ctx.fill();
}

function paintSpan(ctx: CanvasRenderingContext2D, frame: TimeFrame): void {
  const { span, colours, height } = frame;
  if (!span) {
    return;
  }
  const [left, right] = [xOf(frame, span.from), xOf(frame, span.to)];
  ctx.globalAlpha = 0.12;
  ctx.fillStyle = colours.accent;
  ctx.fillRect(left, OVERVIEW, right - left, height - OVERVIEW);
  ctx.globalAlpha = 1;
  ctx.fillRect(left, OVERVIEW, 1, height - OVERVIEW);
  ctx.fillRect(right - 1, OVERVIEW, 1, height - OVERVIEW);
  const { text, x, wide } = lengthOn(ctx, frame, span);
  ctx.fillRect(x, OVERVIEW + 2, wide, 17);
  ctx.fillStyle = colours.onAccent;
  ctx.fillText(text, x + 6, OVERVIEW + 14.5);
}

/** The length of the chosen span, and where it stands on the ruler. */
function lengthOn(
  ctx: CanvasRenderingContext2D,
  frame: TimeFrame,
  span: Window
): { text: string; x: number; wide: number } {
  const middle = (xOf(frame, span.from) + xOf(frame, span.to)) / 2;
  const text = lengthText(span.to - span.from);
  ctx.font = `600 11px ${frame.colours.font}`;
  const wide = ctx.measureText(text).width + 12;
  return { text, x: Math.max(2, Math.min(frame.width - wide - 2, middle - wide / 2)), wide };
}
