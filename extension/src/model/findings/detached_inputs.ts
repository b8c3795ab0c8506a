// Inputs that had left the graph: the graph break, and the parameters without a gradient. Pure.

import { plural } from '../format';
import type { GraphBreak } from '../graph_breaks';
import { breaksAmong } from '../graph_breaks';
import type { Found, Line } from './finding';
import { placeKey } from './nonfinite';
import type { Pass } from './pass';
import { moduleOfLabel } from '../modules';
import { moduleOf } from './pass';
import type { Store } from '../store';

/** Lines that are told of one pass. */
const MOST = 8;

/** One finding for each graph break. nodes: those of a graph, in any order. */
export function detachedAmong(store: Store, nodes: Iterable<number>): Found[] {
  const found = new Map<string, Found>();
  for (const graphBreak of breaksAmong(store, nodes)) {
    if (graphBreak.harmless) continue;
    const one = said(store, graphBreak);
    const known = found.get(one.key);
    if (!known || (one.matters && !known.matters)) found.set(one.key, one);
  }
  return [...found.values()]
    .sort((a, b) => Number(b.matters) - Number(a.matters))
    .slice(0, MOST);
}

function said(store: Store, graphBreak: GraphBreak): Found {
  const { seq, input, kind, words, site, without, called } = graphBreak;
  const [name] = without;
  const others = without.length - 1;
  const module = name ? moduleOfLabel(name) : moduleOf(store, seq).name;
  const where = store.siteOf(seq);
  const node = store.label(seq) || store.nameOf(seq);
  const lines: Line[] = [];
  if (site) lines.push({ site, says: words });
  if (where && where.where !== site?.where) {
    lines.push({ site: where, says: `uses it as \`${input}\`` });
  }
  const also = others > 0 ? `, and ${plural(others, 'other')}` : '';
  const more = without.slice(1, 6).map(one => `\`${one}.grad\``);
  return {
    kind: 'detached',
    key: `detached ${site ? placeKey(site) : `${node} ${input}`} ${words}`,
    // Where a parameter gets nothing at all, a person asks; the others may be meant so.
    matters: name !== undefined,
    title: name
      ? `\`${name}.grad\` stays None${also}: ${words}`
      : `No gradient flows to \`${input}\` of \`${node}\`: ${words}`,
    detail: more.length > 0 ? `So ${more.length > 1 ? 'do' : 'does'} ${more.join(', ')}.` : '',
    lines,
    module,
    advice: null,
    without,
    called,
    how: kind,
    seq,
    order: -1
  };
}

export function detachedInputs(pass: Pass): Found[] {
  return pass.store.breaks.rows === 0 ? [] : detachedAmong(pass.store, pass.orderOf.keys());
}
