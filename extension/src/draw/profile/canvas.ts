// The timeline's canvas: keeps the window, paints when something changed, tells what was meant.

import { highest } from '../../model/profile/alive';
import type { Profile } from '../../model/profile/profile';
import type { Lanes } from '../../layout/profile/lanes';
import { firstAfter } from '../../layout/profile/lanes';
import { prepare } from '../value_painter';
import { readTimeColours } from './colours';
import type { TimeColours } from './colours';
import { listenToTime } from './gestures';
import { paintOverview, paintTime } from './painter';
import type { Places } from './places';
import { CURVE, LANE, OVERVIEW, laneAt, placesOf, topOfLane } from './places';
import { Staircase } from './staircase';
import type { Window } from './view';
import { around, held, panned, zoomed } from './view';

export interface TimeHost {
  /** what is chosen; the canvas is told again through `show` */
  select(row: number | null): void;
  choose(span: Window | null, done: boolean): void;
  open(row: number): void;
  over(row: number | null, x: number, y: number): void;
  /** a memory curve was clicked near this moment */
  moment(curve: number, time: number): void;
  wheels(): boolean;
}

export interface TimeShown {
  selected: number | null;
  span: Window | null;
  sought: Uint8Array | null;
  /** the moment of which it is told what held memory */
  moment: { curve: number; time: number } | null;
}

export interface TimeStats {
  frames: number;
  lastMs: number;
  p95Ms: number;
  /** rectangles of the newest frame */
  drawn: number;
  slices: number;
}

const REMEMBERED = 240;
/** Pixels beside a slice at which it is still meant. */
const NEAR = 3;
/** Pixels beside a peak at which the peak is meant. */
const PEAK_NEAR = 6;

