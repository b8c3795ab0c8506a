// A profile that runs, put together from the pieces that the kernel tells of it. The newest slices
// are kept; what had to go is counted.

import type { ProfilePiece } from '../../protocol/schema';
import { KEPT, cut, oneLine } from '../../protocol/text';
import { plural } from '../format';
import { assemble } from './assemble';
import { hueOfKind } from './kinds';
import type { LooseSlice } from './loose';
import { Loose, Texts } from './loose';
import type { Pause } from './pauses';
import { pausesOf } from './pauses';
import type { LinePlace, Profile } from './profile';
import { Hue } from './profile';

const ROW_BYTES = 3 * 8 + 3 * 4;
/** Different names and texts that are kept. */
const MOST_TEXTS = 100_000;

export class RunningProfile {
  /** the row to ask from next */
  since = 0;
  done = false;
  private readonly names = new Texts(MOST_TEXTS);
  private readonly texts = new Texts(MOST_TEXTS);
  private readonly places = new Map<number, LinePlace>();
  private threads: string[] = [];
  private pauses: Pause[] = [];
  private pieces: LooseSlice[][] = [];
  private unended: LooseSlice[] = [];
  private count = 0;
  private left = 0;

  constructor(
    readonly number: number,
    private readonly most: number
  ) {}

  take(piece: ProfilePiece): void {
    const slices = this.slicesOf(piece);
    this.unended = slices.splice(Math.max(0, slices.length - piece.open));
    this.pieces.push(slices);
    this.count += slices.length;
    this.left += piece.left_out;
    while (this.pieces.length > 1 && this.count - this.pieces[0].length >= this.most) {
      const gone = this.pieces.shift()?.length ?? 0;
      this.count -= gone;
      this.left += gone;
    }
    this.threads = piece.threads.map(name => oneLine(name, 80));
    this.pauses = piece.pauses.map(([from, to, track]) => ({ from, to, track }));
    this.since = piece.next;
    this.done = piece.done;
  }

  /** What has come until now; null while that is nothing. */
  profile(): Profile | null {
    if (this.count + this.unended.length === 0) {
      return null;
    }
    const loose = new Loose();
    loose.tracks.push(...this.threads.map(name => ({ name, process: '' })));
    for (const slices of [...this.pieces, this.unended]) {
      for (const slice of slices) loose.add(slice);
    }
    const whole = this.done
      ? 'A profile that was followed: a file of it (export_…) has its memory, too.'
      : 'A profile that runs: what has ended is here, and ranges that have not.';
    const gone = `${plural(this.left, 'earlier slice')} are not here: a file has all.`;
    return assemble(loose, {
      names: this.names.all,
      texts: this.texts.all,
      memory: [],
      pauses: pausesOf(this.pauses),
      places: this.places,
      notices: this.left > 0 ? [whole, gone] : [whole]
    });
  }

  private slicesOf(piece: ProfilePiece): LooseSlice[] {
    const { count, rows, labels, threads } = piece;
    const bytes = Uint8Array.from(atob(rows), letter => letter.charCodeAt(0));
    if (!(count >= 0) || bytes.length !== count * ROW_BYTES) {
      throw new Error('The kernel told a piece of this profile that cannot be read.');
    }
    const view = new DataView(bytes.buffer);
    const float = (column: number, i: number): number =>
      view.getFloat64(8 * (column * count + i), true);
    const int = (column: number, i: number): number =>
      view.getInt32(24 * count + 4 * (column * count + i), true);
    const named = new Map<number, { name: number; hue: Hue }>();
    for (const [key, [name, kind]] of Object.entries(labels)) {
      named.set(Number(key), { name: this.names.row(name), hue: hueOfKind(kind) });
    }
    const said = new Map<number, { note: number; line: number }>();
    for (const [key, fact] of Object.entries(piece.facts)) {
      const { line, inputs, cell, execution, at, source } = fact;
      const row = line ? this.texts.row(line) : -1;
      said.set(Number(key), { note: inputs ? this.texts.row(inputs) : -1, line: row });
      if (cell !== null && row >= 0) {
        const place = { cell: oneLine(cell, 200), execution, line: at, text: cut(source, KEPT) };
        this.places.set(row, place);
      }
    }
    const found: LooseSlice[] = [];
    for (let i = 0; i < count; i++) {
      const [start, end, track] = [float(0, i), float(1, i), int(1, i)];
      const label = named.get(int(0, i));
      if (!(end >= start) || !label || !(track >= 0 && track < threads.length)) continue;
      const runsBackward = label.hue === Hue.backward;
      const facts = said.get(int(2, i)) ?? { note: -1, line: -1 };
      found.push({ start, end, seq: float(2, i), track, runsBackward, ...label, ...facts });
    }
    return found;
  }
}
