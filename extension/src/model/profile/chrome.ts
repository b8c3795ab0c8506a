// Events of a Chrome trace, as torch's profiler, ours and others write it, become loose slices.
// The file is anybody's: every field is looked at before it is used, what is left out is counted.

import { countText, plural } from '../format';
import { oneLine } from '../../protocol/text';
import { assemble } from './assemble';
import { EventSplitter } from './events';
import { Loose, Texts } from './loose';
import type { Pause } from './pauses';
import { pausesOf } from './pauses';
import type { Blocks, MemoryCurve, Profile } from './profile';
import { Hue } from './profile';

export interface TraceLimits {
  /** bytes read of a file */
  bytes: number;
  /** bytes of one event */
  event: number;
  /** brackets inside of one event */
  depth: number;
  slices: number;
  names: number;
  texts: number;
  tracks: number;
}

export const TRACE_LIMITS: TraceLimits = {
  bytes: 4 * 2 ** 30,
  event: 2 ** 20,
  depth: 64,
  slices: 5_000_000,
  names: 500_000,
  texts: 300_000,
  tracks: 5000
};

const OTHERS = 'counters and other events';

type Fields = Record<string, unknown>;

function fields(value: unknown): Fields | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Fields)
    : null;
}

function number(value: unknown): number {
  if (typeof value === 'string') return value.trim() === '' ? NaN : Number(value);
  return typeof value === 'number' ? value : NaN;
}

/** A text of the file in one line; nothing for what is none: objects may refuse to be one. */
function label(value: unknown, length: number): string {
  const plain = typeof value === 'string' || typeof value === 'number';
  return plain ? oneLine(String(value), length) : '';
}

/** ns from the beginning, about 300 years: what is farther is no time. */
const FARTHEST = 2 ** 63;

const HUE_OF_CATEGORY = new Map<string, Hue>([
  ['cpu_op', Hue.forward],
  ['user_annotation', Hue.user],
  ['gpu_user_annotation', Hue.user],
  ['python_function', Hue.python],
  ['module', Hue.module],
  ['kernel', Hue.device],
  ['gpu_memcpy', Hue.device],
  ['gpu_memset', Hue.device]
]);
const BACKWARD = /^autograd::engine::evaluate_function: |Backward\d*$|AccumulateGrad$/;

function hueOf(category: string, name: string): Hue {
  const hue = HUE_OF_CATEGORY.get(category) ?? Hue.other;
  if (hue === Hue.forward && BACKWARD.test(name)) return Hue.backward;
  if (hue === Hue.user && name.startsWith('ProfilerStep#')) return Hue.step;
  if (hue === Hue.python && name.startsWith('nn.Module: ')) return Hue.module;
  return hue;
}

/** What is said of a slice beside its name: shapes of inputs, where they are told. */
function noteOf(args: Fields): string {
  const dims = args['Input Dims'];
  const types = args['Input type'];
  if (!Array.isArray(dims)) {
    return '';
  }
  return dims
    .slice(0, 12)
    .map((dim: unknown, i) => {
      const type: unknown = Array.isArray(types) ? types[i] : '';
      const shape = JSON.stringify(dim) ?? '';
      const named = typeof type === 'string' ? type : '';
      return shape === '[]' ? named || shape : `${named} ${shape}`.trim();
    })
    .join(', ');
}

interface Sample {
  time: number;
  total: number;
  /** > 0: allocated, < 0: freed */
  bytes: number;
  address: number;
  track: number;
}

class Samples {
  private readonly points: Sample[] = [];

  constructor(private readonly name: string) {}

  add(sample: Sample): void {
    this.points.push(sample);
  }

  /** moved: where each track stands now */
  curve(moved: Int32Array): MemoryCurve {
    this.points.sort((a, b) => a.time - b.time);
    const total = Float64Array.from(this.points, point => point.total);
    let peak = 0;
    for (const bytes of total) peak = Math.max(peak, bytes);
    const time = Float64Array.from(this.points, point => point.time);
    return { name: this.name, time, total, peak, blocks: this.blocks(moved) };
  }

