// What repeats in a graph: the turns of a loop, layers of a module that follow each other alike,
// and in one line or module the nodes of its steps. Pure.

import type { Site } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { Container, isNamed } from './container';
import { countText, placeText, plural } from './format';
import type { Graph } from './graph';
import { moduleOfLabel } from './modules';
import type { Store } from './store';

/** Turns from which on something repeats. */
const TURNS = 3;
/** Longest turn that is looked for, in containers or nodes. */
const LONGEST_TURN = 32;
/** Nodes of one line that repeat from which on their turns are told apart. */
const LONG = 32;
/** Modules whose turns are steps of a sequence. */
const RECURRENT = /^(RNN|LSTM|GRU)$/;

interface Run {
  at: number;
  period: number;
  turns: number;
}

/** How often the `period` tokens that end at `end` come one before the other. */
function turnsAt(found: Int32Array, end: number, period: number): number {
  let turns = 1;
  for (let i = end - 2 * period; i >= 0; i -= period, turns++) {
    for (let j = 0; j < period; j++) {
      if (found[i + j] !== found[end - period + j]) return turns;
    }
  }
  return turns;
}

/** What repeats in tokens of which the newest is the first: turns begin where the program did. */
function runsIn(found: Int32Array): Run[] {
  const runs: Run[] = [];
  for (let end = found.length; end > 0;) {
    let [period, turns] = [0, 0];
    const most = Math.min(LONGEST_TURN, Math.floor(end / TURNS));
    for (let p = 1; p <= most; p++) {
      const count = turnsAt(found, end, p);
      if (count >= TURNS && count * p > period * turns) [period, turns] = [p, count];
    }
    if (turns === 0) {
      end--;
    } else {
      end -= period * turns;
      runs.push({ at: end, period, turns });
    }
  }
  return runs.reverse();
}

function namesOf(store: Store, graph: Graph, from: number, to: number): string {
  let mark = 0x811c9dc5;
  for (let i = from; i < to; i++) {
    mark = Math.imul(mark ^ store.nodes.at.name[store.nodeRow.get(graph.seqs[i])], 0x01000193);
  }
  return `${to - from} ${mark}`;
}

/** What two containers have in common when they are turns of the same. */
function tokens(store: Store, graph: Graph, children: readonly Container[]): Int32Array {
  const numbers = new Map<string, number>();
  return Int32Array.from(children, child => {
    const text = isNamed(child)
      ? `call ${child.detail} ${namesOf(store, graph, child.first, child.last)}`
      : `${child.kind} ${child.base}`;
    let number = numbers.get(text);
    if (number === undefined) numbers.set(text, (number = numbers.size));
    return number;
  });
}

function adjacent(children: readonly Container[]): boolean {
  return children.every((child, i) => i === 0 || child.first === children[i - 1].last);
}

/** Puts the children of a container that repeat into a container of their own. */
export function foldRepeats(store: Store, graph: Graph, container: Container): void {
  const { children, kind } = container;
  if (children.length < TURNS || kind === 'repeat' || kind === 'part') {
    return;
  }
  const all: Container[] = [];
  let before = 0;
  for (const { at, period, turns } of runsIn(tokens(store, graph, children))) {
    const members = children.slice(at, at + period * turns);
    if (!adjacent(members)) continue;
    all.push(...children.slice(before, at), repeatOf(members, period, container));
    before = at + period * turns;
  }
  if (all.length > 0) container.children = [...all, ...children.slice(before)];
}

/** What the turns of a repeat are called, and one of them. */
interface Words {
  what: string;
  detail: string;
  kind: 'turn' | 'layers';
  one(turn: number, own: readonly Container[]): string;
}

function wordsOf(members: readonly Container[], period: number): Words {
  const one = members.slice(0, period);
  const [newest, oldest] = [one[0], one[period - 1]];
  const turn = (n: number): string => `turn ${n}`;
  if (period === 1) {
    return { what: newest.detail || newest.title, detail: '', kind: 'turn', one: turn };
  }
  if (one.every(({ kind }) => kind === 'call')) {
    // Modules that were called one after the other are layers, whether a loop called them or not.
    const names = one.map(({ title, detail }) => detail || title).reverse();
    const what = names.join(', ');
    const layers = (_: number, own: readonly Container[]): string =>
      `${oneLine(own[period - 1].title, 40)} to ${oneLine(own[0].title, 40)}`;
    return { what, detail: what, kind: 'layers', one: layers };
  }
  const what =
    newest.site && oldest.site
      ? linesOf(one)
      : `${oneLine(oldest.title, 40)} to ${oneLine(newest.title, 40)}`;
  return { what, detail: what, kind: 'turn', one: turn };
}

