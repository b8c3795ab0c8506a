// Nodes, badges, chips and frames at full detail and from afar. A state is told by colour and by a
// second sign: done has a tick, next a heavy border and an arrow, running dots, a problem dashes
// and '!', freed dashes and pale text.

import type { Kind } from '../model/compare/differences';
import type { Marks } from '../model/compare/model';
import type { Colouring } from '../model/colouring';
import { valueText } from '../model/colouring';
import type { States } from '../model/states';
import { Flag, State } from '../model/states';
import { numberText } from '../model/format';
import { KIND_SIGNS, gradientKind } from '../model/gradient_kind';
import { NODE_HEIGHT, BADGE_HEIGHT, BADGE_PITCH, UNDER_INDENT } from '../layout/measures';
import type { Box } from './camera';
import type { Chip } from './chips';
import type { Labels } from './labels';
import type { Colours, Palette } from './palette';
import type { OutlineBox, Scene } from './scene';
import { OUTLINE_BAND } from './scene';
import { drawSign, leafLook, markLook } from './marks';
import type { Tone } from './ramp';
import { stepOf } from './ramp';
import { pill, tick, triangle } from './shapes';

/** How much is drawn: everything, names only, boxes only, or plain rectangles. */
export type Detail = 'full' | 'names' | 'boxes' | 'far';

export function detailAt(k: number): Detail {
  return k >= 0.62 ? 'full' : k >= 0.3 ? 'names' : k >= 0.12 ? 'boxes' : 'far';
}

export interface Look {
  border: keyof Colours;
  fill: keyof Colours;
  width: number;
  dash: readonly number[];
  text: keyof Colours;
}

const PLAIN: readonly number[] = [];
const LOOKS: Record<number, Look> = {
  [State.waiting]: { border: 'line2', fill: 'bg', width: 1.2, dash: PLAIN, text: 'ink' },
  [State.future]: { border: 'line', fill: 'group', width: 1, dash: [2, 4], text: 'ink3' },
  [State.next]: { border: 'run', fill: 'runBg', width: 2.5, dash: PLAIN, text: 'ink' },
  [State.running]: { border: 'run', fill: 'bg', width: 2, dash: PLAIN, text: 'ink' },
  [State.done]: { border: 'done', fill: 'bg', width: 1.3, dash: PLAIN, text: 'ink' },
  [State.problem]: { border: 'bad', fill: 'badBg', width: 2, dash: [5, 3], text: 'ink' },
  [State.freed]: { border: 'line2', fill: 'pane', width: 1.2, dash: [3, 3], text: 'ink3' }
};

export interface Brush {
  ctx: CanvasRenderingContext2D;
  palette: Palette;
  labels: Labels;
  k: number;
  /** of a comparison: they take the place of the states' looks */
  marks?: Marks | null;
  /** colours of a measure; states keep their borders and signs */
  colouring?: Colouring | null;
}

export function drawFrame({ ctx, palette, k }: Brush, scene: Scene, group: number): void {
  const { groupX, groupY, groupWidth, groupHeight } = scene.layout;
  ctx.fillStyle = palette.group;
  if (k < 0.12) {
    ctx.fillRect(groupX[group], groupY[group], groupWidth[group], groupHeight[group]);
    return;
  }
  ctx.strokeStyle = palette.line;
  ctx.lineWidth = Math.max(1, 0.6 / k);
  pill(ctx, groupX[group], groupY[group], groupWidth[group], groupHeight[group], 12);
  ctx.fill();
  ctx.stroke();
}

/** Below this zoom outlines have no names. */
const NAMED = 0.3;
const band = OUTLINE_BAND - 4;

function meets(box: Box, view: Box): boolean {
  return (
    box.x <= view.x + view.width &&
    box.y <= view.y + view.height &&
    box.x + box.width >= view.x &&
    box.y + box.height >= view.y
  );
}

