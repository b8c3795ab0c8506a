// A page for the panels: jsdom with the few things it lacks, and a mounted Inspector.

import { act } from 'react';
import type { InspectorHandle, InspectorOptions } from '../../src/panels/index';
import { mountInspector } from '../../src/panels/index';
import type { Controller } from '../../src/protocol/controller';
import { fakeContext } from '../draw/context';

class NoObserver {
  observe(): void {}
  disconnect(): void {}
}

/** Adds what jsdom has not: canvases, resize observers, media queries, style sheets as objects. */
export function furnish(): void {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true, ResizeObserver: NoObserver });
  Object.assign(document, { adoptedStyleSheets: [] });
  HTMLElement.prototype.scrollIntoView = () => {};
  CSSStyleSheet.prototype.replaceSync = () => {};
  window.matchMedia = query =>
    ({
      matches: query.includes('reduce'),
      addEventListener() {},
      removeEventListener() {}
    }) as unknown as MediaQueryList;
  HTMLCanvasElement.prototype.getContext = (() =>
    fakeContext().ctx) as unknown as HTMLCanvasElement['getContext'];
  Object.defineProperty(HTMLElement.prototype, 'clientWidth', {
    configurable: true,
    get: () => 1040
  });
  Object.defineProperty(HTMLElement.prototype, 'clientHeight', {
    configurable: true,
    get: () => 840
  });
}

export interface Page {
  element: HTMLElement;
  handle: InspectorHandle;
  /** lets batches, frames and answers arrive */
  settle(milliseconds?: number): Promise<void>;
  text(selector?: string): string;
  button(name: string): HTMLButtonElement;
  click(name: string): Promise<void>;
  press(key: string, target?: Element): Promise<void>;
}

const opened: InspectorHandle[] = [];

export function settle(milliseconds = 60): Promise<void> {
  return act(() => new Promise<void>(resolve => setTimeout(resolve, milliseconds)));
}

/** Takes all Inspectors off the page. */
export async function close(): Promise<void> {
  await act(async () => opened.splice(0).forEach(handle => handle.dispose()));
}

export async function open(controller: Controller, options: InspectorOptions = {}): Promise<Page> {
  const element = document.createElement('div');
  document.body.replaceChildren(element);
  let handle: InspectorHandle | undefined;
  await act(async () => {
    handle = mountInspector(element, controller, options);
  });
  opened.push(handle as InspectorHandle);
  await settle();
  const button = (name: string): HTMLButtonElement => {
    const found = [...element.querySelectorAll('button')].find(
      candidate =>
        candidate.textContent?.trim().startsWith(name) ||
        candidate.getAttribute('aria-label') === name
    );
    if (!found) {
      throw new Error(
        `no button '${name}' among ` +
          [...element.querySelectorAll('button')].map(b => b.textContent).join(' | ')
      );
    }
    return found;
  };
  return {
    element,
    handle: handle as InspectorHandle,
    settle,
    text: selector => (selector ? element.querySelector(selector) : element)?.textContent ?? '',
    button,
    click: async name => {
      await act(async () => button(name).click());
      await settle();
    },
    press: async (key, target = element.querySelector('.agv-graph') ?? element) => {
      await act(async () => {
        target.dispatchEvent(
          new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true })
        );
      });
      await settle();
    }
  };
}
