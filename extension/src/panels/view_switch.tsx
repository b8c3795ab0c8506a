// The switch between what the big area shows: nodes, every number of them, or when what ran.

import type { ReactElement } from 'react';
import { useCell, useInspector } from './presenter';

export function ViewSwitch(): ReactElement | null {
  const presenter = useInspector();
  const { teaching, timing, model } = presenter;
  const timed = useCell(timing.shown);
  const graph = model.graph.seqs.length > 0;
  const choices = [
    {
      name: 'Nodes',
      title: 'One box for each node (X)',
      on: !timed && !teaching.scalars,
      there: graph,
      choose: () => teaching.setScalars(false)
    },
    {
      name: 'Numbers',
      title: 'Every number of a tiny network, with local derivatives (X)',
      on: !timed && teaching.scalars,
      there: graph && !presenter.hides('scalars'),
      choose: () => teaching.setScalars(true)
    },
    {
      name: 'Time',
      title: 'When what ran, and how long it took',
      on: timed,
      there: !presenter.hides('timeline'),
      choose: () => undefined
    }
  ].filter(({ there }) => there);
  if (choices.length < 2) {
    return null;
  }
  return (
    <div className="agv-views" role="group" aria-label="Draw" data-agv-over="yes">
      {choices.map(({ name, title, on, choose }) => (
        <button
          key={name}
          type="button"
          aria-pressed={on}
          title={title}
          onClick={() => {
            choose();
            timing.show(name === 'Time');
          }}
        >
          {name}
        </button>
      ))}
    </div>
  );
}
