// The time axis of one graph: its nodes in order of creation, then the runs of its backward pass.
// Slots are as wide as what they show took, within limits, so that a pause of minutes stays one
// slot.

import type { Graph } from './graph';
import { runMs } from './passes';
import type { Store } from './store';

export interface Axis {
  /** node indexes in order of creation */
  forward: Uint32Array;
  /** rows of `runs` in the order in which they ran */
  runs: Uint32Array;
  /** slots of the backward row: the runs and those still to come */
  slots: number;
  /** left edge of each slot and the end of the last, in shares of one typical slot */
  forwardX: Float64Array;
  backwardX: Float64Array;
}

export const NO_AXIS: Axis = {
  forward: new Uint32Array(0),
  runs: new Uint32Array(0),
  slots: 0,
  forwardX: new Float64Array(1),
  backwardX: new Float64Array(1)
};

function edges(durations: Float64Array, slots: number): Float64Array {
  const known = durations.filter(d => d > 0).sort();
  const typical = known.length > 0 ? known[known.length >> 1] : 1;
  const x = new Float64Array(slots + 1);
  for (let i = 0; i < slots; i++) {
    const share = i < durations.length && durations[i] > 0 ? durations[i] / typical : 1;
    x[i + 1] = x[i] + Math.min(1.8, Math.max(0.6, Math.sqrt(share)));
  }
  return x;
}

export function timeAxis(store: Store, graph: Graph): Axis {
  const count = graph.seqs.length;
  const forward = new Uint32Array(count);
  const made = new Float64Array(count);
  let before = NaN;
  for (let i = 0; i < count; i++) {
    const index = count - 1 - i;
    forward[i] = index;
    const t = store.nodes.at.t[store.nodeRow.get(graph.seqs[index])];
    // A node is created when its op is done: the time since the one before is the op's.
    made[i] = t - before;
    before = t;
  }
  const rows = graph.task === null ? [] : store.runsIn.rows(graph.task);
  rows.sort((a, b) => store.runs.at.order[a] - store.runs.at.order[b]);
  const runs = Uint32Array.from(rows);
  const took = new Float64Array(runs.length);
  const lasted = runMs(store);
  for (let i = 0; i < runs.length; i++) {
    took[i] = lasted(runs[i]);
  }
  const total = graph.task === null ? 0 : (store.tasks.get(graph.task)?.total ?? 0);
  const slots = Math.max(total, runs.length);
  return { forward, runs, slots, forwardX: edges(made, count), backwardX: edges(took, slots) };
}
