// Which node of one graph is which of the other. First in order of creation, from the strictest
// idea of "the same" to the loosest, each in the gaps that the one before left; then along the
// edges, which finds what moved and what stands in the same place under another name. Pure.

import { align } from './align';
import type { Facts } from './facts';
import { NO_INPUT, leafInput } from './facts';

export interface Matching {
  /** by node of a: its partner's index, or -1; and the other way round */
  ofA: Int32Array;
  ofB: Int32Array;
  /** the same for leaves */
  leafOfA: Int32Array;
  leafOfB: Int32Array;
}

type Key = (facts: Facts, i: number) => string;

const text = (facts: Facts, i: number): string => facts.site[i]?.text ?? '';

function leavesOf(facts: Facts, i: number): string {
  let key = '';
  for (let s = facts.inputStart[i]; s < facts.inputStart[i + 1]; s++) {
    if (facts.inputs[s] < NO_INPUT) {
      const { label, shape } = facts.leaves[leafInput(facts.inputs[s])];
      key += `\n${label} ${shape}`;
    }
  }
  return key;
}

/** Which inputs are nodes, leaves, or need no gradient: the ends of a chain differ in it. */
function pattern(facts: Facts, i: number): string {
  let key = '';
  for (let s = facts.inputStart[i]; s < facts.inputStart[i + 1]; s++) {
    const input = facts.inputs[s];
    key += input >= 0 ? 'n' : input === NO_INPUT ? '-' : 'l';
  }
  return key;
}

const KEYS: readonly Key[] = [
  (f, i) =>
    [f.name[i], f.shape[i], f.scope[i], text(f, i), pattern(f, i), leavesOf(f, i)].join('\n'),
  (f, i) => [f.name[i], f.shape[i], f.kinds[i], text(f, i), pattern(f, i)].join('\n'),
  (f, i) => [f.name[i], f.kinds[i], text(f, i), pattern(f, i)].join('\n'),
  (f, i) => [f.name[i], f.kinds[i], text(f, i)].join('\n'),
  (f, i) => [f.name[i], f.shape[i]].join('\n'),
  (f, i) => f.name[i]
];

function tokens(key: Key, a: Facts, b: Facts): [Int32Array, Int32Array] {
  const numbers = new Map<string, number>();
  const of = (facts: Facts): Int32Array =>
    Int32Array.from(facts.seqs, (_, i) => {
      const found = key(facts, i);
      let number = numbers.get(found);
      if (number === undefined) numbers.set(found, (number = numbers.size));
      return number;
    });
  return [of(a), of(b)];
}

/** Aligns what still lies between two pairs, in order. */
function inOrder(a: Facts, b: Facts, found: Matching): void {
  for (const key of KEYS) {
    const [ta, tb] = tokens(key, a, b);
    let [i, j] = [0, 0];
    while (i < ta.length || j < tb.length) {
      const [fromA, fromB] = [i, j];
      while (i < ta.length && found.ofA[i] < 0) i++;
      while (j < tb.length && found.ofB[j] < 0) j++;
      for (const [x, y] of align(ta.subarray(fromA, i), tb.subarray(fromB, j))) {
        found.ofA[fromA + x] = fromB + y;
        found.ofB[fromB + y] = fromA + x;
      }
      i++;
      j++;
    }
  }
}

/** For every node, which nodes use it and at which input. */
function usersOf(facts: Facts): { start: Uint32Array; user: Uint32Array; slot: Uint32Array } {
  const count = facts.seqs.length;
  const start = new Uint32Array(count + 1);
  for (const input of facts.inputs) if (input >= 0) start[input + 1]++;
  for (let i = 0; i < count; i++) start[i + 1] += start[i];
  const next = start.slice();
  const user = new Uint32Array(start[count]);
  const slot = new Uint32Array(start[count]);
  for (let i = 0; i < count; i++) {
    for (let s = facts.inputStart[i]; s < facts.inputStart[i + 1]; s++) {
      const input = facts.inputs[s];
      if (input >= 0) {
        user[next[input]] = i;
        slot[next[input]++] = s - facts.inputStart[i];
      }
    }
  }
  return { start, user, slot };
}

/** Pairs what hangs on a pair in the same way, as long as `same` allows it. */
function alongEdges(
  a: Facts,
  b: Facts,
  found: Matching,
  same: (i: number, j: number) => boolean
): void {
  const [usersA, usersB] = [usersOf(a), usersOf(b)];
  const queue: number[] = [];
  for (let i = 0; i < found.ofA.length; i++) if (found.ofA[i] >= 0) queue.push(i);
  const pair = (i: number, j: number): void => {
    if (i >= 0 && j >= 0 && found.ofA[i] < 0 && found.ofB[j] < 0 && same(i, j)) {
      found.ofA[i] = j;
      found.ofB[j] = i;
      queue.push(i);
    }
  };
  for (let at = 0; at < queue.length; at++) {
    const i = queue[at];
    const j = found.ofA[i];
    const [startA, startB] = [a.inputStart[i], b.inputStart[j]];
    const slots = Math.min(a.inputStart[i + 1] - startA, b.inputStart[j + 1] - startB);
    for (let s = 0; s < slots; s++) pair(a.inputs[startA + s], b.inputs[startB + s]);
    for (let u = usersA.start[i]; u < usersA.start[i + 1]; u++) {
      if (found.ofA[usersA.user[u]] >= 0) continue;
      for (let v = usersB.start[j]; v < usersB.start[j + 1]; v++) {
        if (usersA.slot[u] === usersB.slot[v]) pair(usersA.user[u], usersB.user[v]);
      }
    }
  }
}

