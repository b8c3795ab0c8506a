// @vitest-environment jsdom
// What fails in one part of the panel leaves the others alone, and can be tried again.

import { act } from 'react';
import { afterEach, beforeAll, expect, it, vi } from 'vitest';
import { FakeKernel } from '../synthetic/fake_kernel';
import { close, furnish, open } from './page';

beforeAll(furnish);
afterEach(async () => {
  await close();
  vi.restoreAllMocks();
});

it('says what failed in its place, goes on with the rest, and tries again', async () => {
  const logged = vi.spyOn(console, 'error').mockImplementation(() => undefined);
  const canvas = vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockReturnValue(null);
  const kernel = new FakeKernel();
  const page = await open(kernel);
  const failed = '.agv-graph.agv-failed';
  expect(page.text(failed)).toContain(
    'This part of the panel failed: the graph: This browser gives no 2D canvas.'
  );
  const said = logged.mock.calls.map(([text]) => text as unknown);
  expect(said).toContain('AG Visual Inspector: the graph failed.');
  await page.click('Record');
  await act(async () => kernel.train());
  await page.settle();
  expect(page.text('.agv-pill')).toBe('Recording');
  expect(page.text('.agv-time-head')).toContain('6 nodes, 2 leaves');
  await page.click('Outline');
  expect(page.text('.agv-side')).toContain('MeanBackward0');
  await page.click('Try again');
  expect(page.element.querySelector(failed)).not.toBeNull();
  canvas.mockRestore();
  await page.click('Try again');
  expect(page.element.querySelector(failed)).toBeNull();
  expect(page.element.querySelector('.agv-graph canvas')).not.toBeNull();
});

it('shows text of an error as text', async () => {
  vi.spyOn(console, 'error').mockImplementation(() => undefined);
  vi.spyOn(HTMLCanvasElement.prototype, 'getContext').mockImplementation(() => {
    throw new Error('<img src=x onerror=alert(1)>');
  });
  const page = await open(new FakeKernel());
  expect(page.text('.agv-failed')).toContain('<img src=x');
  expect(page.element.querySelector('img')).toBeNull();
});