  /** What comes at an address is there until the address is freed, or given again. */
  private blocks(moved: Int32Array): Blocks | null {
    const open = new Map<number, number>();
    const came: Sample[] = [];
    const to: number[] = [];
    for (const point of this.points) {
      const { address, bytes } = point;
      if (!Number.isFinite(address) || !Number.isFinite(bytes)) continue;
      const before = open.get(address);
      if (before !== undefined) to[before] = point.time;
      open.delete(address);
      if (bytes > 0) {
        open.set(address, came.length);
        came.push(point);
        to.push(Infinity);
      }
    }
    if (came.length === 0) {
      return null;
    }
    return {
      from: Float64Array.from(came, ({ time }) => time),
      to: Float64Array.from(to),
      bytes: Float64Array.from(came, ({ bytes }) => bytes),
      kind: new Uint8Array(came.length),
      track: Int32Array.from(came, ({ track }) => moved[track] ?? -1),
      row: new Int32Array(came.length),
      kinds: ['']
    };
  }
}

interface Lane {
  row: number;
  process: string;
  thread: string;
  open: { name: string; hue: Hue; start: number; args: Fields }[];
}

export class ChromeTrace {
  private readonly splitter: EventSplitter;
  private readonly loose = new Loose();
  private readonly names: Texts;
  private readonly texts: Texts;
  private readonly lanes = new Map<string, Lane>();
  private readonly processes = new Map<string, string>();
  private readonly order = new Map<string, number>();
  private readonly memory = new Map<string, Samples>();
  private readonly pauses: Pause[] = [];
  /** microseconds that are the profile's zero */
  private zero = NaN;
  /** ns of the last thing that is told */
  private latest = 0;
  private bytes = 0;
  private events = 0;
  private samples = 0;
  private readonly left = {
    slices: 0,
    unusable: 0,
    asynchronous: 0,
    arrows: 0,
    instants: 0,
    others: 0,
    samples: 0,
    unclosed: 0,
    tracks: 0
  };

  constructor(private readonly limits: TraceLimits = TRACE_LIMITS) {
    this.names = new Texts(limits.names);
    this.texts = new Texts(limits.texts);
    this.splitter = new EventSplitter(event => this.take(event), limits);
  }

  /** Takes the next bytes; false where no more are wanted. */
  push(chunk: Uint8Array): boolean {
    const room = this.limits.bytes - this.bytes;
    this.bytes += Math.min(room, chunk.length);
    this.splitter.push(chunk.length > room ? chunk.subarray(0, room) : chunk);
    return chunk.length < room;
  }

  get progress(): { bytes: number; events: number } {
    return { bytes: this.bytes, events: this.events };
  }

  /** The profile; throws an Error with a sentence to show where there is none in the file. */
  finish(broken = ''): Profile {
    if (this.splitter.phase === 'before') {
      throw new Error(
        this.bytes === 0
          ? broken || 'The file is empty.'
          : 'This is not a Chrome trace: it holds no list of events (“traceEvents”).' +
            (broken && ` ${broken}`)
      );
    }
    this.closeOpen();
    if (this.loose.count === 0) {
      throw new Error(
        `This trace holds no slices: ${plural(this.events, 'event')}, none of which says how ` +
          'long something took.' + (broken && ` ${broken}`)
      );
    }
    const moved = this.sortTracks();
    return assemble(this.loose, {
      names: this.names.all,
      texts: this.texts.all,
      memory: [...this.memory.values()].map(samples => samples.curve(moved)),
      pauses: pausesOf(this.pauses.map(pause => ({ ...pause, track: moved[pause.track] }))),
      notices: this.notices(broken)
    });
  }

  private notices(broken: string): string[] {
    const { splitter, left, limits, names, texts } = this;
    const read = plural(this.loose.count, 'slice');
    const cut =
      splitter.cut === 'inside' ||
      (splitter.cut === 'between' && (!splitter.bare || this.bytes >= limits.bytes));
    const say = (count: number, text: string): string => (count > 0 ? text : '');
    const unshown = [
      say(left.asynchronous, plural(left.asynchronous, 'asynchronous event')),
      say(left.arrows, plural(left.arrows, 'arrow')),
      say(left.instants, plural(left.instants, 'instant event')),
      say(left.others, plural(left.others, 'counter or other event', OTHERS))
    ].filter(Boolean);
    return [
      broken && `${broken} The ${read} before that are shown.`,
      say(cut && !broken ? 1 : 0, `The file is cut short: the ${read} before its end are shown.`),
      say(
        this.bytes >= limits.bytes ? 1 : 0,
        `Only the first ${countText(limits.bytes / 2 ** 20)} MB of the file are read.`
      ),
      say(
        left.slices,
        `${plural(left.slices, 'slice')} beyond the first ${countText(limits.slices)} are left out.`
      ),
      say(splitter.damaged, `${plural(splitter.damaged, 'event')} could not be read: no JSON.`),
      say(
        splitter.long,
        `${plural(splitter.long, 'event')} of more than ${countText(limits.event)} bytes left out.`
      ),
      say(
        splitter.deep,
        `${plural(splitter.deep, 'event')} nested more than ${limits.depth} deep left out.`
      ),
      say(
        left.unusable,
        `${plural(left.unusable, 'event')} without a usable time or length left out.`
      ),
      unshown.length > 0 ? `Not shown: ${unshown.join(', ')}.` : '',
      say(
        left.samples,
        `${plural(left.samples, 'change')} of memory beyond the first ` +
          `${countText(limits.slices)} left out.`
      ),
      say(left.unclosed, `${plural(left.unclosed, 'slice')} never ended: drawn to the end.`),
      say(left.tracks, `${plural(left.tracks, 'slice')} of further tracks left out.`),
      say(names.left, `${plural(names.left, 'slice')} have no name: too many different ones.`),
      say(texts.left, `${plural(texts.left, 'slice')} have no shapes or lines: too many.`)
    ].filter(Boolean);
  }

