// What the Time mode shows: the profile that was opened or the times of the recording, and what of
// it is chosen.

import { Cell } from '../../protocol/cell';
import type { Disposable } from '../../protocol/signal';
import { oneLine } from '../../protocol/text';
import type { LaneKind } from '../../model/profile/groups';
import { highest } from '../../model/profile/alive';
import { LANE_KINDS, canGroup } from '../../model/profile/groups';
import type { Profile } from '../../model/profile/profile';
import { lengthOf, sameNodes } from '../../model/profile/profile';
import { profileOfRecording } from '../../model/profile/recorded';
import type { RunningProfile } from '../../model/profile/running';
import type { Span } from '../../model/profile/summary';
import type { Lanes } from '../../layout/profile/lanes';
import { placeLanes } from '../../layout/profile/lanes';
import { readProfile } from '../../layout/profile/reader';
import type { TimeCanvas } from '../../draw/profile/canvas';
import type { Presenter } from '../presenter';
import { Following } from './following';

export interface OpenProfile {
  kind: 'open';
  /** the file's name; '' for the times of the recording on screen */
  name: string;
  /** the number of the profile that is followed; null: it is of a file or a recording */
  running: number | null;
  /** another number, another profile: with the same one there is only more of it */
  serial: number;
  /** the newest batch of the recording that is in it, and how many slices it may have */
  batch: number;
  most: number;
  profile: Profile;
  lanes: Lanes;
}

export type TimeState =
  | { kind: 'none' }
  | { kind: 'reading'; name: string; bytes: number; events: number }
  | { kind: 'failed'; name: string; why: string }
  | OpenProfile;

/** Slices of a recording that still grows, and of a profile that runs. */
const MOST_LIVE = 60_000;
/** What came is shown at most so often; and for at most one part in so many of the time. */
const GROWS_MS = 200;
const PATIENCE = 8;

/** Where a slice stands when there are more; null where it is not there any more. */
function sameSlice(before: Profile, row: number, after: Profile): number | null {
  const [start, seq] = [before.start[row], before.seq[row]];
  const name = before.names[before.name[row]];
  const same = (i: number): boolean =>
    after.start[i] === start && after.seq[i] === seq && after.names[after.name[i]] === name;
  for (let i = 0; i < after.count; i++) if (same(i)) return i;
  return null;
}

export class Timing implements Disposable {
  readonly shown = new Cell(false);
  readonly state = new Cell<TimeState>({ kind: 'none' });
  readonly selected = new Cell<number | null>(null);
  readonly span = new Cell<Span | null>(null);
  /** the span is being drawn: what is summed up waits */
  readonly drawing = new Cell(false);
  readonly query = new Cell('');
  /** the recording's times grow with it */
  readonly following = new Cell(true);
  /** the moment of a memory curve of which it is told what held memory */
  readonly moment = new Cell<{ curve: number; time: number } | null>(null);
  readonly laneKind = new Cell<LaneKind>('thread');
  /** an earlier profile that the one on screen is compared with */
  readonly beside = new Cell<OpenProfile | null>(null);
  /** set by the view while it is mounted */
  canvas: TimeCanvas | null = null;
  focusSearch: () => void = () => undefined;
  private reading: AbortController | null = null;
  private serial = 0;
  private growing: ReturnType<typeof setTimeout> | undefined;
  /** ms that it took to take in what came last */
  private grew = 0;
  private readonly pieces: Following;
  /** the profile that is not to come by itself, and the one that is to whatever is on screen */
  private declined = -1;
  private wanted = -1;
  private known = { profile: null as Profile | null, batch: -1, same: false };

  constructor(private readonly presenter: Presenter) {
    const { controller } = presenter;
    this.pieces = new Following(controller, MOST_LIVE, running => this.takePiece(running));
  }

  dispose(): void {
    this.reading?.abort();
    this.pieces.dispose();
    clearTimeout(this.growing);
    for (const cell of [
      ...[this.shown, this.state, this.selected, this.span, this.drawing, this.query],
      ...[this.beside, this.following, this.laneKind, this.moment]
    ]) {
      cell.dispose();
    }
  }

