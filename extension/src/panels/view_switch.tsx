// The switch between the graph's two drawings: nodes, or every number of them.

import type { ReactElement } from 'react';
import { useInspector } from './presenter';

export function ViewSwitch(): ReactElement | null {
  const presenter = useInspector();
  const { teaching, model } = presenter;
  if (presenter.hides('scalars') || model.graph.seqs.length === 0) {
    return null;
  }
  return (
    <div className="agv-views" role="group" aria-label="Draw">
      <button
        type="button"
        aria-pressed={!teaching.scalars}
        title="One box for each node (X)"
        onClick={() => teaching.setScalars(false)}
      >
        Nodes
      </button>
      <button
        type="button"
        aria-pressed={teaching.scalars}
        title="Every number of a tiny network, with local derivatives (X)"
        onClick={() => teaching.setScalars(true)}
      >
        Numbers
      </button>
    </div>
  );
}