  private time(value: unknown): number {
    const ts = number(value);
    if (!Number.isFinite(ts)) return NaN;
    if (Number.isNaN(this.zero)) this.zero = Math.floor(ts);
    const time = Math.round((ts - this.zero) * 1000);
    if (!(Math.abs(time) < FARTHEST)) return NaN;
    if (time > this.latest) this.latest = time;
    return time;
  }

  private take(value: unknown): void {
    const event = fields(value);
    if (!event) {
      return;
    }
    this.events++;
    switch (event.ph) {
      case 'X':
        return this.complete(event);
      case 'B':
        return this.begin(event);
      case 'E':
        return this.end(event);
      case 'M':
        return this.name(event);
      case 'i':
      case 'I':
        return this.instant(event);
      case 'b':
      case 'n':
      case 'e':
      case 'S':
      case 'T':
      case 'p':
      case 'F':
        this.left.asynchronous++;
        return undefined;
      case 's':
        // Where a backward comes from is told by the numbers of ops, too.
        if (event.cat !== 'fwdbwd') this.left.arrows++;
        return undefined;
      case 't':
      case 'f':
      case 'c':
        return undefined;
      default:
        this.left.others++;
        return undefined;
    }
  }

  private complete(event: Fields): void {
    const start = this.time(event.ts);
    const length = Math.round(number(event.dur ?? 0) * 1000);
    if (Number.isNaN(start) || !(length >= 0) || length > FARTHEST) {
      this.left.unusable++;
      return;
    }
    const name = typeof event.name === 'string' ? event.name : '';
    const category = typeof event.cat === 'string' ? event.cat : '';
    // torch's slice around all of its profile says nothing that ran.
    if (category === 'Trace') return;
    if (category === 'pause') return this.pause(this.laneOf(event), start, start + length);
    const args = fields(event.args) ?? {};
    this.add(this.laneOf(event), name, hueOf(category, name), start, start + length, args);
  }

  /** The thread was stopped by who watched it. */
  private pause(lane: Lane | null, from: number, to: number): void {
    if (!lane || this.pauses.length >= this.limits.slices) this.left.slices++;
    else this.pauses.push({ track: lane.row, from, to });
  }

  private begin(event: Fields): void {
    const start = this.time(event.ts);
    const lane = this.laneOf(event);
    if (Number.isNaN(start) || !lane) {
      this.left.unusable++;
      return;
    }
    const name = typeof event.name === 'string' ? event.name : '';
    const category = typeof event.cat === 'string' ? event.cat : '';
    if (this.loose.count + lane.open.length >= this.limits.slices) this.left.slices++;
    else {
      const args = fields(event.args) ?? {};
      lane.open.push({ name, hue: hueOf(category, name), start, args });
    }
  }

  private end(event: Fields): void {
    const end = this.time(event.ts);
    const lane = this.laneOf(event);
    const open = lane?.open.pop();
    if (!lane || !open || !(end >= open.start)) {
      this.left.unusable++;
      return;
    }
    this.add(lane, open.name, open.hue, open.start, end, open.args);
  }

  private closeOpen(): void {
    let to = this.latest;
    for (let i = 0; i < this.loose.count; i++) to = Math.max(to, this.loose.end[i]);
    for (const lane of this.lanes.values()) {
      for (const { name, hue, start, args } of lane.open.splice(0)) {
        this.left.unclosed++;
        this.add(lane, name, hue, start, Math.max(to, start), args);
      }
    }
  }