  get open(): OpenProfile | null {
    return this.state.value.kind === 'open' ? this.state.value : null;
  }

  /** Enters or leaves the Time mode; the node that is chosen stays chosen. */
  show(on: boolean): void {
    if (on && this.state.value.kind === 'none') this.takeRecording();
    this.shown.set(on);
    const { selected } = this.presenter.model;
    if (on && selected !== null) this.selectNode(selected);
    this.presenter.show();
  }

  /** The times of what is recorded until now. */
  takeRecording(): void {
    const { store } = this.presenter.model;
    const profile = profileOfRecording(store, this.most);
    if (profile) {
      const { batch } = store;
      const serial = ++this.serial;
      const { most } = this;
      const lanes = placeLanes(profile);
      const about = { name: '', running: null, serial, batch, most };
      this.set({ kind: 'open', ...about, profile, lanes });
    } else {
      this.set({ kind: 'none' });
    }
  }

  /** Slices of the recording that are shown: while it grows, not so many that it takes long. */
  private get most(): number {
    const { store } = this.presenter.model;
    return this.presenter.live && store.state.recording ? MOST_LIVE : Infinity;
  }

  /** Something may have come: soon it is on screen. */
  grow(): void {
    const { store } = this.presenter.model;
    const { value } = this.state;
    if (this.followsProfile) {
      this.pieces.ask(this.profileNumber ?? -1, Math.max(GROWS_MS, PATIENCE * this.grew));
    }
    const recording = value.kind === 'none' || (value.kind === 'open' && value.name === '');
    const all = value.kind === 'open' && value.batch === store.batch && value.most === this.most;
    if (!this.following.value || !recording || all || this.growing !== undefined) return;
    this.growing = setTimeout(
      () => {
        this.growing = undefined;
        if (this.shown.value) this.takeMore();
      },
      Math.max(GROWS_MS, PATIENCE * this.grew)
    );
  }

  /** The profile that runs in the kernel, or ran last while it was followed. */
  get profileNumber(): number | null {
    return this.presenter.live ? (this.presenter.model.store.state.profile ?? null) : null;
  }

  /** Whether that one is to be shown as it comes: not in the place of a file that was opened. */
  private get followsProfile(): boolean {
    const { value } = this.state;
    const { profileNumber: number } = this;
    const { open } = this;
    if (number === null || !this.following.value || number === this.declined) return false;
    const free = open ? open.name === '' || open.running !== null : value.kind === 'none';
    return this.shown.value && (free || number === this.wanted);
  }

  /** From whatever is on screen to the profile that runs. */
  takeProfile(): void {
    this.declined = -1;
    this.wanted = this.profileNumber ?? -1;
    this.following.set(true);
    const { newest } = this.pieces;
    if (newest?.number === this.wanted) this.takePiece(newest);
    else this.grow();
  }

  /** From the profile that runs back to the recording. */
  backToRecording(): void {
    this.declined = this.profileNumber ?? -1;
    this.wanted = -1;
    this.takeRecording();
  }

  private takePiece(running: RunningProfile): void {
    const begun = performance.now();
    const { open } = this;
    const profile = this.followsProfile ? running.profile() : null;
    if (profile) {
      const name = running.done ? 'Profile' : 'Running profile';
      if (open?.running === running.number) {
        this.more({ ...open, name }, profile);
      } else {
        const lanes = placeLanes(profile);
        const about = { name, running: running.number, batch: 0, most: MOST_LIVE };
        this.set({ kind: 'open', ...about, serial: ++this.serial, profile, lanes });
      }
      this.grew = performance.now() - begun;
    }
    this.grow();
  }

  /** More of what is on screen, in its place; what was chosen stays chosen. */
  private more(open: OpenProfile, profile: Profile): void {
    const row = this.selected.value;
    const selected = row === null ? null : sameSlice(open.profile, row, profile);
    const lanes = placeLanes(profile, this.laneKind.value);
    if (selected !== row) this.selected.set(null);
    this.state.set({ ...open, profile, lanes });
    this.selected.set(selected);
  }

