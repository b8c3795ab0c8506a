// Times in which a thread stood still because its reader stopped it. They are drawn, and counted
// nowhere.

/** Sorted by track, then time; of one track none overlaps another. */
export interface Pauses {
  track: Int32Array;
  /** ns since the profile's zero */
  from: Float64Array;
  to: Float64Array;
}

export interface Pause {
  track: number;
  from: number;
  to: number;
}

export const NO_PAUSES: Pauses = {
  track: new Int32Array(0),
  from: new Float64Array(0),
  to: new Float64Array(0)
};

/** In order, and what overlaps in one track put together; what has no length is none. */
export function pausesOf(all: readonly Pause[]): Pauses {
  const sorted = all
    .filter(({ from, to }) => to > from)
    .sort((a, b) => a.track - b.track || a.from - b.from);
  const kept: Pause[] = [];
  for (const pause of sorted) {
    const before = kept[kept.length - 1];
    if (before && before.track === pause.track && pause.from <= before.to) {
      before.to = Math.max(before.to, pause.to);
    } else {
      kept.push({ ...pause });
    }
  }
  return {
    track: Int32Array.from(kept, ({ track }) => track),
    from: Float64Array.from(kept, ({ from }) => from),
    to: Float64Array.from(kept, ({ to }) => to)
  };
}

/** ns between two moments in which a track stood still. */
export function pausedIn(pauses: Pauses, track: number, from: number, to: number): number {
  const count = pauses.track.length;
  if (count === 0) {
    return 0;
  }
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    const before =
      pauses.track[middle] < track || (pauses.track[middle] === track && pauses.to[middle] <= from);
    if (before) low = middle + 1;
    else high = middle;
  }
  let paused = 0;
  for (let i = low; i < count && pauses.track[i] === track && pauses.from[i] < to; i++) {
    paused += Math.min(to, pauses.to[i]) - Math.max(from, pauses.from[i]);
  }
  return paused;
}

/** ns between two moments in which any track stood still. */
export function pausedAnywhere(pauses: Pauses, from: number, to: number): number {
  const all = Array.from(pauses.from, (start, i) => ({ track: 0, from: start, to: pauses.to[i] }));
  return pausedIn(pausesOf(all), 0, from, to);
}
