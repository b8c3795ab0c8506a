// @vitest-environment jsdom
// How often a graph is laid out: once for all that came together, never for what changes no shape.

import { act } from 'react';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { LayoutRunner } from '../../src/layout/run';
import { FakeKernel } from '../synthetic/fake_kernel';
import { close, furnish, open } from './page';

beforeAll(furnish);

afterEach(async () => {
  await close();
  vi.restoreAllMocks();
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
