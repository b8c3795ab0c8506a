// One of the two graphs of a comparison: where it comes from, which of its groups are open, what is
// selected in it. It is drawn by the same canvas as any graph; states of a moment play no part.

import type { NodeDetails, Values } from '../../protocol/schema';
import { Container } from '../container';
import { containerAt, containersOf } from '../containers';
import { Folding } from '../folding';
import type { Graph } from '../graph';
import { NO_GRAPH, graphOfNewest, graphOfTask } from '../graph';
import { timeAxis } from '../axis';
import type { Drawing } from '../drawing';
import { PLAIN_DRAWING } from '../drawing';
import type { States } from '../states';
import { Flag, State, statesAt } from '../states';
import type { Store } from '../store';
import type { View } from '../view';
import { NO_VIEW, viewOf, viewStates } from '../view';
import type { Facts } from './facts';
import { factsOf } from './facts';

/** A recorded backward pass, and who can tell more about its nodes. */
export interface Source {
  /** for the reader: 'backward 3 of 40, In[4] line 9' */
  title: string;
  store: Store;
  /** null: the newest nodes, where no backward pass ran */
  task: number | null;
  /** what was kept of a node; undefined where only the kernel can tell */
  details?: (seq: number) => NodeDetails | undefined;
  /** numbers of a tensor; undefined where none are held */
  values?: (seq: number, which: string) => Values | undefined;
}

export class Side {
  graph: Graph = NO_GRAPH;
  root = new Container('root', '', '', '', null, 0, 0, null);
  readonly folding = new Folding();
  view: View = NO_VIEW;
  drawn: States;
  selected: number | null = null;
  group: Container | null = null;
  readonly hits: number[] = [];
  drawing: Drawing = PLAIN_DRAWING;
  facts: Facts;
  private viewed = -1;
  private built = '';
  private states: States;

  constructor(readonly source: Source) {
    const { store } = source;
    this.states = this.drawn = statesAt(store, NO_GRAPH, timeAxis(store, NO_GRAPH), null);
    this.facts = factsOf(source.store, NO_GRAPH);
    this.build();
  }

  get store(): Store {
    return this.source.store;
  }

  /** Reads the graph anew; true when another one came out. */
  build(): boolean {
    const { store, task, details } = this.source;
    const state = this.moment();
    if (state === this.built) {
      return false;
    }
    this.built = state;
    const graph = task === null ? graphOfNewest(store) : graphOfTask(store, task);
    if (graph.signature === this.graph.signature && graph.seqs[0] === this.graph.seqs[0]) {
      return false;
    }
    this.graph = graph;
    this.facts = factsOf(store, graph, seq => {
      const known = details?.(seq);
      return known?.alive ? new Map(known.values.map(({ name, text }) => [name, text])) : null;
    });
    const states = statesAt(store, graph, timeAxis(store, graph), null);
    this.states = {
      ...states,
      node: new Uint8Array(graph.seqs.length).fill(State.waiting),
      flags: states.flags.map(flag => flag & Flag.nonfinite),
      leaf: new Map(),
      next: -1,
      nextLeaf: -1
    };
    this.root = containersOf(store, graph);
    this.folding.settle(this.root);
    this.refresh();
    return true;
  }

  /** Brings the view up to date with what is open. */
  refresh(): void {
    if (this.viewed !== this.folding.version) {
      this.viewed = this.folding.version;
      this.view = viewOf(this.graph, this.root, container => this.folding.isOpen(container));
      this.drawn = viewStates(this.view, this.states);
    }
  }

  /** The same as long as the graph can only be the same. */
  private moment(): string {
    const { store, task } = this.source;
    const { session, epoch, forgotten, labelled } = store;
    const known = task === null ? undefined : store.tasks.get(task);
    const ended = known !== undefined && known.ended !== 'no';
    const still = ended ? known.ended : `${store.structure} ${store.runs.rows}`;
    return [session, epoch, forgotten.nodes, labelled, still].join(' ');
  }

  /** Opens what hides a node. */
  unfoldTo(seq: number): void {
    const index = this.graph.indexOf.get(seq);
    if (index >= 0) {
      for (const container of containerAt(this.root, index).chain()) {
        if (!this.folding.isOpen(container)) this.folding.set(container, true);
      }
      this.refresh();
    }
  }

  fold(container: Container, open: boolean): void {
    this.folding.set(container, open);
    this.refresh();
  }

  selectedBox(): number {
    if (this.group) {
      const box = this.view.indexOf.get(this.graph.seqs[this.group.first]);
      return box >= 0 ? box : -1;
    }
    return this.selected === null ? -1 : this.view.indexOf.get(this.selected);
  }
}
