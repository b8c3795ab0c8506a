// @vitest-environment jsdom
// The panel's furniture: header, pin, the one row of buttons, the side that comes and goes, runs,
// and what an output leaves out.

import { act } from 'react';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { InspectorModel } from '../../src/model/inspector';
import { OfflineController } from '../../src/model/offline';
import { exampleFor } from '../../src/panels/empty';
import type { InspectorOptions } from '../../src/panels/index';
import { overflowing } from '../../src/panels/tool_row';
import { Cell } from '../../src/protocol/cell';
import { FakeKernel } from '../synthetic/fake_kernel';
import { Program } from '../synthetic/program';
import { residual } from '../synthetic/recordings';
import { recordingOf } from '../synthetic/writer';
import type { Page } from './page';
import { close, furnish, open } from './page';

beforeAll(furnish);
afterEach(close);

async function offline(source: unknown, options: InspectorOptions = {}): Promise<Page> {
  const controller = new OfflineController(source);
  const model = new InspectorModel();
  controller.fill(model);
  return open(controller, { ...options, lesson: controller.lesson, model });
}

function names(page: Page, within = '.agv-tools'): string[] {
  const buttons = page.element.querySelectorAll(`${within} button:not([hidden])`);
  return [...buttons].map(button => button.textContent ?? '');
}

/** What a click in the graph does. */
async function select(page: Page, seq: number | null): Promise<void> {
  await act(async () => page.handle.model.select(seq));
  await page.settle();
}

const side = (page: Page): string | undefined =>
  page.element.querySelector<HTMLElement>('.agv-root')?.dataset.agvSide;

describe('the row of buttons', () => {
  const items = [
    { id: 'record', keep: 9 },
    { id: 'play', keep: 5 },
    { id: 'views', keep: 1 },
    { id: 'export', keep: 2 }
  ];
  const widths = new Map(items.map(({ id }) => [id, 60]));

  it('has all of them where there is room', () => {
    expect([...overflowing(items, widths, 4 * 66)]).toEqual([]);
  });

  it('gives the least important ones away first, with room for the menu of those', () => {
    expect([...overflowing(items, widths, 4 * 66 - 1)]).toEqual(['views']);
    expect([...overflowing(items, widths, 3 * 66 + 34)]).toEqual(['views']);
    expect([...overflowing(items, widths, 3 * 66 + 33)]).toEqual(['views', 'export']);
    expect([...overflowing(items, widths, 0)]).toEqual(['views', 'export', 'play', 'record']);
  });

  it('leaves in the menu what belongs there, and asks no room for what is not there', () => {
    const some = [{ id: 'gone', keep: 8 }, { id: 'views', keep: 'menu' as const }];
    expect([...overflowing(some, new Map([['gone', 0], ['views', 60]]), 34)]).toEqual(['views']);
  });

  it('says once whether it records', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    expect(names(page)[0]).toBe('Record');
    await page.click('Record');
    expect(names(page)[0]).toBe('Stop recording');
    // For screen readers alone: the button says the same.
    expect(page.element.querySelector('.agv-pill')?.classList.contains('agv-hidden')).toBe(true);
    await page.click('Stop recording');
    const asked = kernel.asked.filter(({ command }) => command === 'record');
    expect(asked.map(({ args }) => args)).toEqual([
      { on: true, scope: 'every', every: 1 },
      { on: false }
    ]);
    await act(async () => kernel.begin());
    await page.settle();
    expect(page.text('.agv-pill')).toContain('Paused');
    expect(page.element.querySelector('.agv-pill')?.classList.contains('agv-hidden')).toBe(false);
  });

  it('shows whether each gradient is predicted', async () => {
    const page = await offline(residual({ paused: false, problem: false }));
    const pressed = (): string | null => page.button('Predict').getAttribute('aria-pressed');
    expect(pressed()).toBe('false');
    await page.click('Predict');
    expect(pressed()).toBe('true');
    await page.press('q');
    expect(pressed()).toBe('false');
  });
});

