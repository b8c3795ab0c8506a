// @vitest-environment jsdom
// Where the reader is taken: the side at its top for what is new in it, the graph at a zoom that
// can be read.

import { act } from 'react';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { OfflineController } from '../../src/model/offline';
import { InspectorModel } from '../../src/model/inspector';
import { FakeKernel } from '../synthetic/fake_kernel';
import { Program } from '../synthetic/program';
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

describe('a failure', () => {
  const notice = (page: Page): string => page.text('.agv-notice');

  it('brings its node into view, at a zoom at which it can be read', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    const { program } = kernel;
    let x = program.leaf('x', [4]);
    for (let i = 0; i < 140; i++) x = program.op('MulBackward0', 1 + (i % 2), [x], [4]);
    const deep = x - 130;
    program.backward(x, 3);
    await act(async () => kernel.fail(deep, 4));
    await page.settle(400);
    expect(page.handle.model.selected).toBe(deep);
    expect(page.element.querySelector('.agv-root')?.getAttribute('data-agv-tab')).toBe('problems');
    const box = page.handle.placeOf(deep);
    expect(box?.top).toBeGreaterThan(0);
    expect(box?.bottom).toBeLessThan(840);
    expect(box?.width).toBeGreaterThan(60);
    expect(notice(page)).toBe('');
  });

  it('that was not recorded says that the graph is an earlier one', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    await act(async () => kernel.train());
    await page.settle();
    await act(async () => kernel.fail(999, 8));
    await page.settle();
    expect(notice(page)).toBe(
      'This graph is an earlier one, of In[6] line 3, not what failed at In[8] line 3. ' +
        'What failed was not recorded: record, then run the cell again.'
    );
    await page.click('Record');
    await act(async () => {
      const newer = new Program(['z = x'], 9, kernel.program.writer);
      const { writer } = newer;
      const site = writer.site(newer.site(1));
      const about = { task: 5000, t: writer.t, site, total: 1, retain: 0, thread: 0 };
      writer.row('tasks', { ...about, ended: 1, root: kernel.program.last });
      kernel.flush();
    });
    await page.settle();
    expect(notice(page)).toBe('');
  });
});
