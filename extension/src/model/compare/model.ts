// Two backward graphs side by side: what differs, which difference or pair is chosen, and what the
// canvas of each side marks. Pure.

import type { Listenable } from '../../protocol/signal';
import { Signal } from '../../protocol/signal';
import { countText } from '../format';
import type { View } from '../view';
import type { Change, Comparison, Difference, GradientChange } from './differences';
import { KIND_NAMES, Kind, compare, factorText, ratioOf } from './differences';
import type { Source } from './side';
import { Side } from './side';

export type Which = 'a' | 'b';

/** What a canvas shows of a comparison, by box of its view. */
export interface Marks {
  view: View;
  kind: Uint8Array;
  /** short texts at the right of a box */
  notes: readonly string[][];
  /** by leaf number */
  leaf: ReadonlyMap<number, Kind>;
}

/** Differences whose groups are opened at the start: more would open everything. */
const OPENED = 40;
/** A change of the gradient that a box tells. */
const MOST_NOTES = 2;

const other = (side: Which): Which => (side === 'a' ? 'b' : 'a');

export class CompareModel {
  readonly a: Side;
  readonly b: Side;
  comparison: Comparison;
  /** the chosen difference, or null */
  chosen: Difference | null = null;
  version = 0;
  private readonly signal = new Signal<void>();
  private readonly marked = new Map<Which, Marks>();
  private byNode = new Map<Which, Map<number, Difference>>();

  constructor(a: Source, b: Source) {
    this.a = new Side(a);
    this.b = new Side(b);
    this.comparison = this.compare();
    this.open();
  }

  get changed(): Listenable<void> {
    return this.signal;
  }

  /** Compares anew where a graph changed (a pass went on, names were found). */
  update(): void {
    const [a, b] = [this.a.build(), this.b.build()];
    if (a || b) {
      this.comparison = this.compare();
      this.chosen = null;
      this.touch();
    }
  }

  private compare(): Comparison {
    const found = compare(this.a.facts, this.b.facts);
    this.marked.clear();
    this.byNode = new Map(
      (['a', 'b'] as const).map(side => [
        side,
        new Map(found.differences.flatMap(d => d[side].map(seq => [seq, d] as const)))
      ])
    );
    return found;
  }

  /** Opens the groups in which something differs. */
  private open(): void {
    for (const difference of this.comparison.differences.slice(0, OPENED)) {
      for (const side of ['a', 'b'] as const) {
        for (const seq of difference[side].slice(0, OPENED)) this[side].unfoldTo(seq);
      }
    }
  }

  /** The node or leaf of the other side that stands for this one; null where there is none. */
  partner(side: Which, seq: number): number | null {
    const { matching } = this.comparison;
    const [own, opposite] = [this[side], this[other(side)]];
    const index = own.graph.indexOf.get(seq);
    if (index >= 0) {
      const found = (side === 'a' ? matching.ofA : matching.ofB)[index];
      return found < 0 ? null : opposite.graph.seqs[found];
    }
    const leaf = own.facts.leaves.findIndex(known => known.seq === seq);
    const found = leaf < 0 ? -1 : (side === 'a' ? matching.leafOfA : matching.leafOfB)[leaf];
    return found < 0 ? null : opposite.facts.leaves[found].seq;
  }

  /** Selects a node and its partner. */
  select(side: Which, seq: number | null): void {
    const [own, opposite] = [this[side], this[other(side)]];
    own.group = opposite.group = null;
    own.selected = seq;
    opposite.selected = seq === null ? null : this.partner(side, seq);
    this.chosen = seq === null ? null : (this.byNode.get(side)?.get(seq) ?? null);
    for (const at of [own, opposite]) if (at.selected !== null) at.unfoldTo(at.selected);
    this.touch();
  }

  /** Selects a difference; the side on which it can be seen leads. */
  choose(difference: Difference): { side: Which; seq: number } {
    const side = difference.b.length > 0 ? 'b' : 'a';
    const seq = difference[side][0];
    this.select(side, seq);
    this.chosen = difference;
    this.touch();
    return { side, seq };
  }

  /** The difference after (or before) the chosen one. */
  neighbour(direction: 1 | -1): Difference | null {
    const { differences } = this.comparison;
    if (differences.length === 0) {
      return null;
    }
    const at = this.chosen ? differences.indexOf(this.chosen) : -1;
    const from = at < 0 && direction < 0 ? 0 : at;
    return differences[(from + direction + differences.length) % differences.length];
  }

  fold(side: Which, first: number, open: boolean): void {
    const own = this[side];
    const fold = own.view.folds[own.view.indexOf.get(first)];
    if (fold && open) own.fold(fold, true);
    this.touch();
  }

