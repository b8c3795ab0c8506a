// Finds nodes by name, variable, line, shape or saved tensor, else by the text of their line. Pure.

import type { Graph } from './graph';
import type { Store } from './store';

/**
 * Tests for the words of a query, all of which must pass. A number means itself: 'line 3' is not
 * line 13.
 */
function tests(query: string): ((lower: string) => boolean)[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean).slice(0, 8);
  return words.map(word => {
    if (/^\d+$/.test(word)) {
      const whole = new RegExp(`(?<![\\w.#])${word}(?![\\w.])`);
      return lower => whole.test(lower);
    }
    return lower => lower.includes(word);
  });
}

/**
 * Node numbers of the graph that match, from the loss downward; leaves stand after the node that
 * uses them first. The text of a line, which it shares with all other nodes of it, counts where
 * nothing else matches: `sum` is the sum, and not what is summed in the same line. Texts are
 * searched once per distinct string, so 100,000 nodes with 200 names cost 200 comparisons.
 */
export function search(store: Store, graph: Graph, query: string): number[] {
  const wanted = tests(query);
  if (wanted.length === 0) {
    return [];
  }
  const inString = new Map<number, number>();
  const inSite = new Map<number, [place: number, line: number]>();
  const bits = (text: string): number => {
    const lower = text.toLowerCase();
    return wanted.reduce((found, test, i) => (test(lower) ? found | (1 << i) : found), 0);
  };
  const stringBits = (id: number): number => {
    let found = inString.get(id);
    if (found === undefined) {
      const text = store.string(id);
      found = bits(text) | bits(text.replaceAll('×', 'x')) | bits(text.replaceAll('×', ', '));
      inString.set(id, found);
    }
    return found;
  };
  const siteBits = (id: number): [place: number, line: number] => {
    let found = inSite.get(id);
    if (found === undefined) {
      const site = store.site(id);
      found = site ? [bits(`${site.where} ${site.function}`), bits(site.source_line)] : [0, 0];
      inSite.set(id, found);
    }
    return found;
  };
  const all = (1 << wanted.length) - 1;
  const hits: number[] = [];
  const byLine: number[] = [];
  const seen = new Set<number>();
  for (let i = 0; i < graph.seqs.length; i++) {
    const seq = graph.seqs[i];
    const row = store.nodeRow.get(seq);
    const { name, shape, site } = store.nodes.at;
    const [place, line] = siteBits(site[row]);
    let found = stringBits(name[row]) | stringBits(shape[row]) | place;
    if (query.includes('#')) found |= bits(`#${seq}`);
    for (
      let s = store.savedOf.newest(seq);
      s !== -1 && found !== all;
      s = store.savedOf.before(s)
    ) {
      found |= stringBits(store.saved.at.name[s]) | stringBits(store.saved.at.shape[s]);
    }
    if (found === all) hits.push(seq);
    if ((found | line) === all) byLine.push(seq);
    for (let s = graph.badgeStart[i]; s < graph.badgeStart[i + 1]; s++) {
      const leaf = graph.badgeSeq[s];
      const leafRow = store.leafRow.get(leaf);
      if (leafRow >= 0 && !seen.has(leaf)) {
        seen.add(leaf);
        if ((bits(store.label(leaf)) | stringBits(store.leaves.at.shape[leafRow])) === all) {
          hits.push(leaf);
        }
      }
    }
  }
  return hits.length > 0 ? hits : byLine;
}
