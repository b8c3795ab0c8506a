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

type Column = (row: number) => number;

/** The columns of one table; what a cut file lacks has fewer rows. */
class Table {
  readonly rows: number;
  readonly missing: number;
  readonly end: number;
  private readonly columns = new Map<string, Column>();

  constructor(told: unknown, bytes: Uint8Array, from: number) {
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
      this.columns.set(name, reader(bytes, at, there, size));
      at += wanted * size;
    }
    this.rows = whole;
    this.missing = wanted - whole;
    this.end = at;
  }

  column(name: string, fallback = -1): Column {
    return this.columns.get(name) ?? (() => fallback);
  }
}

function reader(bytes: Uint8Array, at: number, rows: number, size: number): Column {
  const own = bytes.slice(at, at + rows * size).buffer as ArrayBuffer;
  if (size === 1) {
    const array = new Uint8Array(own);
    return row => array[row];
  }
  const array = new Int32Array(own);
  if (size === 4) {
    return row => array[row];
  }
  // Exact up to 2^53: twice the nanoseconds of a month.
  return row => array[2 * row + 1] * 2 ** 32 + (array[2 * row] >>> 0);
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
  const at = Object.fromEntries(
    ['start', 'end', 'name', 'kind', 'thread', 'seq', 'forward', 'inputs', 'stack'].map(name => [
      name,
      spans.column(name)
    ])
  );
  const forward = new Int32Array(spans.rows);
  const where = new Int32Array(spans.rows).fill(-1);
  let unusable = 0;
  for (let row = 0; row < spans.rows; row++) {
    const [start, end, track] = [at.start(row) - zero, at.end(row) - zero, at.thread(row)];
    if (!(end >= start) || !loose.tracks[track]) {
      unusable++;
      continue;
    }
    const hue = hueOfKind(at.kind(row));
    where[row] = loose.add({
      start,
      end,
      name: nameRows[at.name(row)] ?? -1,
      hue,
      track,
      seq: at.seq(row),
      runsBackward: hue === Hue.backward,
      note: notes[at.inputs(row)] ?? -1,
      line: lines[at.stack(row)] ?? -1
    });
    forward[where[row]] = at.forward(row);
  }
  for (let i = 0; i < loose.count; i++) forward[i] = where[forward[i]] ?? -1;
  loose.forward = forward.slice(0, loose.count);
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
function openPieces(storage: Column, rows: number): Pieces {
  for (let row = 0; row < rows; row++) {
    const number = storage(row);
    if (!(number >= 0 && number <= 4 * rows)) return new Map<number, number>();
  }
  const pieces = new Int32Array(4 * rows + 1).fill(-1);
  return {
    get: number => pieces[number],
    set: (number, piece) => (pieces[number] = piece)
  };
}

/** Pieces of memory: a row that frees names the storage of the one that came. */
function blocksOf(memory: Table, zero: number, kinds: string[]): Blocks {
  const { rows } = memory;
  const [at, bytes] = [memory.column('time'), memory.column('bytes', 0)];
  const [storage, kind] = [memory.column('storage'), memory.column('category', 0)];
  const thread = memory.column('thread');
  const open = openPieces(storage, rows);
  const came: number[] = [];
  const to = new Float64Array(rows).fill(Infinity);
  for (let row = 0; row < rows; row++) {
    const number = storage(row);
    const before = open.get(number) ?? -1;
    if (before >= 0) to[before] = at(row) - zero;
    open.set(number, -1);
    if (bytes(row) > 0) {
      open.set(number, came.length);
      came.push(row);
    }
  }
  return {
    from: Float64Array.from(came, row => at(row) - zero),
    to: to.slice(0, came.length),
    bytes: Float64Array.from(came, row => bytes(row)),
    kind: Uint8Array.from(came, row => kind(row)),
    track: Int32Array.from(came, row => thread(row)),
    row: new Int32Array(came.length),
    kinds: kinds.map(name => oneLine(name, 40))
  };
}

function curveOf(memory: Table, zero: number, kinds: string[]): MemoryCurve[] {
  const { rows } = memory;
  if (rows === 0) {
    return [];
  }
  const [at, of] = [memory.column('time'), memory.column('total')];
  const time = Float64Array.from({ length: rows }, (_, row) => at(row) - zero);
  const total = Float64Array.from({ length: rows }, (_, row) => of(row));
  const peak = total.reduce((most, bytes) => Math.max(most, bytes), 0);
  return [{ name: 'CPU', time, total, peak, blocks: blocksOf(memory, zero, kinds) }];
}