  /** The recording's times until now, in the place of those until then. */
  private takeMore(): void {
    const { open } = this;
    const { store } = this.presenter.model;
    const begun = performance.now();
    const { most } = this;
    const profile = profileOfRecording(store, most);
    if (!open || open.name !== '' || !profile) {
      // A file, or a profile that runs, may have come before what was to come.
      if (this.state.value.kind === 'none' || open?.name === '') this.takeRecording();
      return;
    }
    this.more({ ...open, batch: store.batch, most }, profile);
    this.grew = performance.now() - begun;
  }

  /** From now on what comes is shown as it comes; or no longer. */
  follow(on: boolean): void {
    this.following.set(on);
    if (on) {
      this.canvas?.toEnd();
      this.grow();
    }
  }

  /** The next kind of lanes that the profile has something for. */
  nextLanes(): void {
    const { open } = this;
    if (!open) return;
    const kinds = LANE_KINDS.filter(kind => canGroup(open.profile, kind));
    this.laneBy(kinds[(kinds.indexOf(open.lanes.kind) + 1) % kinds.length]);
  }

  /** Lanes by thread, by module or by source line. */
  laneBy(kind: LaneKind): void {
    const { open } = this;
    this.laneKind.set(kind);
    if (open && open.lanes.kind !== kind) {
      this.state.set({ ...open, lanes: placeLanes(open.profile, kind) });
    }
  }

  /** Reads a file and shows it; what is wrong with it is said in its place. */
  async read(file: Blob | Promise<Blob>, name: string): Promise<void> {
    this.reading?.abort();
    const reading = new AbortController();
    this.reading = reading;
    this.wanted = -1;
    const called = oneLine(name, 80);
    this.set({ kind: 'reading', name: called, bytes: 0, events: 0 });
    this.show(true);
    let state: TimeState;
    try {
      const progress = (done: { bytes: number; events: number }): void => {
        if (this.reading === reading) this.state.set({ kind: 'reading', name: called, ...done });
      };
      const opened = await readProfile(await file, progress, reading.signal);
      const serial = ++this.serial;
      const about = { name: called, running: null, serial, batch: 0, most: Infinity };
      state = { kind: 'open', ...about, ...opened };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      state = { kind: 'failed', name: called, why };
    }
    if (this.reading === reading) {
      this.reading = null;
      this.set(state);
      this.presenter.show();
    }
  }

  /** Reads an earlier profile to compare with; what is wrong with it is said above. */
  async compareWith(file: Blob, name: string): Promise<void> {
    const called = oneLine(name, 80);
    try {
      const opened = await readProfile(file, () => undefined, new AbortController().signal);
      const serial = ++this.serial;
      const about = { name: called, running: null, serial, batch: 0, most: Infinity };
      this.beside.set({ kind: 'open', ...about, ...opened });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.presenter.notify('error', `${called} cannot be compared with. ${why}`);
    }
  }

  select(row: number | null, reveal = false): void {
    this.selected.set(row);
    if (row !== null && reveal) this.canvas?.reveal(row);
    const seq = row === null ? null : this.nodeOf(row);
    if (seq !== null) this.presenter.model.select(seq);
  }

  /** The profile, where it numbers the nodes of the recording that is here. */
  private get linked(): Profile | null {
    const profile = this.open?.profile ?? null;
    const { store } = this.presenter.model;
    const { known } = this;
    if (this.open?.name === '') {
      return profile;
    }
    if (known.profile !== profile || known.batch !== store.batch) {
      const same = profile !== null && sameNodes(profile, seq => store.nameOf(seq));
      this.known = { profile, batch: store.batch, same };
    }
    return this.known.same ? profile : null;
  }

  /** The node of a slice, where the recording that has it is here. */
  nodeOf(row: number): number | null {
    const { model } = this.presenter;
    const profile = this.linked;
    if (!profile) {
      return null;
    }
    const seq = profile.seq[row];
    return seq >= 0 && model.store.nameOf(seq) !== '' ? seq : null;
  }

  /** The slice of a node: what made it, else what ran it. */
  selectNode(seq: number): void {
    const row = this.linked?.seq.indexOf(seq) ?? -1;
    if (row >= 0) this.selected.set(row);
  }

