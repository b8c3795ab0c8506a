// Where a backward pass stops: the list, and what can be added to it.

import type { ReactElement } from 'react';
import { oneLine } from '../protocol/text';
import { Menu } from './menu';
import { useInspector } from './presenter';

export function Breakpoints(): ReactElement {
  const presenter = useInspector();
  const { model, commandable } = presenter;
  const points = model.store.state.breakpoints;
  const { selected } = model;
  const node = selected !== null && model.graph.indexOf.has(selected) ? selected : null;
  const here = points.some(point => point.kind === 'node' && point.seq === node);
  return (
    <Menu
      label={points.length > 0 ? `Breakpoints ${points.length}` : 'Breakpoints'}
      title="Where a backward pass stops"
      side="left"
    >
      {() => (
        <>
          {points.length === 0 && <p>A backward pass stops before a node with a breakpoint.</p>}
          {points.map(point => (
            <div className="agv-sheet-row" key={point.id}>
              {point.kind === 'node' && point.seq !== undefined ? (
                <button
                  type="button"
                  className="agv-link agv-elide"
                  onClick={() => presenter.goTo(point.seq ?? 0)}
                >
                  {oneLine(model.titleOf(point.seq), 60)}{' '}
                  <span className="agv-quiet">#{point.seq}</span>
                </button>
              ) : (
                <span className="agv-elide">every {oneLine(point.name ?? '', 60)}</span>
              )}
              <button
                type="button"
                disabled={!commandable}
                aria-label="Remove this breakpoint"
                onClick={() =>
                  void presenter.command(
                    'breakpoint',
                    point.kind === 'node'
                      ? { on: false, seq: point.seq }
                      : { on: false, name: point.name }
                  )
                }
              >
                Remove
              </button>
            </div>
          ))}
          {node !== null && !here && (
            <>
              {points.length > 0 && <hr />}
              <button
                type="button"
                disabled={!commandable}
                onClick={() => presenter.toggleBreakpoint(node)}
              >
                Break before {oneLine(model.titleOf(node), 60)} <small>the selected node (B)</small>
              </button>
            </>
          )}
        </>
      )}
    </Menu>
  );
}
