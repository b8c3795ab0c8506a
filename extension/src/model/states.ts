// What each node of the graph looks like at one moment: its state, its gradient, its flags. Pure.

import type { Axis } from './axis';
import type { Graph } from './graph';
import type { Store } from './store';

export const State = {
  /** will run, has not yet */
  waiting: 0,
  /** not created yet at the moment shown */
  future: 1,
  next: 2,
  /** the newest node of a backward that is under way */
  running: 3,
  done: 4,
  problem: 5,
  /** gone before it could run */
  freed: 6
} as const;

export type NodeState = (typeof State)[keyof typeof State];

export const STATE_NAMES: Record<NodeState, string> = {
  0: 'waiting',
  1: 'not created yet',
  2: 'next',
  3: 'running',
  4: 'done',
  5: 'problem',
  6: 'freed'
};

export const Flag = {
  /** a saved tensor was written since, and the node still needs it */
  stale: 1,
  breakpoint: 2,
  hook: 4,
  /** NaN or infinity came in as gradient */
  nonfinite: 8,
  freed: 16,
  /** saved its own output: writing to that in place would break it */
  ownOutput: 32,
  /** an input had left a graph: no gradient goes on to it */
  detached: 64
} as const;

export interface States {
  node: Uint8Array;
  flags: Uint8Array;
  /** 2-norm of the incoming gradient by node; -1: none yet; UNWATCHED */
  norm: Float64Array;
  /** state by leaf number */
  leaf: Map<number, NodeState>;
  leafNorm: Map<number, number>;
  /** index of the next node, or -1; the leaf's number when the next one is a leaf */
  next: number;
  nextLeaf: number;
  /** runs shown as done */
  done: number;
  /** largest finite norm */
  peak: number;
  /** norm of the gradient that the pass began with; 0 before it */
  start: number;
  /** the moment shown, in the session's ms; Infinity: now */
  t: number;
}

/** The time of a position on the axis: when the event before it ended. */
function momentOf(store: Store, graph: Graph, axis: Axis, cursor: number | null): number {
  const created = axis.forward.length;
  if (cursor === null || cursor >= created + axis.runs.length) {
    return Infinity;
  }
  if (cursor > created) {
    return store.runs.at.t1[axis.runs[cursor - created - 1]];
  }
  if (cursor === created) {
    return store.runs.at.t0[axis.runs[0]];
  }
  return cursor === 0
    ? -Infinity
    : store.nodes.at.t[store.nodeRow.get(graph.seqs[axis.forward[cursor - 1]])];
}

/** Whether a saved tensor was written after it was saved and not later than `t`. */
export function writtenSince(
  store: Store,
  savedRow: number,
  t: number
): 'no' | 'version' | 'silent' {
  const { saved, writes, nodes } = store;
  const storage = saved.at.storage[savedRow];
  const newest = store.writeAt(storage, t);
  if (newest < 0) {
    return 'no';
  }
  if (writes.at.version[newest] > saved.at.version[savedRow]) {
    return 'version';
  }
  // A write through .data moves the write count and not the version.
  const silent = (row: number): number =>
    row < 0 ? 0 : writes.at.writes[row] - writes.at.version[row];
  const owner = store.nodeRow.get(saved.at.node[savedRow]);
  const then = owner < 0 ? newest : store.writeAt(storage, nodes.at.t[owner]);
  return silent(newest) > silent(then) ? 'silent' : 'no';
}

