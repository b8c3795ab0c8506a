// Which piece of time a timeline shows, and how it moves; the ruler's steps and words. Pure.

export interface Window {
  /** ns */
  from: number;
  to: number;
}

/** Closest look: so many ns across the whole width. */
const CLOSEST = 20;
/** Share of the window beyond the ends of the profile that may be seen. */
const BEYOND = 0.1;

/** A window of the same length that has most of it inside of the whole. */
export function held(window: Window, whole: Window): Window {
  const most = (whole.to - whole.from) * (1 + 2 * BEYOND);
  const length = Math.min(most, Math.max(CLOSEST, window.to - window.from));
  const middle = (window.from + window.to) / 2;
  const room = length * BEYOND;
  const low = whole.from - room;
  const high = Math.max(low, whole.to + room - length);
  const from = Math.min(high, Math.max(low, middle - length / 2));
  return { from, to: from + length };
}

/** Shows `factor` times as much detail; what is at this share of the width stays there. */
export function zoomed(window: Window, whole: Window, share: number, factor: number): Window {
  const length = window.to - window.from;
  const most = (whole.to - whole.from) * (1 + 2 * BEYOND);
  const next = Math.min(most, Math.max(CLOSEST, length / factor));
  const at = window.from + share * length;
  return held({ from: at - share * next, to: at + (1 - share) * next }, whole);
}

/** Moves by a share of its length. */
export function panned({ from, to }: Window, whole: Window, share: number): Window {
  const by = (to - from) * share;
  return held({ from: from + by, to: to + by }, whole);
}

/** A window with some air on both sides of what it shows. */
export function around({ from, to }: Window, whole: Window, air = 0.05): Window {
  const room = Math.max((to - from) * air, CLOSEST / 4);
  return held({ from: from - room, to: to + room }, whole);
}

const UNITS = [
  ['s', 1e9],
  ['ms', 1e6],
  ['µs', 1e3],
  ['ns', 1]
] as const;

/** A length of time in three digits: '12.5 µs'. */
export function lengthText(ns: number): string {
  const size = Math.abs(ns);
  const [unit, scale] = UNITS.find(([, least]) => size >= 0.9995 * least) ?? UNITS[3];
  const value = size / scale;
  const digits = unit === 'ns' || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  const text = value.toFixed(digits).replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
  return `${ns < 0 ? '−' : ''}${text} ${unit}`;
}

/** A moment as the ruler says it: as many digits as its steps need. */
export function momentText(ns: number, step: number): string {
  const size = Math.max(Math.abs(ns), step);
  const [unit, scale] = UNITS.find(([, least]) => size >= least) ?? UNITS[3];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
  return `${(ns / scale).toFixed(Math.min(9, digits)).replace('-', '−')} ${unit}`;
}

/** A round length of time that is at least this long: 1, 2 or 5 of a power of ten. */
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map(times => times * power).find(step => step >= least * (1 - 1e-9)) ?? 1;
}
