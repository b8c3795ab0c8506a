// How much of a profile each line of a notebook is: its time, its backward's included, and the
// memory that it holds at the peak. Pure, linear in slices.

import type { HeatMark } from '../../protocol/controller';
import { aliveIn, highest } from './alive';
import { belonging } from './groups';
import type { LinePlace, Profile } from './profile';

export interface LineCost {
  place: LinePlace;
  /** row of `keys` of what slices belong to */
  key: number;
  /** ns in it and in what of it ran backward */
  ns: number;
  /** bytes held at the peak */
  bytes: number;
}

export interface LineCosts {
  lines: LineCost[];
  /** of all slices, and at the peak */
  ns: number;
  bytes: number;
}

export function lineCosts(profile: Profile): LineCosts {
  const { of, keys } = belonging(profile, 'line');
  const own = new Float64Array(keys.length);
  let ns = 0;
  for (let i = 0; i < profile.count; i++) {
    ns += profile.own[i];
    if (of[i] >= 0) own[of[i]] += profile.own[i];
  }
  const held = new Map<string, number>();
  const curve = profile.memory.find(({ blocks }) => blocks);
  let bytes = 0;
  if (curve?.blocks) {
    const alive = aliveIn(profile, curve.blocks, highest(curve, profile.from, profile.to));
    bytes = alive.bytes;
    for (const [line, size] of alive.lines) held.set(line, size);
  }
  const places = new Map<string, LinePlace>();
  for (const [row, place] of profile.places) places.set(profile.texts[row], place);
  const lines = keys.flatMap((text, key): LineCost[] => {
    const place = places.get(text);
    return place ? [{ place, key, ns: own[key], bytes: held.get(text) ?? 0 }] : [];
  });
  return { lines, ns, bytes };
}

const percent = (part: number, whole: number): string =>
  `${Math.round((100 * part) / Math.max(1, whole))} %`;

/** The same as marks; how ns and bytes are said is the caller's. */
export function heatMarks(
  { lines, ns, bytes }: LineCosts,
  say: { time: (ns: number) => string; bytes: (bytes: number) => string }
): HeatMark[] {
  const most = Math.max(1, ...lines.map(line => line.ns));
  const largest = Math.max(1, ...lines.map(line => line.bytes));
  return lines.map(({ place, ns: own, bytes: held }) => ({
    ...place,
    time: own / most,
    memory: held / largest,
    says:
      `${say.time(own)} of ${say.time(ns)} (${percent(own, ns)}) with its backward` +
      (held > 0 ? `; ${say.bytes(held)} of ${say.bytes(bytes)} at the peak of memory` : '')
  }));
}
