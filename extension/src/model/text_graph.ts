// The graph on screen as text for other programs: Graphviz's DOT, and JSON. Pure.

import type { InspectorModel } from './inspector';
import type { NodeState } from './states';
import { STATE_NAMES } from './states';

function quoted(text: string): string {
  return `"${text.replace(/[\\"]/g, '\\$&').replace(/\s*\n\s*/g, '\\n')}"`;
}

/** What is drawn, closed groups as one box each, for `dot`. */
export function dotOf(model: InspectorModel): string {
  const { store, view } = model;
  const lines = ['digraph backward {', '  node [shape=box, style=rounded];'];
  for (let box = 0; box < view.seqs.length; box++) {
    const fold = view.folds[box];
    const seq = view.seqs[box];
    const row = store.nodeRow.get(seq);
    const shape = row < 0 ? '' : store.string(store.nodes.at.shape[row]);
    const label = fold ? `${fold.title}\n${fold.nodes} nodes` : `${store.nameOf(seq)}\n${shape}`;
    const closed = fold ? ', peripheries=2' : '';
    lines.push(`  n${box} [label=${quoted(label.trimEnd())}${closed}];`);
    for (let s = view.badgeStart[box]; s < view.badgeStart[box + 1]; s++) {
      const leaf = view.badgeSeq[s];
      lines.push(`  n${box} -> leaf${leaf};`);
    }
  }
  for (const leaf of new Set(view.badgeSeq)) {
    lines.push(`  leaf${leaf} [label=${quoted(store.label(leaf) || 'leaf')}, shape=ellipse];`);
  }
  for (let e = 0; e < view.edgeFrom.length; e++) {
    lines.push(`  n${view.edgeFrom[e]} -> n${view.edgeTo[e]};`);
  }
  return `${lines.join('\n')}\n}\n`;
}

/** Every node of the graph, the closed ones included, with its edges, saved tensors and norm. */
export function jsonOf(model: InspectorModel): string {
  const { store, graph, states } = model;
  const { nodes, saved, edges } = store;
  const found = Array.from(graph.seqs, (seq, i) => {
    const row = store.nodeRow.get(seq);
    const norm = states.norm[i];
    const rows = store.edgesOf.rows(seq);
    rows.sort((a, b) => edges.at.src_index[a] - edges.at.src_index[b]);
    return {
      seq,
      name: store.nameOf(seq),
      shape: store.string(nodes.at.shape[row]),
      dtype: store.string(nodes.at.dtype[row]),
      state: STATE_NAMES[states.node[i] as NodeState],
      // JSON has no NaN: it is told as text.
      gradient_norm: norm < 0 ? null : Number.isFinite(norm) ? norm : String(norm),
      where: store.siteOf(seq)?.where ?? null,
      source: store.siteOf(seq)?.text ?? null,
      next: rows.map(edge => {
        const to = edges.at.dst[edge];
        return graph.indexOf.has(to) || graph.leafUses.has(to) ? to : null;
      }),
      saved: store.savedOf.rows(seq).map(at => ({
        name: store.string(saved.at.name[at]),
        shape: store.string(saved.at.shape[at]),
        dtype: store.string(saved.at.dtype[at]),
        bytes: saved.at.bytes[at],
        version: saved.at.version[at]
      }))
    };
  });
  const leaves = Array.from(graph.leaves, seq => {
    const row = store.leafRow.get(seq);
    return {
      seq,
      name: store.label(seq) || null,
      shape: row < 0 ? null : store.string(store.leaves.at.shape[row])
    };
  });
  return `${JSON.stringify({ backward: graph.task, nodes: found, leaves }, null, 1)}\n`;
}
