// The graph: canvas, legend, minimap, zoom buttons, what to do when there is nothing yet, and the
// text outline.

import type { ReactElement } from 'react';
import { useEffect, useRef, useState } from 'react';
import { GraphCanvas } from '../draw/graph_canvas';
import type { Direction } from '../model/drawing';
import { nextDirection } from '../model/drawing';
import { Empty } from './empty';
import { Legend } from './legend';
import { Outline } from './outline';
import { useCell, useInspector } from './presenter';
import { ViewSwitch } from './view_switch';

const ARROW_DOWN = 'M6 1 V10.5 M2.5 7 L6 10.5 L9.5 7';
const ARROW_RIGHT = 'M1 6 H10.5 M7 2.5 L10.5 6 L7 9.5';

const DIRECTION_WORDS: Record<Direction, string> = {
  auto: 'auto, where more can be read at once',
  down: 'down',
  right: 'right'
};
const DOUBLE_CLICK_MS = 450;

export function GraphView({
  wheel,
  focus
}: {
  wheel: 'always' | 'focused';
  focus: boolean;
}): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const theme = useCell(presenter.theme);
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const minimap = useRef<HTMLCanvasElement>(null);
  const [laying, setLaying] = useState(false);
  useEffect(() => {
    if (!host.current || !canvas.current || !minimap.current) {
      return undefined;
    }
    /** Once a double click would be over, what the side that opened covers comes into view. */
    const uncover = (seq: number): void => {
      clearTimeout(covered);
      covered = setTimeout(() => {
        const place = graph.placeOf(seq);
        const room = host.current?.getBoundingClientRect();
        if (place && room && (place.bottom > room.bottom || place.right > room.right)) {
          graph.reveal(seq);
        }
      }, DOUBLE_CLICK_MS);
    };
    let covered: ReturnType<typeof setTimeout> | undefined;
    const graph = new GraphCanvas(
      model,
      host.current,
      canvas.current,
      minimap.current,
      {
        select: seq => {
          const before = presenter.sideShown;
          graph.press();
          model.select(seq);
          if (seq !== null) presenter.tab.set('node');
          host.current?.focus({ preventScroll: true });
          if (seq !== null && !before && presenter.sideShown) uncover(seq);
        },
        open: seq => {
          const opens = !presenter.hides('groups') && model.boxTransposes(seq, true);
          if (!opens) presenter.open(seq);
        },
        choose: container => {
          graph.press();
          presenter.chooseGroup(container);
          host.current?.focus({ preventScroll: true });
        },
        fold: (container, open) => {
          if (!presenter.hides('groups')) model.fold(container, open);
        },
        settled: laying => {
          setLaying(laying);
          presenter.show();
        }
      },
      { wheel }
    );
    presenter.canvas = graph;
    graph.update();
    return () => {
      clearTimeout(covered);
      presenter.canvas = null;
      graph.dispose();
    };
  }, [model, presenter, wheel]);
  useEffect(() => presenter.canvas?.setPalette(), [presenter, theme]);
  useEffect(() => {
    if (focus) host.current?.focus({ preventScroll: true });
  }, [focus]);
  const shown = model.graph.seqs.length > 0 && !model.failure;
  const { upward, direction } = model.drawing;
  // Of a graph that no backward ran through, an output has no states to explain.
  const signs = !presenter.hides('legend') && presenter.moments;
  return (
    <div
      ref={host}
      className="agv-graph"
      role="application"
      tabIndex={0}
      aria-label="Backward graph: arrow keys follow the edges, question mark lists all keys"
      aria-activedescendant={model.selected === null ? undefined : 'agv-outline-selected'}
      data-agv-keys="graph"
    >
      <canvas ref={canvas} aria-hidden="true" />
      <Outline />
      {shown && signs && <Legend />}
      {shown && <ViewSwitch />}
      <div className="agv-mini" data-needed="no" data-agv-over="yes">
        <canvas ref={minimap} aria-hidden="true" />
      </div>
      {shown && !presenter.hides('zoom') && (
        <div className="agv-zoom">
          {presenter.paused && (
            <button
              type="button"
              aria-label="Show the node that waits"
              title="Show the node that waits (H)"
              onClick={() => presenter.debugger.showCurrent()}
            >
              <svg width="12" height="12" aria-hidden="true">
                <path d="M3 1.5 L10 6 L3 10.5 Z" fill="var(--agv-run)" />
              </svg>
            </button>
          )}
          <button
            type="button"
            aria-label="Larger"
            title="Larger (+)"
            onClick={() => presenter.canvas?.zoomBy(1.3)}
          >
            +
          </button>
          <button
            type="button"
            aria-label="Smaller"
            title="Smaller (−)"
            onClick={() => presenter.canvas?.zoomBy(1 / 1.3)}
          >
            −
          </button>
          <button
            type="button"
            aria-label="Draw the forward direction, the loss at the bottom"
            aria-pressed={upward}
            title={`Turn the graph: now ${upward ? 'forward' : 'backward'} (T)`}
            onClick={() => presenter.draw({ upward: !upward })}
          >
            <svg width="12" height="12" aria-hidden="true">
              <path
                d="M3.5 1V11M1 8.5L3.5 11L6 8.5M8.5 11V1M6 3.5L8.5 1L11 3.5"
                fill="none"
                stroke="currentColor"
                strokeWidth="1.3"
              />
            </svg>
          </button>
          <button
            type="button"
            aria-label={`Direction of the edges: ${direction}`}
            title={`Direction: ${DIRECTION_WORDS[direction]} (Shift T)`}
            onClick={() => presenter.draw({ direction: nextDirection(direction) })}
          >
            {direction === 'auto' ? (
              'A'
            ) : (
              <svg width="12" height="12" aria-hidden="true">
                <path
                  d={direction === 'down' ? ARROW_DOWN : ARROW_RIGHT}
                  fill="none"
                  stroke="currentColor"
                  strokeWidth="1.4"
                />
              </svg>
            )}
          </button>
          <IconButton
            label="Close all groups"
            keys="Shift C"
            path="M1 3 L6 6 L11 3 M1 9 L6 6 L11 9"
            run={() => presenter.foldAll(false)}
          />
          <IconButton
            label="Open all groups"
            keys="Shift O"
            path="M1 4.5 L6 1.5 L11 4.5 M1 7.5 L6 10.5 L11 7.5"
            run={() => presenter.foldAll(true)}
          />
          <IconButton
            label="Show all"
            keys="space"
            path="M1 4V1H4M8 1H11V4M11 8V11H8M4 11H1V8"
            run={() => presenter.canvas?.fit()}
          />
        </div>
      )}
      {laying && <div className="agv-laying">Laying out {model.view.seqs.length} boxes…</div>}
      {!shown && <Empty />}
    </div>
  );
}

function IconButton({
  label,
  keys,
  path,
  run
}: {
  label: string;
  /** the keys that do the same */
  keys: string;
  path: string;
  run: () => void;
}): ReactElement {
  return (
    <button type="button" aria-label={label} title={`${label} (${keys})`} onClick={run}>
      <svg width="12" height="12" aria-hidden="true">
        <path d={path} fill="none" stroke="currentColor" strokeWidth="1.4" />
      </svg>
    </button>
  );
}