/**
 * An open container around several frames: an outline, and a band with its name at the left, or at
 * the top where rows stand beside each other.
 */
export function drawOutline(
  { ctx, palette, k }: Brush,
  outline: OutlineBox,
  view: Box,
  across: boolean
): void {
  if (!meets(outline.box, view)) {
    return;
  }
  const { x, y, width, height } = outline.box;
  ctx.strokeStyle = palette.line2;
  ctx.lineWidth = Math.max(1, 0.6 / k);
  pill(ctx, x, y, width, height, 14);
  ctx.stroke();
  if (k < NAMED) {
    return;
  }
  ctx.fillStyle = palette.group;
  ctx.beginPath();
  if (across) ctx.roundRect(x, y, width, band, [14, 14, 0, 0]);
  else ctx.roundRect(x, y, band, height, [14, 0, 0, 14]);
  ctx.fill();
}

/** The name of an outline, over the edges that run along its band. */
export function drawOutlineName(
  { ctx, palette, labels, k }: Brush,
  outline: OutlineBox,
  view: Box,
  across: boolean
): void {
  if (k < NAMED || !meets(outline.box, view)) {
    return;
  }
  const { x, y, width, height } = outline.box;
  // The name stays in view where the band is longer than that; at the left it runs downwards.
  const [begin, end] = across
    ? [Math.max(x, view.x), Math.min(x + width, view.x + view.width)]
    : [Math.max(y, view.y), Math.min(y + height, view.y + view.height)];
  const font = `11px ${palette.font}`;
  const { title, detail } = outline.container;
  const named = detail && detail !== title ? `${title} · ${detail}` : title;
  const text = labels.fit(named, font, end - begin - 46);
  ctx.save();
  if (across) ctx.translate(begin + 26, y + band / 2);
  else ctx.translate(x + band / 2 + 4, begin + 26);
  const length = 18 + labels.width(text, font);
  ctx.fillStyle = palette.group;
  if (across) ctx.fillRect(-15, -band / 2 + 1, length, band - 2);
  else ctx.fillRect(-band / 2 - 3, -15, band - 2, length);
  triangle(ctx, across ? -14 : -4, across ? -4 : -12, 8, 'down', palette.ink2);
  if (!across) ctx.rotate(Math.PI / 2);
  ctx.fillStyle = palette.ink2;
  ctx.font = font;
  ctx.fillText(text, 0, 4);
  ctx.restore();
}

/** Between a header's text and an edge that crosses it. */
const BESIDE_EDGE = 7;
/** The line's text is not cut to less than this. */
const LEAST_CODE = 70;

/** Stretches of a header from `left` to `right` that no edge crosses. */
function stretches(crossed: readonly number[], left: number, right: number): [number, number][] {
  const found: [number, number][] = [];
  let from = left;
  for (const x of crossed) {
    if (x < left || x > right) continue;
    found.push([from, x - BESIDE_EDGE]);
    from = x + BESIDE_EDGE;
  }
  found.push([from, right]);
  return found.filter(([begin, end]) => end > begin);
}

/**
 * The header: the place at the left, the line's text after it, between the edges that cross it.
 * Where they leave no room, it stands above them on a plate.
 */
