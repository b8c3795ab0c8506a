// The keyboard's focus stays in the panel: where a focused button is replaced or disabled by what
// it does, the graph has the focus, so that its keys go on.

import type { Disposable } from '../protocol/signal';

/** Still where the focus can be. */
function there(root: HTMLElement, element: HTMLElement): boolean {
  return root.contains(element) && !element.matches(':disabled') && !element.closest('[hidden]');
}

/** What takes the keys of the graph: the graph, or a number of the drawing by numbers. */
function takesKeys(root: HTMLElement): HTMLElement {
  return root.querySelector<HTMLElement>('[data-agv-keys][tabindex="0"]') ?? root;
}

export function keepFocus(root: HTMLElement): Disposable {
  let held: HTMLElement | null = null;
  let frame = 0;
  const check = (): void => {
    frame = 0;
    const { activeElement: active } = root.getRootNode() as Document | ShadowRoot;
    const nowhere = !active || active === root.ownerDocument.body || active === held;
    if (held && nowhere && !there(root, held)) takesKeys(root).focus({ preventScroll: true });
    else if (active !== held) held = null;
  };
  // A frame later: a menu, or whoever else replaced the element, may know a better place.
  const checkSoon = (): void => {
    if (!frame) frame = requestAnimationFrame(check);
  };
  const take = ({ target }: FocusEvent): void => {
    held = target as HTMLElement;
  };
  root.addEventListener('focusin', take);
  root.addEventListener('focusout', checkSoon);
  const observer = new MutationObserver(() => {
    if (held && !there(root, held)) checkSoon();
  });
  observer.observe(root, {
    subtree: true,
    childList: true,
    attributes: true,
    attributeFilter: ['disabled', 'hidden']
  });
  return {
    dispose: () => {
      root.removeEventListener('focusin', take);
      root.removeEventListener('focusout', checkSoon);
      observer.disconnect();
      cancelAnimationFrame(frame);
    }
  };
}
