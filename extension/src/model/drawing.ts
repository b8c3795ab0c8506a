// How the reader wants graphs drawn: what boxes are coloured by, and where edges lead. Kept as
// text; what is read back is checked. Pure.

import type { ColourBy } from './colouring';
import { COLOUR_BY } from './colouring';

export const DIRECTIONS = ['auto', 'down', 'right'] as const;

/** 'auto': the one in which more of the graph can be read at once */
export type Direction = (typeof DIRECTIONS)[number];

/** The one after it, for a button that goes round. */
export function nextDirection(direction: Direction): Direction {
  return DIRECTIONS[(DIRECTIONS.indexOf(direction) + 1) % DIRECTIONS.length];
}

export interface Drawing {
  colourBy: ColourBy;
  direction: Direction;
  /** as the program ran, the loss at the end; else as gradients flow, from the loss on */
  upward: boolean;
}

export const PLAIN_DRAWING: Drawing = { colourBy: 'state', direction: 'auto', upward: false };

/** Choices from text that was kept somewhere; what is not one is as usual. */
export function readDrawing(text: string | null): Drawing {
  let found: Partial<Record<keyof Drawing, unknown>> | null;
  try {
    found = JSON.parse(text ?? 'null') as typeof found;
  } catch {
    found = null;
  }
  const kept = typeof found === 'object' && found ? found : PLAIN_DRAWING;
  const { colourBy, direction, upward }: Partial<Record<keyof Drawing, unknown>> = kept;
  return {
    colourBy: COLOUR_BY.find(one => one === colourBy) ?? PLAIN_DRAWING.colourBy,
    direction: DIRECTIONS.find(one => one === direction) ?? PLAIN_DRAWING.direction,
    upward: upward === true
  };
}