export function drawHeader(
  { ctx, palette, labels }: Brush,
  scene: Scene,
  group: number,
  view: Box
): void {
  const { groupX, groupY, groupWidth } = scene.layout;
  const right = groupX[group] + groupWidth[group] - 14;
  // A frame that is wider than the view keeps its header on screen.
  const x = Math.max(groupX[group] + 28, Math.min(view.x + 14, right - 200));
  const y = groupY[group] + 20;
  triangle(ctx, groupX[group] + 12, y - 8, 8, 'down', palette.ink3);
  const { place, line } = scene.header(group);
  const placeFont = `11px ${palette.font}`;
  const lineFont = `11px ${palette.mono}`;
  const placed = labels.fit(place, placeFont, right - x);
  const placeWidth = labels.width(placed, placeFont);
  const whole = placeWidth + 10 + labels.width(labels.fit(line, lineFont, right - x), lineFont);
  const free = stretches(scene.entries.get(group) ?? [], x, right);
  const holds = (room: number) => {
    return ([from, to]: [number, number]): boolean => to - from >= room;
  };
  const at = free.find(holds(Math.min(whole, right - x))) ?? free.find(holds(placeWidth));
  const [placeX, end] = at ?? [x, right];
  let [codeX, codeEnd] = [placeX + placeWidth + 10, end];
  if (at && codeEnd - codeX < Math.min(LEAST_CODE, whole - placeWidth - 10)) {
    const after = free.slice(free.indexOf(at) + 1);
    [codeX, codeEnd] = after.find(holds(LEAST_CODE)) ?? [codeX, codeEnd];
  }
  const code = labels.fit(line, lineFont, Math.max(0, codeEnd - codeX));
  if (!at) {
    ctx.fillStyle = palette.group;
    ctx.globalAlpha = 0.92;
    ctx.fillRect(x - 3, y - 12, codeX - x + labels.width(code, lineFont) + 6, 16);
    ctx.globalAlpha = 1;
  }
  ctx.fillStyle = palette.ink3;
  ctx.font = placeFont;
  ctx.fillText(placed, placeX, y);
  ctx.fillStyle = palette.ink2;
  ctx.font = lineFont;
  ctx.fillText(code, codeX, y);
}

/** Whether a state is told by its own colours, whatever boxes are coloured by. */
function speaks(states: States, index: number): boolean {
  const state = states.node[index];
  return state === State.problem || state === State.next || state === State.future;
}

/** The step of the scale that a box has; -1: its state tells its colour. */
export function toneStep(
  colouring: Colouring | null | undefined,
  states: States,
  index: number
): number {
  if (!colouring || speaks(states, index)) {
    return -1;
  }
  return stepOf(colouring.level[index]);
}

/** A node far away: one rectangle in the colour of its measure, or of its state. */
export function farColour(
  palette: Palette,
  states: States,
  index: number,
  colouring?: Colouring | null
): string {
  if (states.flags[index] & Flag.stale) {
    return palette.bad;
  }
  const step = toneStep(colouring, states, index);
  if (step >= 0) {
    return palette.ramp[step].fill;
  }
  const state = states.node[index];
  // Done is what is measured: where nothing was, a box is as pale as one that waits.
  const plain = state === State.waiting || (colouring && state === State.done);
  return palette[plain ? 'line2' : LOOKS[state].border];
}

function sign(
  { ctx, palette }: Brush,
  state: number,
  right: number,
  middle: number,
  tone: Tone | null
): void {
  ctx.lineWidth = 1.8;
  if (state === State.done) {
    ctx.strokeStyle = tone ? tone.ink : palette.done;
    tick(ctx, right - 20, middle);
  } else if (state === State.next) {
    ctx.fillStyle = palette.run;
    ctx.beginPath();
    ctx.moveTo(right - 18, middle - 5);
    ctx.lineTo(right - 10, middle);
    ctx.lineTo(right - 18, middle + 5);
    ctx.fill();
  } else if (state === State.running) {
    ctx.fillStyle = tone ? tone.ink : palette.run;
    for (let i = 0; i < 3; i++) ctx.fillRect(right - 22 + i * 5, middle - 1.5, 3, 3);
  } else if (state === State.problem) {
    ctx.fillStyle = palette.bad;
    ctx.fillRect(right - 15, middle - 7, 2.4, 8.5);
    ctx.fillRect(right - 15, middle + 4, 2.4, 2.4);
  }
}

