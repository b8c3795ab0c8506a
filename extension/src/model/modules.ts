// Names of modules: of the calls around a node, and as parameters tell them. Pure.

import { NONE } from '../protocol/schema';
import type { Store } from './store';

/** 'model.blocks.3.fc2' of 'model.blocks.3.fc2.weight'; '' of a variable. */
export function moduleOfLabel(label: string): string {
  const dot = label.lastIndexOf('.');
  return dot > 0 ? label.slice(0, dot) : '';
}

/** The names of the calls around a node, the outermost first. */
export function calledIn(store: Store, seq: number): string[] {
  const names: string[] = [];
  const call = store.callOf.get(seq);
  let row = call < 0 ? -1 : store.callRow.get(call);
  while (row >= 0) {
    const name = store.string(store.calls.at.name[row]);
    const parent = store.calls.at.parent[row];
    if (name !== '') names.unshift(name);
    row = parent === NONE ? -1 : store.callRow.get(parent);
  }
  return names;
}

/**
 * The variable that holds the outermost module of these calls, by the module of a parameter that
 * the innermost one takes: 'model' of 'model.blocks.3' and Net, blocks, 3. '' where it is another
 * outermost module's, or the names do not say.
 */
export function variableOf(
  module: string,
  [outer, ...within]: readonly string[],
  outermost = outer
): string {
  const inner = within.map(name => `.${name}`).join('');
  return outer !== undefined && outer === outermost && module.endsWith(inner)
    ? module.slice(0, module.length - inner.length)
    : '';
}