/** Whether an input of i stands where one of j does: paired nodes, or leaves on both sides. */
function sharesInput(a: Facts, b: Facts, found: Matching, i: number, j: number): boolean {
  const [startA, startB] = [a.inputStart[i], b.inputStart[j]];
  const [endA, endB] = [a.inputStart[i + 1], b.inputStart[j + 1]];
  for (let s = 0; s < Math.min(endA - startA, endB - startB); s++) {
    const [x, y] = [a.inputs[startA + s], b.inputs[startB + s]];
    if (x >= 0 && y >= 0 ? found.ofA[x] === y : x < NO_INPUT && y < NO_INPUT) return true;
  }
  return false;
}

/** Nodes of other names in the same place: between the same users and the same inputs. */
function replaced(a: Facts, b: Facts, found: Matching): void {
  const users = usersOf(a);
  const roots = (facts: Facts, of: { start: Uint32Array }, i: number): boolean =>
    of.start[i] === of.start[i + 1] && facts.seqs.length > 0;
  const usersB = usersOf(b);
  for (let i = 0; i < found.ofA.length; i++) {
    if (found.ofA[i] >= 0) continue;
    if (roots(a, users, i)) {
      const j = found.ofB.findIndex((other, at) => other < 0 && roots(b, usersB, at));
      if (j >= 0 && sharesInput(a, b, found, i, j)) take(found, i, j);
      continue;
    }
    for (let u = users.start[i]; u < users.start[i + 1] && found.ofA[i] < 0; u++) {
      const other = found.ofA[users.user[u]];
      if (other < 0) continue;
      const s = b.inputStart[other] + users.slot[u];
      const j = s < b.inputStart[other + 1] ? b.inputs[s] : NO_INPUT;
      if (j >= 0 && found.ofB[j] < 0 && sharesInput(a, b, found, i, j)) take(found, i, j);
    }
  }
}

function take(found: Matching, i: number, j: number): void {
  found.ofA[i] = j;
  found.ofB[j] = i;
}

/** Leaves go with the nodes that use them; among several, those of the same name and shape. */
function matchLeaves(a: Facts, b: Facts, found: Matching): void {
  const votes = new Map<number, { x: number; y: number; votes: number }>();
  for (let i = 0; i < found.ofA.length; i++) {
    const j = found.ofA[i];
    if (j < 0) continue;
    const [startA, startB] = [a.inputStart[i], b.inputStart[j]];
    const slots = Math.min(a.inputStart[i + 1] - startA, b.inputStart[j + 1] - startB);
    for (let s = 0; s < slots; s++) {
      const [x, y] = [leafInput(a.inputs[startA + s]), leafInput(b.inputs[startB + s])];
      if (x < 0 || y < 0) continue;
      const key = x * b.leaves.length + y;
      const known = votes.get(key);
      if (known) known.votes++;
      else votes.set(key, { x, y, votes: 1 });
    }
  }
  const alike = ({ x, y }: { x: number; y: number }): number => {
    const [one, other] = [a.leaves[x], b.leaves[y]];
    const named = one.label !== '' && one.label === other.label;
    return (named ? 2 : 0) + (one.shape === other.shape ? 1 : 0);
  };
  const ranked = [...votes.values()].sort(
    (p, q) => alike(q) - alike(p) || q.votes - p.votes || p.x - q.x || p.y - q.y
  );
  const pair = (x: number, y: number): void => {
    if (found.leafOfA[x] < 0 && found.leafOfB[y] < 0) {
      found.leafOfA[x] = y;
      found.leafOfB[y] = x;
    }
  };
  for (const { x, y } of ranked) pair(x, y);
  const named = new Map<string, number>();
  b.leaves.forEach(({ label }, y) => {
    if (label !== '' && found.leafOfB[y] < 0 && !named.has(label)) named.set(label, y);
  });
  a.leaves.forEach(({ label }, x) => {
    const y = named.get(label);
    if (y !== undefined) pair(x, y);
  });
}

/** Pairs the nodes and leaves of two graphs. */
export function match(a: Facts, b: Facts): Matching {
  const found: Matching = {
    ofA: new Int32Array(a.seqs.length).fill(-1),
    ofB: new Int32Array(b.seqs.length).fill(-1),
    leafOfA: new Int32Array(a.leaves.length).fill(-1),
    leafOfB: new Int32Array(b.leaves.length).fill(-1)
  };
  inOrder(a, b, found);
  alongEdges(a, b, found, (i, j) => a.name[i] === b.name[j]);
  replaced(a, b, found);
  matchLeaves(a, b, found);
  return found;
}