export function drawNode(
  brush: Brush,
  scene: Scene,
  states: States,
  index: number,
  detail: Detail
): void {
  const { ctx, palette, labels, k } = brush;
  const { x: xs, y: ys, nodeWidth: width } = scene.layout;
  const x = xs[index];
  const y = ys[index];
  const state = states.node[index];
  const { marks } = brush;
  const look = marks ? markLook(marks, index) : LOOKS[state];
  const colouring = marks ? null : brush.colouring;
  const step = toneStep(colouring, states, index);
  const tone = step < 0 ? null : palette.ramp[step];
  const ink = tone ? tone.ink : palette[look.text];
  ctx.fillStyle = tone ? tone.fill : palette[look.fill];
  ctx.strokeStyle = palette[look.border];
  ctx.lineWidth = Math.max(look.width, 0.8 / k);
  const fold = scene.fold(index);
  if (fold) {
    // A closed container is a pile of boxes.
    for (const offset of [6, 3]) {
      pill(ctx, x + offset, y + offset, width - 2 * offset, NODE_HEIGHT, 9);
      ctx.fill();
      ctx.stroke();
    }
  }
  if (look.dash.length > 0) ctx.setLineDash([...look.dash]);
  pill(ctx, x, y, width, NODE_HEIGHT, 9);
  ctx.fill();
  ctx.stroke();
  if (look.dash.length > 0) ctx.setLineDash([]);
  ctx.fillStyle = palette[look.border];
  ctx.beginPath();
  ctx.roundRect(x, y + 8, 4, NODE_HEIGHT - 16, 2);
  ctx.fill();
  if (detail === 'boxes') {
    if (states.flags[index] & Flag.stale) {
      ctx.fillStyle = palette.bad;
      ctx.fillRect(x + width - 30, y + 9, 20, 20);
    }
    return;
  }
  const signRoom =
    !marks && (state === State.waiting || state === State.future || state === State.freed)
      ? 10
      : 26;
  const room = width - (scene.fold(index) ? 28 : 14) - signRoom;
  const indent = fold ? 28 : 14;
  if (fold) triangle(ctx, x + 13, y + NODE_HEIGHT / 2 - 4, 8, 'right', ink);
  ctx.fillStyle = ink;
  if (detail === 'names') {
    const size = Math.min(20, 9.5 / k);
    const font = `600 ${size}px ${palette.font}`;
    const mark = KIND_SIGNS[gradientKind(states, index)];
    const named = mark === '' ? scene.name(index) : `${mark} ${scene.name(index)}`;
    const text = labels.fit(named, font, width - 10 - indent);
    ctx.font = font;
    ctx.fillText(text, x + indent, y + NODE_HEIGHT / 2 + size * 0.35);
    return;
  }
  const nameFont = `600 12px ${palette.font}`;
  const name = labels.fit(scene.name(index), nameFont, room);
  ctx.font = nameFont;
  ctx.fillText(name, x + indent, y + 16);
  const smallFont = `10.5px ${palette.font}`;
  const norm = states.norm[index];
  const shape = scene.shape(index);
  const kind = gradientKind(states, index);
  const marked = kind === 'plain' ? '' : `${KIND_SIGNS[kind]} `;
  const told = colouring && (fold || colouring.by !== 'norm') ? valueText(colouring, index) : '';
  const label = told
    ? `${shape}   ${told}`
    : Number.isNaN(norm) || norm >= 0
      ? `${shape}   ${marked}norm ${numberText(norm)}`
      : kind === 'none'
        ? `${shape}   ${marked}no gradient`
        : shape;
  const fitted = labels.fit(label, smallFont, room);
  const grave = kind === 'nonfinite' || kind === 'exploding';
  ctx.fillStyle = tone
    ? tone.ink
    : palette[grave ? 'bad' : look.text === 'ink' ? 'ink2' : look.text];
  ctx.font = smallFont;
  const small = fitted.endsWith('…') ? labels.fit(shape, smallFont, room) : fitted;
  ctx.fillText(small, x + indent, y + 30);
  if (marks) drawSign(brush, marks.kind[index] as Kind, x + width, y + NODE_HEIGHT / 2);
  else sign(brush, state, x + width, y + NODE_HEIGHT / 2, tone);
}

