// @vitest-environment jsdom
// Two backward passes side by side: the sentence, the list, the pair, files as the other side.

import { act } from 'react';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { deltaText } from '../../src/panels/compare/differences';
import { anchorsOf, follow } from '../../src/draw/linked';
import { Scene } from '../../src/draw/scene';
import { layoutInput } from '../../src/layout/input';
import { layOut } from '../../src/layout/layout';
import { InspectorModel } from '../../src/model/inspector';
import { OfflineController } from '../../src/model/offline';
import type { Recording } from '../../src/protocol/schema';
import { textOfFile } from '../../src/protocol/recording_file';
import { FakeKernel } from '../synthetic/fake_kernel';
import { hostile, residual, rnn } from '../synthetic/recordings';
import type { Page } from './page';
import { close, furnish, open } from './page';

beforeAll(furnish);
afterEach(close);

async function offline(source: Recording): Promise<Page> {
  const controller = new OfflineController(source);
  const model = new InspectorModel();
  controller.fill(model);
  return open(controller, { model });
}

async function pick(page: Page, content: BlobPart, name: string): Promise<void> {
  const input = page.element.querySelector<HTMLInputElement>('input[type="file"]');
  if (!input) throw new Error('no place for a file');
  const file = new File([content], name);
  // jsdom's files lack it.
  file.arrayBuffer = () => new Response(content).arrayBuffer();
  Object.defineProperty(input, 'files', { configurable: true, value: [file] });
  await act(async () => void input.dispatchEvent(new Event('change', { bubbles: true })));
  await page.settle(200);
}

describe('a comparison', () => {
  it('shows two passes of a session, and closes again', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    await act(async () => {
      kernel.train();
      kernel.train();
    });
    await page.settle();
    await page.click('Compare with…');
    await page.click('backward 1 of 2');
    expect(page.text('.agv-compare-head p')).toContain('No difference in 6 nodes');
    const titles = [...page.element.querySelectorAll('.agv-compared h3')].map(h => h.textContent);
    expect(titles).toEqual(['backward 1 of 2, In[6] line 3', 'backward 2 of 2, In[6] line 3']);
    await page.press('Escape', page.element.querySelector('.agv-compared .agv-graph') as Element);
    expect(page.element.querySelector('.agv-compare')).toBeNull();
    await act(async () => page.handle.compare());
    expect(page.element.querySelector('.agv-compare')).not.toBeNull();
  });

  it('compares with a file, lists what differs and shows the chosen pair', async () => {
    const page = await offline(rnn(10));
    await pick(page, gzipSync(JSON.stringify(rnn(12))), 'longer.agv');
    expect(page.text('.agv-compare-head p')).toContain('Nodes: 10 removed');
    expect(page.text('.agv-compared h3')).toBe('longer.agv');
    const rows = [...page.element.querySelectorAll<HTMLButtonElement>('.agv-difference')];
    expect(rows[0].textContent).toContain('10 nodes');
    await act(async () => rows[0].click());
    await page.settle();
    expect(page.text('.agv-compare-pair')).toContain('not there');
    await page.press('n', page.element.querySelector('.agv-compared .agv-graph') as Element);
    expect(rows[1].getAttribute('aria-current')).toBe('true');
  });

  it('tells values of both sides where both hold them', async () => {
    const page = await offline(residual());
    const other = residual();
    for (const values of Object.values(other.values)) {
      values.mean = (values.mean ?? 0) + 1;
      values.norm = (values.norm ?? 0) * 4;
    }
    for (const details of Object.values(other.details)) {
      details.values = [{ name: 'threshold', text: '0.5 at 0x7f00' }];
    }
    await pick(page, JSON.stringify(other), 'other.json');
    expect(page.text('.agv-difference')).toContain('threshold 0.5 → none');
    await page.press('n', page.element.querySelector('.agv-compared .agv-graph') as Element);
    const pair = page.text('.agv-compare-pair');
    expect(pair).toContain('threshold differs');
    expect(page.text('.agv-deltas caption')).toBe('saved result');
    expect(page.text('.agv-deltas')).toContain('4 times smaller');
    expect(page.text('.agv-deltas')).toContain('5.32 times smaller');
  });

  it('says what is wrong with a file and goes on', async () => {
    const page = await offline(rnn(3));
    const packed = gzipSync(JSON.stringify(rnn(3)));
    await pick(page, packed.subarray(0, packed.length / 2), 'cut.agv');
    expect(page.text('.agv-notice')).toContain('cut.agv: The file is damaged or cut short');
    await pick(page, JSON.stringify({ ...rnn(3), v: 7 }), 'newer.agv');
    expect(page.text('.agv-notice')).toContain('made by a newer version');
    await pick(page, 'hello', 'letter.txt');
    expect(page.text('.agv-notice')).toContain('letter.txt: This is not an ag_visual recording');
    await pick(page, JSON.stringify({ ...rnn(3), batches: [] }), 'empty.agv');
    expect(page.text('.agv-notice')).toContain('empty.agv holds no graph');
    expect(page.element.querySelector('.agv-compare')).toBeNull();
    expect(page.button('Compare with…')).toBeDefined();
  });

  it('makes no markup of what programs and file names say', async () => {
    const page = await offline(hostile());
    await pick(page, JSON.stringify(hostile()), '<img src=x onerror="window.hacked=1">.agv');
    expect(page.element.querySelector('.agv-compare')).not.toBeNull();
    expect(page.element.querySelector('img, script')).toBeNull();
  });
});

