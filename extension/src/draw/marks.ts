// Marks of a comparison on nodes and badges: a colour and a sign for what was added, removed or
// changed; what is equal stays plain with a small '='.

import { KIND_MARKS, Kind } from '../model/compare/differences';
import type { Marks } from '../model/compare/model';
import type { Chip } from './chips';
import type { Brush, Look } from './nodes';
import type { Palette } from './palette';

const LOOKS: Record<Kind, Look> = {
  [Kind.equal]: { border: 'line2', fill: 'bg', width: 1.2, dash: [], text: 'ink2' },
  [Kind.changed]: { border: 'run', fill: 'runBg', width: 2, dash: [], text: 'ink' },
  [Kind.added]: { border: 'done', fill: 'doneBg', width: 2, dash: [], text: 'ink' },
  [Kind.removed]: { border: 'bad', fill: 'badBg', width: 2, dash: [5, 3], text: 'ink' }
};

export function markLook(marks: Marks, box: number): Look {
  return LOOKS[marks.kind[box] as Kind];
}

export function leafLook(marks: Marks, seq: number): Look | null {
  const kind = marks.leaf.get(seq);
  return kind === undefined || kind === Kind.equal ? null : LOOKS[kind];
}

/** The sign at the right end of a box. */
export function drawSign(
  { ctx, palette }: Brush,
  kind: Kind,
  right: number,
  middle: number
): void {
  ctx.fillStyle = palette[kind === Kind.equal ? 'ink3' : LOOKS[kind].border];
  ctx.font = `700 ${kind === Kind.equal ? 12 : 16}px ${palette.font}`;
  ctx.fillText(KIND_MARKS[kind], right - 19, middle + (kind === Kind.equal ? 4 : 5.5));
}

export function markColour(palette: Palette, marks: Marks, box: number): string {
  return palette[markLook(marks, box).border];
}

export function markChips(marks: Marks, box: number): Chip[] {
  return (marks.notes[box] ?? []).map(text => ({ kind: 'hook', text }));
}
