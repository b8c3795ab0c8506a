// Colours of the timeline: the panel's palette, and for each kind of slice a fill that text stands
// on and a strong one for its edge.

import { HUE_NAMES } from '../../model/profile/profile';
import type { Palette } from '../palette';
import { readColours, readPalette } from '../palette';

export interface TimeColours extends Palette {
  onAccent: string;
  /** ground of every other step */
  band: string;
  /** by Hue */
  hues: { fill: string; strong: string }[];
}

/** How the style sheet calls the colours of the kinds, in their order. */
export const HUE_VARIABLES = HUE_NAMES.map(
  name => `--agv-time-${name.split(' ')[0].toLowerCase()}`
);

export function readTimeColours(element: HTMLElement): TimeColours {
  const names = [...HUE_VARIABLES, ...HUE_VARIABLES.map(name => `${name}-fill`)];
  const found = readColours(element, [...names, '--agv-on-accent', '--agv-time-band']);
  const count = HUE_VARIABLES.length;
  return {
    ...readPalette(element),
    onAccent: found[2 * count],
    band: found[2 * count + 1],
    hues: HUE_VARIABLES.map((_, i) => ({ strong: found[i], fill: found[count + i] }))
  };
}