function repeatOf(members: Container[], period: number, parent: Container): Container {
  const turns = members.length / period;
  const [head, tail] = [members[0], members[members.length - 1]];
  const words = wordsOf(members, period);
  const bases = members.slice(0, period).map(({ base }) => base);
  const title = `${countText(turns)} × ${oneLine(words.what, 80)}`;
  const repeat = made('repeat', `repeat ${bases.join(',')}`, title, head.first, tail.last, parent);
  repeat.times = turns;
  if (period === 1) {
    repeat.children = members;
    return repeat;
  }
  for (let turn = 0; turn < turns; turn++) {
    const own = members.slice(turn * period, (turn + 1) * period);
    const [first, last] = [own[0].first, own[period - 1].last];
    const name = words.one(turns - turn, own);
    const one = made(words.kind, words.kind, name, first, last, repeat);
    one.detail = oneLine(words.detail, 80);
    one.children = own;
    repeat.children.push(one);
  }
  return repeat;
}

/** The module whose parameter a node takes, as it is or transposed; '' where there is none. */
function parameterOf(store: Store, seq: number): string {
  for (const row of store.edgesOf.rows(seq)) {
    const name = moduleOfLabel(store.label(store.edges.at.dst[row]));
    if (name !== '') return name;
  }
  return '';
}

/** The modules of the turns, the newest first, where each has parameters of its own: its layers. */
function layersIn(
  store: Store,
  graph: Graph,
  from: number,
  period: number,
  turns: number
): string[] | null {
  const names = Array.from({ length: turns }, (_, turn) => {
    const own = graph.seqs.subarray(from + turn * period, from + (turn + 1) * period);
    for (const seq of own) {
      const name = parameterOf(store, seq);
      if (name !== '') return name;
    }
    return '';
  });
  return names.every(name => name !== '') && new Set(names).size === turns ? names : null;
}

/** Tells apart the turns of nodes that one line or module made: the steps of a recurrent one. */
export function foldNodes(store: Store, graph: Graph, container: Container): void {
  const { first, last, kind, detail } = container;
  const apart = kind !== 'repeat' && kind !== 'turn' && kind !== 'layers' && kind !== 'part';
  if (container.children.length > 0 || container.nodes < LONG || !apart) {
    return;
  }
  const { name } = store.nodes.at;
  const seqs = graph.seqs.subarray(first, last);
  const found = Int32Array.from(seqs, seq => name[store.nodeRow.get(seq)]);
  const word = RECURRENT.test(detail) ? 'step' : 'turn';
  for (const { at, period, turns } of runsIn(found)) {
    // A row of equal nodes has nothing in it that could be told apart.
    if (period === 1 || period * turns < LONG) continue;
    const [from, to] = [first + at, first + at + period * turns];
    const base = `repeat ${namesOf(store, graph, from, from + period)}`;
    const each = plural(period, 'node');
    const layers = word === 'turn' ? layersIn(store, graph, from, period, turns) : null;
    const title = layers
      ? `${countText(turns)} layers`
      : word === 'step'
        ? `${countText(turns)} steps`
        : `${countText(turns)} × ${each}`;
    const repeat = made('repeat', base, title, from, to, container);
    repeat.times = turns;
    const kind = layers ? 'layers' : 'turn';
    for (let turn = 0; turn < turns; turn++) {
      const begin = from + turn * period;
      const called = layers?.[turn] ?? `${word} ${turns - turn}`;
      const one = made(kind, kind, called, begin, begin + period, repeat);
      one.detail = each;
      repeat.children.push(one);
    }
    container.children.push(repeat);
  }
}

function made(
  kind: Container['kind'],
  base: string,
  title: string,
  first: number,
  last: number,
  parent: Container
): Container {
  return new Container(kind, base, title, '', null, first, last, parent);
}

/** 'lines 3 to 5' of a loop's body. */
function linesOf(members: readonly { site: Site | null }[]): string {
  const lines = members.map(({ site }) => site?.line ?? 0).filter(line => line > 0);
  const [low, high] = [Math.min(...lines), Math.max(...lines)];
  const { site } = members[0];
  const place = site ? placeText(site).replace(/ line \d+$/, '') : '';
  return low === high ? `${place} line ${low}` : `${place} lines ${low} to ${high}`;
}
