// The small notes beside a node: overwritten saved tensors, breakpoints, hooks, NaN. Texts only, no
// drawing.

import { placeText } from '../model/format';
import type { View } from '../model/view';
import type { States } from '../model/states';
import { Flag, State, writtenSince } from '../model/states';
import type { Store } from '../model/store';

/** Kinds of graph breaks that are not called by their own name. */
const SAID: Record<string, string> = {
  none: 'returned None',
  non_differentiable: 'non-differentiable'
};

export type ChipKind = 'bad' | 'save' | 'break' | 'hook' | 'detached';

export interface Chip {
  kind: ChipKind;
  text: string;
}

const MOST = 3;

/** The notes of one node at the moment shown, the gravest first. */
export function chipsOf(store: Store, graph: View, states: States, index: number): Chip[] {
  const flags = states.flags[index];
  const chips: Chip[] = [];
  const seq = graph.seqs[index];
  if (graph.folds[index]) {
    if (flags & Flag.stale) chips.push({ kind: 'bad', text: 'overwritten tensor inside' });
    if (flags & Flag.nonfinite) chips.push({ kind: 'bad', text: 'NaN or ∞ inside' });
    if (flags & Flag.breakpoint) chips.push({ kind: 'break', text: 'breakpoint inside' });
    return chips;
  }
  if (flags & Flag.nonfinite) {
    chips.push({ kind: 'bad', text: 'NaN or ∞ arrived' });
  }
  const pending = states.node[index] !== State.done && states.node[index] !== State.future;
  if (flags & (Flag.stale | Flag.ownOutput) && pending && !(flags & Flag.freed)) {
    for (const row of store.savedOf.rows(seq)) {
      const name = store.string(store.saved.at.name[row]);
      const then = store.saved.at.version[row];
      const written = writtenSince(store, row, states.t);
      if (written === 'version') {
        const now = store.writes.at.version[store.writeAt(store.saved.at.storage[row], states.t)];
        chips.push({ kind: 'bad', text: `${name} v${then}, now v${now}` });
      } else if (written === 'silent') {
        chips.push({ kind: 'bad', text: `${name} v${then}, changed through .data` });
      } else if (store.saved.at.flags[row] & 1) {
        chips.push({ kind: 'save', text: `${name} v${then}` });
      }
    }
  }
  const { breaks } = store;
  for (const row of store.breaksOf.rows(seq).filter(row => breaks.at.t[row] <= states.t)) {
    const site = store.site(breaks.at.site[row]);
    const kind = store.string(breaks.at.kind[row]);
    const place = site ? `, ${placeText(site)}` : '';
    chips.push({ kind: 'detached', text: `${SAID[kind] ?? kind}${place}` });
  }
  if (flags & Flag.breakpoint) {
    chips.push({ kind: 'break', text: 'breakpoint' });
  }
  if (flags & Flag.hook) {
    const { at } = store.hooks;
    const rows = store.hooksOf.rows(seq).filter(row => at.t[row] <= states.t);
    // The last part of a qualified name; the whole one stands in the list of hooks.
    const short = (row: number): string => store.string(at.name[row]).split('.').pop() ?? '';
    const made = rows.find(row => at.before_nan[row] === 0 && at.after_nan[row] > 0);
    // One entry of a table of hooks may have run in several passes: it is one hook.
    const each = new Map(
      rows.map(row => [`${at.kind[row]} ${at.number[row]} ${at.hook[row]}`, short(row)])
    );
    if (made !== undefined) chips.push({ kind: 'bad', text: `hook ${short(made)} made NaN` });
    else if (each.size > 1) chips.push({ kind: 'hook', text: `${each.size} hooks` });
    else
      for (const name of each.values())
        chips.push({ kind: 'hook', text: `hook ${name}`.trimEnd() });
  }
  chips.sort((a, b) => Number(b.kind === 'bad') - Number(a.kind === 'bad'));
  return chips.length > MOST
    ? [...chips.slice(0, MOST - 1), { kind: 'hook', text: `and ${chips.length - MOST + 1} more` }]
    : chips;
}
