// The graph on screen: the nodes that one backward pass runs over, or the newest ones that none ran
// over yet. Pure; linear time; no recursion, so a chain of 100,000 nodes is like any other graph.

import { NONE } from '../protocol/schema';
import { IntMap } from './intmap';
import type { Store } from './store';

export interface Graph {
  /** the backward pass, or null for a graph that none ran over */
  task: number | null;
  /** equal for graphs of the same shape, names and lines: their layout is the same */
  signature: string;
  /** node numbers, newest first: the loss comes before what it was made from */
  seqs: Uint32Array;
  /** node number -> index into `seqs` */
  indexOf: IntMap;
  /** edges between nodes, as indexes: gradient flows from `edgeFrom` to `edgeTo` */
  edgeFrom: Uint32Array;
  edgeTo: Uint32Array;
  /** one badge per use of a leaf; those of node i are badgeStart[i] .. badgeStart[i + 1] */
  badgeStart: Uint32Array;
  /** the leaf's number; where `badgeKnown` is 0, a node that was not recorded */
  badgeSeq: Uint32Array;
  badgeKnown: Uint8Array;
  /** leaf numbers in order of first use, and how often each is used */
  leaves: Uint32Array;
  leafUses: Map<number, number[]>;
  /** 1: node i transposes a leaf for node i - 1 and nothing else, as linear layers do */
  stubs: Uint8Array;
}

export const NO_GRAPH: Graph = {
  task: null,
  signature: '',
  seqs: new Uint32Array(0),
  indexOf: new IntMap(),
  edgeFrom: new Uint32Array(0),
  edgeTo: new Uint32Array(0),
  badgeStart: new Uint32Array(1),
  badgeSeq: new Uint32Array(0),
  badgeKnown: new Uint8Array(0),
  leaves: new Uint32Array(0),
  leafUses: new Map(),
  stubs: new Uint8Array(0)
};

/** What a transposed matrix was made by: `W.t()`, `W.T`, `W.mT`, `W.transpose(0, 1)`. */
const TRANSPOSES = /^(T|Transpose|Permute)Backward\d*$/;

/** A list of u32 that grows. */
export class Numbers {
  private array = new Uint32Array(256);
  length = 0;

  push(value: number): void {
    if (this.length === this.array.length) {
      const longer = new Uint32Array(2 * this.length);
      longer.set(this.array);
      this.array = longer;
    }
    this.array[this.length++] = value;
  }

  pop(): number {
    return this.array[--this.length];
  }

  get all(): Uint32Array {
    return this.array.slice(0, this.length);
  }
}

/** Every node that gradient reaches from the roots of a backward pass. */
function reachable(store: Store, roots: Iterable<number>): Uint32Array {
  const seen = new IntMap();
  const stack = new Numbers();
  const found = new Numbers();
  const visit = (seq: number): void => {
    if (!seen.has(seq) && store.nodeRow.has(seq)) {
      seen.set(seq, 1);
      found.push(seq);
      stack.push(seq);
    }
  };
  for (const root of roots) {
    visit(root);
  }
  while (stack.length > 0) {
    const seq = stack.pop();
    for (let row = store.edgesOf.newest(seq); row !== -1; row = store.edgesOf.before(row)) {
      visit(store.edges.at.dst[row]);
    }
  }
  return found.all;
}

/** The newest node and all that hang together with it, except through shared leaves. */
function connected(store: Store): Uint32Array {
  const { nodes, edges } = store;
  if (nodes.rows === 0) {
    return new Uint32Array(0);
  }
  let newest = 0;
  for (let row = 1; row < nodes.rows; row++) {
    if (nodes.at.seq[row] > nodes.at.seq[newest]) newest = row;
  }
  // Union of the two ends of every edge between nodes, with path halving.
  const parent = new Int32Array(nodes.rows);
  for (let row = 0; row < nodes.rows; row++) parent[row] = row;
  const root = (row: number): number => {
    while (parent[row] !== row) {
      parent[row] = parent[parent[row]];
      row = parent[row];
    }
    return row;
  };
  for (let row = 0; row < edges.rows; row++) {
    const a = store.nodeRow.get(edges.at.src[row]);
    const b = store.nodeRow.get(edges.at.dst[row]);
    if (a >= 0 && b >= 0) {
      const [x, y] = [root(a), root(b)];
      if (x !== y) parent[Math.max(x, y)] = Math.min(x, y);
    }
  }
  const wanted = root(newest);
  const found = new Numbers();
  for (let row = 0; row < nodes.rows; row++) {
    if (root(row) === wanted) found.push(nodes.at.seq[row]);
  }
  return found.all;
}

