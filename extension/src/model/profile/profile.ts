// A profile in the page: when what ran, in typed arrays that travel from the worker without a copy.
// It comes from our own columns, from a Chrome trace or from a recording; nothing here knows which.

import type { Pauses } from './pauses';
import { pausedIn } from './pauses';

/** What a slice is, and so how it is coloured. */
export const Hue = {
  forward: 0,
  backward: 1,
  user: 2,
  module: 3,
  python: 4,
  device: 5,
  other: 6,
  step: 7,
  /** no work: the moment at which a node was made, of a recording */
  made: 8
} as const;
export type Hue = (typeof Hue)[keyof typeof Hue];

export const HUE_NAMES = [
  'forward',
  'backward',
  'user range',
  'module',
  'Python function',
  'device',
  'other',
  'step',
  'node made'
] as const;

export interface Track {
  name: string;
  /** the process, where a file has more than one */
  process: string;
}

/** Bytes alive on one device, as a staircase. */
export interface MemoryCurve {
  name: string;
  /** ns since the profile's zero */
  time: Float64Array;
  total: Float64Array;
  peak: number;
  /** what was alive when, where the file tells */
  blocks: Blocks | null;
}

/** Pieces of memory, in the order in which they came. */
export interface Blocks {
  /** ns since the profile's zero; Infinity: not freed in it */
  from: Float64Array;
  to: Float64Array;
  bytes: Float64Array;
  /** row of `kinds` */
  kind: Uint8Array;
  track: Int32Array;
  /** the slice in which it came, -1: it was there before, or came outside of any */
  row: Int32Array;
  /** what a piece is: 'parameter', 'activation' ... */
  kinds: string[];
}

/** A line of one run of a notebook's cell. */
export interface LinePlace {
  cell: string;
  execution: number | null;
  /** from 1 */
  line: number;
  /** as it ran */
  text: string;
}

/** Rows sorted by track, then start, the outer of two first. `[i, last[i])` is a subtree. */
export interface Slices {
  count: number;
  /** ns since the profile's zero */
  start: Float64Array;
  end: Float64Array;
  /** ns in it and in no slice inside */
  own: Float64Array;
  /** row of `names` */
  name: Int32Array;
  hue: Uint8Array;
  track: Int32Array;
  /** the slice around it in its track, -1: none */
  parent: Int32Array;
  depth: Int32Array;
  last: Int32Array;
  /** number of the node that it made or ran, -1: none */
  seq: Float64Array;
  /** of what runs backward: row of the op that made the node, -1: not here */
  forward: Int32Array;
  /** row of `texts` that says more (shapes of the inputs), -1: nothing */
  note: Int32Array;
  /** row of `texts` with the source line, the innermost first, -1: not known */
  line: Int32Array;
}

export interface Profile extends Slices {
  names: string[];
  texts: string[];
  tracks: Track[];
  memory: MemoryCurve[];
  pauses: Pauses;
  /** by slice, row of `texts` with its module's path, -1: none; null: the slices around tell */
  modules: Int32Array | null;
  /** lines that stand in a notebook, by row of `texts` */
  places: Map<number, LinePlace>;
  /** first and last moment, ns since the profile's zero */
  from: number;
  to: number;
  /** ns that the collection of one slice costs; 0: not known */
  overhead: number;
  /** what of the file could not be read, in sentences */
  notices: string[];
}

/** Buffers that a worker hands over. */
export function buffersOf(profile: Profile): ArrayBuffer[] {
  const parts: object[] = [profile, profile.pauses];
  for (const curve of profile.memory) parts.push(curve, curve.blocks ?? {});
  const values: unknown[] = parts.flatMap(part => Object.values(part));
  const arrays = values.filter(value => ArrayBuffer.isView(value));
  return [...new Set(arrays.map(array => array.buffer as ArrayBuffer))];
}

/** ns that a slice took; in a pause it did nothing. */
export function lengthOf({ start, end, track, pauses }: Profile, row: number): number {
  return end[row] - start[row] - pausedIn(pauses, track[row], start[row], end[row]);
}

/** The slice and what of it ran backward, or of what runs backward its op: joined by arrows. */
export function partners(profile: Profile, row: number): number[] {
  const { forward } = profile;
  if (forward[row] >= 0) {
    return [forward[row]];
  }
  const found: number[] = [];
  for (let i = forward.indexOf(row); i >= 0 && found.length < 8; i = forward.indexOf(row, i + 1)) {
    found.push(i);
  }
  return found;
}

/** Nodes that are compared before a profile counts as one of the recording that is here. */
const COMPARED = 2000;
const RUNS_BACKWARD = /\w+Backward\d*$|AccumulateGrad$/;

/**
 * Whether its numbers are those of a recording's nodes: what ran backward has the same name there.
 * Numbers begin anew in each process, so that those of another program agree only by accident.
 */
export function sameNodes(profile: Profile, nameOf: (seq: number) => string): boolean {
  const { count, hue, seq, name, names } = profile;
  let compared = 0;
  for (let i = 0; i < count && compared < COMPARED; i++) {
    if (hue[i] !== Hue.backward || seq[i] < 0) continue;
    const there = nameOf(seq[i]);
    const here = RUNS_BACKWARD.exec(names[name[i]] ?? '')?.[0] ?? '';
    if (there === '' || here === '') continue;
    if (there !== here) return false;
    compared++;
  }
  return compared > 0;
}
