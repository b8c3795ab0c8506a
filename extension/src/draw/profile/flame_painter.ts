// Calls in calls as boxes: as wide as they took, below the one that called them.

import type { Profile } from '../../model/profile/profile';
import type { Call } from '../../model/profile/summary';
import type { TimeColours } from './colours';
import { fitted, labelOf } from './painter';

export const FLAME_ROW = 19;
/** Narrower boxes are left out with all that is below them. */
const NARROWEST = 0.7;
const NAMED = 30;

export interface Box {
  call: Call;
  x: number;
  width: number;
  depth: number;
}

/** The boxes of a call and what it called; of a call of nothing only those inside. */
export function flameBoxes(top: Call, width: number, most: number): Box[] {
  const boxes: Box[] = [];
  const scale = width / Math.max(1, top.total);
  const rooted = top.name < 0;
  const waiting: Box[] = [{ call: top, x: 0, width, depth: rooted ? -1 : 0 }];
  for (let box = waiting.pop(); box; box = waiting.pop()) {
    if (box.depth >= 0) boxes.push(box);
    if (box.depth + 1 >= most) continue;
    let { x } = box;
    for (const call of box.call.inner) {
      const wide = call.total * scale;
      // The longest stand first: those after are narrower still.
      if (wide < NARROWEST) break;
      waiting.push({ call, x, width: wide, depth: box.depth + 1 });
      x += wide;
    }
  }
  return boxes;
}

export function paintFlame(
  ctx: CanvasRenderingContext2D,
  profile: Profile,
  boxes: readonly Box[],
  colours: TimeColours,
  width: number,
  over: Call | null
): void {
  ctx.fillStyle = colours.pane;
  ctx.fillRect(0, 0, width, FLAME_ROW * 200);
  ctx.font = `11px ${colours.font}`;
  for (const { call, x, width: wide, depth } of boxes) {
    const hue = colours.hues[call.hue];
    const top = depth * FLAME_ROW;
    ctx.fillStyle = call === over ? colours.accent : hue.fill;
    ctx.fillRect(x, top, Math.max(0.7, wide - 1), FLAME_ROW - 2);
    if (wide < NAMED) continue;
    ctx.fillStyle = hue.strong;
    ctx.fillRect(x, top, 2, FLAME_ROW - 2);
    const text = labelOf(profile, call.name);
    ctx.fillStyle = call === over ? colours.onAccent : colours.ink;
    ctx.fillText(fitted(text, ctx.measureText(text).width, wide - 9), x + 5, top + 12.5);
  }
}
