// Keys that are pressed in a cell's output are the output's: a notebook that hears of them first
// (Notebook 7 does) would cut the cell at X and put one above it at A.

import type { Disposable } from '../protocol/signal';

/** Lumino looks for no shortcut where what has the focus has this. */
const KEPT = 'data-lm-suppress-shortcuts';

/** Ctrl+S and Shift+Enter stay the notebook's. */
function plain({ ctrlKey, metaKey, altKey, shiftKey, key }: KeyboardEvent): boolean {
  return !(ctrlKey || metaKey || altKey || (shiftKey && key === 'Enter'));
}

export function keepKeys(element: HTMLElement): Disposable {
  const view = element.ownerDocument.defaultView;
  // The window hears of a key before the document does.
  const decide = (event: KeyboardEvent): void => {
    const target = event.target as Element;
    if (element.contains(target)) target.toggleAttribute(KEPT, plain(event));
  };
  view?.addEventListener('keydown', decide, true);
  return { dispose: () => view?.removeEventListener('keydown', decide, true) };
}