  /** From a slice to its node in the graph. */
  toNode(row: number): void {
    const seq = this.nodeOf(row);
    if (seq === null) {
      return;
    }
    this.show(false);
    this.presenter.goAnywhere(seq);
  }

  /** Tells what held memory when the most was held. */
  peak(): void {
    const curve = this.open?.profile.memory.findIndex(({ blocks }) => blocks) ?? -1;
    if (!this.open || curve < 0) {
      return;
    }
    const { profile } = this.open;
    this.moment.set({ curve, time: highest(profile.memory[curve], profile.from, profile.to) });
  }

  /** The longest slice of a line of a cell, among the lanes of lines; false where it has none. */
  goToLine(cell: string, line: number): boolean {
    const { open } = this;
    if (!open) return false;
    const { profile } = open;
    const found = [...profile.places].find(([, at]) => at.cell === cell && at.line === line);
    if (!found) return false;
    const [text] = found;
    let row = -1;
    for (let i = 0; i < profile.count; i++) {
      if (profile.line[i] !== text) continue;
      if (row < 0 || lengthOf(profile, i) > lengthOf(profile, row)) row = i;
    }
    if (row < 0) return false;
    this.laneBy('line');
    this.select(row);
    // The lanes are new: they are drawn first.
    setTimeout(() => this.canvas?.reveal(row));
    return true;
  }

  /** From a slice to what its node saved, in the table of tensors. */
  toTensors(row: number): void {
    this.toNode(row);
    this.presenter.openTab('tensors');
  }

  /** The next slice whose name is sought; round at the ends. */
  nextHit(sought: Uint8Array, direction: 1 | -1): void {
    const profile = this.open?.profile;
    if (!profile) {
      return;
    }
    const { count, name } = profile;
    const from = this.selected.value ?? (direction > 0 ? -1 : count);
    for (let step = 1; step <= count; step++) {
      const row = (((from + direction * step) % count) + count) % count;
      if (sought[name[row]]) {
        this.select(row, true);
        return;
      }
    }
  }

  /** The slice inside, around, before or after the chosen one. */
  move(direction: 'in' | 'out' | 'before' | 'after'): void {
    const open = this.open;
    if (!open) {
      return;
    }
    const { profile, lanes } = open;
    const row = this.selected.value;
    if (row === null) {
      if (profile.count > 0) this.select(0, true);
      return;
    }
    const lane = lanes.lane[row];
    let next = -1;
    if (direction === 'out') next = profile.parent[row];
    else if (direction === 'in') next = profile.last[row] > row + 1 ? row + 1 : -1;
    else if (lane >= 0) {
      const rows = lanes.rows.subarray(lanes.first[lane], lanes.first[lane + 1]);
      let [low, high] = [0, rows.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (rows[middle] >= row) high = middle;
        else low = middle + 1;
      }
      next = rows[low + (direction === 'after' ? 1 : -1)] ?? -1;
    } else {
      const at = lanes.steps.indexOf(row) + (direction === 'after' ? 1 : -1);
      next = lanes.steps[at] ?? -1;
    }
    if (next >= 0) this.select(next, true);
  }

  /** The span, or the slice, that the next command is about. */
  get part(): Span | null {
    const row = this.selected.value;
    const profile = this.open?.profile;
    return (
      this.span.value ??
      (row !== null && profile ? { from: profile.start[row], to: profile.end[row] } : null)
    );
  }

  /** Marks the chosen part on the ruler; the same part again takes the mark away. */
  mark(): void {
    const { canvas, part } = this;
    if (!canvas) {
      return;
    }
    const { from, to } = part ?? canvas.window;
    const kept = canvas.marks.filter(one => one.from !== from || one.to !== to);
    canvas.marks = kept.length < canvas.marks.length ? kept : [...canvas.marks, { from, to }];
    canvas.setPalette();
  }

  private set(state: TimeState): void {
    this.selected.set(null);
    this.span.set(null);
    this.moment.set(null);
    this.query.set('');
    this.laneKind.set('thread');
    this.state.set(state);
  }
}
