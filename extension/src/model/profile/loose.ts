// Slices as they come from a file, in any order: growing columns, which `assemble` makes a profile.

import { oneLine } from '../../protocol/text';
import type { Hue, Track } from './profile';

/** Longest name or text of a slice that is kept. */
const LONGEST = 300;

/** Texts told once each, and how many were too many. */
export class Texts {
  readonly all: string[] = [];
  left = 0;
  private readonly rows = new Map<string, number>();

  constructor(private readonly most: number) {}

  row(text: string): number {
    const known = this.rows.get(text);
    if (known !== undefined) {
      return known;
    }
    if (this.all.length >= this.most) {
      this.left++;
      return -1;
    }
    this.all.push(oneLine(text, LONGEST));
    // What is longer than what is kept would be kept here as a key.
    if (text.length <= 4 * LONGEST) this.rows.set(text, this.all.length - 1);
    return this.all.length - 1;
  }
}

export interface LooseSlice {
  start: number;
  end: number;
  name: number;
  hue: Hue;
  track: number;
  seq: number;
  /** it runs backward over what the forward op with its seq made */
  runsBackward: boolean;
  note: number;
  line: number;
}

/** A column for each field of a slice. */
export interface Columns {
  start: Float64Array;
  end: Float64Array;
  seq: Float64Array;
  name: Int32Array;
  track: Int32Array;
  note: Int32Array;
  line: Int32Array;
  hue: Uint8Array;
  backward: Uint8Array;
}

type Grown = Float64Array | Int32Array | Uint8Array;

function twice<T extends Grown>(array: T): T {
  const make = array.constructor as new (length: number) => T;
  const grown = new make(array.length * 2);
  grown.set(array);
  return grown;
}

export class Loose implements Columns {
  count = 0;
  start = new Float64Array(1024);
  end = new Float64Array(1024);
  seq = new Float64Array(1024);
  name = new Int32Array(1024);
  track = new Int32Array(1024);
  note = new Int32Array(1024);
  line = new Int32Array(1024);
  hue = new Uint8Array(1024);
  backward = new Uint8Array(1024);
  /** rows of forward ops, where the file tells them; else they are found by seq */
  forward: Int32Array | null = null;
  readonly tracks: Track[] = [];

  add(slice: LooseSlice): number {
    if (this.count === this.start.length) this.grow();
    const i = this.count++;
    this.start[i] = slice.start;
    this.end[i] = slice.end;
    this.seq[i] = slice.seq;
    this.name[i] = slice.name;
    this.track[i] = slice.track;
    this.note[i] = slice.note;
    this.line[i] = slice.line;
    this.hue[i] = slice.hue;
    this.backward[i] = slice.runsBackward ? 1 : 0;
    return i;
  }

  /** These slices and no others, without a copy: the first `count` of each column. */
  take(count: number, columns: Columns): void {
    Object.assign(this, columns);
    this.count = count;
  }

  private grow(): void {
    this.start = twice(this.start);
    this.end = twice(this.end);
    this.seq = twice(this.seq);
    this.name = twice(this.name);
    this.track = twice(this.track);
    this.note = twice(this.note);
    this.line = twice(this.line);
    this.hue = twice(this.hue);
    this.backward = twice(this.backward);
  }
}
