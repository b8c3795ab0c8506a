// @vitest-environment jsdom
// The whole Inspector on a page: what it says, what its buttons and keys ask for, that no text
// becomes markup.

import { act } from 'react';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { OfflineController } from '../../src/model/offline';
import { mount, mountOutput } from '../../src/entries/inspector';
import type { OutputHandle, OutputOptions } from '../../src/entries/output';
import { InspectorModel } from '../../src/model/inspector';
import type { InspectorHandle } from '../../src/panels/index';
import { Cell } from '../../src/protocol/cell';
import type { Watching } from '../../src/protocol/controller';
import { openRecording } from '../../src/protocol/recording';
import { RECORDING_ELEMENT } from '../../src/protocol/schema';
import { FakeKernel } from '../synthetic/fake_kernel';
import { hostile, residual, rnn } from '../synthetic/recordings';
import type { Page } from './page';
import { close, furnish, open, settle } from './page';

beforeAll(furnish);
afterEach(close);

async function offline(source: unknown): Promise<Page> {
  const controller = new OfflineController(source);
  const model = new InspectorModel();
  controller.fill(model);
  return open(controller, { model });
}

describe('a live kernel', () => {
  it('tells a newcomer what to do, and records', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    expect(page.text()).toContain('Nothing recorded yet');
    expect(page.text('.agv-pill')).toBe('Not recording');
    await page.click('Record');
    expect(kernel.asked.find(({ command }) => command === 'record')?.args).toEqual({
      on: true,
      scope: 'every',
      every: 1
    });
    expect(page.text('.agv-pill')).toBe('Recording');
    expect(page.text('.agv-empty')).toContain('calls backward()');
    await act(async () => kernel.train());
    await page.settle();
    expect(page.element.querySelector('.agv-empty')).toBeNull();
    expect(page.text('.agv-time-head')).toContain('6 nodes, 2 leaves');
  });

  it('tells each kernel what is watched, but for what it begins with', async () => {
    const kernel = new FakeKernel();
    const watching = new Cell<Watching>('newest');
    const page = await open(Object.assign(kernel, { watching }));
    const told = (): unknown[] =>
      kernel.asked.filter(({ command }) => command === 'watch' || command === 'record');
    expect(told()).toEqual([]);
    kernel.state.scope = 'newest';
    kernel.flush();
    await page.settle();
    expect(page.text('.agv-pill')).toBe('Newest pass');
    expect(page.text('.agv-empty')).toContain('No backward pass yet');
    await page.click('Watch');
    await page.click('○ Off nothing until you press Record');
    expect(told()).toEqual([{ command: 'watch', args: { newest: false } }]);
    await act(async () => watching.set('everything'));
    const everything = { command: 'record', args: { on: true, scope: 'every', every: 1 } };
    expect(told().slice(1)).toEqual([everything]);
    // A restart: the kernel that comes is told.
    await act(async () => kernel.setStatus({ kind: 'disconnected' }));
    await act(async () => kernel.setStatus({ kind: 'connected' }));
    expect(told().slice(2)).toEqual([everything]);
    // Who stops the recording does not want it in the next kernel.
    await page.settle();
    await page.click('Stop recording');
    expect(watching.value).toBe('newest');
    expect(told().slice(3)).toEqual([
      { command: 'record', args: { on: false } },
      { command: 'watch', args: { newest: true } }
    ]);
  });

  it('pauses, steps, runs to a node and goes on', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    await act(async () => kernel.begin());
    await page.settle();
    expect(page.text('.agv-pill')).toBe('Paused before step 1 of 8');
    expect(page.text('.agv-det h3')).toBe('MeanBackward0');
    expect(page.text('.agv-tag')).toBe('next');
    await page.click('Step');
    expect(page.text('.agv-pill')).toBe('Paused before step 2 of 8');
    expect(page.text('.agv-det h3')).toBe('PowBackward0');
    await page.press('F10');
    expect(page.text('.agv-det h3')).toBe('SubBackward0');
    await page.press('ArrowDown');
    await page.press('ArrowDown');
    expect(page.text('.agv-det h3')).toBe('AddBackward0');
    await page.click('To node');
    expect(page.text('.agv-pill')).toBe('Paused before step 5 of 8');
    await page.press('F9');
    expect(page.text('.agv-pill')).not.toContain('Paused');
    expect(page.handle.model.graph.task).not.toBeNull();
  });

  it('keeps the focus where keys work when a button is replaced by what it does', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    await act(async () => kernel.begin());
    await page.settle();
    const press = async (name: string): Promise<void> => {
      page.button(name).focus();
      await page.click(name);
      await page.settle(100);
    };
    const focused = (): Element => document.activeElement as Element;
    await press('Numbers');
    expect(page.element.contains(focused())).toBe(true);
    await press('Nodes');
    expect(focused().className).toBe('agv-graph');
    await page.press('F10', focused());
    expect(page.text('.agv-pill')).toBe('Paused before step 2 of 8');
    await press('Continue');
    expect(focused().className).toBe('agv-graph');
    // What nobody replaced keeps it, and nobody takes it from elsewhere on the page.
    await press('Breakpoints');
    expect(focused()).not.toBe(document.body);
    const cell = document.body.appendChild(document.createElement('textarea'));
    await press('Record');
    await act(async () => cell.focus());
    await act(async () => kernel.begin());
    await page.settle(100);
    expect(focused()).toBe(cell);
    cell.remove();
  });

  it('sets and removes breakpoints', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    await act(async () => kernel.begin());
    await page.settle();
    await page.press('b');
    expect(kernel.state.breakpoints.length).toBe(1);
    expect(page.button('Breakpoints 1')).toBeTruthy();
    await page.click('Remove breakpoint');
    expect(kernel.state.breakpoints.length).toBe(0);
    await page.click('Break on every MeanBackward0');
    expect(kernel.state.breakpoints[0]).toMatchObject({ kind: 'name', name: 'MeanBackward0' });
    await page.click('Breakpoints 1');
    expect(page.text('.agv-sheet')).toContain('every MeanBackward0');
  });

  it('shows an earlier moment without disturbing the kernel, and comes back', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    await act(async () => kernel.train());
    await page.settle();
    const asked = kernel.asked.filter(
      ({ command }) => command !== 'node' && command !== 'values'
    ).length;
    await page.press(',');
    await page.press(',');
    expect(page.text('.agv-pill')).toBe('Before step 7 of 8');
    await page.press('ArrowLeft', page.element.querySelector('.agv-axis') as Element);
    expect(page.text('.agv-pill')).toBe('Before step 6 of 8');
    expect(
      kernel.asked.filter(({ command }) => command !== 'node' && command !== 'values').length
    ).toBe(asked);
    await page.click('Back to now');
    expect(page.handle.model.cursor).toBeNull();
  });

  it('says why a command failed, until one works', async () => {
    const kernel = new FakeKernel();
    kernel.refuse.record = 'The kernel did not answer within 8 s.';
    const page = await open(kernel);
    await page.click('Record');
    expect(page.text('.agv-notice')).toContain('did not answer within 8 s');
    delete kernel.refuse.record;
    await page.click('Record');
    expect(page.element.querySelector('.agv-notice')).toBeNull();
  });

  it('keeps the graph when the kernel goes, and says so', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    await act(async () => kernel.begin());
    await page.settle();
    await act(async () => kernel.setStatus({ kind: 'disconnected', detail: 'The kernel died.' }));
    await page.settle();
    expect(page.text('.agv-pill')).toBe('Kernel gone');
    expect(page.text('.agv-notice')).toContain('The kernel died.');
    expect(page.button('Step').disabled).toBe(true);
    expect(page.text('.agv-time-head')).toContain('6 nodes');
    // A node that is chosen now is asked nothing: there is nobody who could answer.
    const asked = kernel.asked.length;
    await page.press('ArrowDown');
    expect(page.text('.agv-det h3')).toBe('PowBackward0');
    expect(page.text('.agv-det')).not.toContain('Chain rule');
    expect(kernel.asked.length).toBe(asked);
  });

  it('asks for everything again when a batch is missing', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    kernel.program.writer.flush();
    await act(async () => kernel.train());
    await page.settle();
    expect(kernel.asked.some(({ command }) => command === 'resync')).toBe(true);
  });

  it('shows source lines where the reader edits them', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    await act(async () => kernel.begin());
    await page.settle();
    await page.press('Enter');
    await page.click('In[4] line 2');
    expect(kernel.revealed.map(({ line, text }) => [line, text])).toEqual([
      [2, '(z - y).pow(2).mean()'],
      [2, '(z - y).pow(2).mean()']
    ]);
    expect(page.text('.agv-src mark')).toBe('(z - y).pow(2).mean()');
  });

  it('counts what was left out', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    const written = (() => {
      kernel.program.backward(kernel.forward(), 3);
      return kernel.program.writer.flush();
    })();
    written.header.coalesced = { runs: 1200, nodes: 34 };
    written.header.dropped_steps = 5;
    await act(async () => kernel.onBatch.emit(written));
    await page.settle();
    expect(page.text('.agv-time-head')).toContain('1,234 events left out');
    expect(page.text('.agv-time-head')).toContain('oldest 5 steps forgotten');
  });
});

