// @vitest-environment jsdom
// Where the reader is taken: the side at its top for what is new in it.

import { act } from 'react';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { FakeKernel } from '../synthetic/fake_kernel';
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
