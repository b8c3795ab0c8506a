// Every backward pass that is kept, as one bar each: how long it took. Pure.

import type { Store } from './store';

export interface Passes {
  /** in the order in which they began */
  ids: Int32Array;
  /** milliseconds in which it was not stopped; of one under way until now */
  ms: Float64Array;
  ended: ('no' | 'well' | 'in error')[];
  longest: number;
}

/** Milliseconds in which each pass was stopped. */
export function stoppedMs({ pauses }: Store): Map<number, number> {
  const stopped = new Map<number, number>();
  const { task, since, t } = pauses.at;
  for (let i = 0; i < pauses.rows; i++) {
    stopped.set(task[i], (stopped.get(task[i]) ?? 0) + t[i] - since[i]);
  }
  return stopped;
}

export function passesOf(store: Store): Passes {
  const { tasks, now } = store;
  const all = [...tasks.values()].sort((a, b) => a.task - b.task);
  const stopped = stoppedMs(store);
  const ms = Float64Array.from(all, ({ task, t, end, ended }) =>
    Math.max(0, (ended === 'no' ? now : end) - t - (stopped.get(task) ?? 0))
  );
  return {
    ids: Int32Array.from(all, ({ task }) => task),
    ms,
    ended: all.map(({ ended }) => ended),
    longest: ms.reduce((most, one) => Math.max(most, one), 0)
  };
}

/** The longest one of several that share a pixel. */
export function longestOf({ ms }: Passes, from: number, to: number): number {
  let found = from;
  for (let i = from + 1; i < to; i++) if (ms[i] > ms[found]) found = i;
  return found;
}