describe('the header', () => {
  it('has the name of the notebook, the keys and a pin', async () => {
    const pinned = new Cell(false);
    const page = await open(Object.assign(new FakeKernel(), { pinned }));
    expect(page.text('.agv-title')).toBe('Untitled.ipynb');
    await page.click('Keys');
    expect(page.text('[role="dialog"]')).toContain('F10');
    await page.click('Close');
    await page.click('Stay with this notebook');
    expect(pinned.value).toBe(true);
    expect(page.button('Stay with this notebook').getAttribute('aria-pressed')).toBe('true');
    await act(async () => pinned.set(false));
    expect(page.button('Stay with this notebook').getAttribute('aria-pressed')).toBe('false');
  });

  it('calls a recording by its name, a lesson by its title, with author and date', async () => {
    const plain = residual({ paused: false, problem: false });
    expect((await offline({ ...plain, name: '<b>relu' })).text('.agv-title')).toBe('<b>relu');
    const lesson = {
      text: 'Look', hide: [], node: '', step: null, predict: false, scalars: false, speed: 1,
      direction: 'on', title: 'Chains', author: 'A. Lovelace', date: 'Nov 2026'
    };
    const page = await offline({ ...plain, name: 'relu', lesson });
    expect(page.text('.agv-title')).toBe('Chains');
    expect(page.text('.agv-title-more')).toBe('A. Lovelace · Nov 2026');
  });
});

describe('the side', () => {
  it('is its tabs while nothing is selected, and can be had all the same', async () => {
    const page = await offline(residual({ paused: false, problem: false }));
    expect(side(page)).toBe('closed');
    await select(page, page.handle.model.graph.seqs[0]);
    expect(side(page)).toBe('open');
    await select(page, null);
    expect(side(page)).toBe('closed');
    await page.click('Tensors');
    expect(side(page)).toBe('open');
    await act(async () => page.element.querySelector<HTMLElement>('[role="tab"]')?.click());
    await page.settle();
    expect(page.text('.agv-scroll')).toContain('Select a node');
  });

  it('closed by hand stays closed, also the next time', async () => {
    let kept: string | null = null;
    const sidePlace = { read: () => kept, write: (text: string) => void (kept = text) };
    const page = await offline(residual({ paused: false, problem: false }), { sidePlace });
    const [seq] = page.handle.model.graph.seqs;
    await select(page, seq);
    await page.click('Hide this side');
    expect(side(page)).toBe('closed');
    const again = await offline(residual({ paused: false, problem: false }), { sidePlace });
    await select(again, seq);
    expect(side(again)).toBe('closed');
    await again.click('Show this side');
    expect(side(again)).toBe('open');
  });
});

describe('an empty panel', () => {
  it('shows lines in the notebook’s own words, and puts them there', async () => {
    const inserted: string[] = [];
    const page = await open(
      Object.assign(new FakeKernel(), {
        importedAs: () => 'torch',
        insertCell: (source: string) => Promise.resolve(inserted.push(source) > 0)
      })
    );
    expect(page.text('.agv-empty pre')).toContain('x = torch.randn(4');
    await page.click('Insert as a cell');
    expect(inserted).toEqual([exampleFor('torch')]);
    expect(exampleFor(null)).toMatch(/^import ag_visual as ag\n\nx = ag\.randn/);
  });
});

