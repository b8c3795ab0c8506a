// How large a graph would be drawn in either direction, before it is laid out, and in which one
// more of it can be read at once. Pure, linear.

import type { LayoutInput } from './measures';
import { ACROSS_GROUP_GAP, ACROSS_ROW_GAP, COLUMN_GAP, GROUP_GAP, ROW_GAP } from './measures';
import { FRAME_BOTTOM, FRAME_LEFT, FRAME_RIGHT, FRAME_TOP } from './measures';
import { ranks } from './ranks';

export interface Size {
  width: number;
  height: number;
}

/** Size of its drawing without lanes. */
export function extentOf(input: LayoutInput): Size {
  const { count, edgeFrom, edgeTo, groupOf, groups, framed, headerWidth, across } = input;
  const [inRow, along] = across
    ? [input.boxHeight, input.boxWidth]
    : [input.boxWidth, input.boxHeight];
  const [rowGap, groupGap] = across
    ? [ACROSS_ROW_GAP, ACROSS_GROUP_GAP]
    : [ROW_GAP, GROUP_GAP];
  const inner: number[] = [];
  const outer: number[] = [];
  for (let e = 0; e < edgeFrom.length; e++)
    (groupOf[edgeFrom[e]] === groupOf[edgeTo[e]] ? inner : outer).push(e);
  const rank = ranks(
    count,
    inner.map(e => edgeFrom[e]),
    inner.map(e => edgeTo[e])
  );
  // Rows of all groups behind each other.
  const base = new Uint32Array(groups + 1);
  for (let v = 0; v < count; v++)
    base[groupOf[v] + 1] = Math.max(base[groupOf[v] + 1], rank[v] + 1);
  for (let g = 0; g < groups; g++) base[g + 1] += base[g];
  const length = new Float64Array(base[groups]);
  const breadth = new Float64Array(base[groups]);
  for (let v = 0; v < count; v++) {
    const row = base[groupOf[v]] + rank[v];
    length[row] = Math.max(length[row], along[v]);
    breadth[row] += inRow[v] + COLUMN_GAP;
  }

  const groupRank = ranks(
    groups,
    outer.map(e => groupOf[edgeFrom[e]]),
    outer.map(e => groupOf[edgeTo[e]])
  );
  const longest: number[] = [];
  const broad: number[] = [];
  for (let g = 0; g < groups; g++) {
    let [own, wide] = [-rowGap, 0];
    for (let row = base[g]; row < base[g + 1]; row++) {
      own += length[row] + rowGap;
      wide = Math.max(wide, breadth[row]);
    }
    if (framed[g]) {
      const [x, y] = [FRAME_LEFT + FRAME_RIGHT, FRAME_TOP + FRAME_BOTTOM];
      own += across ? x : y;
      wide += across ? y : x;
      if (across) own = Math.max(own, headerWidth[g]);
      else wide = Math.max(wide, headerWidth[g]);
    }
    const row = groupRank[g];
    longest[row] = Math.max(longest[row] ?? 0, own);
    broad[row] = (broad[row] ?? 0) + wide + COLUMN_GAP;
  }
  let [all, most] = [-groupGap, 0];
  for (let row = 0; row < longest.length; row++) {
    all += (longest[row] ?? 0) + groupGap;
    most = Math.max(most, broad[row] ?? 0);
  }
  return across ? { width: all, height: most } : { width: most, height: all };
}

/**
 * How well a drawing can be read in a view: above 1 where all of it can, the more the larger it is;
 * otherwise the share of it that is seen at a zoom at which names can be read.
 */
export function readable(drawing: Size, view: Size, legible: number, reading: number): number {
  const [across, down] = [view.width / drawing.width, view.height / drawing.height];
  const fit = Math.min(1, across, down);
  if (fit >= legible) {
    return 1 + fit;
  }
  return Math.min(1, across / reading) * Math.min(1, down / reading);
}
