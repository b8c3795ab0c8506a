// All keys in one table: what they do, and the sheet that lists them.

import type { KeyboardEvent, ReactElement } from 'react';
import { useEffect, useRef } from 'react';
import type { Control } from '../protocol/schema';
import { nextDirection } from '../model/drawing';
import type { GraphCanvas } from '../draw/graph_canvas';
import { bookmarkKey } from './bookmarks';
import type { Presenter } from './presenter';
import { useCell, usePresenter } from './presenter';
import { TIME_KEYS, timeKey } from './profile/keys';

const PAN = 60;

interface Key {
  shown: string;
  does: string;
  keys: string[];
  run: (presenter: Presenter) => void;
}

const move =
  (direction: 'up' | 'down' | 'left' | 'right') =>
  ({ model, canvas }: Presenter): void => {
    model.move(direction, canvas?.across);
    const box = model.selectedBox();
    const seq = box >= 0 ? model.view.seqs[box] : model.selected;
    if (seq !== null) canvas?.reveal(seq);
  };

/** What is larger or smaller: the graph, or the drawing of its numbers. */
const zoomed = ({ canvas, numbers }: Presenter): Pick<GraphCanvas, 'fit' | 'zoomBy'> | null =>
  canvas ?? numbers;

const KEYS: Key[] = [
  { shown: 'F8', does: 'Pause before the next node', keys: ['F8'], run: p => p.debugger.pause() },
  { shown: 'F9', does: 'Continue', keys: ['F9'], run: p => p.debugger.continue() },
  {
    shown: 'F10',
    does: 'Step over: a node or a closed group',
    keys: ['F10'],
    run: p => p.debugger.step()
  },
  { shown: 'F11', does: 'Step into: one node', keys: ['F11'], run: p => p.debugger.stepInto() },
  {
    shown: 'Shift F11',
    does: 'Step out of the group',
    keys: ['Shift F11'],
    run: p => p.debugger.stepOut()
  },
  {
    shown: 'P',
    does: 'Run to the next problem',
    keys: ['p'],
    run: p => p.debugger.stepToProblem()
  },
  { shown: 'H', does: 'Show the node that waits', keys: ['h'], run: p => p.debugger.showCurrent() },
  {
    shown: 'G',
    does: 'Run to the selected node',
    keys: ['g'],
    run: p => p.debugger.runToSelected()
  },
  {
    shown: 'B',
    does: 'Breakpoint on the selected node',
    keys: ['b'],
    run: p => p.model.selected !== null && p.debugger.toggleBreakpoint(p.model.selected)
  },
  {
    shown: 'K',
    does: 'Play, or stop playing',
    keys: ['k'],
    run: p => p.teaching.player.toggle()
  },
  {
    shown: 'Q',
    does: 'Predict each gradient, or stop that',
    keys: ['q'],
    run: p => p.teaching.setPredict(!p.teaching.predictor.on)
  },
  {
    shown: 'X',
    does: 'Draw every number, or nodes',
    keys: ['x'],
    run: p => p.teaching.setScalars(!p.teaching.scalars)
  },
  { shown: ', and .', does: 'One event back or on', keys: [','], run: p => p.debugger.scrubBy(-1) },
  { shown: '', does: '', keys: ['.'], run: p => p.debugger.scrubBy(1) },
  {
    shown: 'arrows',
    does: 'Along the edges (in the timeline: through time)',
    keys: ['ArrowUp'],
    run: move('up')
  },
  { shown: '', does: '', keys: ['ArrowDown'], run: move('down') },
  { shown: '', does: '', keys: ['ArrowLeft'], run: move('left') },
  { shown: '', does: '', keys: ['ArrowRight'], run: move('right') },
  {
    shown: 'Enter',
    does: 'Show the source line; open a group',
    keys: ['Enter'],
    run: p =>
      p.model.group
        ? p.foldSelected(true)
        : p.model.selected !== null && p.open(p.model.selected)
  },
  {
    shown: 'C',
    does: 'Close the group around the node, or the transpose',
    keys: ['c'],
    run: p => p.foldSelected(false)
  },
  {
    shown: 'O',
    does: 'Open the chosen group, or badge with ᵀ',
    keys: ['o'],
    run: p => p.foldSelected(true)
  },
  {
    shown: 'Shift C, Shift O',
    does: 'Close or open all groups',
    keys: ['C'],
    run: p => p.foldAll(false)
  },
  { shown: '', does: '', keys: ['O'], run: p => p.foldAll(true) },
  {
    shown: '/ or Ctrl F',
    does: 'Find a node, a line or a tensor',
    keys: ['/'],
    run: p => p.focusSearch()
  },
  { shown: 'N, Shift N', does: 'Next or previous find', keys: ['n'], run: p => hit(p, 1) },
  { shown: '', does: '', keys: ['N'], run: p => hit(p, -1) },
  {
    shown: 'T',
    does: 'Turn the graph: forward or backward direction',
    keys: ['t'],
    run: p => p.draw({ upward: !p.model.drawing.upward })
  },
  {
    shown: 'Shift T',
    does: 'Direction of the edges: auto, down or right',
    keys: ['T'],
    run: p => p.draw({ direction: nextDirection(p.model.drawing.direction) })
  },
  { shown: 'space', does: 'Show the whole graph', keys: [' '], run: p => zoomed(p)?.fit() },
  {
    shown: 'F',
    does: 'Show the selected node',
    keys: ['f'],
    run: p => p.model.selected !== null && p.canvas?.reveal(p.model.selected)
  },
  { shown: '1 to 9', does: 'Go to a bookmarked view', keys: [], run: () => undefined },
  {
    shown: 'Shift 1 to Shift 9',
    does: 'Bookmark this view',
    keys: [],
    run: () => undefined
  },
  {
    shown: '+ and −',
    does: 'Larger, smaller',
    keys: ['+', '='],
    run: p => zoomed(p)?.zoomBy(1.25)
  },
  { shown: '', does: '', keys: ['-'], run: p => zoomed(p)?.zoomBy(0.8) },
  { shown: 'W A S D', does: 'Move the view', keys: ['w'], run: p => p.canvas?.panBy(0, PAN) },
  { shown: '', does: '', keys: ['s'], run: p => p.canvas?.panBy(0, -PAN) },
  { shown: '', does: '', keys: ['a'], run: p => p.canvas?.panBy(PAN, 0) },
  { shown: '', does: '', keys: ['d'], run: p => p.canvas?.panBy(-PAN, 0) },
  {
    shown: 'Escape',
    does: 'Back to now; then select nothing',
    keys: ['Escape'],
    run: p => escape(p)
  },
  {
    shown: '?',
    does: 'These keys',
    keys: ['?'],
    run: p => p.helpOpen.set(true)
  }
];