function assemble(store: Store, task: number | null, found: Uint32Array): Graph {
  const seqs = found.sort().reverse();
  const count = seqs.length;
  const indexOf = new IntMap();
  for (let i = 0; i < count; i++) indexOf.set(seqs[i], i);

  const edgeFrom = new Numbers();
  const edgeTo = new Numbers();
  const badgeSeq = new Numbers();
  const badgeKnown = new Numbers();
  const badgeStart = new Uint32Array(count + 1);
  const leafUses = new Map<number, number[]>();
  const leaves = new Numbers();
  let mark = 0x811c9dc5;
  const mix = (value: number): void => {
    mark = Math.imul(mark ^ value, 0x01000193) ^ (mark >>> 13);
  };

  for (let i = 0; i < count; i++) {
    badgeStart[i] = badgeSeq.length;
    const row = store.nodeRow.get(seqs[i]);
    mix(store.nodes.at.name[row]);
    mix(store.nodes.at.site[row]);
    if (i > 0) mix(store.callOf.get(seqs[i]) - store.callOf.get(seqs[i - 1]));
    const rows = store.edgesOf.rows(seqs[i]);
    rows.sort((a, b) => store.edges.at.src_index[a] - store.edges.at.src_index[b]);
    for (const edge of rows) {
      const target = store.edges.at.dst[edge];
      if (target === NONE) {
        continue;
      }
      const to = indexOf.get(target);
      if (to >= 0) {
        edgeFrom.push(i);
        edgeTo.push(to);
        mix(to);
        continue;
      }
      const known = store.leafRow.has(target);
      badgeSeq.push(target);
      badgeKnown.push(known ? 1 : 0);
      const uses = leafUses.get(target);
      if (uses) {
        uses.push(i);
      } else {
        leafUses.set(target, [i]);
        leaves.push(target);
      }
      mix(known ? 0x10001 + store.leaves.at.shape[store.leafRow.get(target)] : 0x7fff);
      mix(store.label(target).length);
    }
  }
  badgeStart[count] = badgeSeq.length;
  const [from, to] = [edgeFrom.all, edgeTo.all];

  return {
    task,
    signature: [
      store.session,
      store.epoch,
      count,
      edgeFrom.length,
      badgeSeq.length,
      mark >>> 0
    ].join('/'),
    seqs,
    indexOf,
    edgeFrom: from,
    edgeTo: to,
    badgeStart,
    badgeSeq: badgeSeq.all,
    badgeKnown: Uint8Array.from(badgeKnown.all),
    leaves: leaves.all,
    leafUses,
    stubs: stubsOf(store, seqs, from, to, badgeStart)
  };
}

/** Nodes that only transpose a matrix of parameters for the node before them. */
function stubsOf(
  store: Store,
  seqs: Uint32Array,
  from: Uint32Array,
  to: Uint32Array,
  badgeStart: Uint32Array
): Uint8Array {
  const { name, shape } = store.nodes.at;
  const transposes = new Map<number, boolean>();
  const stubs = Uint8Array.from(seqs, (seq, i) => {
    const row = store.nodeRow.get(seq);
    let known = transposes.get(name[row]);
    if (known === undefined) {
      known = TRANSPOSES.test(store.string(name[row]));
      transposes.set(name[row], known);
    }
    const one = badgeStart[i + 1] - badgeStart[i] === 1;
    return known && one && store.string(shape[row]).split('×').length === 2 ? 1 : 0;
  });
  const users = new Uint32Array(seqs.length);
  for (let e = 0; e < from.length; e++) {
    stubs[from[e]] = 0;
    if (to[e] !== from[e] + 1) stubs[to[e]] = 0;
    users[to[e]]++;
  }
  return stubs.map((stub, i) => (users[i] === 1 ? stub : 0));
}

/** The graph of one backward pass: what its roots reach, and whatever else it ran. */
export function graphOfTask(store: Store, task: number): Graph {
  const roots: number[] = [];
  const known = store.tasks.get(task);
  if (known && known.root !== NONE) {
    roots.push(known.root);
  }
  for (let row = store.runsIn.newest(task); row !== -1; row = store.runsIn.before(row)) {
    roots.push(store.runs.at.seq[row]);
  }
  return assemble(store, task, reachable(store, roots));
}

/** The graph of the newest nodes, whether or not a backward pass ran over them. */
export function graphOfNewest(store: Store): Graph {
  return assemble(store, null, connected(store));
}

/** Nodes whose gradient comes into node `index`, and those it goes out to, as indexes. */
export function neighbours(graph: Graph, index: number): { above: number[]; below: number[] } {
  const above: number[] = [];
  const below: number[] = [];
  for (let e = 0; e < graph.edgeFrom.length; e++) {
    if (graph.edgeTo[e] === index && !above.includes(graph.edgeFrom[e]))
      above.push(graph.edgeFrom[e]);
    if (graph.edgeFrom[e] === index && !below.includes(graph.edgeTo[e]))
      below.push(graph.edgeTo[e]);
  }
  return { above, below };
}