describe('a recording', () => {
  it('shows what was saved of the paused node', async () => {
    const page = await offline(residual());
    const side = page.text('.agv-det');
    for (const words of [
      'ReluBackward0',
      'In[4] line 2',
      'v1 stale',
      '32 kB',
      'Shares storage with out',
      '47 % zero',
      'tensor hook clip',
      'replaced',
      'norm 0.0412, −0.001 to 0.001',
      'retain_grad has not run'
    ]) {
      expect(side).toContain(words);
    }
    expect(page.element.querySelectorAll('.agv-det canvas[role="img"]').length).toBe(2);
    expect(page.element.querySelector('.agv-det canvas')?.getAttribute('aria-label')).toContain(
      '[64, 128]'
    );
  });

  it('explains the problem with both lines and the repair', async () => {
    const page = await offline(residual());
    await page.click('Problems');
    const card = page.text('.agv-card');
    for (const words of [
      'overwritten before backward',
      'v0',
      'In[4] line 2',
      'v1',
      'In[4] line 3',
      'out += h',
      'out = out + h'
    ]) {
      expect(card).toContain(words);
    }
    await page.click('Show ReluBackward0');
    expect(page.text('.agv-det h3')).toBe('ReluBackward0');
  });

  it('counts a problem that comes again, and closes its card when it is solved', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    const known = openRecording(residual({ paused: false })).batches.flatMap(b => b.problems)[0];
    const tell = async (more: Partial<typeof known>): Promise<void> => {
      kernel.program.writer.problem({ ...known, ...more });
      await act(async () => kernel.flush());
      await page.settle();
    };
    const tab = (): string =>
      [...page.element.querySelectorAll('[role="tab"]')].map(t => t.textContent).join(' ');
    await tell({});
    expect(page.element.querySelectorAll('.agv-card').length).toBe(1);
    expect(tab()).toContain('Problems1');
    await page.click('Node');
    await tell({ times: 2 });
    expect(page.element.querySelectorAll('.agv-card').length).toBe(1);
    expect(page.text('.agv-card h3')).toContain('2×');
    expect(tab()).toContain('Problems1');
    await tell({ times: 2, solved: true });
    expect(tab()).not.toContain('Problems1');
    expect(page.text('.agv-solved > summary')).toContain('solved');
    expect(page.element.querySelector<HTMLDetailsElement>('.agv-solved')?.open).toBe(false);
    expect(page.text()).toContain('No problems any more.');
    await tell({ times: 3, solved: false });
    expect(page.text('.agv-card h3')).toContain('3×');
    expect(page.element.querySelector('.agv-solved')).toBeNull();
  });

  it('opens on the problem when nothing is paused', async () => {
    const page = await offline(residual({ paused: false }));
    expect(page.text('.agv-card')).toContain('overwritten before backward');
  });

  it('is replayed with the same key that steps a kernel', async () => {
    const page = await offline(residual({ paused: false, problem: false }));
    await page.click('To the start');
    expect(page.text('.agv-pill')).toBe('Before step 1 of 13');
    await page.press('F10');
    expect(page.text('.agv-pill')).toBe('Before step 2 of 13');
    await page.click('Back');
    expect(page.text('.agv-pill')).toBe('Before step 1 of 13');
  });

  it('lists all uses of a parameter', async () => {
    const page = await offline(rnn(30));
    const Wh = [...page.handle.model.graph.leaves].find(
      seq => page.handle.model.store.label(seq) === 'Wh'
    );
    await act(async () => page.handle.model.select(Wh ?? null));
    await page.settle();
    expect(page.text('.agv-det h3')).toBe('Wh');
    expect(page.text('.agv-det')).toContain('All 30 uses');
    await page.click('Show 18 more uses');
    expect(page.element.querySelectorAll('.agv-det .agv-list li').length).toBe(30);
  });

  it('never turns text into markup', async () => {
    const page = await offline(hostile());
    for (const seq of [...page.handle.model.graph.seqs, ...page.handle.model.graph.leaves]) {
      await act(async () => page.handle.model.select(seq));
      await page.settle(20);
    }
    expect(page.element.querySelector('img, script, iframe')).toBeNull();
    expect(page.text('.agv-det')).toContain('<img src=x');
    expect((page.text() + page.element.innerHTML).length).toBeLessThan(60_000);
  });

  it('says what is wrong with a file that cannot be opened', async () => {
    for (const [source, words] of [
      ['{"format":"ag_visual-recording","v":1,"bat', 'cut short'],
      ['hello', 'not an ag_visual recording'],
      [{ ...residual(), v: 7 }, 'format 7']
    ] as const) {
      const page = await offline(source);
      expect(page.text('.agv-empty[role="alert"]')).toContain(words);
      expect(page.text('.agv-pill')).toBe('Cannot be shown');
    }
  });

  it('gives the graph in words around the selected node', async () => {
    const page = await offline(residual());
    const words = page.text('.agv-graph [role="listbox"]');
    expect(words).toContain(
      'ReluBackward0, next, a saved tensor was overwritten, breakpoint, In[4] line 2'
    );
    expect(words).toContain('gradient from: AddBackward0, done');
    expect(words).toContain('gradient to: MmBackward0, waiting');
    expect(page.element.querySelector('.agv-graph')?.getAttribute('aria-activedescendant')).toBe(
      'agv-outline-selected'
    );
  });

  it('finds nodes from the search box', async () => {
    const page = await offline(residual());
    const input = page.element.querySelector('input') as HTMLInputElement;
    await page.press('/');
    expect(document.activeElement).toBe(input);
    await act(async () => {
      const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set;
      set?.call(input, 'softmax');
      input.dispatchEvent(new Event('input', { bubbles: true }));
    });
    await page.press('Enter', input);
    expect(page.text('.agv-found')).toBe('1 of 1');
    expect(page.text('.agv-det h3')).toBe('LogSoftmaxBackward0');
    await page.press('Escape', input);
    expect(page.handle.model.hits).toEqual([]);
  });
});

