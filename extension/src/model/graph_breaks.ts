// Inputs of nodes that had left a graph (detach, no_grad, ...): where, and whose gradient stays
// away because of it. Pure.

import type { Site } from '../protocol/schema';
import { NONE } from '../protocol/schema';
import type { InspectorModel } from './inspector';
import type { Store } from './store';

export interface GraphBreak {
  /** the node that takes the input */
  seq: number;
  input: string;
  kind: string;
  /** 'detached' */
  words: string;
  site: Site | null;
  /** variables that get no gradient in this graph at all */
  without: string[];
  /** what gave the input, where nothing of its own graph is left: `make` of `make(z).detach()` */
  called: string;
  /** all variables that it was computed from are known, and get a gradient another way */
  harmless: boolean;
}

/** How a value left its graph. */
export const BREAK_WORDS: Record<string, string> = {
  detach: 'detached',
  detach_: 'detached by detach_()',
  data: 'taken from .data',
  no_grad: 'made under no_grad',
  inference: 'made in inference mode',
  dtype: 'made by an operation without a derivative',
  non_differentiable: 'marked as non-differentiable by its Function',
  none: 'given None by this backward'
};

/** Nodes that are looked through for the leaves behind a graph break. */
const MOST = 2000;
/** What was detached where it is a leaf: `w.detach()`. */
const DETACHED_LEAF = /^([A-Za-z_][\w.]*)\.(?:detach\(\)|data)$/;

/** What a call at the beginning of an expression is of. */
const CALLED = /^(?:self\.)?([A-Za-z_][\w.]*)\(/;
/** What may stand behind it: attributes and methods. */
const REST = /^(?:\.\w+|\([^()]*\))*$/;
const CUT = /\.(?:detach_?\(\)|data)$/;

/** The function whose result an expression is, or a view of it; '' where it is of more than one. */
export function calledIn(expression: string): string {
  const text = expression.replace(CUT, '');
  const found = CALLED.exec(text);
  let depth = 0;
  for (let at = found?.[0].length ?? text.length; at < text.length; at++) {
    if (text[at] === '(') depth++;
    else if (text[at] === ')' && depth-- === 0)
      return REST.test(text.slice(at + 1)) ? (found?.[1] ?? '') : '';
  }
  return '';
}

/** Names of the leaves that a node's gradient would reach; idle: only those that got none. */
function leavesBelow(store: Store, maker: number, idle: boolean): Set<string> {
  const names = new Set<string>();
  const seen = new Set([maker]);
  for (const seq of seen) {
    if (store.leafRow.has(seq) && store.label(seq) && !(idle && store.runsOf.newest(seq) !== -1))
      names.add(store.label(seq));
    for (const row of store.edgesOf.rows(seq)) {
      const next = store.edges.at.dst[row];
      if (next !== NONE && seen.size < MOST) seen.add(next);
    }
  }
  return names;
}

/** The detached inputs of one node, by the moment shown. */
export function breaksOf(model: InspectorModel, seq: number): GraphBreak[] {
  const { store, graph, states } = model;
  const reached = (): Set<string> => new Set(Array.from(graph.leaves, leaf => store.label(leaf)));
  return store.breaksOf.newest(seq) === -1 ? [] : breaksIn(store, seq, reached(), states.t);
}

function breaksIn(store: Store, seq: number, reached: Set<string>, until: number): GraphBreak[] {
  const { at } = store.breaks;
  const rows = store.breaksOf.rows(seq).filter(row => at.t[row] <= until);
  return rows.map(row => {
    const kind = store.string(at.kind[row]);
    const site = store.site(at.site[row]);
    const maker = at.maker[row];
    const leaf = at.flags[row] & 1 ? DETACHED_LEAF.exec(site?.text ?? '') : null;
    const idle = kind === 'none';
    const behind = leaf ? [leaf[1]] : maker === NONE ? [] : [...leavesBelow(store, maker, idle)];
    const without = behind.filter(name => idle || !reached.has(name));
    return {
      seq,
      input: store.string(at.name[row]),
      kind,
      words: BREAK_WORDS[kind] ?? kind,
      site,
      without,
      // What gives indices or truth values is no network that something else would train.
      called: leaf || maker !== NONE || kind === 'dtype' ? '' : calledIn(site?.text ?? ''),
      harmless: behind.length > 0 && without.length === 0
    };
  });
}

/** All detached inputs of these nodes of one graph, which may name its leaves, too. */
export function breaksAmong(store: Store, nodes: Iterable<number>): GraphBreak[] {
  const all = [...nodes];
  const cut = all.filter(seq => store.breaksOf.newest(seq) !== -1);
  if (cut.length === 0) {
    return [];
  }
  const reached = new Set<string>();
  for (const seq of all) {
    for (const row of store.edgesOf.rows(seq)) {
      const leaf = store.edges.at.dst[row];
      if (store.leafRow.has(leaf)) reached.add(store.label(leaf));
    }
  }
  return cut.flatMap(seq => breaksIn(store, seq, reached, Infinity));
}
