// The legend: how many nodes of each kind there are, buttons that go from one to the next, and what
// boxes are coloured by, with the scale. Signs are those of the canvas: colour is never alone.

import type { ReactElement } from 'react';
import { useMemo } from 'react';
import type { ColourBy, Colouring } from '../model/colouring';
import { COLOUR_BY, COLOUR_NAMES, TOGETHER, measureText } from '../model/colouring';
import { countText } from '../model/format';
import type { GradientKind } from '../model/gradient_kind';
import { KIND_SIGNS, KIND_WORDS } from '../model/gradient_kind';
import type { LegendKind } from '../model/legend';
import { legendCounts, nextOfKind } from '../model/legend';
import type { Presenter } from './presenter';
import { useInspector } from './presenter';

/** The canvas's own lines for remarkable gradients. */
const LINES: Record<
  Exclude<GradientKind, 'plain'>,
  { colour: string; width: number; dash?: string }
> = {
  nonfinite: { colour: 'bad', width: 3, dash: '6 3' },
  exploding: { colour: 'bad', width: 6 },
  vanishing: { colour: 'save', width: 1.6, dash: '2 4' },
  zero: { colour: 'ink3', width: 1.6, dash: '1 5' },
  none: { colour: 'ink3', width: 1.6, dash: '1 5' }
};

interface Sign {
  fill: string;
  stroke?: string;
  dash?: string;
  /** within 12 × 12 */
  mark?: ReactElement;
  wide?: boolean;
}

const TICK = (
  <path d="M3 6.2 L5.2 8.4 L9 3.8" fill="none" stroke="var(--agv-bg)" strokeWidth="1.6" />
);
const ARROW = <path d="M4.2 3 L9 6 L4.2 9 Z" fill="var(--agv-bg)" />;

const BOXES: Partial<Record<LegendKind, Sign>> = {
  done: { fill: 'done', mark: TICK },
  next: { fill: 'run', mark: ARROW },
  waiting: { fill: 'bg', stroke: 'line2' },
  problem: { fill: 'bad-bg', stroke: 'bad', dash: '3 2' },
  parameter: { fill: 'param-bg', stroke: 'param', wide: true }
};

function SignOf({ kind }: { kind: LegendKind }): ReactElement {
  const box = BOXES[kind];
  if (!box) {
    const { colour, width, dash } = LINES[kind as Exclude<GradientKind, 'plain'>];
    const stroke = `var(--agv-${colour})`;
    const line = { stroke, strokeWidth: width, strokeDasharray: dash };
    return (
      <svg width="18" height="12" aria-hidden="true">
        <line x1="0" x2="18" y1="6" y2="6" {...line} />
      </svg>
    );
  }
  const { fill, stroke, dash, mark, wide = false } = box;
  const border = stroke && {
    stroke: `var(--agv-${stroke})`,
    strokeWidth: wide ? 1 : 1.6,
    strokeDasharray: dash
  };
  const [inset, width] = [stroke ? 1 : 0.5, wide ? 16 : 12];
  return (
    <svg width={width} height="12" aria-hidden="true">
      <rect
        x={inset}
        y={wide ? 1.5 : inset}
        width={width - 2 * inset}
        height={wide ? 9 : 12 - 2 * inset}
        rx={wide ? 4.5 : 3}
        fill={`var(--agv-${fill})`}
        {...border}
      />
      {mark}
    </svg>
  );
}

function wordsOf(kind: LegendKind): string {
  return BOXES[kind]
    ? kind
    : `${KIND_SIGNS[kind as GradientKind]} ${KIND_WORDS[kind as GradientKind]}`;
}

/** Goes to the next node or leaf of a kind. */
function goToNext(presenter: Presenter, kind: LegendKind): void {
  const seq = nextOfKind(presenter.model, kind);
  if (seq === null) {
    return;
  }
  presenter.goTo(seq);
  presenter.tab.set('node');
}

/** The ends of the scale as numbers, and the colours between them. */
function Scale({ by, low, high, log }: Colouring): ReactElement {
  const ends = [low, high].map(end => measureText(by, end) || '0');
  const kind = log ? 'logarithmic' : 'linear';
  return (
    <span
      className="agv-legend-scale"
      role="img"
      aria-label={`${COLOUR_NAMES[by]}, ${ends[0]} to ${ends[1]}, ${kind}`}
      title={`${kind} scale; a closed group has ${TOGETHER[by]} of its nodes`}
    >
      {high > 0 ? (
        <>
          {ends[0]}
          <i />
          {ends[1]}
        </>
      ) : (
        'nothing yet'
      )}
    </span>
  );
}

export function Legend(): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const { graph, states, colouring, drawing } = model;
  const counts = useMemo(() => legendCounts({ graph, states, selected: null, group: null }), [
    graph,
    states
  ]);
  return (
    <div className="agv-legend" role="group" aria-label="Legend" data-agv-over="yes">
      {[...counts].map(([kind, count]) => (
        <button
          key={kind}
          type="button"
          className="agv-legend-kind"
          disabled={count === 0}
          title={count > 0 ? 'Show the next one' : undefined}
          onClick={() => goToNext(presenter, kind)}
        >
          <SignOf kind={kind} />
          <span>{wordsOf(kind)}</span>
          {count > 0 && <b>{countText(count)}</b>}
        </button>
      ))}
      <label className="agv-legend-by">
        colour
        <select
          value={drawing.colourBy}
          title="What boxes are coloured by; their signs tell their state in any case"
          onChange={event => presenter.draw({ colourBy: event.target.value as ColourBy })}
        >
          {COLOUR_BY.map(by => (
            <option key={by} value={by}>
              {COLOUR_NAMES[by]}
            </option>
          ))}
        </select>
      </label>
      {colouring && <Scale {...colouring} />}
    </div>
  );
}