describe('mount', () => {
  it('reads the recording that the page carries, and takes itself out again', async () => {
    const script = document.createElement('script');
    script.type = 'application/json';
    script.id = RECORDING_ELEMENT;
    script.textContent = JSON.stringify(residual());
    const element = document.createElement('div');
    document.body.replaceChildren(script, element);
    let handle: InspectorHandle | undefined;
    await act(async () => {
      handle = mount(element, { host: 'standalone', theme: 'dark' });
    });
    await settle();
    expect(element.querySelector('.agv-root')?.getAttribute('data-agv-theme')).toBe('dark');
    expect(element.textContent).toContain('ReluBackward0');
    expect(document.adoptedStyleSheets.length).toBe(1);
    expect(document.querySelectorAll('style').length).toBe(0);
    await act(async () => {
      handle?.dispose();
      handle?.dispose();
    });
    expect(element.childElementCount).toBe(0);
  });

  it('follows the theme of a notebook around an output', async () => {
    document.body.dataset.jpThemeLight = 'true';
    const element = document.createElement('div');
    document.body.replaceChildren(element);
    let handle: InspectorHandle | undefined;
    await act(async () => {
      handle = mount(element, { recording: residual(), theme: 'light', host: 'inline' });
    });
    await settle();
    expect(element.querySelector('.agv-root')?.getAttribute('data-agv-theme')).toBe('light');
    document.body.dataset.jpThemeLight = 'false';
    await settle();
    expect(element.querySelector('.agv-root')?.getAttribute('data-agv-theme')).toBe('dark');
    delete document.body.dataset.jpThemeLight;
    await act(async () => handle?.dispose());
  });

  it('leaves an output that is out of sight the height that it was given', async () => {
    const element = document.createElement('div');
    element.style.height = '620px';
    const given = { recording: residual(), session: '', live: false, kernel: null };
    let output: OutputHandle | undefined;
    await act(async () => {
      output = mountOutput(element, given as unknown as OutputOptions);
    });
    await settle();
    const around = element.querySelector<HTMLElement>('.agv-root')?.parentElement;
    expect(around?.style.height).toBe('100%');
    await act(async () => output?.dispose());
  });
});
