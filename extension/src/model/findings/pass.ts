// One backward pass as finders read it: its runs in order, the weights that it reached, modules.
// Made once, when the pass has ended. Pure; linear in the runs.

import type { Site } from '../../protocol/schema';
import { NONE } from '../../protocol/schema';
import { calledIn, moduleOfLabel, variableOf } from '../modules';
import type { Store, Task } from '../store';

/** A parameter with two or more dimensions that got a gradient. */
export interface Weight {
  seq: number;
  norm: number;
  /** per element: comparable between layers of different sizes */
  rms: number;
  /** order of its run */
  order: number;
}

/** Nodes that are looked through for the module of one that has no parameter itself, and for the
 * variable that holds the module whose call it stands in. */
const NEAR = 6;
const NAMING = 64;

export class Pass {
  /** rows of `runs` in the order in which they ran */
  readonly rows: number[];
  /** the first run of a node: its place in `rows` */
  readonly orderOf = new Map<number, number>();
  private giversKnown: Map<number, number[]> | null = null;
  private weightsKnown: Weight[] | null = null;

  constructor(
    readonly store: Store,
    readonly task: Task
  ) {
    this.rows = store.runsIn.rows(task.task);
    const { order, seq } = store.runs.at;
    this.rows.sort((a, b) => order[a] - order[b]);
    this.rows.forEach((row, i) => {
      if (!this.orderOf.has(seq[row])) this.orderOf.set(seq[row], i);
    });
  }

  get site(): Site | null {
    return this.store.site(this.task.site);
  }

  seqAt(i: number): number {
    return this.store.runs.at.seq[this.rows[i]];
  }

  normAt(i: number): number {
    return this.store.runs.at.norm[this.rows[i]];
  }

  isBad(i: number): boolean {
    return (this.store.runs.at.flags[this.rows[i]] & 1) !== 0;
  }

  /** Nodes of the pass by the node or leaf that they give a gradient to. */
  get givers(): Map<number, number[]> {
    if (this.giversKnown === null) {
      const found = (this.giversKnown = new Map<number, number[]>());
      const { dst } = this.store.edges.at;
      for (const maker of this.orderOf.keys()) {
        for (const row of this.store.edgesOf.rows(maker)) {
          const known = found.get(dst[row]);
          if (known) known.push(maker);
          else found.set(dst[row], [maker]);
        }
      }
    }
    return this.giversKnown;
  }

  /** Weights in the order of their runs: those next to the loss first. */
  get weights(): Weight[] {
    if (this.weightsKnown === null) {
      const { store } = this;
      const { leaves } = store;
      this.weightsKnown = [];
      for (const [seq, order] of this.orderOf) {
        const leaf = store.leafRow.get(seq);
        if (leaf < 0) continue;
        const lengths = store.string(leaves.at.shape[leaf]).split('×').map(Number);
        const norm = this.normAt(order);
        if (lengths.length < 2 || !Number.isFinite(norm) || norm < 0) continue;
        const rms = norm / Math.sqrt(lengths.reduce((a, b) => a * b, 1));
        this.weightsKnown.push({ seq, norm, rms, order });
      }
    }
    return this.weightsKnown;
  }

  /** The 2-norm of the gradients of all leaves. */
  get norm(): number {
    let sum = 0;
    for (const [seq, order] of this.orderOf) {
      if (!this.store.leafRow.has(seq)) continue;
      const norm = this.normAt(order);
      if (this.isBad(order)) return NaN;
      if (norm > 0) sum += norm * norm;
    }
    return Math.sqrt(sum);
  }

  /** The variable of a leaf, or the node's name. */
  nameOf(seq: number): string {
    return this.store.label(seq) || this.store.nameOf(seq) || `node ${seq}`;
  }

  /** What made a node, as the user wrote it; else its name. */
  textOf(seq: number): string {
    const text = this.store.siteOf(seq)?.text ?? '';
    return text !== '' && text.length <= 60 && !text.includes('\n') && !text.includes('`')
      ? text
      : this.nameOf(seq);
  }

  /** The line of a node; of a leaf, that of a node which uses it. */
  lineOf(seq: number): Site | null {
    if (this.store.leafRow.has(seq)) {
      const [user] = this.givers.get(seq) ?? [];
      return user === undefined ? null : this.lineOf(user);
    }
    return this.store.siteOf(seq);
  }

  /** The module that made a node, as the user calls it: `model.blocks.3.fc2`; '' where unknown. */
  moduleOf(seq: number): string {
    return moduleOf(this.store, seq).name;
  }
}

/** The cell, or the file, of a line. */
export const placeOf = (site: Site | null): string => site?.cell_id ?? site?.file ?? '';

export interface Module {
  name: string;
  /** false: it is the nearest one known, the node may be beside it */
  exact: boolean;
}

/**
 * The module of a node: that of its own parameter, of the call that made it, or of the parameter
 * nearest to it. A call knows the names inside of the outermost module, and of that one the class:
 * the variable that holds it is known from a parameter of the same call.
 */
export function moduleOf(store: Store, seq: number): Module {
  const label = moduleOfLabel(store.label(seq));
  if (label !== '') {
    return { name: label, exact: true };
  }
  const [outermost, ...within] = calledIn(store, seq);
  const seen = [seq];
  let nearest = '';
  for (let i = 0; i < seen.length && i < (outermost === undefined ? NEAR : NAMING); i++) {
    for (const row of store.edgesOf.rows(seen[i])) {
      const next = store.edges.at.dst[row];
      const found = moduleOfLabel(store.label(next));
      if (found !== '') {
        if (i === 0 && outermost === undefined) return { name: found, exact: true };
        const variable = variableOf(found, calledIn(store, seen[i]), outermost);
        if (variable !== '') return { name: [variable, ...within].join('.'), exact: true };
        nearest ||= found;
      }
      if (next !== NONE && !seen.includes(next)) seen.push(next);
    }
  }
  return outermost === undefined
    ? { name: nearest, exact: false }
    : { name: [outermost, ...within].join('.'), exact: true };
}
