// Lines of notebook cells that made nodes of the graph on screen, and back from a line to its
// nodes. Pure, linear in nodes.

import type { Graph } from './graph';
import type { Store } from './store';

/** One line of one run of a cell. */
export interface Line {
  cell: string;
  /** the run of the cell; null where it was not counted */
  execution: number | null;
  /** from 1 */
  line: number;
  /** as it ran */
  text: string;
  /** its nodes, the newest first */
  seqs: number[];
}

const keyOf = (cell: string, line: number): string => `${line} ${cell}`;

export class Lines {
  private readonly byPlace = new Map<string, Line>();
  private readonly bySite = new Map<number, Line | null>();

  constructor(store: Store, graph: Graph) {
    for (const seq of graph.seqs) {
      const row = store.nodeRow.get(seq);
      if (row >= 0) this.lineOf(store, store.nodes.at.site[row])?.seqs.push(seq);
    }
  }

  private lineOf(store: Store, id: number): Line | null {
    const known = this.bySite.get(id);
    if (known !== undefined) {
      return known;
    }
    const site = store.site(id);
    let found: Line | null = null;
    if (site && site.kind === 'cell' && site.cell_id !== null) {
      const key = keyOf(site.cell_id, site.line);
      found = this.byPlace.get(key) ?? null;
      // A graph may hold nodes of two runs of a cell: the newer run is what its reader sees.
      if (!found) {
        const { cell_id: cell, execution_count: execution, line, source_line: text } = site;
        found = { cell, execution, line, text, seqs: [] };
        this.byPlace.set(key, found);
      } else if (found.execution !== site.execution_count) found = null;
    }
    this.bySite.set(id, found);
    return found;
  }

  get all(): Line[] {
    return [...this.byPlace.values()];
  }

  /** Nodes that a line of a cell made, the newest first. */
  of(cell: string, line: number): readonly number[] {
    return this.byPlace.get(keyOf(cell, line))?.seqs ?? [];
  }
}
