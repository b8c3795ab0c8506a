// The graph in words, for screen readers: the selected node, where gradient comes from and where it
// goes.

import type { ReactElement } from 'react';
import { oneLine } from '../protocol/text';
import type { Container } from '../model/container';
import { placeText, plural } from '../model/format';
import { KIND_WORDS, gradientKind } from '../model/gradient_kind';
import type { InspectorModel } from '../model/inspector';
import { neighbours } from '../model/graph';
import { Flag, STATE_NAMES } from '../model/states';
import { useInspector } from './presenter';

const MOST = 12;

export function nodeWords(model: InspectorModel, seq: number): string {
  const site = model.siteOf(seq);
  const parts = [oneLine(model.titleOf(seq), 80), STATE_NAMES[model.stateOf(seq)]];
  const at = model.graph.indexOf.get(seq);
  const kind = at < 0 ? '' : KIND_WORDS[gradientKind(model.states, at)];
  if (kind) parts.push(kind);
  if (model.hasFlag(seq, Flag.stale)) parts.push('a saved tensor was overwritten');
  if (model.hasFlag(seq, Flag.breakpoint)) parts.push('breakpoint');
  if (site) parts.push(`${placeText(site)}: ${oneLine(site.text || site.source_line, 80)}`);
  return parts.join(', ');
}

function groupWords({ title, detail, nodes }: Container): string {
  return `closed group ${oneLine(title, 80)} ${oneLine(detail, 60)}, ${plural(nodes, 'node')}`;
}

export function Outline(): ReactElement {
  const { model } = useInspector();
  const { graph, view, selected, group } = model;
  const box = model.selectedBox();
  if (box < 0 && (selected === null || !graph.leafUses.has(selected))) {
    return (
      <p className="agv-hidden">
        {graph.seqs.length === 0
          ? 'No graph yet.'
          : `${plural(graph.seqs.length, 'node')}, ` +
            `${plural(graph.leaves.length, 'leaf', 'leaves')}. Press an arrow key to begin.`}
      </p>
    );
  }
  const { above, below } =
    box >= 0
      ? neighbours(view, box)
      : { above: view.leafUses.get(selected ?? -1) ?? [], below: [] };
  const wordsOf = (at: number): string => {
    const fold = view.folds[at];
    return fold ? groupWords(fold) : nodeWords(model, view.seqs[at]);
  };
  const item = (node: number, words: string): ReactElement => (
    <li key={`${words} ${node}`} role="option" aria-selected="false">
      {words}: {wordsOf(node)}
    </li>
  );
  return (
    <ul className="agv-hidden" role="listbox" aria-label="Around the selected node">
      <li id="agv-outline-selected" role="option" aria-selected="true">
        {group ? groupWords(group) : selected !== null ? nodeWords(model, selected) : ''}
      </li>
      {above.slice(0, MOST).map(node => item(node, 'gradient from'))}
      {below.slice(0, MOST).map(node => item(node, 'gradient to'))}
    </ul>
  );
}