  private add(
    lane: Lane | null,
    name: string,
    hue: Hue,
    start: number,
    end: number,
    args: Fields
  ): void {
    if (!lane) {
      this.left.tracks++;
      return;
    }
    if (this.loose.count >= this.limits.slices) {
      this.left.slices++;
      return;
    }
    const seq = number(args['Sequence number'] ?? -1);
    const note = noteOf(args);
    const stack = args['Call stack'];
    // The innermost call stands first, one a line or with semicolons between them.
    const line = typeof stack === 'string' ? stack.split(/[;\n]/, 1)[0].trim() : '';
    this.loose.add({
      start,
      end,
      name: this.names.row(name || '(no name)'),
      hue,
      track: lane.row,
      seq: Number.isInteger(seq) ? seq : -1,
      runsBackward: hue === Hue.backward && number(args['Fwd thread id'] ?? -1) > 0,
      note: note ? this.texts.row(note) : -1,
      line: line ? this.texts.row(line) : -1
    });
  }

  private instant(event: Fields): void {
    const args = fields(event.args);
    if (event.name !== '[memory]' || !args) {
      // Those of a whole trace say where its window is.
      if ((event.s ?? 't') === 't') this.left.instants++;
      return;
    }
    if (this.samples >= this.limits.slices) {
      this.left.samples++;
      return;
    }
    this.samples++;
    const time = this.time(event.ts);
    const total = number(args['Total Allocated'] ?? NaN);
    if (Number.isNaN(time) || !Number.isFinite(total)) {
      this.left.unusable++;
      return;
    }
    const kind = number(args['Device Type'] ?? 0);
    const key = kind === 0 ? 'CPU' : `device ${label(args['Device Id'], 12)}`;
    let samples = this.memory.get(key);
    if (!samples && this.memory.size < 64) this.memory.set(key, (samples = new Samples(key)));
    const [bytes, address] = [number(args.Bytes ?? NaN), number(args.Addr ?? NaN)];
    samples?.add({ time, total, bytes, address, track: this.laneOf(event)?.row ?? -1 });
  }

  private keyOf({ pid, tid }: Fields): string {
    return `${label(pid, 60)} ${label(tid, 60)}`;
  }

  private laneOf(event: Fields): Lane | null {
    const key = this.keyOf(event);
    const known = this.lanes.get(key);
    if (known || this.lanes.size >= this.limits.tracks) {
      return known ?? null;
    }
    const process = label(event.pid, 60);
    const thread = label(event.tid, 60);
    const lane: Lane = { row: this.loose.tracks.length, process, thread, open: [] };
    this.loose.tracks.push({ name: '', process });
    this.lanes.set(key, lane);
    return lane;
  }

  private readonly threadNames = new Map<string, string>();

  private name(event: Fields): void {
    const args = fields(event.args);
    const known = Math.max(this.threadNames.size, this.processes.size, this.order.size / 2);
    if (!args || known > this.limits.tracks) {
      return;
    }
    const process = label(event.pid, 60);
    if (event.name === 'thread_name') {
      this.threadNames.set(this.keyOf(event), label(args.name, 80));
    } else if (event.name === 'process_name') {
      this.processes.set(process, label(args.name, 80));
    } else if (event.name === 'thread_sort_index') {
      this.order.set(this.keyOf(event), number(args.sort_index));
    } else if (event.name === 'process_sort_index') {
      this.order.set(process, number(args.sort_index));
    }
  }

  /** Names the tracks and puts them into the order that the file asks for. */
  private sortTracks(): Int32Array {
    const several = new Set([...this.lanes.values()].map(lane => lane.process)).size > 1;
    const place = (key: string): number => this.order.get(key) || 0;
    const lanes = [...this.lanes].sort(
      ([a, one], [b, other]) =>
        place(one.process) - place(other.process) || place(a) - place(b) || one.row - other.row
    );
    const moved = new Int32Array(lanes.length);
    lanes.forEach(([key, lane], position) => {
      moved[lane.row] = position;
      const process = this.processes.get(lane.process) ?? lane.process;
      this.loose.tracks[position] = {
        name: this.threadNames.get(key) || `thread ${lane.thread}`,
        process: several ? process : ''
      };
    });
    const { track, count } = this.loose;
    for (let i = 0; i < count; i++) track[i] = moved[track[i]];
    return moved;
  }
}
