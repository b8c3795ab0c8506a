// The keys of the Time mode: what they do, in one table.

import type { Presenter } from '../presenter';

const ZOOM = 1.3;
const MOVE = 0.15;

export interface TimeKey {
  shown: string;
  does: string;
  keys: string[];
  run: (presenter: Presenter) => void;
}

export const TIME_KEYS: TimeKey[] = [
  { shown: 'W', does: 'Closer', keys: ['w', '+', '='], run: p => p.timing.canvas?.zoomBy(ZOOM) },
  { shown: 'S', does: 'Farther', keys: ['s', '-'], run: p => p.timing.canvas?.zoomBy(1 / ZOOM) },
  { shown: 'A', does: 'Earlier', keys: ['a'], run: p => p.timing.canvas?.panBy(-MOVE) },
  { shown: 'D', does: 'Later', keys: ['d'], run: p => p.timing.canvas?.panBy(MOVE) },
  {
    shown: 'F',
    does: 'Fit what is chosen into the view; without a choice all',
    keys: ['f'],
    run: p => p.timing.canvas?.fit(p.timing.part)
  },
  { shown: 'space', does: 'Show all', keys: [' '], run: p => p.timing.canvas?.fit(null) },
  {
    shown: 'G',
    does: 'Group by thread, module, line',
    keys: ['g'],
    run: p => p.timing.nextLanes()
  },
  {
    shown: 'L',
    does: 'Follow the running program, or no longer',
    keys: ['l'],
    run: p => p.timing.follow(!p.timing.following.value)
  },
  { shown: 'P', does: 'What held memory at its peak', keys: ['p'], run: p => p.timing.peak() },
  { shown: 'M', does: 'Mark what is chosen on the ruler', keys: ['m'], run: p => p.timing.mark() },
  { shown: '/', does: 'Find slices by name', keys: ['/'], run: p => p.timing.focusSearch() },
  {
    shown: 'arrows',
    does: 'The slice before, after, around, inside',
    keys: ['ArrowLeft'],
    run: p => p.timing.move('before')
  },
  { shown: '', does: '', keys: ['ArrowRight'], run: p => p.timing.move('after') },
  { shown: '', does: '', keys: ['ArrowUp'], run: p => p.timing.move('out') },
  { shown: '', does: '', keys: ['ArrowDown'], run: p => p.timing.move('in') },
  {
    shown: 'Enter',
    does: 'Go to the node of the slice',
    keys: ['Enter'],
    run: p => p.timing.selected.value !== null && p.timing.toNode(p.timing.selected.value)
  },
  {
    shown: 'Escape',
    does: 'Choose nothing',
    keys: ['Escape'],
    run: ({ timing }) => {
      if (timing.moment.value) timing.moment.set(null);
      else if (timing.span.value) timing.span.set(null);
      else timing.select(null);
    }
  },
  { shown: 'X', does: 'Back to the graph', keys: ['x'], run: p => p.timing.show(false) },
  { shown: '?', does: 'These keys', keys: ['?'], run: p => p.helpOpen.set(true) }
];

/** Keys that work wherever the focus is. */
const EVERYWHERE = new Set(['?', '/', 'Escape']);

/** Takes a key that was pressed in the Time mode; true when it was one of these. */
export function timeKey(presenter: Presenter, pressed: string, onTimeline: boolean): boolean {
  const plain = pressed.length === 1 ? pressed.toLowerCase() : pressed;
  const key = TIME_KEYS.find(({ keys }) => keys.includes(plain));
  if (!key || !(onTimeline || EVERYWHERE.has(pressed))) {
    return false;
  }
  key.run(presenter);
  return true;
}
