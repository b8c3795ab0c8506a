// @vitest-environment jsdom
// Ten thousand training steps: memory stays flat, the Inspector still answers, and it says what it
// has forgotten.

import { act } from 'react';
import { afterEach, beforeAll, expect, it } from 'vitest';
import { InspectorModel } from '../../src/model/inspector';
import { LIMITS } from '../../src/model/store';
import { FakeKernel } from '../synthetic/fake_kernel';
import { close, furnish, open } from './page';

const STEPS = 10_000;
const KEPT_NODES = 12_000;

beforeAll(furnish);
afterEach(close);

it('keeps memory flat over 10,000 steps and says what it forgot', async () => {
  const kernel = new FakeKernel();
  const model = new InspectorModel({ ...LIMITS, nodes: KEPT_NODES, writes: KEPT_NODES });
  const page = await open(kernel, { model });
  const { store } = model;
  let peak = 0;
  let early = 0;
  for (let step = 1; step <= STEPS; step++) {
    kernel.train();
    expect(store.nodes.rows).toBeLessThanOrEqual(KEPT_NODES);
    peak = Math.max(peak, store.bytes);
    if (step === STEPS / 2) early = peak;
    // The page draws meanwhile, as it does beside a loop that runs.
    if (step % 1000 === 0) await page.settle();
  }
  await page.settle(200);

  expect(peak).toBe(early);
  const perStep = 6;
  expect(store.forgotten.steps).toBe(STEPS - store.nodes.rows / perStep);
  const said = store.forgotten.steps.toLocaleString('en-US');
  expect(page.text('.agv-time-head')).toContain(`oldest ${said} steps forgotten`);
  // Tasks are forgotten with their nodes: what is listed can be shown.
  expect(model.tasks.length).toBe(store.nodes.rows / perStep);

  const newest = model.graph.task;
  await act(async () => model.showNeighbour(-1));
  await page.settle();
  expect(model.graph.task).toBe((newest ?? 0) - 1);
  expect(model.graph.seqs.length).toBe(perStep);
  await page.press('ArrowDown');
  expect(page.text('.agv-det h3')).toContain('Backward0');
});
