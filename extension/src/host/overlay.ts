// Over a notebook whose cell stands still in a backward pass: it says so, and how to go on.

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Disposable } from '../protocol/signal';

export const OVERLAY = 'ag-paused-overlay';

export interface Choice {
  label: string;
  keys: string;
  run: () => void;
}

/** Shows the bar at the top of a notebook until it is disposed. */
export function pausedOverlay(notebook: NotebookPanel, choices: readonly Choice[]): Disposable {
  const bar = document.createElement('div');
  bar.className = OVERLAY;
  bar.setAttribute('role', 'status');
  const words = document.createElement('span');
  words.textContent = 'Paused in a backward pass';
  bar.append(words);
  for (const { label, keys, run } of choices) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = label;
    button.title = keys === '' ? label : `${label} (${keys})`;
    button.addEventListener('click', run);
    bar.append(button);
  }
  notebook.node.append(bar);
  return { dispose: () => bar.remove() };
}