describe('runs', () => {
  const runs = [
    { number: 4, name: 'relu, lr 0.1', nodes: 5, passes: 1 },
    { number: 5, name: '', nodes: 5, passes: 2 }
  ];

  async function withRuns(): Promise<{ page: Page; kernel: FakeKernel; opened: string[] }> {
    const kernel = new FakeKernel();
    const opened: string[] = [];
    const openRun = (_: unknown, name: string): void => void opened.push(name);
    const page = await open(Object.assign(kernel, { openRun }));
    const asked = kernel.request.bind(kernel);
    kernel.request = (async (command: string, args: { number?: number }) => {
      if (command === 'run' && args.number === 4) throw new Error('run 4 is not kept any more');
      return command === 'run'
        ? residual({ paused: false, problem: false })
        : asked(command as 'clear', {});
    }) as typeof kernel.request;
    kernel.state.runs = runs;
    await act(async () => kernel.train());
    await page.settle();
    await page.click('Runs 2');
    return { page, kernel, opened };
  }

  async function tick(page: Page, at: number): Promise<void> {
    const boxes = page.element.querySelectorAll<HTMLInputElement>('input[type="checkbox"]');
    await act(async () => boxes[at].click());
  }

  it('are listed with their names, the newest first, and opened', async () => {
    const { page, opened } = await withRuns();
    const rows = [...page.element.querySelectorAll('.agv-sheet-row label')];
    expect(rows.map(row => row.textContent?.trim())).toEqual([
      'run 5 · 2 passes, 5 nodes',
      'relu, lr 0.1 · 1 pass, 5 nodes'
    ]);
    await page.click('Open run 5');
    expect(opened).toEqual(['run 5']);
  });

  it('are compared with what is on screen, or with each other', async () => {
    const { page } = await withRuns();
    await tick(page, 0);
    await page.click('Compare with the pass on screen');
    await page.settle(200);
    const titles = [...page.element.querySelectorAll('.agv-compared h3')].map(h => h.textContent);
    expect(titles[0]).toBe('run 5');
    expect(titles[1]).toContain('backward');
  });

  it('that are gone say so', async () => {
    const { page } = await withRuns();
    await tick(page, 1);
    await tick(page, 0);
    await page.click('Compare these two');
    await page.settle(200);
    expect(page.text('.agv-notice')).toContain('run 4 is not kept any more');
    expect(page.element.querySelector('.agv-compare')).toBeNull();
  });
});

describe('an output', () => {
  const picture = { ...residual({ paused: false, problem: false }), of: ['loss'] };

  it('is the graph with a caption; the side comes with a node', async () => {
    const page = await offline(picture, { compact: true });
    const nodes = page.handle.model.graph.seqs.length;
    expect(page.text('.agv-title')).toBe(`graph of loss, ${nodes} nodes`);
    expect(side(page)).toBe('none');
    await select(page, page.handle.model.graph.seqs[0]);
    expect(side(page)).toBe('open');
    await page.click('Hide this side');
    expect(side(page)).toBe('none');
    expect(page.handle.model.selected).toBeNull();
  });

  it('keeps playing, views and export in one menu', async () => {
    const page = await offline(picture, { compact: true });
    await page.click('More');
    const inside = '.agv-folded > * > button, .agv-folded > button';
    const folded = [...page.element.querySelectorAll(inside)];
    expect(folded.map(button => button.textContent)).toEqual([
      'Play', 'Pace: 1×', 'Predict', 'Views', 'Export', 'Show the side'
    ]);
    const sheet = page.element.querySelector('.agv-sheet') as HTMLElement;
    const buttons = [...sheet.querySelectorAll('button')];
    const entry = buttons.find(one => one.textContent === 'Show the side');
    await act(async () => entry?.click());
    await page.settle();
    expect(side(page)).toBe('open');
    expect(page.element.querySelector('.agv-sheet')).toBeNull();
  });

  it('that no backward ran through has nothing to play', async () => {
    const program = new Program(['y = x * 2']);
    program.op('MulBackward0', 1, [program.leaf('x', [2])], [2]);
    const made = recordingOf([program.writer.flush()]);
    const page = await offline({ ...made, of: ['y'] }, { compact: true });
    await page.click('More');
    const folded = [...page.element.querySelectorAll('.agv-folded button')];
    expect(folded.map(button => button.textContent)).toEqual(['Views', 'Export', 'Show the side']);
  });

  it('asks for the height that its graph needs, at most 640 pixels', async () => {
    const asked: number[] = [];
    const keep = (height: number): void => void asked.push(height);
    await offline(picture, { compact: true, grow: keep });
    expect(asked).toEqual([640]);
    const small: number[] = [];
    const program = new Program(['y = x * 2']);
    program.op('MulBackward0', 1, [program.leaf('x', [2])], [2]);
    const little = recordingOf([program.writer.flush()]);
    const grow = (height: number): void => void small.push(height);
    await offline(little, { compact: true, grow });
    expect(small).toEqual([]);
  });
});
