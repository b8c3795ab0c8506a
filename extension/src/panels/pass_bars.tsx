// The strip of passes: a bar for each, with the signs of findings. A click, a drag or the arrow
// keys show one; buttons go to the first with a finding.

import type { ReactElement } from 'react';
import { useLayoutEffect, useRef } from 'react';
import type { Kind } from '../model/findings/finding';
import { KIND_NAMES, SIGNS, bitOf, gravest } from '../model/findings/finding';
import type { InspectorModel } from '../model/inspector';
import type { Passes } from '../model/passes';
import { passText } from '../model/passes';
import { PASSES_HEIGHT, paintPasses, passAt } from '../draw/passes_painter';
import { readPalette } from '../draw/palette';
import { prepare } from '../draw/value_painter';
import { useCell, useInspector } from './presenter';

/** Shows the pass of a bar; of one whose nodes are gone the next one that is there. */
function show(model: InspectorModel, { ids, kept }: Passes, i: number): void {
  let at = Math.min(ids.length - 1, Math.max(0, i));
  while (at < ids.length - 1 && !kept[at]) at++;
  if (!kept[at] || model.shownTask()?.task === ids[at]) {
    return;
  }
  const last = at === ids.length - 1;
  model.show(last ? { kind: 'latest' } : { kind: 'task', task: ids[at] });
}

export function PassBars({
  passes,
  width
}: {
  passes: Passes;
  width: number;
}): ReactElement | null {
  const presenter = useInspector();
  const { model } = presenter;
  const theme = useCell(presenter.theme);
  const by = useCell(presenter.heights);
  const canvas = useRef<HTMLCanvasElement>(null);
  const task = model.shownTask()?.task ?? null;
  useLayoutEffect(() => {
    const root = canvas.current?.parentElement;
    const ctx = canvas.current && width > 0 && prepare(canvas.current, width, PASSES_HEIGHT);
    if (ctx && root) paintPasses(ctx, passes, task, readPalette(root), width, by);
  }, [passes, task, width, theme, by]);
  const { ids } = passes;
  if (ids.length < 2) {
    return null;
  }
  const all = model.store.passes;
  const at = (event: React.MouseEvent): number => {
    const { left } = event.currentTarget.getBoundingClientRect();
    return passAt(passes, width, event.clientX - left, by);
  };
  const shown = task === null ? -1 : ids.indexOf(task);
  const key = (event: React.KeyboardEvent): void => {
    const from = shown < 0 ? ids.length : shown;
    const ways: Record<string, number> = {
      ArrowLeft: from - 1,
      ArrowRight: from + 1,
      PageUp: from - 10,
      PageDown: from + 10,
      Home: 0,
      End: ids.length - 1
    };
    if (!(event.key in ways)) {
      return;
    }
    let wanted = Math.max(0, ways[event.key]);
    // Backwards over those that are gone there is nothing: the first that is there.
    while (wanted < ids.length - 1 && !passes.kept[wanted]) wanted++;
    show(model, passes, wanted);
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <canvas
      ref={canvas}
      className="agv-passes"
      role="slider"
      tabIndex={0}
      aria-label="Backward pass shown"
      aria-valuemin={1}
      aria-valuemax={all}
      aria-valuenow={shown < 0 ? all : passes.numbers[shown]}
      aria-valuetext={shown < 0 ? 'none' : passText(passes, shown, all)}
      onKeyDown={key}
      onPointerMove={event => {
        const i = at(event);
        event.currentTarget.title = i < 0 ? '' : passText(passes, i, all);
        if (i >= 0 && event.buttons & 1) show(model, passes, i);
      }}
      onPointerDown={event => {
        event.currentTarget.setPointerCapture(event.pointerId);
        const i = at(event);
        if (i >= 0) show(model, passes, i);
      }}
    />
  );
}

/** Buttons to the first pass with NaN, and to the first with any finding. */
export function FirstOf({ passes }: { passes: Passes }): ReactElement | null {
  const { model } = useInspector();
  if (passes.ids.length < 2) {
    return null;
  }
  const nan = passes.kinds.findIndex(kinds => (kinds & bitOf('nonfinite')) !== 0);
  const any = passes.kinds.findIndex(kinds => kinds !== 0);
  const button = (i: number, kind: Kind, text: string): ReactElement => (
    <button
      type="button"
      className="agv-link agv-first"
      title={`Goes to the first pass with ${KIND_NAMES[kind]}`}
      onClick={() => show(model, passes, i)}
    >
      <span aria-hidden="true">{SIGNS[kind]}</span> {text}
    </button>
  );
  const kind = any < 0 ? null : gravest(passes.kinds[any]);
  return (
    <>
      {nan >= 0 && button(nan, 'nonfinite', 'First with NaN')}
      {kind !== null && any !== nan && button(any, kind, 'First with a finding')}
    </>
  );
}

/** What the bars are as high as. */
export function HeightSwitch({ passes }: { passes: Passes }): ReactElement | null {
  const presenter = useInspector();
  const by = useCell(presenter.heights);
  if (passes.ids.length < 2) {
    return null;
  }
  return (
    <button
      type="button"
      className="agv-step agv-heights"
      aria-label={`Height of the bars of passes: ${by === 'time' ? 'duration' : 'gradient norm'}`}
      title="What the bars are as high as: the logarithm of the gradient's norm, or the duration"
      onClick={() => presenter.heights.set(by === 'time' ? 'gradient' : 'time')}
    >
      {by === 'time' ? 'ms' : '|g|'}
    </button>
  );
}
