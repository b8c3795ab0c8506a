// Which theme the host shows: told by the caller, or read from JupyterLab, VS Code or the system.

import type { Theme } from '../protocol/controller';
import type { Disposable } from '../protocol/signal';

function hostTheme(body: HTMLElement): Theme {
  const { jpThemeLight } = body.dataset;
  if (jpThemeLight !== undefined) {
    return jpThemeLight === 'false' ? 'dark' : 'light';
  }
  if (/\bvscode-(dark|light|high-contrast)\b/.test(body.className)) {
    return body.className.includes('vscode-light') ? 'light' : 'dark';
  }
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

/**
 * Calls `set` now and whenever the theme changes, and `repaint` when colours changed without it.
 */
export function watchTheme(
  element: HTMLElement,
  wanted: Theme | 'auto',
  set: (theme: Theme) => void,
  repaint: () => void
): Disposable {
  const { body } = element.ownerDocument;
  const read = (): void => {
    set(wanted === 'auto' ? hostTheme(body) : wanted);
    // The host swaps its style sheets after it names the theme: look again when they have arrived.
    repaint();
    setTimeout(repaint, 250);
  };
  const observer = new MutationObserver(read);
  observer.observe(body, {
    attributes: true,
    attributeFilter: ['data-jp-theme-light', 'data-jp-theme-name', 'class']
  });
  const media = matchMedia('(prefers-color-scheme: dark)');
  media.addEventListener('change', read);
  read();
  return {
    dispose: () => {
      observer.disconnect();
      media.removeEventListener('change', read);
    }
  };
}
