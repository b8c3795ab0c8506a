// The scale of colours by which boxes are coloured: pale where there is little, strong where there
// is much, told apart by lightness alone; and the ink that can be read on each.

/** Variables of the scale's stops, from its low end to its high one. */
export const RAMP_VARIABLES = [0, 1, 2, 3, 4].map(i => `--agv-ramp${i}`);

/** Steps that are told apart. */
const STEPS = 25;

export interface Tone {
  fill: string;
  ink: string;
}

export type Ramp = readonly Tone[];

/** Red, green, blue of what a computed style says, 0 to 255. */
function channels(colour: string): number[] {
  const found = colour.match(/[\d.]+/g)?.slice(0, 3).map(Number) ?? [];
  // color(srgb 0.1 0.2 0.3), as mixed colours are told.
  return colour.startsWith('color(') ? found.map(part => 255 * part) : found;
}

/** How bright the eye finds it, 0 to 1. */
function luminance(rgb: readonly number[]): number {
  const [r, g, b] = rgb.map(part => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** The scale between these stops; `dark` and `light` are the inks to choose from. */
export function rampOf(stops: readonly string[], dark = '#000000', light = '#ffffff'): Ramp {
  const known = stops.map(channels);
  const contrast = (a: number, b: number): number =>
    (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const [low, high] = [dark, light].map(hex =>
    luminance([1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16)))
  );
  return Array.from({ length: STEPS }, (_, step) => {
    const at = (step / (STEPS - 1)) * (stops.length - 1);
    const i = Math.min(stops.length - 2, Math.floor(at));
    const rgb = known[i].map((from, c) => Math.round(from + (at - i) * (known[i + 1][c] - from)));
    const own = luminance(rgb);
    const ink = contrast(own, low) >= contrast(own, high) ? dark : light;
    return { fill: `rgb(${rgb.join(', ')})`, ink };
  });
}

/** The step of a level, 0 .. 1; -1 for a box that has no place on the scale. */
export function stepOf(level: number): number {
  return level < 0 ? -1 : Math.min(STEPS - 1, Math.round(level * (STEPS - 1)));
}