/** Keys that work everywhere in the panel; the others need the focus on the graph. */
const EVERYWHERE = new Set(['F8', 'F9', 'F10', 'F11', '?', 'Escape', '/']);

function hit(presenter: Presenter, direction: 1 | -1): void {
  presenter.model.nextHit(direction);
  if (presenter.model.selected !== null) presenter.canvas?.reveal(presenter.model.selected);
}

function escape(presenter: Presenter): void {
  const { model } = presenter;
  if (presenter.notice.value) presenter.clearNotice();
  else if (model.cursor !== null) model.scrub(null);
  else model.select(null);
}

/** A lesson that hides one of these controls takes its keys away, too. */
const BELONGS: Partial<Record<Control, string[]>> = {
  pause: ['F8'],
  continue: ['F9'],
  step: ['F10', 'F11', 'Shift F11', 'p', 'g'],
  breakpoints: ['b'],
  play: ['k'],
  predict: ['q'],
  scalars: ['x'],
  timeline: [',', '.'],
  groups: ['c', 'o', 'C', 'O'],
  search: ['/', 'n', 'N'],
  zoom: [' ', 'f', '+', '=', '-', 't', 'T'],
  keys: ['?']
};

function isOff(presenter: Presenter, { keys }: Key): boolean {
  return presenter.teaching.lesson.hide.some(control =>
    BELONGS[control as Control]?.some(key => keys.includes(key))
  );
}

/** Handles a key that no panel inside took; true when it was one of ours. */
export function handleKey(presenter: Presenter, event: KeyboardEvent): boolean {
  const timed = presenter.timing.shown.value;
  if ((event.ctrlKey || event.metaKey) && event.key === 'f' && !presenter.hides('search')) {
    if (timed) presenter.timing.focusSearch();
    else presenter.focusSearch();
    return true;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return false;
  }
  const target = event.target as HTMLElement;
  if (target.closest('input, textarea, select')) {
    return false;
  }
  if (timed) {
    const onTimeline = target.dataset.agvKeys === 'time' || target === event.currentTarget;
    return timeKey(presenter, event.key, onTimeline);
  }
  // The whole panel has the focus after a click on its ground: then its keys are the graph's.
  const inGraph = target.dataset.agvKeys === 'graph' || target === event.currentTarget;
  const pressed = event.shiftKey && event.key === 'F11' ? 'Shift F11' : event.key;
  if (inGraph && bookmarkKey(presenter, event)) {
    return true;
  }
  const key = KEYS.find(({ keys }) => keys.includes(pressed));
  if (!key || !(inGraph || EVERYWHERE.has(event.key)) || isOff(presenter, key)) {
    return false;
  }
  key.run(presenter);
  return true;
}

export function KeysSheet(): ReactElement | null {
  const presenter = usePresenter();
  const sheet = useRef<HTMLDivElement>(null);
  const helpOpen = useCell(presenter.helpOpen);
  const timed = useCell(presenter.timing.shown);
  useEffect(() => {
    if (helpOpen) sheet.current?.focus();
  }, [helpOpen]);
  if (!helpOpen) {
    return null;
  }
  const close = (): void => {
    presenter.helpOpen.set(false);
  };
  const sheetKeys = timed
    ? TIME_KEYS.filter(one => one.shown)
    : KEYS.filter(one => one.shown && !isOff(presenter, one));
  return (
    <div className="agv-help" onClick={close}>
      <div
        ref={sheet}
        role="dialog"
        aria-label="Keys"
        tabIndex={-1}
        onClick={event => event.stopPropagation()}
        onKeyDown={event => {
          if (event.key === 'Escape' || event.key === '?') {
            close();
            event.stopPropagation();
          }
        }}
      >
        <h2>Keys</h2>
        <table>
          <tbody>
            {sheetKeys.map(({ shown, does }) => (
              <tr key={shown}>
                <td>{shown}</td>
                <td>{does}</td>
              </tr>
            ))}
          </tbody>
        </table>
        <div className="agv-row">
          <button type="button" className="agv-btn" onClick={close}>
            Close
          </button>
        </div>
      </div>
    </div>
  );
}
