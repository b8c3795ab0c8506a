// Every backward pass that is kept, as one bar each: how long it took. Pure.

import { KINDS, KIND_NAMES, bitOf } from './findings/finding';
import type { Ledger } from './findings/ledger';
import { countText, durationText, numberText } from './format';
import type { Store, Task } from './store';

export interface Passes {
  /** in the order in which they began */
  ids: Int32Array;
  /** of each, from 1: it stays when others are forgotten */
  numbers: Int32Array;
  /** 2-norm of the gradients of its leaves; NaN: not finite; -1: not known yet */
  norms: Float64Array;
  /** how many just before it were not recorded */
  missed: Int32Array;
  /** 1: it was told after it had run, nobody watched it */
  unwatched: Uint8Array;
  /** what is remarkable about it: bits of kinds of findings */
  kinds: Int32Array;
  /** 1: its nodes are still there */
  kept: Uint8Array;
  /** milliseconds in which it was not stopped; of one under way until now */
  ms: Float64Array;
  /** milliseconds in which it was */
  stopped: Float64Array;
  ended: ('no' | 'well' | 'in error')[];
  longest: number;
}

interface Stop {
  task: number;
  since: number;
  t: number;
}

/**
 * Times in which passes stood still because their reader stopped them. A pass that stops holds up
 * those around it, which wait on its thread. The stop that lasts is one of them.
 */
class Stops {
  /** by thread, in their order: a thread stands still once at a time */
  private readonly on = new Map<number, Stop[]>();
  private readonly of = new Map<number, Stop[]>();

  constructor(store: Store) {
    const { pauses, state, now } = store;
    const { task, thread, since, t } = pauses.at;
    for (let i = 0; i < pauses.rows; i++) {
      this.add(thread[i], { task: task[i], since: since[i], t: t[i] });
    }
    const { paused } = state;
    if (paused) {
      const { since } = paused;
      this.add(paused.thread, { task: paused.task, since, t: Math.max(now, since) });
    }
    for (const stops of this.on.values()) stops.sort((a, b) => a.since - b.since);
  }

  private add(thread: number, stop: Stop): void {
    for (const [map, key] of [[this.on, thread], [this.of, stop.task]] as const) {
      const known = map.get(key);
      if (known) known.push(stop);
      else map.set(key, [stop]);
    }
  }

  /** Milliseconds of a span of a pass in which it stood still. */
  within({ task, thread }: Task, from: number, to: number): number {
    if (this.on.size === 0) {
      return 0;
    }
    const stops = this.on.get(thread) ?? [];
    let [low, high] = [0, stops.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (stops[middle].t <= from) low = middle + 1;
      else high = middle;
    }
    const found = new Set(this.of.get(task));
    for (; low < stops.length && stops[low].since < to; low++) found.add(stops[low]);
    let [sum, end] = [0, from];
    for (const { since, t } of [...found].sort((a, b) => a.since - b.since)) {
      sum += Math.max(0, Math.min(to, t) - Math.max(end, since));
      end = Math.max(end, t);
    }
    return sum;
  }
}

/** Milliseconds that a run of a node took, by its row: those in which it was stopped are none. */
export function runMs(store: Store): (row: number) => number {
  const stops = new Stops(store);
  const { task, t0, t1 } = store.runs.at;
  return row => {
    const pass = store.tasks.get(task[row]);
    const stopped = pass ? stops.within(pass, t0[row], t1[row]) : 0;
    return Math.max(0, t1[row] - t0[row] - stopped);
  };
}

/** Milliseconds that a pass took which has ended: those in which it was stopped are none. */
export function passMs(store: Store, task: Task): number {
  const stopped = store.pauses.rows === 0 ? 0 : new Stops(store).within(task, task.t, task.end);
  return Math.max(0, task.end - task.t - stopped);
}

