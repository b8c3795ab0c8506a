// What a comparison looks at: one backward graph as plain columns of text and numbers, the newest
// node first, without node numbers in any text. Pure; linear.

import { NONE } from '../../protocol/schema';
import type { Site } from '../../protocol/schema';
import { timeAxis } from '../axis';
import type { Graph } from '../graph';
import { Numbers } from '../graph';
import { statesAt } from '../states';
import type { Store } from '../store';

/** An input that needs no gradient. */
export const NO_INPUT = -1;

export interface LeafFacts {
  seq: number;
  label: string;
  shape: string;
  dtype: string;
  norm: number;
}

/** By node: all arrays have the length of `seqs`. */
export interface Facts {
  seqs: Uint32Array;
  name: string[];
  /** module path with names, and with classes alone */
  scope: string[];
  kinds: string[];
  site: (Site | null)[];
  shape: string[];
  dtype: string[];
  bytes: Float64Array;
  saved: string[];
  /** 2-norm of the incoming gradient; -1: none came */
  norm: Float64Array;
  /** inputs of node i: inputStart[i] .. inputStart[i + 1]; its index, NO_INPUT, or leafInput */
  inputStart: Uint32Array;
  inputs: Int32Array;
  leaves: LeafFacts[];
  /** what a node saved that is not a tensor, by name; null where that is not known */
  attributes: (seq: number) => ReadonlyMap<string, string> | null;
}

/** How an input that is a leaf stands among the inputs, and back. */
export const leafInput = (leaf: number): number => -2 - leaf;

/** Module paths by call, each made once. */
class Scopes {
  private readonly known = new Map<number, { scope: string; kinds: string }>();

  constructor(private readonly store: Store) {}

  of(call: number): { scope: string; kinds: string } {
    const { calls, callRow } = this.store;
    const way: number[] = [];
    let at = call;
    let found = this.known.get(at);
    while (!found) {
      const row = at < 0 || at === NONE ? -1 : callRow.get(at);
      if (row < 0) {
        found = { scope: '', kinds: '' };
        break;
      }
      way.push(at);
      at = calls.at.parent[row];
      found = this.known.get(at);
    }
    for (const inner of way.reverse()) {
      const row = callRow.get(inner);
      const name = this.store.string(calls.at.name[row]);
      const kind = this.store.string(calls.at.kind[row]);
      found = {
        scope: found.scope === '' ? name : `${found.scope}.${name}`,
        kinds: `${found.kinds}/${kind}`
      };
      this.known.set(inner, found);
    }
    return found;
  }
}

/** The facts of a graph as it stands at the end of its backward pass. */
export function factsOf(
  store: Store,
  graph: Graph,
  attributes: Facts['attributes'] = () => null
): Facts {
  const count = graph.seqs.length;
  const states = statesAt(store, graph, timeAxis(store, graph), null);
  const scopes = new Scopes(store);
  const leafIndex = new Map<number, number>();
  const leaves: LeafFacts[] = [];
  const leafOf = (seq: number): number => {
    let index = leafIndex.get(seq);
    if (index === undefined) {
      const row = store.leafRow.get(seq);
      leafIndex.set(seq, (index = leaves.length));
      leaves.push({
        seq,
        label: store.label(seq),
        shape: row < 0 ? '' : store.string(store.leaves.at.shape[row]),
        dtype: row < 0 ? '' : store.string(store.leaves.at.dtype[row]),
        norm: states.leafNorm.get(seq) ?? -1
      });
    }
    return index;
  };
  const facts: Facts = {
    seqs: graph.seqs,
    name: new Array<string>(count),
    scope: new Array<string>(count),
    kinds: new Array<string>(count),
    site: new Array<Site | null>(count),
    shape: new Array<string>(count),
    dtype: new Array<string>(count),
    bytes: new Float64Array(count),
    saved: new Array<string>(count),
    norm: states.norm,
    inputStart: new Uint32Array(count + 1),
    inputs: new Int32Array(0),
    leaves,
    attributes
  };
  const inputs = new Numbers();
  const { nodes, edges, saved } = store;
  for (let i = 0; i < count; i++) {
    const seq = graph.seqs[i];
    const row = store.nodeRow.get(seq);
    const { scope, kinds } = scopes.of(store.callOf.get(seq));
    facts.name[i] = store.string(nodes.at.name[row]);
    facts.scope[i] = scope;
    facts.kinds[i] = kinds;
    facts.site[i] = store.site(nodes.at.site[row]);
    facts.shape[i] = store.string(nodes.at.shape[row]);
    facts.dtype[i] = store.string(nodes.at.dtype[row]);
    const kept: string[] = [];
    for (const at of store.savedOf.rows(seq).reverse()) {
      facts.bytes[i] += saved.at.bytes[at];
      kept.push(store.string(saved.at.name[at]));
    }
    facts.saved[i] = kept.join(', ');
    facts.inputStart[i] = inputs.length;
    const rows = store.edgesOf.rows(seq);
    rows.sort((a, b) => edges.at.src_index[a] - edges.at.src_index[b]);
    for (const at of rows) {
      const target = edges.at.dst[at];
      const index = target === NONE ? NO_INPUT : graph.indexOf.get(target);
      inputs.push(target === NONE ? NO_INPUT : index >= 0 ? index : leafInput(leafOf(target)));
    }
  }
  facts.inputStart[count] = inputs.length;
  facts.inputs = new Int32Array(inputs.all.buffer);
  return facts;
}
