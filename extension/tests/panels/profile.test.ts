// @vitest-environment jsdom
import { Blob as FileBlob } from 'node:buffer';
import { act } from 'react';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { OfflineController } from '../../src/model/offline';
import { InspectorModel } from '../../src/model/inspector';
import type { HeatMark } from '../../src/protocol/controller';
import { ProfileAlone } from '../../src/model/profile/alone';
import { FakeKernel } from '../synthetic/fake_kernel';
import { rnn } from '../synthetic/recordings';
import type { Page } from './page';
import { close, furnish, open } from './page';
import type { Row } from '../synthetic/profiles';
import { pieceOf, slice, traceText, training } from '../synthetic/profiles';

beforeAll(furnish);
afterEach(close);

const HOSTILE = '<img src=x onerror=alert(1)>\u202ename';

function file(text: string): Blob {
  return new FileBlob([text]) as unknown as Blob;
}

async function shown(text: string): Promise<Page> {
  const page = await open(new ProfileAlone('a.trace.json'), {
    profile: { file: file(text), name: 'a.trace.json' }
  });
  for (let i = 0; i < 100 && !page.element.querySelector('section h2, [role=alert]'); i++) {
    await page.settle();
  }
  await page.settle();
  return page;
}

function column(page: Page, which: number): string[] {
  return [...page.element.querySelectorAll('.agv-timing-table tbody tr')].map(
    row => row.children[which].textContent ?? ''
  );
}

test('a trace opens without a kernel: sums, sorting, search, text as text', async () => {
  const page = await shown(traceText([...training(3), slice(HOSTILE, 400, 5)]));
  expect(page.text('.agv-timing-head')).toContain('a.trace.json: 19 slices');
  expect(column(page, 0)).toContain('<img src=x onerror=alert(1)> name');
  expect(page.element.querySelector('img')).toBeNull();
  expect(column(page, 0)[0]).toBe('aten::mul');
  expect(column(page, 3)[0]).toBe('6');
  await page.click('Count');
  expect(column(page, 3)).toEqual(['6', '3', '3', '3', '1']);
  await page.click('Count');
  expect(column(page, 3)[0]).toBe('1');
  await page.click('MulBackward0');
  expect(page.text('.agv-found')).toBe('6');
  const [first] = page.element.querySelectorAll('th[aria-sort=ascending]');
  expect(first.textContent).toContain('Count');
});

test('slices are walked with the keys, each told in words', async () => {
  const page = await shown(traceText(training(3)));
  const area = page.element.querySelector('[data-agv-keys=time]') as HTMLElement;
  await page.press('ArrowRight', area);
  expect(page.text('.agv-timing-chosen h2')).toBe('ProfilerStep#0');
  await page.press('ArrowDown', area);
  await page.press('ArrowDown', area);
  expect(page.text('.agv-timing-chosen')).toMatch(/^aten::mulTotal20 µsSelf20 µs/);
  await page.click('autograd::engine');
  expect(page.text('.agv-timing-chosen')).toContain('Backward ofaten::mul');
  await page.press('w', area);
  await page.press('f', area);
  await page.press('m', area);
  await page.press('Escape', area);
  expect(page.element.querySelector('.agv-timing-chosen')).toBeNull();
  await page.press('?', area);
  expect(page.text('.agv-help')).toContain('Find slices by name');
});

test('what is cut short is shown and said; what is no trace is refused in words', async () => {
  const page = await shown(traceText(training(3)).slice(0, -90));
  expect(page.text('.agv-timing-notices')).toContain('cut short: the 17 slices');
  await close();
  const none = await shown('Dear reader');
  expect(none.text('[role=alert]')).toContain('not a Chrome trace');
});

