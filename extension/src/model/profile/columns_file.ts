// A profile of our own in a file: a line that names the format, a JSON header, then the columns of
// docs/notes/profile-files one after the other, in binary. No number in it is trusted.

import { ProtocolError, isObject } from '../../protocol/decode';
import { KEPT, cut, oneLine } from '../../protocol/text';
import { plural } from '../format';
import { assemble } from './assemble';
import { hueOfKind } from './kinds';
import { Loose, Texts } from './loose';
import type { Pause } from './pauses';
import { pausesOf } from './pauses';
import type { Blocks, LinePlace, MemoryCurve, Profile } from './profile';
import { Hue } from './profile';

export const PROFILE_MAGIC = 'ag_visual-profile';
const VERSION = 1;
const LONGEST_HEADER = 2 ** 28;
const MOST_SLICES = 5_000_000;

const SIZES: Record<string, number> = { '<i8': 8, '<u8': 8, '<i4': 4, '|u1': 1, u1: 1 };

/** Where a column's bytes are. */
interface Column {
  at: number;
  size: number;
}

/** The columns of one table; what a cut file lacks has fewer rows. */
class Table {
  readonly rows: number;
  readonly missing: number;
  readonly end: number;
  private readonly columns = new Map<string, Column>();

  constructor(
    told: unknown,
    private readonly bytes: Uint8Array,
    from: number
  ) {
    const { count, columns }: Record<string, unknown> = isObject(told) ? told : {};
    if (!Number.isInteger(count) || (count as number) < 0 || !Array.isArray(columns)) {
      throw new ProtocolError('The header of this profile is damaged.');
    }
    const wanted = count as number;
    let at = from;
    let whole = Math.min(wanted, MOST_SLICES);
    for (const column of columns as unknown[]) {
      const [name, type] = Array.isArray(column) ? (column as unknown[]) : [];
      const size = SIZES[String(type)];
      if (typeof name !== 'string' || !size) {
        throw new ProtocolError('The header of this profile is damaged.');
      }
      const there = Math.max(0, Math.min(wanted, Math.floor((bytes.length - at) / size)));
      whole = Math.min(whole, there);
      this.columns.set(name, { at, size });
      at += wanted * size;
    }
    this.rows = whole;
    this.missing = wanted - whole;
    this.end = at;
  }

  /** A column of times or sizes less a zero; where there is none, all the same number. */
  floats(name: string, zero = 0, otherwise = -1): Float64Array {
    const { rows } = this;
    const found = new Float64Array(rows);
    const words = this.words(name);
    if (!words) return found.fill(otherwise);
    if (words.length === rows) {
      for (let row = 0; row < rows; row++) found[row] = words[row] - zero;
      return found;
    }
    // Exact up to 2^53: twice the nanoseconds of a month.
    for (let row = 0; row < rows; row++) {
      found[row] = words[2 * row + 1] * 2 ** 32 + (words[2 * row] >>> 0) - zero;
    }
    return found;
  }

  /** A column of numbers of rows; what is too large for one is -1. */
  ints(name: string, otherwise = -1): Int32Array {
    const words = this.words(name);
    if (words?.length === this.rows) return words;
    const found = new Int32Array(this.rows);
    if (!words) return found.fill(otherwise);
    for (let row = 0; row < found.length; row++) {
      found[row] = words[2 * row + 1] === 0 ? words[2 * row] : -1;
    }
    return found;
  }

  /** A column of small numbers. */
  bytesOf(name: string): Uint8Array {
    const column = this.columns.get(name);
    if (column?.size === 1) return this.bytes.slice(column.at, column.at + this.rows);
    return Uint8Array.from(this.ints(name, 0));
  }

  /** A column's 32 bit words, one or two a row; a copy, because of alignment. */
  private words(name: string): Int32Array | null {
    const column = this.columns.get(name);
    if (!column) return null;
    const { at, size } = column;
    if (size === 1) return Int32Array.from(this.bytesOf(name));
    return new Int32Array(this.bytes.slice(at, at + this.rows * size).buffer as ArrayBuffer);
  }
}

function strings(told: unknown): string[] {
  return Array.isArray(told) ? told.map(text => (typeof text === 'string' ? text : '')) : [];
}

