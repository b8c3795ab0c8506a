// The graph: canvas, legend, minimap, zoom buttons, what to do when there is nothing yet, and the
// text outline.

import type { ReactElement } from 'react';
import { useEffect, useMemo, useRef, useState } from 'react';
import { GraphCanvas } from '../draw/graph_canvas';
import type { GradientKind } from '../model/gradient_kind';
import { KIND_SIGNS, KIND_WORDS, kindsIn } from '../model/gradient_kind';
import { Empty } from './empty';
import { Outline } from './outline';
import { useCell, useInspector } from './presenter';
import { ViewSwitch } from './view_switch';

/** The canvas's own lines for remarkable gradients. */
const LINES: Record<GradientKind, { colour: string; width: number; dash?: string }> = {
  nonfinite: { colour: 'bad', width: 3, dash: '6 3' },
  exploding: { colour: 'bad', width: 6 },
  vanishing: { colour: 'save', width: 1.6, dash: '2 4' },
  zero: { colour: 'ink3', width: 1.6, dash: '1 5' },
  none: { colour: 'ink3', width: 1.6, dash: '1 5' },
  plain: { colour: 'done', width: 2 }
};

/** Signs of the legend are the signs of the canvas: colour is never alone. */
function Legend(): ReactElement {
  const { model } = useInspector();
  const { drawn } = model;
  const kinds = useMemo(() => kindsIn(drawn), [drawn]);
  return (
    <div className="agv-legend" aria-hidden="true" data-agv-over="yes">
      <span>
        <svg width="12" height="12">
          <rect x="0.5" y="0.5" width="11" height="11" rx="3" fill="var(--agv-done)" />
          <path d="M3 6.2 L5.2 8.4 L9 3.8" fill="none" stroke="var(--agv-bg)" strokeWidth="1.6" />
        </svg>
        done
      </span>
      <span>
        <svg width="12" height="12">
          <rect x="0.5" y="0.5" width="11" height="11" rx="3" fill="var(--agv-run)" />
          <path d="M4.2 3 L9 6 L4.2 9 Z" fill="var(--agv-bg)" />
        </svg>
        next
      </span>
      <span>
        <svg width="12" height="12">
          <rect
            x="1"
            y="1"
            width="10"
            height="10"
            rx="3"
            fill="var(--agv-bg)"
            stroke="var(--agv-line2)"
            strokeWidth="1.6"
          />
        </svg>
        waiting
      </span>
      <span>
        <svg width="12" height="12">
          <rect
            x="1"
            y="1"
            width="10"
            height="10"
            rx="3"
            fill="var(--agv-bad-bg)"
            stroke="var(--agv-bad)"
            strokeWidth="1.6"
            strokeDasharray="3 2"
          />
        </svg>
        problem
      </span>
      <span>
        <svg width="16" height="12">
          <rect
            x="1"
            y="1.5"
            width="14"
            height="9"
            rx="4.5"
            fill="var(--agv-param-bg)"
            stroke="var(--agv-param)"
          />
        </svg>
        parameter
      </span>
      {kinds.map(kind => (
        <span key={kind}>
          <svg width="18" height="12">
            <line
              x1="0"
              x2="18"
              y1="6"
              y2="6"
              stroke={`var(--agv-${LINES[kind].colour})`}
              strokeWidth={LINES[kind].width}
              strokeDasharray={LINES[kind].dash}
            />
          </svg>
          {KIND_SIGNS[kind]} {KIND_WORDS[kind]}
        </span>
      ))}
    </div>
  );
}

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
    const graph = new GraphCanvas(
      model,
      host.current,
      canvas.current,
      minimap.current,
      {
        select: seq => {
          model.select(seq);
          if (seq !== null) presenter.tab.set('node');
          host.current?.focus({ preventScroll: true });
        },
        open: seq => presenter.open(seq),
        choose: container => {
          presenter.chooseGroup(container);
          host.current?.focus({ preventScroll: true });
        },
        fold: (container, open) => {
          if (!presenter.hides('groups')) model.fold(container, open);
        },
        settled: setLaying
      },
      { wheel }
    );
    presenter.canvas = graph;
    graph.update();
    return () => {
      presenter.canvas = null;
      graph.dispose();
    };
  }, [model, presenter, wheel]);
  useEffect(() => presenter.canvas?.setPalette(), [presenter, theme]);
  useEffect(() => {
    if (focus) host.current?.focus({ preventScroll: true });
  }, [focus]);
  const shown = model.graph.seqs.length > 0 && !model.failure;
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
      {shown && !presenter.hides('legend') && <Legend />}
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
            aria-pressed={model.upward}
            title={`Turn the graph: now ${model.upward ? 'forward' : 'backward'} (T)`}
            onClick={() => model.turn(!model.upward)}
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
