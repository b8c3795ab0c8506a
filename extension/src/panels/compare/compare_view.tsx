// Two graphs side by side, what differs between them in a sentence, in pictures and as a list.

import type { KeyboardEvent, ReactElement } from 'react';
import { useEffect, useRef } from 'react';
import { oneLine } from '../../protocol/text';
import { KIND_MARKS, KIND_NAMES, Kind } from '../../model/compare/differences';
import type { Which } from '../../model/compare/model';
import { nextDirection } from '../../model/drawing';
import { GraphCanvas } from '../../draw/graph_canvas';
import { useCell, useInspector } from '../presenter';
import type { Comparing } from './comparing';
import { Differences } from './differences';

const PAN = 60;

/** Keys of a comparison; true when it was one of them. */
export function compareKey(comparing: Comparing, event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest('input, select')) {
    return false;
  }
  const inGraph = target.dataset.agvKeys === 'graph' || target === event.currentTarget;
  const keys: Record<string, () => void> = {
    n: () => comparing.step(1),
    N: () => comparing.step(-1),
    ' ': () => comparing.fit(),
    '+': () => comparing.zoomBy(1.25),
    '=': () => comparing.zoomBy(1.25),
    '-': () => comparing.zoomBy(0.8),
    w: () => comparing.panBy(0, PAN),
    s: () => comparing.panBy(0, -PAN),
    a: () => comparing.panBy(PAN, 0),
    d: () => comparing.panBy(-PAN, 0),
    ArrowDown: () => comparing.step(1),
    ArrowUp: () => comparing.step(-1),
    l: () => comparing.link(!comparing.linkedTogether),
    t: () => comparing.draw({ upward: !comparing.drawing.upward }),
    T: () => comparing.draw({ direction: nextDirection(comparing.drawing.direction) })
  };
  if (event.key === 'Escape') {
    comparing.close();
    return true;
  }
  if (!inGraph || !(event.key in keys)) {
    return false;
  }
  keys[event.key]();
  return true;
}

function SideCanvas({
  comparing,
  side,
  wheel
}: {
  comparing: Comparing;
  side: Which;
  wheel: 'always' | 'focused';
}): ReactElement {
  const presenter = useInspector();
  const theme = useCell(presenter.theme);
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const minimap = useRef<HTMLCanvasElement>(null);
  const drawn = useRef<GraphCanvas | null>(null);
  const { model } = comparing;
  const own = model[side];
  useEffect(() => {
    if (!host.current || !canvas.current || !minimap.current) {
      return undefined;
    }
    const graph = new GraphCanvas(
      own,
      host.current,
      canvas.current,
      minimap.current,
      {
        select: seq => comparing.select(side, seq),
        open: seq => {
          const site = own.store.siteOf(seq);
          if (site) void presenter.reveal(site);
        },
        choose: container => {
          own.group = container;
          own.selected = null;
          model.touch();
        },
        fold: (container, open) => {
          own.fold(container, open);
          model.touch();
        },
        settled: laying => {
          if (!laying) comparing.moved(side);
        },
        moved: () => comparing.moved(side),
        turned: () => comparing.turned(side)
      },
      { wheel, marks: view => model.marks(side, view), turning: comparing.turning }
    );
    drawn.current = graph;
    comparing.attach(side, graph);
    return () => {
      comparing.attach(side, null);
      graph.dispose();
    };
  }, [comparing, model, own, presenter, side, wheel]);
  useEffect(() => drawn.current?.setPalette(), [theme]);
  const name = side === 'a' ? 'left' : 'right';
  return (
    <section className="agv-compared" data-side={side} aria-label={`Graph at the ${name}`}>
      <h3 className="agv-elide" title={oneLine(own.source.title, 300)}>
        {oneLine(own.source.title, 120)}
      </h3>
      <div
        ref={host}
        className="agv-graph"
        role="application"
        tabIndex={0}
        aria-label={
          `Backward graph at the ${name}: N goes to the next difference, ` +
          'the list beside the graphs has all of them'
        }
        data-agv-keys="graph"
      >
        <canvas ref={canvas} aria-hidden="true" />
        <div className="agv-mini" data-needed="no" data-agv-over="yes">
          <canvas ref={minimap} aria-hidden="true" />
        </div>
      </div>
    </section>
  );
}

const LEGEND: readonly Kind[] = [Kind.added, Kind.removed, Kind.changed, Kind.equal];

function Legend(): ReactElement {
  return (
    <div className="agv-compare-legend" aria-hidden="true">
      {LEGEND.map(kind => (
        <span key={kind} className="agv-kind" data-kind={KIND_NAMES[kind]}>
          <b>{KIND_MARKS[kind]}</b> {KIND_NAMES[kind]}
        </span>
      ))}
    </div>
  );
}

/** One of the two graphs at a time, each behind a tab with its name. */
function Tabbed({
  comparing,
  wheel
}: {
  comparing: Comparing;
  wheel: 'always' | 'focused';
}): ReactElement {
  const shown = useCell(comparing.shown);
  return (
    <div className="agv-compare-tabbed">
      <div role="tablist" aria-label="The compared graphs" className="agv-compare-tabs">
        {SIDES.map(side => (
          <button
            key={side}
            type="button"
            role="tab"
            className="agv-elide"
            aria-selected={side === shown}
            onClick={() => comparing.shown.set(side)}
          >
            {side === 'a' ? 'Left: ' : 'Right: '}
            {oneLine(comparing.model[side].source.title, 120)}
          </button>
        ))}
      </div>
      <SideCanvas key={shown} comparing={comparing} side={shown} wheel={wheel} />
    </div>
  );
}

const SIDES: readonly Which[] = ['a', 'b'];

export function CompareView({
  comparing,
  wheel,
  tabs
}: {
  comparing: Comparing;
  wheel: 'always' | 'focused';
  /** there is room for one graph at a time */
  tabs: boolean;
}): ReactElement {
  const presenter = useInspector();
  const { comparison } = comparing.model;
  return (
    <div className="agv-compare" data-agv-tabs={tabs ? 'yes' : 'no'}>
      <div className="agv-compare-head">
        <p role="status">{oneLine(comparison.summary, 400)}</p>
        <Legend />
        <button
          type="button"
          className="agv-btn"
          aria-pressed={comparing.linkedTogether}
          title="Both sides move and zoom together (L)"
          onClick={() => comparing.link(!comparing.linkedTogether)}
        >
          Linked
        </button>
        <button
          type="button"
          className="agv-btn"
          title="Show both graphs as a whole (space)"
          onClick={() => comparing.fit()}
        >
          Show all
        </button>
        <button
          type="button"
          className="agv-btn"
          title="Back to one graph (Escape)"
          onClick={() => presenter.compare(null)}
        >
          Close
        </button>
      </div>
      {tabs ? (
        <Tabbed comparing={comparing} wheel={wheel} />
      ) : (
        SIDES.map(side => (
          <SideCanvas key={side} comparing={comparing} side={side} wheel={wheel} />
        ))
      )}
      <Differences comparing={comparing} />
    </div>
  );
}