export function isProfileFile(bytes: Uint8Array): boolean {
  return new TextDecoder().decode(bytes.subarray(0, PROFILE_MAGIC.length)) === PROFILE_MAGIC;
}

/** Throws ProtocolError with a sentence to show. */
export function readColumns(bytes: Uint8Array): Profile {
  const lineEnd = bytes.subarray(0, 80).indexOf(10);
  const line = new TextDecoder().decode(bytes.subarray(0, Math.max(0, lineEnd))).split(' ');
  const [magic, version, size] = [line[0], Number(line[1]), Number(line[2])];
  if (lineEnd < 0 || magic !== PROFILE_MAGIC) {
    throw new ProtocolError('This is not an ag_visual profile.');
  }
  if (version !== VERSION) {
    throw new ProtocolError('This profile was written by another version of ag_visual.');
  }
  if (!Number.isInteger(size) || size < 2 || size > LONGEST_HEADER) {
    throw new ProtocolError('The header of this profile is damaged.');
  }
  let header: unknown;
  try {
    const text = new TextDecoder().decode(bytes.subarray(lineEnd + 1, lineEnd + 1 + size));
    header = JSON.parse(text);
  } catch {
    throw new ProtocolError('The header of this profile is damaged or cut short.');
  }
  if (!isObject(header)) {
    throw new ProtocolError('The header of this profile is damaged.');
  }
  const spans = new Table(header.spans, bytes, lineEnd + 1 + size);
  const memory = new Table(header.memory, bytes, spans.end);
  return profileOf(header, spans, memory);
}

function profileOf(header: Record<string, unknown>, spans: Table, memory: Table): Profile {
  const names = new Texts(MOST_SLICES);
  const nameRows = strings(header.names).map(name => names.row(name));
  const texts = new Texts(MOST_SLICES);
  const rowsOf = (told: unknown): number[] => strings(told).map(text => texts.row(text));
  const [lines, notes] = [rowsOf(header.stacks), rowsOf(header.inputs)];
  const zero = Number(header.start) || 0;
  const loose = new Loose();
  const threads = Array.isArray(header.threads) ? header.threads.slice(0, 5000) : [];
  for (const thread of threads as unknown[]) {
    const name: unknown = Array.isArray(thread) ? thread[1] : thread;
    loose.tracks.push({ name: typeof name === 'string' ? name.slice(0, 80) : '', process: '' });
  }
  const unusable = slicesOf(spans, zero, { nameRows, lines, notes }, loose);
  const missing = spans.missing + memory.missing;
  const notices = [
    missing > 0 ? `The file is cut short: ${plural(missing, 'row')} are missing.` : '',
    unusable > 0 ? `${plural(unusable, 'slice')} without a usable time left out.` : ''
  ].filter(Boolean);
  return assemble(loose, {
    names: names.all,
    texts: texts.all,
    memory: curveOf(memory, zero, strings(header.categories).slice(0, 256)),
    pauses: pausesOf(pausesIn(header.pauses, zero, loose.tracks.length)),
    places: placesIn(header.places, lines),
    overhead: Math.max(0, Number(header.overhead) || 0),
    notices
  });
}

interface Rows {
  nameRows: readonly number[];
  lines: readonly number[];
  notes: readonly number[];
}

/** Fills slices with those of a file; how many were left out. */
function slicesOf(spans: Table, zero: number, of: Rows, loose: Loose): number {
  const count = spans.rows;
  const hues = Uint8Array.from({ length: 256 }, (_, kind) => hueOfKind(kind));
  const table = (rows: readonly number[]): Int32Array => Int32Array.from(rows);
  const [names, notes, lines] = [table(of.nameRows), table(of.notes), table(of.lines)];
  const start = spans.floats('start', zero);
  const end = spans.floats('end', zero);
  const track = spans.ints('thread');
  const where = new Int32Array(count);
  const tracks = loose.tracks.length;
  let kept = 0;
  for (let row = 0; row < count; row++) {
    const usable = end[row] >= start[row] && track[row] >= 0 && track[row] < tracks;
    where[row] = usable ? kept++ : -1;
  }
  const seq = spans.floats('seq');
  const [name, note, line] = [spans.ints('name'), spans.ints('inputs'), spans.ints('stack')];
  const forward = spans.ints('forward');
  const hue = spans.bytesOf('kind');
  const backward = new Uint8Array(count);
  const at = (rows: Int32Array, row: number): number =>
    row >= 0 && row < rows.length ? rows[row] : -1;
  for (let row = 0; row < count; row++) {
    const to = where[row];
    if (to < 0) continue;
    start[to] = start[row];
    end[to] = end[row];
    track[to] = track[row];
    seq[to] = seq[row];
    name[to] = at(names, name[row]);
    note[to] = at(notes, note[row]);
    line[to] = at(lines, line[row]);
    hue[to] = hues[hue[row]];
    backward[to] = hue[to] === Hue.backward ? 1 : 0;
    forward[to] = at(where, forward[row]);
  }
  loose.take(kept, { start, end, seq, name, track, note, line, hue, backward });
  loose.forward = forward.subarray(0, kept);
  return count - kept;
}

