// Every saved tensor of the graph at the moment shown: what it is, who else lies on its memory,
// who keeps it alive, when it was given back. Pure; linear in saved tensors and their nodes' runs.

import { shapeText } from './format';
import type { InspectorModel } from './inspector';
import { State, writtenSince } from './states';
import type { Store } from './store';

export interface TensorRow {
  /** node number */
  seq: number;
  node: string;
  name: string;
  shape: string;
  dtype: string;
  bytes: number;
  storage: number;
  own: boolean;
  then: number;
  /** version now; null where it was given back */
  now: number | null;
  silent: boolean;
  /** the node still has it */
  held: boolean;
  /** when it was given back, in words; '' while it is held */
  freed: string;
  /** what else lies on its storage */
  shared: string[];
  /** nodes and variables that keep its memory, itself included while it is held */
  keepers: string[];
}

export interface Totals {
  tensors: number;
  storages: number;
  /** bytes of storages, each counted once */
  bytes: number;
  heldTensors: number;
  heldStorages: number;
  heldBytes: number;
}

export type SortKey =
  'node' | 'name' | 'shape' | 'dtype' | 'bytes' | 'version' | 'shared' | 'kept' | 'freed';

/** When a node gave its saved tensors back, if it did by `t`; '' while it has them. */
function givenBack(store: Store, seq: number, t: number): string {
  const { runs, freed } = store;
  let first = -1;
  for (let row = store.runsOf.newest(seq); row !== -1; row = store.runsOf.before(row)) {
    const task = store.tasks.get(runs.at.task[row]);
    if (runs.at.t1[row] <= t && task && !task.retain) first = row;
  }
  if (first >= 0) {
    return `after step ${runs.at.order[first] + 1}`;
  }
  const row = store.freedRow.get(seq);
  return row >= 0 && freed.at.t[row] <= t ? 'with its node' : '';
}

/** Saved tensors of nodes that exist at the moment shown, newest node first. */
export function tensorRows(model: InspectorModel): { rows: TensorRow[]; totals: Totals } {
  const { store, graph, states } = model;
  const { at } = store.saved;
  const rows: TensorRow[] = [];
  const byStorage = new Map<number, TensorRow[]>();
  for (let i = 0; i < graph.seqs.length; i++) {
    if (states.node[i] === State.future) {
      continue;
    }
    const seq = graph.seqs[i];
    let freed: string | null = null;
    for (const row of store.savedOf.rows(seq)) {
      freed ??= givenBack(store, seq, states.t);
      const written = writtenSince(store, row, states.t);
      const write = store.writeAt(at.storage[row], states.t);
      const then = at.version[row];
      const held = freed === '';
      const made: TensorRow = {
        seq,
        node: store.nameOf(seq),
        name: store.string(at.name[row]),
        shape: shapeText(store.string(at.shape[row])),
        dtype: store.string(at.dtype[row]),
        bytes: at.bytes[row],
        storage: at.storage[row],
        own: (at.flags[row] & 1) !== 0,
        then,
        now: held ? (written === 'version' ? store.writes.at.version[write] : then) : null,
        silent: written === 'silent',
        held,
        freed,
        shared: [],
        keepers: []
      };
      rows.push(made);
      const others = byStorage.get(made.storage);
      if (others) others.push(made);
      else byStorage.set(made.storage, [made]);
    }
  }
  const totals = { tensors: rows.length, storages: byStorage.size, bytes: 0 };
  const held = { heldTensors: 0, heldStorages: 0, heldBytes: 0 };
  for (const [storage, sharing] of byStorage) {
    const leaves = new Set<string>();
    for (let row = store.leavesOn.newest(storage); row !== -1; row = store.leavesOn.before(row)) {
      leaves.add(store.label(store.leaves.at.seq[row]) || 'a leaf');
    }
    const bytes = Math.max(...sharing.map(row => row.bytes));
    const holders = sharing.filter(row => row.held);
    totals.bytes += bytes;
    held.heldTensors += holders.length;
    held.heldStorages += holders.length > 0 ? 1 : 0;
    held.heldBytes += holders.length > 0 ? bytes : 0;
    const keepers = [...leaves, ...holders.map(row => `${row.node}.${row.name}`)];
    for (const row of sharing) {
      row.keepers = keepers;
      row.shared = [
        ...leaves,
        ...sharing.filter(other => other !== row).map(other => `${other.node}.${other.name}`)
      ];
    }
  }
  return { rows, totals: { ...totals, ...held } };
}

const COMPARE: Record<SortKey, (a: TensorRow, b: TensorRow) => number> = {
  node: (a, b) => b.seq - a.seq,
  name: (a, b) => a.name.localeCompare(b.name),
  shape: (a, b) => a.shape.localeCompare(b.shape),
  dtype: (a, b) => a.dtype.localeCompare(b.dtype),
  bytes: (a, b) => b.bytes - a.bytes,
  version: (a, b) => (b.now ?? b.then) - b.then - ((a.now ?? a.then) - a.then),
  shared: (a, b) => b.shared.length - a.shared.length,
  kept: (a, b) => b.keepers.length - a.keepers.length,
  freed: (a, b) => Number(b.held) - Number(a.held)
};

/** Sorted, the first of equal ones first. */
export function sorted(rows: readonly TensorRow[], key: SortKey, reverse: boolean): TensorRow[] {
  const compare = COMPARE[key];
  return [...rows].sort((a, b) => (reverse ? compare(b, a) : compare(a, b)));
}
