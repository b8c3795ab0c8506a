// From a node to others: where its gradient goes on to, and all nodes that use a leaf.

import type { ReactElement } from 'react';
import { useState } from 'react';
import type { NodeDetails } from '../protocol/schema';
import { NONE } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { plural, shapeText } from '../model/format';
import type { Store } from '../model/store';
import { useInspector } from './presenter';

const MOST_USES = 12;

function NodeLink({ seq }: { seq: number }): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  return (
    <button type="button" className="agv-link" onClick={() => presenter.goTo(seq)}>
      {oneLine(model.titleOf(seq), 80)}
    </button>
  );
}

export function Next({
  seq,
  details
}: {
  seq: number;
  details: NodeDetails | null;
}): ReactElement | null {
  const { model, teaching } = useInspector();
  const { store } = model;
  // The shape of what goes there is part of an open question.
  const hidden = teaching.predictor.asking;
  const edges = store.edgesOf.rows(seq);
  edges.sort((a, b) => store.edges.at.src_index[a] - store.edges.at.src_index[b]);
  const targets = edges.map(row => store.edges.at.dst[row]);
  if (targets.length === 0) {
    return null;
  }
  return (
    <>
      <div className="agv-sec">Gradient goes on to</div>
      <ul className="agv-list">
        {targets.slice(0, 40).map((target, i) => {
          const known = store.nodeRow.has(target) || store.leafRow.has(target);
          const next = details?.next[i];
          return (
            <li key={i}>
              {known ? (
                <NodeLink seq={target} />
              ) : (
                <span className="agv-quiet">
                  {target === NONE
                    ? 'nothing: this input needs no gradient'
                    : oneLine(next?.name || 'a node that was not recorded', 80)}
                </span>
              )}
              <span className="agv-quiet">{hidden ? '' : shapeOf(model.store, target)}</span>
            </li>
          );
        })}
      </ul>
      {targets.length > 40 && <p className="agv-line">and {targets.length - 40} more</p>}
    </>
  );
}

function shapeOf(store: Store, seq: number): string {
  const row = store.nodeRow.get(seq);
  const leaf = store.leafRow.get(seq);
  if (row >= 0) return shapeText(store.string(store.nodes.at.shape[row]));
  return leaf >= 0 ? shapeText(store.string(store.leaves.at.shape[leaf])) : '';
}

/** All nodes that use a leaf: its badges stand at each of them. */
export function Uses({ seq }: { seq: number }): ReactElement | null {
  const { model } = useInspector();
  const [all, setAll] = useState(false);
  const uses = model.graph.leafUses.get(seq);
  if (!uses) {
    return null;
  }
  const shown = all ? uses.slice(0, 500) : uses.slice(0, MOST_USES);
  const leaf = model.store.leafRow.get(seq);
  const storage = leaf < 0 ? -1 : model.store.leaves.at.storage[leaf];
  const write = storage < 0 ? -1 : model.store.writesTo.newest(storage);
  return (
    <>
      {write >= 0 && (
        <p className="agv-line">
          Written {plural(model.store.writes.at.writes[write], 'time')}, last by{' '}
          <code>{oneLine(model.store.string(model.store.writes.at.op[write]), 40)}</code>.
        </p>
      )}
      <div className="agv-sec">All {plural(uses.length, 'use')}</div>
      <ul className="agv-list">
        {shown.map(index => (
          <li key={index}>
            <NodeLink seq={model.graph.seqs[index]} />
            <span className="agv-quiet agv-elide">
              {oneLine(model.siteOf(model.graph.seqs[index])?.source_line ?? '', 60)}
            </span>
          </li>
        ))}
      </ul>
      {uses.length > shown.length && (
        <p className="agv-line">
          <button type="button" className="agv-link" onClick={() => setAll(true)}>
            Show {plural(Math.min(500, uses.length) - shown.length, 'more use')}
          </button>
        </p>
      )}
    </>
  );
}