test('the times of a recording: slices lead to nodes and nodes to slices', async () => {
  const controller = new OfflineController(rnn(10));
  const model = new InspectorModel();
  controller.fill(model);
  const page = await open(controller, { model });
  await page.click('Time');
  await page.settle();
  const area = page.element.querySelector('[data-agv-keys=time]') as HTMLElement;
  expect(page.text('.agv-timing-head')).toContain('This recording');
  await page.press('ArrowRight', area);
  const node = [...page.element.querySelectorAll('.agv-timing-chosen button')].find(one =>
    one.textContent?.includes('in the graph')
  ) as HTMLButtonElement;
  await act(async () => node.click());
  await page.settle();
  expect(page.element.querySelector('.agv-timing')).toBeNull();
  expect(model.selected).not.toBeNull();
  await page.click('Time');
  expect(page.element.querySelector('.agv-timing-chosen')).not.toBeNull();
});

test('an earlier profile is compared by name; what is none is told', async () => {
  const page = await shown(traceText(training(3)));
  const [input] = page.element.querySelectorAll<HTMLInputElement>('input[type=file]');
  const choose = async (text: string): Promise<void> => {
    const chosen = Object.assign(file(text), { name: 'before.json' });
    Object.defineProperty(input, 'files', { value: [chosen], configurable: true });
    await act(async () => input.dispatchEvent(new Event('change', { bubbles: true })));
    for (let i = 0; i < 20; i++) await page.settle(10);
  };
  await choose(traceText([...training(6), slice('slow', 900, 500)]));
  expect(page.text('.agv-timing-beside h2')).toContain('less than before.json');
  const [first] = page.element.querySelectorAll('.agv-timing-beside tbody tr');
  expect(first.textContent).toContain('slow−gone500 µs');
  await choose('Dear reader');
  expect(page.text('.agv-notice')).toContain('before.json cannot be compared with');
  await page.click('Compare no longer');
  expect(page.element.querySelector('.agv-timing-beside')).toBeNull();
});

test('a program that runs is followed; what is chosen stays; following ends', async () => {
  const kernel = new FakeKernel();
  const page = await open(kernel, {});
  const slices = (): number => Number(/: (\d+) slices/.exec(page.text('.agv-timing-head'))?.[1]);
  const until = async (wanted: () => boolean): Promise<void> => {
    for (let i = 0; i < 100 && !wanted(); i++) await page.settle();
    expect(wanted()).toBe(true);
  };
  kernel.state.recording = true;
  kernel.train();
  await page.settle();
  await page.click('Time');
  const before = slices();
  const area = page.element.querySelector('[data-agv-keys=time]') as HTMLElement;
  await page.press('ArrowRight', area);
  const chosen = page.text('.agv-timing-chosen');
  kernel.train();
  await until(() => slices() === 2 * before);
  expect(page.text('.agv-timing-chosen').split('Of this name')[0]).toBe(
    chosen.split('Of this name')[0]
  );
  expect(page.button('Follow').getAttribute('aria-pressed')).toBe('true');
  await page.press('l', area);
  kernel.train();
  expect(page.button('Follow').getAttribute('aria-pressed')).toBe('false');
  await page.press('l', area);
  await until(() => slices() === 3 * before);
});

test('what held memory at its peak, and what lines cost, of a recording', async () => {
  const kernel = new FakeKernel();
  const hot: HeatMark[][] = [];
  const page = await open(Object.assign(kernel, { markHeat: (all: HeatMark[]) => hot.push(all) }));
  kernel.train();
  kernel.train();
  await page.settle();
  expect(page.element.querySelector('.agv-passes')).not.toBeNull();
  await page.click('Time');
  await page.settle();
  expect(hot[hot.length - 1].map(({ line }) => line)).toEqual([1, 2]);
  await page.click('What held memory at its peak?');
  const [row] = page.element.querySelectorAll('.agv-timing-memory tbody tr');
  expect(row.textContent).toMatch(/^TanhBackward0In\[4\] line 1saved for backward256 B1/);
  await page.click('show');
  await page.settle();
  expect(page.element.querySelector('.agv-tensors')).not.toBeNull();
  expect(hot[hot.length - 1]).toEqual([]);
});