export function drawBadge(
  brush: Brush,
  scene: Scene,
  states: States,
  badge: number,
  detail: Detail
): void {
  const { ctx, palette, labels, k } = brush;
  const x = scene.badgeX[badge];
  const y = scene.badgeY[badge];
  const width = scene.badgeWidth[badge];
  const known = scene.graph.badgeKnown[badge] > 0;
  ctx.fillStyle = palette[known ? 'paramBg' : 'pane'];
  ctx.strokeStyle = palette[known ? 'param' : 'line2'];
  const leaf = states.leaf.get(scene.graph.badgeSeq[badge]);
  ctx.lineWidth = Math.max(leaf === State.next ? 2.5 : 1, 0.7 / k);
  if (leaf === State.next) ctx.strokeStyle = palette.run;
  if (leaf === State.problem) ctx.strokeStyle = palette.bad;
  const mark = brush.marks ? leafLook(brush.marks, scene.graph.badgeSeq[badge]) : null;
  if (mark) {
    ctx.fillStyle = palette[mark.fill];
    ctx.strokeStyle = palette[mark.border];
    ctx.lineWidth = Math.max(mark.width, 0.7 / k);
  }
  if (!known || leaf === State.problem || mark?.dash.length) ctx.setLineDash([3, 3]);
  pill(ctx, x, y, width, BADGE_HEIGHT, BADGE_HEIGHT / 2);
  ctx.fill();
  ctx.stroke();
  ctx.setLineDash([]);
  if (detail === 'boxes') {
    return;
  }
  const { label, shape } = scene.badgeText(badge);
  const size = detail === 'full' ? 12 : Math.min(18, 9.5 / k);
  const font = `600 ${size}px ${palette.font}`;
  const done = leaf === State.done && detail === 'full';
  const room = width - 26 - (done || mark ? 14 : 0);
  const fitted = labels.fit(label, font, room);
  const used = labels.width(fitted, font);
  ctx.font = font;
  ctx.fillStyle = palette[mark ? mark.border : known ? 'param' : 'ink3'];
  ctx.fillText(fitted, x + 13, y + BADGE_HEIGHT / 2 + size * 0.35);
  if (detail === 'full' && shape) {
    const small = `10.5px ${palette.font}`;
    const text = labels.fit(shape, small, room - used - 7);
    ctx.font = small;
    ctx.fillStyle = palette.ink2;
    ctx.fillText(text, x + 13 + used + 7, y + BADGE_HEIGHT / 2 + 4);
  }
  if (mark && brush.marks && detail === 'full') {
    const kind = brush.marks.leaf.get(scene.graph.badgeSeq[badge]) as Kind;
    drawSign(brush, kind, x + width, y + BADGE_HEIGHT / 2);
  } else if (done) {
    ctx.strokeStyle = palette.done;
    ctx.lineWidth = 1.6;
    tick(ctx, x + width - 21, y + BADGE_HEIGHT / 2);
  }
}

const CHIP_HEIGHT = 17;
/** Length of the edge before a detached input. */
const BREAK_EDGE = 26;

/** An edge that was detached: dashes, two strokes across a gap, dashes. */
function drawBrokenEdge({ ctx, palette }: Brush, x: number, y: number, bottom: number): void {
  ctx.strokeStyle = palette.ink3;
  ctx.lineWidth = 1.4;
  const line = (fromX: number, fromY: number, toX: number, toY: number): void => {
    ctx.beginPath();
    ctx.moveTo(fromX, fromY);
    ctx.lineTo(toX, toY);
    ctx.stroke();
  };
  ctx.setLineDash([3, 2]);
  // Below the node's badges it leaves the node at its lower border.
  if (bottom < y) line(x - 18, bottom, x - 18, y);
  line(x - (bottom < y ? 18 : 7), y, x + 6, y);
  line(x + 18, y, x + BREAK_EDGE, y);
  ctx.setLineDash([]);
  line(x + 7.5, y + 5, x + 11.5, y - 5);
  line(x + 12.5, y + 5, x + 16.5, y - 5);
}

