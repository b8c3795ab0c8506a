// Hooks of one node or of a whole backward pass: in the order in which they ran, what each was
// given and gave back, then those that wait. Pure.

import type { HookInfo, NodeHooks, Site } from '../protocol/schema';
import { NONE } from '../protocol/schema';
import { numberText, plural } from './format';
import type { InspectorModel } from './inspector';
import type { Store } from './store';

/** A gradient in five numbers; norm -1: there was none. */
export interface Given {
  norm: number;
  min: number;
  max: number;
  nan: number;
  inf: number;
}

export interface HookRow {
  seq: number;
  kind: string;
  name: string;
  /** of which output */
  number: number;
  /** its handle's number; -1 for retain_grad */
  hook: number;
  site: Site | null;
  /** null: it has not run */
  run: { effect: string; factor: number; error: string; before: Given; after: Given } | null;
}

export const HOOK_KINDS: Record<string, string> = {
  tensor: 'tensor hook',
  multi_grad: 'multi-grad hook',
  retain_grad: 'retain_grad',
  pre: 'node pre-hook',
  post: 'node post-hook',
  module: 'module hook',
  post_accumulate: 'post-accumulate hook'
};

function rowAt(store: Store, row: number): HookRow {
  const { at } = store.hooks;
  const given = (when: 'before' | 'after'): Given => ({
    norm: at[when][row],
    min: at[`${when}_min`][row],
    max: at[`${when}_max`][row],
    nan: at[`${when}_nan`][row],
    inf: at[`${when}_inf`][row]
  });
  return {
    seq: at.seq[row],
    kind: store.string(at.kind[row]),
    name: store.string(at.name[row]),
    number: at.number[row],
    hook: at.hook[row] === NONE ? -1 : at.hook[row],
    site: store.site(at.site[row]),
    run: {
      effect: store.string(at.effect[row]),
      factor: at.factor[row],
      error: store.string(at.error[row]),
      before: given('before'),
      after: given('after')
    }
  };
}

function ranHere({ store, graph, states }: InspectorModel, row: number): boolean {
  const { at } = store.hooks;
  return (graph.task === null || at.task[row] === graph.task) && at.t[row] <= states.t;
}

function registered(seq: number, hooks: readonly HookInfo[]): HookRow[] {
  return hooks.map(({ kind, name, number, hook, site }) => ({
    seq,
    kind,
    name,
    number,
    hook: hook ?? -1,
    site,
    run: null
  }));
}

const keyOf = ({ seq, kind, hook, number }: HookRow): string =>
  `${seq} ${kind} ${hook} ${number}`;

function withWaiting(ran: HookRow[], known: readonly HookRow[]): HookRow[] {
  const done = new Set(ran.map(keyOf));
  return [...ran, ...known.filter(row => !done.has(keyOf(row)))];
}

/** Hooks of one node: those that ran by the moment shown, then those that the kernel knows of. */
export function hooksOfNode(
  model: InspectorModel,
  seq: number,
  known: readonly HookInfo[]
): HookRow[] {
  const { store } = model;
  const rows = store.hooksOf.rows(seq).filter(row => ranHere(model, row));
  return withWaiting(
    rows.map(row => rowAt(store, row)),
    registered(seq, known)
  );
}

/** Hooks of the backward pass that is shown, in the order in which they ran; then the others. */
export function hooksOfPass(model: InspectorModel, known: readonly NodeHooks[]): HookRow[] {
  const { store, graph } = model;
  const ran: HookRow[] = [];
  for (let row = 0; row < store.hooks.rows; row++) {
    const seq = store.hooks.at.seq[row];
    if (ranHere(model, row) && (graph.indexOf.has(seq) || graph.leafUses.has(seq)))
      ran.push(rowAt(store, row));
  }
  const waiting = known
    .filter(({ seq }) => graph.indexOf.has(seq) || graph.leafUses.has(seq))
    .flatMap(({ seq, hooks }) => registered(seq, hooks));
  return withWaiting(ran, waiting);
}

/** A hook that was given no NaN and gave one back. */
export function madeNan({ run }: HookRow): boolean {
  return run !== null && run.before.nan === 0 && run.after.nan > 0;
}

/** What a hook did, in words. */
export function effectText({ run }: HookRow): string {
  switch (run?.effect) {
    case undefined:
      return 'has not run';
    case 'none':
      return run?.before.norm === -1 ? 'given None, returned None' : 'returned None: unchanged';
    case 'same':
      return 'returned what it was given';
    case 'equal':
      return 'returned equal values';
    case 'scaled':
      return `scaled by ${numberText(run?.factor)}`;
    case 'in place':
      return 'changed in place';
    case 'kept':
      return 'kept in .grad';
    case 'raised':
      return `raised ${run?.error ?? ''}`;
    default:
      return 'replaced';
  }
}

/** One gradient in a few words. */
export function givenText({ norm, min, max, nan, inf }: Given): string {
  if (norm === -1) {
    return 'none';
  }
  const parts = [`norm ${numberText(norm)}`];
  // NaN: no element is finite.
  if (!Number.isNaN(min)) parts.push(`${numberText(min)} to ${numberText(max)}`);
  if (nan > 0) parts.push(plural(nan, 'NaN', 'NaN'));
  if (inf > 0) parts.push(`${inf} infinite`);
  return parts.join(', ');
}