describe('textOfFile', () => {
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

  it('reads a page, a packed and a plain file', async () => {
    const json = '{"format":"ag_visual-recording"}';
    expect(await textOfFile(bytes(json))).toBe(json);
    expect(await textOfFile(new Uint8Array(gzipSync(json)))).toBe(json);
    const page = `<!doctype html><script type="application/json" id="ag-visual-recording">${json}`;
    expect(await textOfFile(bytes(`${page}</script></html>`))).toBe(json);
    await expect(textOfFile(bytes(page))).rejects.toThrow('cut short');
    await expect(textOfFile(bytes('<html><p>hello'))).rejects.toThrow('carries no');
    await expect(textOfFile(new Uint8Array(0))).rejects.toThrow('empty');
  });

  it('stops unpacking where a small file grows without end', async () => {
    const bomb = new Uint8Array(gzipSync(Buffer.alloc(2_000_000, 32)));
    await expect(textOfFile(bomb, 100_000)).rejects.toThrow('unpacks to more than 100000 bytes');
  });
});

function sceneToTheSide(recording: Recording): Scene {
  const model = new InspectorModel();
  new OfflineController(recording).fill(model);
  model.refresh();
  const input = layoutInput(model.store, model.view, null, false, true);
  return new Scene(model.store, model.view, layOut(input));
}

describe('linked views', () => {
  it('turn by the keys that turn the graph behind them', async () => {
    const page = await offline(rnn(10));
    await pick(page, gzipSync(JSON.stringify(rnn(12))), 'longer.agv');
    const graph = page.element.querySelector('.agv-compared .agv-graph') as Element;
    await page.press('T', graph);
    await page.press('t', graph);
    expect(page.handle.model.drawing).toMatchObject({ direction: 'down', upward: true });
  });

  it('meet in graphs that lead to the side, too', () => {
    const [short, long] = [rnn(10), rnn(12)].map(sceneToTheSide);
    const pairs = [...short.graph.seqs].map((seq, i) => [seq, long.graph.seqs[i]] as const);
    const anchors = anchorsOf(short, long, pairs);
    expect(anchors.length).toBeGreaterThan(2);
    const [first] = anchors;
    const box = short.boxOf(short.graph.seqs[0]);
    expect(anchors.some(({ y }) => y === box?.x)).toBe(true);
    expect(first.y).toBeLessThan(anchors[anchors.length - 1].y);
  });

  it('interpolate between pairs, so that nothing jumps', () => {
    const anchors = [
      { y: 0, toY: 0, dx: 0 },
      { y: 100, toY: 300, dx: 50 }
    ];
    expect(follow(anchors, 10, 0)).toEqual({ x: 10, y: 0 });
    expect(follow(anchors, 10, 50)).toEqual({ x: 35, y: 150 });
    expect(follow(anchors, 10, 100)).toEqual({ x: 60, y: 300 });
    expect(follow(anchors, 10, 120)).toEqual({ x: 60, y: 320 });
    expect(follow([], 1, 2)).toEqual({ x: 1, y: 2 });
  });
});

describe('deltaText', () => {
  it('gives a difference, or a factor for another order of size', () => {
    expect(deltaText(1, 1.5)).toBe('+0.5');
    expect(deltaText(1.5, 1)).toBe('−0.5');
    expect(deltaText(1, 8)).toBe('8 times larger');
    expect(deltaText(8, 1)).toBe('8 times smaller');
    expect(deltaText(0, 1)).toBe('+1');
    expect(deltaText(2, 2)).toBe('the same');
    expect(deltaText(null, 2)).toBe('');
  });
});