/** All passes that the ledger has a mark of, and those under way. */
export function passesOf(store: Store, ledger: Ledger | null = null): Passes {
  const { tasks, now } = store;
  const gone = (ledger?.marks ?? []).filter(({ task }) => !tasks.has(task));
  const all = [...tasks.values()].sort((a, b) => a.task - b.task);
  const stops = new Stops(store);
  const endOf = ({ ended, end }: Task): number => (ended === 'no' ? now : end);
  const before = new Array<number>(gone.length).fill(0);
  const halts = all.map(task => stops.within(task, task.t, endOf(task)));
  const took = all.map((task, i) => Math.max(0, endOf(task) - task.t - halts[i]));
  const marks = all.map(({ task }) => ledger?.mark(task));
  const ms = Float64Array.from([...gone.map(one => one.ms), ...took]);
  return {
    ids: Int32Array.from([...gone, ...all], ({ task }) => task),
    numbers: Int32Array.from([...gone, ...all], ({ number }) => number),
    norms: Float64Array.from([...gone, ...marks], mark => mark?.norm ?? -1),
    missed: Int32Array.from([...before, ...all.map(({ missed }) => missed)]),
    unwatched: Uint8Array.from([...before, ...all.map(one => (store.watched(one.task) ? 0 : 1))]),
    kinds: Int32Array.from([...gone, ...marks], mark => mark?.kinds ?? 0),
    kept: Uint8Array.from([...before, ...all], one => (one === 0 ? 0 : 1)),
    ms,
    stopped: Float64Array.from([...before, ...halts]),
    ended: [
      ...gone.map(({ kinds }) => (kinds & bitOf('failed') ? 'in error' : 'well') as Task['ended']),
      ...all.map(({ ended }) => ended)
    ],
    longest: ms.reduce((most, one) => Math.max(most, one), 0)
  };
}

/** '12 ms', or where its reader stopped it '12 ms, paused 2.1 min'. */
export function tookText({ ms, stopped }: Passes, i: number): string {
  const took = durationText(ms[i]);
  return stopped[i] > 0 ? `${took}, paused ${durationText(stopped[i])}` : took;
}

/** What the bars are as high as. */
export type Heights = 'gradient' | 'time';

/** Of the smallest gradient that is not zero. */
const LOWEST = 0.15;

/** The bars' heights, from 0 to 1: of gradients by their logarithm. */
export function heightsOf({ ms, longest, norms }: Passes, by: Heights): Float64Array {
  if (by === 'time') {
    return ms.map(one => one / Math.max(1e-9, longest));
  }
  const known = norms.filter(norm => norm > 0 && norm < Infinity);
  const least = Math.log(known.reduce((a, b) => Math.min(a, b), Infinity));
  const most = Math.log(known.reduce((a, b) => Math.max(a, b), 0));
  const range = Math.max(1e-9, most - least);
  return norms.map(norm => {
    if (!Number.isFinite(norm)) return 1;
    if (norm <= 0) return 0;
    return most === least ? 0.6 : LOWEST + ((1 - LOWEST) * (Math.log(norm) - least)) / range;
  });
}

/** The tallest one of several that share a pixel. */
export function tallestOf(heights: Float64Array, from: number, to: number): number {
  let found = from;
  for (let i = from + 1; i < to; i++) if (heights[i] > heights[found]) found = i;
  return found;
}

export const NOT_WATCHED = 'not watched while it ran';

/** 'pass 21 of 40, NaN or ∞, |grad| 0.31, 1.2 ms' */
export function passText(passes: Passes, i: number, all: number): string {
  const { numbers, kinds, norms, kept } = passes;
  const names = KINDS.filter(kind => kinds[i] & bitOf(kind)).map(kind => KIND_NAMES[kind]);
  const norm = norms[i] < 0 ? [] : [`|grad| ${numberText(norms[i])}`];
  const parts = [`backward ${countText(numbers[i])} of ${countText(all)}`, ...names, ...norm];
  if (passes.unwatched[i]) parts.push(NOT_WATCHED);
  if (passes.missed[i] > 0) parts.push(`${countText(passes.missed[i])} before it not watched`);
  if (!kept[i]) parts.push('let go');
  return [...parts, tookText(passes, i)].join(', ');
}