test('a profile that runs is followed to its end; the recording is a click away', async () => {
  const kernel = new FakeKernel();
  const page = await open(kernel, {});
  const until = async (wanted: () => boolean): Promise<void> => {
    for (let i = 0; i < 100 && !wanted(); i++) await page.settle();
    expect(wanted()).toBe(true);
  };
  const head = (): string => page.text('.agv-timing-head');
  const rows: Row[] = [];
  const step = (at: number): void => {
    rows.push(['aten::mul', 0, at, at + 100, at]);
    rows.push(['autograd::engine::evaluate_function: MulBackward0', 1, at + 200, at + 400, at]);
    rows.push(['MulBackward0', 2, at + 250, at + 350, at]);
  };
  let done = false;
  kernel.pieceFrom = since => {
    const told = [...rows.slice(since)];
    const unended: Row[] = done ? [] : [['ProfilerStep#0', 4, 0, 5000, -1]];
    const number = kernel.state.profile ?? 0;
    const count = { open: unended.length, next: rows.length };
    return pieceOf([...told, ...unended], { number, done, pauses: [[1210, 1240, 0]], ...count });
  };
  kernel.train();
  await page.settle();
  await page.click('Time');
  expect(head()).toContain('This recording');
  step(0);
  kernel.state.profile = 4;
  kernel.flush();
  await until(() => head().includes('Running profile: 4 slices'));
  const area = page.element.querySelector('[data-agv-keys=time]') as HTMLElement;
  await page.press('ArrowRight', area);
  expect(page.text('.agv-timing-chosen h2')).toBe('ProfilerStep#0');
  step(1000);
  await until(() => head().includes('Running profile: 7 slices'));
  expect(head()).toContain('paused');
  expect(page.text('.agv-timing-chosen h2')).toBe('ProfilerStep#0');
  const evaluated = (): string =>
    [...page.element.querySelectorAll('.agv-timing-table tbody tr')]
      .map(row => row.textContent ?? '')
      .find(text => text.startsWith('autograd::engine')) ?? '';
  await until(() => evaluated().includes('370 ns170 ns'));
  // Back to the recording, and the profile comes again only when it is asked for.
  await page.click('Times of this recording');
  step(2000);
  await page.settle(500);
  expect(head()).toContain('This recording');
  await page.click('Newest profile');
  await until(() => head().includes('Running profile: 10 slices'));
  rows.push(['ProfilerStep#0', 4, 0, 2900, -1]);
  done = true;
  await until(() => head().includes('Profile: 10 slices'));
  const asked = kernel.asked.filter(({ command }) => command === 'profile').length;
  await page.settle(600);
  expect(kernel.asked.filter(({ command }) => command === 'profile').length).toBe(asked);
  expect(page.text('.agv-timing-notices')).toContain('a file of it');
});

test('a piece that cannot be read, and a profile that went, leave what had come', async () => {
  const kernel = new FakeKernel();
  const page = await open(kernel, {});
  kernel.state.profile = 1;
  kernel.pieceFrom = since =>
    since === 0 ? pieceOf([['aten::mul', 0, 0, 9, 1]], { left_out: 3 }) : pieceOf([], { next: 1 });
  kernel.flush();
  await page.settle();
  await page.click('Look at a profile or trace');
  const come = (): boolean => page.element.querySelector('.agv-timing-area') !== null;
  for (let i = 0; i < 50 && !come(); i++) await page.settle();
  expect(page.text('.agv-timing-head')).toContain('Running profile: 1 slice');
  expect(page.text('.agv-timing-notices')).toContain('3 earlier slices are not here');
  kernel.pieceFrom = () => pieceOf([], { count: 1 });
  await page.settle(600);
  expect(page.text('.agv-timing-head')).toContain('Running profile');
});
