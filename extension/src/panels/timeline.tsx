// Forward, backward and gradient norms over time; drag or use the arrow keys to see an earlier
// moment.

import type { ReactElement } from 'react';
import { useLayoutEffect, useMemo, useRef } from 'react';
import { oneLine } from '../protocol/text';
import { countText, durationText, numberText, placeText, plural } from '../model/format';
import type { InspectorModel } from '../model/inspector';
import type { Passes } from '../model/passes';
import { NOT_WATCHED, passesOf, runMs, tookText } from '../model/passes';
import type { Task } from '../model/store';
import { UNWATCHED } from '../model/store';
import { readPalette } from '../draw/palette';
import type { Slice } from '../draw/timeline_painter';
import {
  timelineHeight,
  paintTimeline,
  positionAt,
  sliceAt,
  timelineScale
} from '../draw/timeline_painter';
import { prepare } from '../draw/value_painter';
import { CompareMenu } from './compare/compare_menu';
import { FirstOf, HeightSwitch, PassBars } from './pass_bars';
import { useCell, useInspector } from './presenter';
import { SourceLink } from './source_link';
import { statusOf } from './status';
import { useWidth } from './use_width';

/** The node that a position of the axis stands for: the one created or run just before it. */
function seqAt(model: InspectorModel, position: number): number | null {
  const { axis, graph, store } = model;
  const created = axis.forward.length;
  if (position > created) {
    return store.runs.at.seq[axis.runs[position - created - 1]] ?? null;
  }
  return position > 0 ? graph.seqs[axis.forward[position - 1]] : null;
}

/** Pixels that a pointer may move between press and release of one click. */
const STILL = 4;

function seqOf({ graph, store }: InspectorModel, slice: Slice): number {
  return slice.kind === 'node' ? graph.seqs[slice.node] : store.runs.at.seq[slice.run];
}

/** What a slice is, for who points at it; '' for none. coming: norms to come are not told. */
export function sliceWords(model: InspectorModel, slice: Slice | null, coming: boolean): string {
  if (!slice) {
    return '';
  }
  const { store, axis, states } = model;
  const seq = seqOf(model, slice);
  const name = oneLine(model.titleOf(seq), 60);
  if (slice.kind === 'node') {
    const site = model.siteOf(seq);
    return site ? `${name}, made at ${placeText(site)}` : name;
  }
  const { norm } = store.runs.at;
  const order = axis.runs.indexOf(slice.run);
  const told = !(coming && order >= states.done) && !(norm[slice.run] < 0);
  return [
    `${name}, step ${order + 1} of ${axis.slots}`,
    norm[slice.run] === UNWATCHED ? NOT_WATCHED : durationText(runMs(store)(slice.run)),
    told ? `gradient norm ${numberText(norm[slice.run])}` : ''
  ]
    .filter(part => part !== '')
    .join(', ');
}

function TaskChooser({ passes }: { passes: Passes }): ReactElement | null {
  const { model } = useInspector();
  const task = model.shownTask();
  const ids = model.tasks.map(({ task: id }) => id).sort((a, b) => a - b);
  const all = model.store.passes;
  const site = task ? model.store.site(task.site) : null;
  if (ids.length === 0) {
    return (
      <span className="agv-elide">
        {model.graph.seqs.length > 0
          ? 'forward only: no backward pass was recorded over this graph'
          : ''}
      </span>
    );
  }
  const at = task ? ids.indexOf(task.task) : ids.length;
  const bar = task ? passes.ids.indexOf(task.task) : -1;
  const took = bar >= 0 && task?.ended !== 'no' ? tookText(passes, bar) : '';
  return (
    <>
      <button
        type="button"
        className="agv-step"
        disabled={at <= 0}
        aria-label="Backward pass before this one"
        onClick={() => model.showNeighbour(-1)}
      >
        ‹
      </button>
      <span className="agv-elide">
        {task
          ? `backward ${countText(task.number)} of ${countText(all)}`
          : 'newest nodes, no backward yet'}
        {task?.ended === 'in error' && <span className="agv-stale"> failed</span>}
      </span>
      <button
        type="button"
        className="agv-step"
        disabled={!task || at >= ids.length - 1}
        aria-label="Backward pass after this one"
        onClick={() => model.showNeighbour(1)}
      >
        ›
      </button>
      {site && (
        <span className="agv-elide">
          <SourceLink site={site} />
        </span>
      )}
      {took && <span className="agv-quiet">{took}</span>}
      <Unwatched task={task} />
      {model.target.kind !== 'latest' && (
        <button type="button" className="agv-link" onClick={() => model.show({ kind: 'latest' })}>
          Follow the newest
        </button>
      )}
    </>
  );
}

const WHY_NOT =
  'Backward passes that follow each other fast are not all watched, so that the program is not ' +
  'slowed down: Record has all of them.';

/** What ran unwatched: the pass on screen, those before it, or after the newest. */
function Unwatched({ task }: { task: Task | null }): ReactElement | null {
  const { model } = useInspector();
  const { store } = model;
  const after = store.state.missed ?? 0;
  const parts: string[] = [];
  const before = task && task.missed > 0 ? `${countText(task.missed)} before it` : '';
  if (task && !store.watched(task.task)) parts.push(`not watched${before && `, nor ${before}`}`);
  else if (before) parts.push(`${before} not watched`);
  if (after > 0) parts.push(`${countText(after)} after the newest not watched`);
  return parts.length === 0 ? null : (
    <span className="agv-quiet agv-elide" title={WHY_NOT}>
      {parts.join(', ')}
    </span>
  );
}