  /** The pair of what is selected. */
  get pair(): { a: number | null; b: number | null } {
    return { a: this.a.selected, b: this.b.selected };
  }

  /** Kind of a node or leaf. */
  kindOf(side: Which, seq: number): Kind {
    const { comparison } = this;
    const own = this[side];
    const index = own.graph.indexOf.get(seq);
    if (index >= 0) {
      return (side === 'a' ? comparison.kindOfA : comparison.kindOfB)[index] as Kind;
    }
    const leaf = own.facts.leaves.findIndex(known => known.seq === seq);
    const kinds = side === 'a' ? comparison.leafKindOfA : comparison.leafKindOfB;
    return (leaf < 0 ? Kind.equal : kinds[leaf]) as Kind;
  }

  changesOf(side: Which, seq: number): readonly Change[] {
    return this.byNode.get(side)?.get(seq)?.changes ?? [];
  }

  /** Gradient norms of a pair. */
  gradientOf({ a, b }: { a: number | null; b: number | null }): GradientChange | null {
    if (a === null || b === null) {
      return null;
    }
    const norm = (side: Side, seq: number): number => {
      const index = side.graph.indexOf.get(seq);
      return index >= 0
        ? side.facts.norm[index]
        : (side.facts.leaves.find(leaf => leaf.seq === seq)?.norm ?? -1);
    };
    return { from: norm(this.a, a), to: norm(this.b, b) };
  }

  /** What a canvas marks in the view that it draws. */
  marks(side: Which, view: View): Marks {
    const known = this.marked.get(side);
    if (known && known.view === view) {
      return known;
    }
    const own = this[side];
    const { comparison } = this;
    if (view.first[view.folds.length] !== own.graph.seqs.length) {
      // A view of the graph as it was before it grew: nothing is known of it.
      return { view, kind: new Uint8Array(view.folds.length), notes: [], leaf: new Map() };
    }
    const kinds = side === 'a' ? comparison.kindOfA : comparison.kindOfB;
    const leafKinds = side === 'a' ? comparison.leafKindOfA : comparison.leafKindOfB;
    const kind = new Uint8Array(view.folds.length);
    const notes: string[][] = [];
    for (let box = 0; box < view.folds.length; box++) {
      const [from, to] = [view.first[box], view.first[box + 1]];
      if (!view.folds[box]) {
        kind[box] = kinds[from];
        for (let i = from + 1; i < to && kind[box] === Kind.equal; i++)
          if (kinds[i] !== Kind.equal) kind[box] = Kind.changed;
        notes.push(this.notesOf(side, own.graph.seqs[from], kinds[from] as Kind));
        continue;
      }
      const counts = new Uint32Array(4);
      for (let i = from; i < to; i++) counts[kinds[i]]++;
      const whole = [Kind.equal, Kind.added, Kind.removed].find(k => counts[k] === to - from);
      kind[box] = whole ?? Kind.changed;
      const present = [Kind.added, Kind.removed, Kind.changed].filter(k => counts[k] > 0);
      notes.push(
        whole === undefined ? present.map(k => `${countText(counts[k])} ${KIND_NAMES[k]}`) : []
      );
    }
    const leaf = new Map(own.facts.leaves.map(({ seq }, i) => [seq, leafKinds[i] as Kind]));
    const marks = { view, kind, notes, leaf };
    this.marked.set(side, marks);
    return marks;
  }

  /** At most two: what changed, and how the gradient did. */
  private notesOf(side: Which, seq: number, kind: Kind): string[] {
    const alone = kind === Kind.added || kind === Kind.removed;
    const difference = alone ? null : this.byNode.get(side)?.get(seq);
    if (!difference) {
      return [];
    }
    const notes: string[] = [];
    const change = difference.changes.find(({ what }) => what !== 'saved') ?? difference.changes[0];
    if (change) notes.push(noteText(change, side));
    const ratio = difference.gradient ? ratioOf(difference.gradient) : 1;
    if (side === 'b' && ratio > 0 && Number.isFinite(ratio) && Math.abs(Math.log2(ratio)) >= 1) {
      notes.push(`norm ${factorText(ratio)}`);
    } else if (side === 'b' && !Number.isFinite(ratio)) {
      notes.push('norm not finite on one side');
    }
    return notes.slice(0, MOST_NOTES);
  }

  touch(): void {
    this.version++;
    this.signal.emit();
  }
}

function noteText({ what, of, from, to }: Change, side: Which): string {
  if (what === 'source') {
    return 'line changed';
  }
  const other = side === 'a' ? `${to} at the right` : `${from} at the left`;
  return `${of || what}: ${other}`;
}