function pausesIn(told: unknown, zero: number, tracks: number): Pause[] {
  const found: Pause[] = [];
  for (const row of Array.isArray(told) ? (told as unknown[]) : []) {
    const [from, to, track] = Array.isArray(row) ? (row as unknown[]).map(Number) : [];
    if (to > from && track >= 0 && track < tracks && Number.isInteger(track)) {
      found.push({ from: from - zero, to: to - zero, track });
    }
  }
  return found;
}

/** Lines of cells, by the row of their text. */
function placesIn(told: unknown, lines: readonly number[]): Map<number, LinePlace> {
  const found = new Map<number, LinePlace>();
  (Array.isArray(told) ? (told as unknown[]) : []).forEach((row, i) => {
    const [cell, execution, line, text] = Array.isArray(row) ? (row as unknown[]) : [];
    if (typeof cell !== 'string' || typeof line !== 'number' || !(lines[i] >= 0)) return;
    found.set(lines[i], {
      cell: oneLine(cell, 200),
      execution: typeof execution === 'number' ? execution : null,
      line,
      text: typeof text === 'string' ? cut(text, KEPT) : ''
    });
  });
  return found;
}

interface Pieces {
  get(storage: number): number | undefined;
  set(storage: number, piece: number): unknown;
}

/** Which piece each storage is: ours are counted up, of which an array knows faster than a map. */
function openPieces(storage: Float64Array): Pieces {
  const most = 4 * storage.length;
  for (let row = 0; row < storage.length; row++) {
    if (!(storage[row] >= 0 && storage[row] <= most)) return new Map<number, number>();
  }
  const pieces = new Int32Array(most + 1).fill(-1);
  return {
    get: number => pieces[number],
    set: (number, piece) => (pieces[number] = piece)
  };
}

/** Pieces of memory: a row that frees names the storage of the one that came. */
function blocksOf(memory: Table, time: Float64Array, kinds: string[]): Blocks {
  const { rows } = memory;
  const [bytes, storage] = [memory.floats('bytes', 0, 0), memory.floats('storage')];
  const [kind, track] = [memory.bytesOf('category'), memory.ints('thread')];
  const open = openPieces(storage);
  const from = new Float64Array(rows);
  const to = new Float64Array(rows);
  let came = 0;
  for (let row = 0; row < rows; row++) {
    const number = storage[row];
    const before = open.get(number) ?? -1;
    if (before >= 0) to[before] = time[row];
    if (!(bytes[row] > 0)) {
      open.set(number, -1);
      continue;
    }
    open.set(number, came);
    from[came] = time[row];
    to[came] = Infinity;
    // What was read already is written over.
    bytes[came] = bytes[row];
    kind[came] = kind[row];
    track[came] = track[row];
    came++;
  }
  return {
    from: from.slice(0, came),
    to: to.slice(0, came),
    bytes: bytes.slice(0, came),
    kind: kind.slice(0, came),
    track: track.slice(0, came),
    row: new Int32Array(came),
    kinds: kinds.map(name => oneLine(name, 40))
  };
}

function curveOf(memory: Table, zero: number, kinds: string[]): MemoryCurve[] {
  if (memory.rows === 0) {
    return [];
  }
  const [time, total] = [memory.floats('time', zero), memory.floats('total')];
  let peak = 0;
  for (let row = 0; row < total.length; row++) peak = Math.max(peak, total[row]);
  return [{ name: 'CPU', time, total, peak, blocks: blocksOf(memory, time, kinds) }];
}