const FORGOTTEN = 'Memory is bounded here and in the kernel: the oldest steps leave first.';

/** What was recorded, and what was left out: nothing is lost silently. */
function Counts(): ReactElement {
  const { store, graph, status } = useInspector().model;
  const left = Object.values(store.coalesced).reduce((sum, rows) => sum + rows, 0);
  const steps = store.droppedSteps + store.forgotten.steps;
  const parts = [graph.seqs.length > 0 ? plural(graph.seqs.length, 'node') : ''];
  if (graph.leaves.length > 0) parts.push(`${plural(graph.leaves.length, 'leaf', 'leaves')}`);
  if (status.busy && !store.state.paused) parts.push('kernel busy');
  if (left > 0) parts.push(`${plural(left, 'event')} left out`);
  if (steps > 0) parts.push(`oldest ${plural(steps, 'step')} forgotten`);
  return (
    <span
      className="agv-small"
      title={[
        left > 0 ? 'The page could not keep up: these events were counted, not sent.' : '',
        steps > 0 ? FORGOTTEN : ''
      ]
        .join(' ')
        .trim()}
    >
      {parts.filter(Boolean).join(', ')}
    </span>
  );
}

export function Timeline(): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const theme = useCell(presenter.theme);
  const [area, width] = useWidth();
  const canvas = useRef<HTMLCanvasElement>(null);
  const pressed = useRef(NaN);

  const { axis, states, graph, cursor, selected, store } = model;
  const hidesComing = presenter.teaching.predictor.hidesComing;
  const { batch, epoch, session, state } = store;
  const { ledger } = model;
  const passes = useMemo(
    () => passesOf(store, ledger),
    [store, ledger, ledger.version, batch, epoch, session, state]
  );
  useLayoutEffect(() => {
    if (!canvas.current || !area.current || width === 0) {
      return;
    }
    const ctx = prepare(canvas.current, width, timelineHeight(axis));
    if (ctx) {
      const palette = readPalette(area.current);
      const ratio = window.devicePixelRatio || 1;
      const frame = { store, graph, axis, states, cursor, selected, palette, width, ratio };
      paintTimeline(ctx, { ...frame, hidesComing });
    }
  }, [axis, states, graph, cursor, selected, store, width, theme, hidesComing]);

  const scrubTo = (clientX: number): void => {
    const box = area.current?.getBoundingClientRect();
    if (box && model.length > 0) {
      const position = positionAt(axis, timelineScale(axis, width), clientX - box.left);
      model.scrub(position >= model.length && presenter.live ? null : position);
    }
  };
  const sliceUnder = (clientX: number): Slice | null => {
    const box = area.current?.getBoundingClientRect();
    return box ? sliceAt(axis, timelineScale(axis, width), clientX - box.left) : null;
  };
  const position = cursor ?? model.length;
  const key = (event: React.KeyboardEvent): void => {
    const steps: Record<string, number> = {
      ArrowLeft: -1,
      ArrowRight: 1,
      PageUp: -10,
      PageDown: 10
    };
    if (event.key in steps) presenter.debugger.scrubBy(steps[event.key]);
    else if (event.key === 'Home') model.scrub(0);
    else if (event.key === 'End') model.scrub(presenter.live ? null : model.length);
    else if (event.key === 'Enter') {
      // Not what is drawn: keys may come faster than frames.
      const seq = seqAt(model, model.cursor ?? model.length);
      if (seq !== null) presenter.goTo(seq);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div className="agv-time">
      <div className="agv-time-head">
        <TaskChooser passes={passes} />
        <FirstOf passes={passes} />
        <HeightSwitch passes={passes} />
        <CompareMenu />
        <Counts />
      </div>
      <PassBars passes={passes} width={width} />
      <div
        ref={area}
        className="agv-axis"
        style={{ height: timelineHeight(axis) }}
        role="slider"
        tabIndex={0}
        aria-label="Moment shown"
        aria-valuemin={0}
        aria-valuemax={model.length}
        aria-valuenow={position}
        aria-valuetext={statusOf(presenter).text}
        onKeyDown={key}
        onPointerDown={event => {
          event.currentTarget.setPointerCapture(event.pointerId);
          pressed.current = event.clientX;
          scrubTo(event.clientX);
        }}
        onPointerMove={event => {
          const { clientX, currentTarget } = event;
          if (event.buttons & 1) scrubTo(clientX);
          else currentTarget.title = sliceWords(model, sliceUnder(clientX), hidesComing);
        }}
        onClick={event => {
          // The end of a drag is no click.
          const slice =
            Math.abs(event.clientX - pressed.current) < STILL ? sliceUnder(event.clientX) : null;
          if (slice) presenter.goTo(seqOf(model, slice));
        }}
        onDoubleClick={() => {
          const seq = seqAt(model, position);
          if (seq !== null) presenter.goTo(seq);
        }}
      >
        <canvas ref={canvas} aria-hidden="true" />
      </div>
    </div>
  );
}