/** The states at a position of the axis, 0 .. forward + runs; null: now. */
export function statesAt(store: Store, graph: Graph, axis: Axis, cursor: number | null): States {
  const count = graph.seqs.length;
  const node = new Uint8Array(count);
  const flags = new Uint8Array(count);
  const norm = new Float64Array(count).fill(-1);
  const leaf = new Map<number, NodeState>();
  const leafNorm = new Map<number, number>();
  const position = cursor ?? axis.forward.length + axis.runs.length;
  const created = Math.min(position, axis.forward.length);
  const done = Math.max(0, position - axis.forward.length);
  const t = momentOf(store, graph, axis, cursor);
  let next = -1;
  let nextLeaf = -1;
  let peak = 0;
  let start = 0;

  for (let i = created; i < count; i++) node[axis.forward[i]] = State.future;

  const give = (seq: number, state: NodeState): void => {
    const index = graph.indexOf.get(seq);
    if (index >= 0) node[index] = state;
    else leaf.set(seq, state);
  };
  for (let i = 0; i < done; i++) {
    const row = axis.runs[i];
    const seq = store.runs.at.seq[row];
    const index = graph.indexOf.get(seq);
    const size = store.runs.at.norm[row];
    if (index >= 0) {
      norm[index] = size;
      if (store.runs.at.flags[row] & 1) flags[index] |= Flag.nonfinite;
    } else {
      leafNorm.set(seq, size);
    }
    if (Number.isFinite(size)) peak = Math.max(peak, size);
    if (start === 0 && size > 0 && Number.isFinite(size)) start = size;
    give(seq, store.runs.at.flags[row] & 1 && index >= 0 ? State.problem : State.done);
  }

  const paused = store.state.paused;
  const task = graph.task === null ? undefined : store.tasks.get(graph.task);
  const now = position >= axis.forward.length + axis.runs.length;
  let upcoming = -1;
  if (created === axis.forward.length && done < axis.runs.length) {
    upcoming = store.runs.at.seq[axis.runs[done]];
  } else if (now && paused && task && paused.task === task.task) {
    upcoming = paused.seq;
  }

  for (let i = 0; i < count; i++) {
    const seq = graph.seqs[i];
    const freedRow = store.freedRow.get(seq);
    if (freedRow >= 0 && store.freed.at.t[freedRow] <= t) {
      flags[i] |= Flag.freed;
      if (node[i] === State.waiting && (task === undefined || task.ended !== 'no'))
        node[i] = State.freed;
    }
    for (let row = store.savedOf.newest(seq); row !== -1; row = store.savedOf.before(row)) {
      if (store.saved.at.flags[row] & 1) flags[i] |= Flag.ownOutput;
      const pending = node[i] === State.waiting && (flags[i] & Flag.freed) === 0;
      if (pending && (flags[i] & Flag.stale) === 0 && writtenSince(store, row, t) !== 'no') {
        flags[i] |= Flag.stale;
      }
    }
    if (store.hooksOf.newest(seq) !== -1) flags[i] |= Flag.hook;
    const detached = store.breaksOf.newest(seq);
    if (detached !== -1 && store.breaks.at.t[detached] <= t) flags[i] |= Flag.detached;
  }
  for (const problem of store.problems) {
    const index = problem.node_seq === null ? -1 : graph.indexOf.get(problem.node_seq);
    if (index >= 0 && node[index] !== State.done && node[index] !== State.future) {
      node[index] = State.problem;
    }
  }
  for (const { kind, seq, name } of store.state.breakpoints) {
    if (kind === 'node' && seq !== undefined) {
      const index = graph.indexOf.get(seq);
      if (index >= 0) flags[index] |= Flag.breakpoint;
    } else if (kind === 'name' && name) {
      for (let i = 0; i < count; i++) {
        if (store.nameOf(graph.seqs[i]) === name) flags[i] |= Flag.breakpoint;
      }
    }
  }
  if (upcoming >= 0) {
    give(upcoming, State.next);
    next = graph.indexOf.get(upcoming);
    if (next < 0) nextLeaf = upcoming;
  } else if (now && task?.ended === 'no' && done > 0) {
    const seq = store.runs.at.seq[axis.runs[done - 1]];
    if (graph.indexOf.get(seq) < 0 || node[graph.indexOf.get(seq)] === State.done)
      give(seq, State.running);
  }
  return { node, flags, norm, leaf, leafNorm, next, nextLeaf, done, peak, start, t };
}