/**
 * Notes at a node's right: two above each other where no badge stands there, otherwise side by side
 * below the last one; below the node where badges stand there, too.
 */
export function drawChips(brush: Brush, scene: Scene, index: number, chips: readonly Chip[]): void {
  const { ctx, palette, labels } = brush;
  const { x: xs, y: ys, nodeWidth, across } = scene.layout;
  const badges = scene.graph.badgeStart[index + 1] - scene.graph.badgeStart[index];
  const inLine = across || badges > 0;
  const font = `10px ${palette.font}`;
  let x = xs[index] + (across ? UNDER_INDENT : nodeWidth + 8);
  let y = ys[index] + (badges > 0 ? NODE_HEIGHT - 2 + (badges - 1) * BADGE_PITCH : 1);
  if (across) y = ys[index] + NODE_HEIGHT + 3 + (badges > 0 ? badges * BADGE_PITCH + 4 : 0);
  let widest = 0;
  chips.forEach((chip, i) => {
    const text = labels.fit(chip.text, font, 170);
    const width = labels.width(text, font) + 16;
    const bad = chip.kind === 'bad';
    const detached = chip.kind === 'detached';
    const plain = chip.kind === 'hook' || detached;
    if (detached) {
      // In the place of an edge: a dashed one that stops at a gap.
      drawBrokenEdge(brush, x, y + CHIP_HEIGHT / 2, i === 0 ? ys[index] + NODE_HEIGHT : Infinity);
      x += BREAK_EDGE;
    }
    ctx.fillStyle = palette[bad ? 'badBg' : plain ? 'bg' : 'saveBg'];
    ctx.strokeStyle = palette[bad ? 'bad' : plain ? 'ink3' : 'save'];
    ctx.lineWidth = bad ? 1.5 : chip.kind === 'break' ? 1.2 : 0.8;
    if (bad || detached) ctx.setLineDash([3, 2]);
    pill(ctx, x, y, width, CHIP_HEIGHT, CHIP_HEIGHT / 2);
    ctx.fill();
    ctx.stroke();
    if (bad || detached) ctx.setLineDash([]);
    ctx.fillStyle = palette[bad ? 'bad' : plain ? 'ink2' : 'save'];
    ctx.font = font;
    ctx.fillText(text, x + 8, y + 12);
    if (detached) x -= BREAK_EDGE;
    widest = Math.max(widest, width + (detached ? BREAK_EDGE : 0));
    if (inLine || i % 2 === 1) {
      x += inLine ? width + 4 + (detached ? BREAK_EDGE : 0) : widest + 4;
      if (!inLine) {
        y -= CHIP_HEIGHT + 2;
        widest = 0;
      }
    } else {
      y += CHIP_HEIGHT + 2;
    }
  });
}

/** A ring around a box: selected, or found by the search. */
export function drawRing(
  { ctx, palette, k }: Brush,
  x: number,
  y: number,
  w: number,
  h: number,
  kind: 'selected' | 'hit' | 'over'
): void {
  const gap = kind === 'over' ? 0 : 3.5;
  ctx.strokeStyle = palette[kind === 'over' ? 'ink3' : 'accent'];
  ctx.lineWidth = Math.max(kind === 'selected' ? 2 : 1.5, (kind === 'selected' ? 1.8 : 1.2) / k);
  if (kind === 'hit') ctx.setLineDash([5, 4]);
  pill(ctx, x - gap, y - gap, w + 2 * gap, h + 2 * gap, h < NODE_HEIGHT ? h : 12);
  ctx.stroke();
  if (kind === 'hit') ctx.setLineDash([]);
}
