// Every backward pass that is kept, as one bar each: how long it took. Pure.

import { durationText } from './format';
import type { Store, Task } from './store';

export interface Passes {
  /** in the order in which they began */
  ids: Int32Array;
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

export function passesOf(store: Store): Passes {
  const { tasks, now } = store;
  const all = [...tasks.values()].sort((a, b) => a.task - b.task);
  const stops = new Stops(store);
  const endOf = ({ ended, end }: Task): number => (ended === 'no' ? now : end);
  const stopped = Float64Array.from(all, task => stops.within(task, task.t, endOf(task)));
  const ms = Float64Array.from(all, (task, i) => Math.max(0, endOf(task) - task.t - stopped[i]));
  return {
    ids: Int32Array.from(all, ({ task }) => task),
    ms,
    stopped,
    ended: all.map(({ ended }) => ended),
    longest: ms.reduce((most, one) => Math.max(most, one), 0)
  };
}

/** '12 ms', or where its reader stopped it '12 ms, paused 2.1 min'. */
export function tookText({ ms, stopped }: Passes, i: number): string {
  const took = durationText(ms[i]);
  return stopped[i] > 0 ? `${took}, paused ${durationText(stopped[i])}` : took;
}

/** The longest one of several that share a pixel. */
export function longestOf({ ms }: Passes, from: number, to: number): number {
  let found = from;
  for (let i = from + 1; i < to; i++) if (ms[i] > ms[found]) found = i;
  return found;
}
