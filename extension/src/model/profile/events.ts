// Splits a Chrome trace into its events while it arrives: bytes in, parsed objects out. Nothing of
// the file is kept but the event that is being read, and what is too deep or too long is skipped.

export interface EventLimits {
  /** bytes of one event */
  event: number;
  /** brackets inside of one event */
  depth: number;
}

const QUOTE = 34;
const COMMA = 44;
const OPEN_LIST = 91;
const BACKSLASH = 92;
const CLOSE_LIST = 93;
const OPEN = 123;
const CLOSE = 125;

const NOTHING = new Uint8Array(0);
/** Longest key of the file's outermost object that is looked at. */
const LONGEST_KEY = 64;

type Phase = 'before' | 'events' | 'after';

export class EventSplitter {
  phase: Phase = 'before';
  /** events that are no JSON, too long, too deep */
  damaged = 0;
  long = 0;
  deep = 0;
  /** what the file is, as far as one can tell before its events */
  bare = false;
  private buffer: Uint8Array = NOTHING;
  private depth = 0;
  private inString = false;
  private escaped = false;
  private key: number[] = [];
  private keyIsEvents = false;
  /** depth of the list of events */
  private base = 0;
  /** where in the buffer the event begins that is being read; -1: between two, -2: is skipped */
  private begun = -1;
  private deepest = 0;
  private ranges: number[] = [];
  private readonly decoder = new TextDecoder();

  constructor(
    private readonly take: (event: unknown) => void,
    private readonly limits: EventLimits
  ) {}

  push(chunk: Uint8Array): void {
    let at = this.buffer.length;
    let bytes = chunk;
    if (at > 0) {
      bytes = new Uint8Array(at + chunk.length);
      bytes.set(this.buffer);
      bytes.set(chunk, at);
    }
    if (this.phase === 'before') at = this.findEvents(bytes, at);
    if (this.phase === 'events') this.split(bytes, at);
    this.hand(bytes);
    const { begun } = this;
    if (begun >= 0 && bytes.length - begun > this.limits.event) {
      this.long++;
      this.begun = -2;
    }
    if (this.begun >= 0) {
      this.buffer = bytes.slice(begun);
      this.begun = 0;
    } else {
      this.buffer = NOTHING;
    }
  }

  /** The file is cut off where it ends: inside an event, or where the list should be closed. */
  get cut(): 'no' | 'inside' | 'between' {
    if (this.phase !== 'events') return 'no';
    return this.begun === -1 && !this.inString ? 'between' : 'inside';
  }

  /** Looks for the list of events; where in the bytes it begins. */
  private findEvents(bytes: Uint8Array, from: number): number {
    for (let i = from; i < bytes.length; i++) {
      const c = bytes[i];
      if (this.inString) {
        if (this.escaped) this.escaped = false;
        else if (c === BACKSLASH) this.escaped = true;
        else if (c === QUOTE) {
          this.inString = false;
          this.keyIsEvents = String.fromCharCode(...this.key) === 'traceEvents';
          continue;
        }
        if (this.depth === 1 && this.key.length < LONGEST_KEY) this.key.push(c);
      } else if (c === QUOTE) {
        this.inString = true;
        this.key = [];
      } else if (c === OPEN || c === OPEN_LIST) {
        const bare = this.depth === 0 && c === OPEN_LIST;
        this.depth++;
        if (bare || (c === OPEN_LIST && this.depth === 2 && this.keyIsEvents)) {
          this.bare = bare;
          this.phase = 'events';
          this.base = this.depth;
          return i + 1;
        }
      } else if (c === CLOSE || c === CLOSE_LIST) {
        this.depth--;
      } else if (c === COMMA) {
        this.keyIsEvents = false;
      }
    }
    return bytes.length;
  }

  private split(bytes: Uint8Array, from: number): void {
    let { depth, inString, escaped, begun, deepest } = this;
    const { base, limits } = this;
    for (let i = from; i < bytes.length; i++) {
      const c = bytes[i];
      if (inString) {
        if (escaped) escaped = false;
        else if (c === BACKSLASH) escaped = true;
        else if (c === QUOTE) inString = false;
      } else if (c === QUOTE) {
        inString = true;
      } else if (c === OPEN || c === OPEN_LIST) {
        if (depth === base && begun === -1) {
          begun = i;
          deepest = 0;
        }
        depth++;
        if (depth - base > deepest) deepest = depth - base;
      } else if (c === CLOSE || c === CLOSE_LIST) {
        depth--;
        if (depth === base) {
          if (deepest > limits.depth) this.deep++;
          else if (begun >= 0) this.ranges.push(begun, i + 1);
          begun = -1;
        } else if (depth < base) {
          this.phase = 'after';
          break;
        }
      }
    }
    Object.assign(this, { depth, inString, escaped, begun, deepest });
  }

  /** Parses the events whose ends were found, all at once where that goes. */
  private hand(bytes: Uint8Array): void {
    const { ranges } = this;
    this.ranges = [];
    if (ranges.length === 0) {
      return;
    }
    const whole = this.deep === 0 && this.long === 0 && this.damaged === 0;
    if (whole) {
      const text = this.decoder.decode(bytes.subarray(ranges[0], ranges[ranges.length - 1]));
      let events: unknown[] | null = null;
      try {
        events = JSON.parse(`[${text}]`) as unknown[];
      } catch {
        // One of them is not JSON: the others are read one by one.
      }
      if (events) {
        for (const event of events) this.take(event);
        return;
      }
    }
    for (let i = 0; i < ranges.length; i += 2) {
      let event: unknown;
      try {
        event = JSON.parse(this.decoder.decode(bytes.subarray(ranges[i], ranges[i + 1])));
      } catch {
        this.damaged++;
        continue;
      }
      this.take(event);
    }
  }
}
