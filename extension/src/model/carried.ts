// What the reader selected, as it can be found again: the same node in the graph of another pass.

import type { Facts } from './compare/facts';
import { factsOf } from './compare/facts';
import { match } from './compare/match';
import { placeText } from './format';
import type { Graph } from './graph';
import type { Store } from './store';

/** Nodes of a graph that are compared with those of another one to find a selection again. */
const MOST = 5000;

/** A node or leaf in a graph, or null. */
function within(graph: Graph, seq: number | null): seq is number {
  return seq !== null && (graph.indexOf.has(seq) || graph.leafUses.has(seq));
}

interface Chosen {
  seq: number;
  /** for the reader, with its line */
  name: string;
  graph: Graph;
  /** null: of too large a graph */
  facts: Facts | null;
}

export class Carried {
  /** what was selected is not in the pass on screen: its name and line; '' otherwise */
  lost = '';
  private chosen: Chosen | null = null;

  /** Somebody selected something, or nothing. */
  forget(): void {
    this.chosen = null;
    this.lost = '';
  }

  /** Before the graph on screen may change: what is selected in it. */
  keep(store: Store, graph: Graph, selected: number | null): void {
    // While a pass grows, more of it is known each time.
    const seq = this.chosen?.seq ?? selected;
    if (this.chosen?.graph === graph || !within(graph, seq)) {
      return;
    }
    const site = store.siteOf(seq);
    const title = store.label(seq) || store.nameOf(seq);
    const name = site ? `${title} (${placeText(site)})` : title;
    const facts = graph.seqs.length > MOST ? null : factsOf(store, graph);
    this.chosen = { seq, name, facts, graph };
  }

  /** What is selected in a graph that took the place of another. */
  into(store: Store, graph: Graph, selected: number | null): number | null {
    const { chosen } = this;
    if (!chosen || graph.seqs.length === 0) {
      this.lost = '';
      return selected;
    }
    const found = within(graph, chosen.seq) ? chosen.seq : this.partner(store, graph, chosen);
    this.lost = found === null ? chosen.name : '';
    return found;
  }

  private partner(store: Store, graph: Graph, chosen: Chosen): number | null {
    const before = chosen.graph;
    const index = before.indexOf.get(chosen.seq);
    const leaf = before.leaves.indexOf(chosen.seq);
    if (before.signature === graph.signature) {
      return index >= 0 ? graph.seqs[index] : graph.leaves[leaf];
    }
    if (!chosen.facts || graph.seqs.length > MOST) {
      return null;
    }
    const facts = factsOf(store, graph);
    const found = match(chosen.facts, facts);
    if (index >= 0) {
      return found.ofA[index] < 0 ? null : facts.seqs[found.ofA[index]];
    }
    const own = chosen.facts.leaves.findIndex(({ seq }) => seq === chosen.seq);
    const partner = own < 0 ? -1 : found.leafOfA[own];
    return partner < 0 ? null : facts.leaves[partner].seq;
  }
}
