// @vitest-environment jsdom
// How often a graph is laid out: once for all that came together, never for what changes no shape.

import { act } from 'react';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { LayoutRunner } from '../../src/layout/run';
import { InspectorModel } from '../../src/model/inspector';
import { OfflineController } from '../../src/model/offline';
import { FakeKernel } from '../synthetic/fake_kernel';
import { rnn } from '../synthetic/recordings';
import { close, furnish, open } from './page';

beforeAll(furnish);

afterEach(async () => {
  await close();
  vi.restoreAllMocks();
});

describe('a node in a closed group', () => {
  it('stands in view when it was searched for, with the view on its way or still', async () => {
    const still = window.matchMedia;
    // jsdom counts frames from another moment than performance.now() does.
    vi.stubGlobal('requestAnimationFrame', (run: FrameRequestCallback) =>
      setTimeout(() => run(performance.now()), 5)
    );
    vi.stubGlobal('cancelAnimationFrame', clearTimeout);
    for (const matches of [true, false]) {
      window.matchMedia = query => ({ ...still(query), matches });
      const controller = new OfflineController(rnn(100));
      const model = new InspectorModel();
      controller.fill(model);
      const page = await open(controller, { model });
      expect(model.view.folds.some(fold => fold !== null)).toBe(true);
      const input = page.element.querySelector('.agv-search input') as HTMLInputElement;
      const setter = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set;
      await act(async () => {
        setter?.call(input, 'tanh');
        input.dispatchEvent(new Event('input', { bubbles: true }));
      });
      await page.settle(120);
      for (const shiftKey of [true, false]) {
        const enter = { key: 'Enter', shiftKey, bubbles: true, cancelable: true };
        await act(async () => input.dispatchEvent(new KeyboardEvent('keydown', enter)));
        await page.settle();
        const found = model.selected ?? -1;
        await vi.waitUntil(() => page.handle.placeOf(found), { timeout: 60_000, interval: 20 });
        const place = page.handle.placeOf(found);
        const { left, right, top, bottom } = place as DOMRect;
        expect([left >= 0, right <= 1040, top >= 0, bottom <= 840]).toEqual(Array(4).fill(true));
      }
      await close();
    }
    window.matchMedia = still;
    vi.unstubAllGlobals();
  });
});

describe('a live graph', () => {
  it('is laid out once for the batches of one pass, and not again while it runs', async () => {
    const layouts = vi.spyOn(LayoutRunner.prototype, 'atOnce');
    const kernel = new FakeKernel();
    const page = await open(kernel);
    await act(async () => {
      kernel.begin();
      kernel.flush();
      kernel.flush();
    });
    await page.settle();
    expect(layouts).toHaveBeenCalledTimes(1);
    for (let i = 0; i < 3; i++) await page.press('F10');
    expect(layouts).toHaveBeenCalledTimes(1);
  });
});
