// @vitest-environment jsdom
// Where the reader is taken: the side at its top for what is new in it, the graph at a zoom that
// can be read.

import { act } from 'react';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { OfflineController } from '../../src/model/offline';
import { InspectorModel } from '../../src/model/inspector';
import { FakeKernel } from '../synthetic/fake_kernel';
import { rnn } from '../synthetic/recordings';
import type { Page } from './page';
import { close, furnish, open } from './page';

beforeAll(furnish);
afterEach(close);

describe('the side', () => {
  const side = (page: Page): HTMLElement =>
    page.element.querySelector('.agv-side .agv-scroll') as HTMLElement;

  it('begins at its top for another tab, another node and the next one of a pause', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    await act(async () => kernel.begin());
    await page.settle();
    side(page).scrollTop = 300;
    await page.press('F10');
    expect(page.text('.agv-det h3')).toBe('PowBackward0');
    expect(side(page).scrollTop).toBe(0);
    side(page).scrollTop = 300;
    await page.press('ArrowDown');
    expect(side(page).scrollTop).toBe(0);
    side(page).scrollTop = 300;
    await page.click('Tensors');
    expect(side(page).scrollTop).toBe(0);
  });

  it('stays where it is while what it speaks of goes on', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    await act(async () => kernel.begin());
    await page.settle();
    await page.click('Outline');
    side(page).scrollTop = 300;
    await act(async () => page.handle.model.select(page.handle.model.graph.seqs[3]));
    await page.settle();
    expect(side(page).scrollTop).toBe(300);
    await page.click('Node');
    side(page).scrollTop = 200;
    await page.press('b');
    expect(side(page).scrollTop).toBe(200);
  });

  it('stays at the same node of the next turn of a loop', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    const { model } = page.handle;
    const chosen = async (): Promise<void> => {
      await act(async () => model.select(model.graph.seqs[1]));
      await page.settle();
    };
    await act(async () => kernel.train());
    await page.settle();
    await chosen();
    side(page).scrollTop = 300;
    const before = model.selected;
    await act(async () => kernel.train());
    await page.settle(120);
    await chosen();
    expect(model.selected).not.toBe(before);
    expect(side(page).scrollTop).toBe(300);
  });
});

describe('the graph', () => {
  it('is shown anew when all groups are opened or closed', async () => {
    const controller = new OfflineController(rnn(60));
    const model = new InspectorModel();
    controller.fill(model);
    const page = await open(controller, { model });
    const width = (): number => page.handle.placeOf(model.view.seqs[0])?.width ?? NaN;
    await page.press('C');
    const closed = width();
    expect(closed).toBeGreaterThan(60);
    await page.press('O');
    expect(width()).toBeGreaterThan(60);
    await page.press(' ');
    await page.settle(400);
    expect(width()).toBeLessThan(20);
    await page.press('C');
    await page.settle(400);
    expect(width()).toBeCloseTo(closed, 0);
    // Once more, where nothing is left to close: it is the reader's way back to the whole.
    for (let i = 0; i < 8; i++) await page.press('-');
    expect(width()).toBeLessThan(60);
    await page.press('C');
    await page.settle(400);
    expect(width()).toBeCloseTo(closed, 0);
  });
});