export class TimeCanvas {
  window: Window;
  scroll = 0;
  marks: Window[] = [];
  /** share of the width at which the keys zoom: where the pointer is */
  pointer = 0.5;
  private shown: TimeShown = { selected: null, span: null, sought: null, moment: null };
  private places: Places;
  private curves: Staircase[];
  private readonly widths = new Map<number, number>();
  private readonly abort = new AbortController();
  private colours: TimeColours | null = null;
  private overview: HTMLCanvasElement | null = null;
  private width = 0;
  private height = 0;
  private asked = 0;
  private readonly ms = new Float32Array(REMEMBERED);
  private frames = 0;
  private drawn = 0;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private profile: Profile,
    private lanes: Lanes,
    host: TimeHost
  ) {
    this.places = placesOf(profile, lanes);
    this.curves = profile.memory.map(curve => new Staircase(curve));
    this.window = around(this.whole, this.whole, 0.02);
    const { signal } = this.abort;
    listenToTime(
      {
        canvas,
        wheels: () => host.wheels(),
        over: (x, y) => {
          if (x !== null) this.pointer = Math.min(1, Math.max(0, x / this.width));
          const row = x === null ? null : this.at(x, y);
          const there = row !== null || (x !== null && this.curveAt(y) !== null);
          canvas.style.cursor = there ? 'pointer' : 'default';
          host.over(row, x ?? 0, y);
        },
        press: (x, y) => {
          const curve = this.curveAt(y);
          if (curve !== null) {
            const near = (PEAK_NEAR * (this.window.to - this.window.from)) / this.width;
            const time = this.timeAt(x);
            const { memory } = this.profile;
            host.moment(curve, highest(memory[curve], time - near, time + near));
            return;
          }
          host.choose(null, true);
          host.select(this.at(x, y));
        },
        open: (x, y) => {
          const row = this.at(x, y);
          if (row !== null) host.open(row);
        },
        drag: (from, to, done) => {
          const [a, b] = [this.timeAt(from), this.timeAt(to)];
          host.choose({ from: Math.min(a, b), to: Math.max(a, b) }, done);
        },
        jump: x => {
          const { from, to } = this.whole;
          this.lookAt(from + (x / this.width) * (to - from));
        },
        inOverview: y => y < OVERVIEW,
        pan: dx => this.panBy(-dx / this.width),
        scroll: dy => this.scrollBy(dy),
        zoom: (x, factor) => this.zoomBy(factor, x / this.width)
      },
      signal
    );
  }

  get whole(): Window {
    return { from: this.profile.from, to: this.profile.to };
  }

  /**
   * More of the same profile, or its slices in other lanes. Where the end was in view, it stays in
   * view.
   */
  take(profile: Profile, lanes: Lanes): void {
    const { whole: before, window } = this;
    if (profile === this.profile && lanes === this.lanes) {
      return;
    }
    if (profile !== this.profile) {
      this.curves = profile.memory.map(curve => new Staircase(curve));
      this.widths.clear();
    }
    if (lanes.kind !== this.lanes.kind) this.scroll = 0;
    [this.profile, this.lanes] = [profile, lanes];
    this.places = placesOf(profile, lanes);
    this.overview = null;
    const { whole } = this;
    if (window.from <= before.from && window.to >= before.to) this.fit(null);
    else if (window.to >= before.to) {
      const by = whole.to - before.to;
      this.look(held({ from: window.from + by, to: window.to + by }, whole));
    }
    this.scrollBy(0);
    this.ask();
  }

  /** Goes to the end without looking closer or farther. */
  toEnd(): void {
    const { whole, window } = this;
    const by = whole.to + 0.02 * (window.to - window.from) - window.to;
    this.look(held({ from: window.from + by, to: window.to + by }, whole));
  }

  show(shown: TimeShown): void {
    this.shown = shown;
    this.ask();
  }

  resize(width: number, height: number): void {
    if (width !== this.width || height !== this.height) {
      [this.width, this.height] = [width, height];
      if (width > 0 && height > 0) prepare(this.canvas, width, height);
      this.overview = null;
      this.scrollBy(0);
      this.paint();
    }
  }

  setPalette(): void {
    this.colours = null;
    this.overview = null;
    this.ask();
  }

  /** Shows all, or a slice or span with some air; a moment no closer than it is seen now. */
  fit(part: Window | null): void {
    if (part && part.to <= part.from) this.lookAt(part.from);
    else this.look(part ? around(part, this.whole, 0.3) : around(this.whole, this.whole, 0.02));
  }

  zoomBy(factor: number, share = this.pointer): void {
    this.look(zoomed(this.window, this.whole, share, factor));
  }

  panBy(share: number): void {
    this.look(panned(this.window, this.whole, share));
  }

  /** False where there is nothing to scroll. */
  scrollBy(dy: number): boolean {
    const room = this.places.top[this.places.top.length - 1] - (this.height - this.places.tracks);
    const before = this.scroll;
    this.scroll = Math.max(0, Math.min(room, this.scroll + dy));
    if (this.scroll !== before) this.ask();
    return room > 0;
  }

  /** Brings a slice into view; it is shown wider where it could not be seen. */
  reveal(row: number): void {
    const { profile, lanes, places, window } = this;
    const [start, end] = [profile.start[row], profile.end[row]];
    const length = window.to - window.from;
    const pixels = ((end - start) / length) * this.width;
    // A moment is as narrow however closely one looks.
    if (end > start && (pixels < 8 || pixels > this.width)) {
      this.fit({ from: start - 4 * (end - start), to: end + 4 * (end - start) });
    } else if (start < window.from || end > window.to) {
      this.lookAt((start + end) / 2);
    }
    const lane = lanes.lane[row];
    if (lane >= 0) {
      const top = topOfLane(places, lanes, lane);
      const room = this.height - places.tracks;
      if (top < this.scroll) this.scroll = Math.max(0, top - LANE);
      else if (top + LANE > this.scroll + room) this.scroll = top + 2 * LANE - room;
    }
    this.ask();
  }

  /** Pixel of a moment. */
  xOf(time: number): number {
    const { from, to } = this.window;
    return ((time - from) / (to - from)) * this.width;
  }

  get stats(): TimeStats {
    const known = this.ms.slice(0, Math.min(this.frames, REMEMBERED)).sort();
    return {
      frames: this.frames,
      lastMs: this.ms[(this.frames + REMEMBERED - 1) % REMEMBERED],
      p95Ms: known[Math.floor(known.length * 0.95)] ?? 0,
      drawn: this.drawn,
      slices: this.profile.count
    };
  }

  dispose(): void {
    this.abort.abort();
    cancelAnimationFrame(this.asked);
    this.asked = -1;
  }

  /** A moment in the middle. */
  private lookAt(time: number): void {
    const half = (this.window.to - this.window.from) / 2;
    this.look(held({ from: time - half, to: time + half }, this.whole));
  }

  private look(window: Window): void {
    this.window = window;
    this.ask();
  }

  private timeAt(x: number): number {
    const { from, to } = this.window;
    return from + (x / this.width) * (to - from);
  }

  private curveAt(y: number): number | null {
    const { curves, tracks } = this.places;
    return y >= curves && y < tracks ? Math.floor((y - curves) / CURVE) : null;
  }

  /** The slice at a point, or the nearest one within a few pixels. */
  private at(x: number, y: number): number | null {
    const { places, lanes, profile } = this;
    if (y >= places.steps && y < places.curves) {
      const time = this.timeAt(x);
      return lanes.steps.find(row => profile.start[row] <= time && profile.end[row] > time) ?? null;
    }
    if (y < places.tracks) {
      return null;
    }
    const lane = laneAt(places, lanes, y - places.tracks + this.scroll);
    if (lane < 0) {
      return null;
    }
    const [{ start, end, row }] = lanes.levels;
    const [first, last] = [lanes.first[lane], lanes.first[lane + 1]];
    const near = (NEAR * (this.window.to - this.window.from)) / this.width;
    const time = this.timeAt(x);
    const i = firstAfter(end, first, last, time);
    const far = (at: number): number =>
      at < first || at >= last ? Infinity : Math.max(start[at] - time, time - end[at], 0);
    const best = far(i) <= far(i - 1) ? i : i - 1;
    return far(best) <= near ? row[best] : null;
  }

  private ask(): void {
    if (this.asked === 0) {
      this.asked = requestAnimationFrame(() => {
        this.asked = 0;
        this.paint();
      });
    }
  }

  private drawOverview(colours: TimeColours): HTMLCanvasElement {
    const canvas = this.canvas.ownerDocument.createElement('canvas');
    const ctx = prepare(canvas, this.width, OVERVIEW);
    const { profile, lanes } = this;
    if (ctx) paintOverview(ctx, { profile, lanes }, colours, this.width);
    return canvas;
  }

  private paint(): void {
    const ctx = this.width > 0 ? this.canvas.getContext('2d') : null;
    const root = this.canvas.closest<HTMLElement>('.agv-root');
    if (!ctx || !root) {
      return;
    }
    const start = performance.now();
    this.colours ??= readTimeColours(root);
    this.overview ??= this.drawOverview(this.colours);
    const { profile, lanes, places, curves, colours, scroll, widths, overview } = this;
    this.drawn = paintTime(ctx, {
      ...{ profile, lanes, places, curves, colours, scroll, widths, overview },
      window: this.window,
      width: this.width,
      height: this.height,
      ratio: globalThis.devicePixelRatio || 1,
      marks: this.marks,
      ...this.shown
    });
    this.ms[this.frames++ % REMEMBERED] = performance.now() - start;
  }
}
