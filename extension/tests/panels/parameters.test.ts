// @vitest-environment jsdom
// The tab Parameters on a page: a table for the keyboard, of which only rows in view are made.

import { act } from 'react';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { InspectorModel } from '../../src/model/inspector';
import { OfflineController } from '../../src/model/offline';
import type { Recording, Weights } from '../../src/protocol/schema';
import { FakeKernel } from '../synthetic/fake_kernel';
import { Program } from '../synthetic/program';
import { recordingOf } from '../synthetic/writer';
import type { Page } from './page';
import { close, furnish, open } from './page';

beforeAll(furnish);
afterEach(close);

const MARKUP = '<img src=x onerror="window.hacked=1">';

/** A pass over so many leaves of a model, beside one parameter that was cut off. */
function trained(count: number, weights?: Weights): Recording {
  const program = new Program(['loss = model(x)', 'h.detach()', 'loss.backward()']);
  const leaves = Array.from({ length: count }, (_, i) => {
    const storage = program.storage();
    program.parameter(i + 1, `model.w${i}`, [2, 3], storage);
    return program.leaf(`model.w${i}`, [2, 3], storage);
  });
  program.parameter(count + 1, MARKUP, [4], program.storage());
  program.absent(count + 1, 1, 'detach', `what ${MARKUP} computes is detached`, 2);
  program.backward(program.op('AddBackward0', 1, leaves, [2, 3]), 3);
  return { ...recordingOf([program.writer.flush()]), weights };
}

async function shown(source: Recording): Promise<Page & { model: InspectorModel }> {
  const controller = new OfflineController(source);
  const model = new InspectorModel();
  controller.fill(model);
  const page = { ...(await open(controller, { model })), model };
  await page.click('Parameters');
  return page;
}

const rowsOf = ({ element }: Page): HTMLTableRowElement[] => [
  ...element.querySelectorAll<HTMLTableRowElement>('.agv-params tbody tr[data-row]')
];

const namesOf = (page: Page): string[] =>
  rowsOf(page).map(row => row.querySelector('th')?.textContent ?? '');

async function type(page: Page, text: string): Promise<void> {
  const input = page.element.querySelector<HTMLInputElement>('.agv-params input[type="search"]');
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set;
  await act(async () => {
    set?.call(input, text);
    input?.dispatchEvent(new Event('input', { bubbles: true }));
  });
}

describe('the tab Parameters', () => {
  it('makes the rows in view of thousands, and says how many there are', async () => {
    const page = await shown(trained(1000));
    expect(rowsOf(page).length).toBeLessThan(100);
    const table = page.element.querySelector('.agv-params table');
    expect(table?.getAttribute('aria-rowcount')).toBe('1002');
    expect(page.text('.agv-params')).toContain('1,001 parameters, 1 without a gradient');
    await type(page, 'w999');
    expect(namesOf(page)).toEqual(['model.w999']);
    await type(page, 'nothing such');
    expect(page.text('.agv-params')).toContain('None of them fits.');
  });

  it('sorts by a column, the other way, and as the model has them again', async () => {
    const page = await shown(trained(4));
    const head = (): Element | undefined =>
      [...page.element.querySelectorAll('.agv-params thead th')].find(
        th => th.textContent?.startsWith('|grad|') && !th.textContent.includes('/')
      );
    const norms = (): number[] =>
      rowsOf(page).map(row => Number(row.querySelectorAll('td')[1].textContent));
    const given = norms();
    const order: (string | null | undefined)[] = [head()?.getAttribute('aria-sort')];
    const found: number[][] = [];
    for (let i = 0; i < 3; i++) {
      await act(async () => head()?.querySelector('button')?.click());
      order.push(head()?.getAttribute('aria-sort'));
      found.push(norms());
    }
    expect(order).toEqual([null, 'descending', 'ascending', null]);
    const down = [...given.slice(0, 4)].sort((a, b) => b - a);
    expect(found[0].slice(0, 4)).toEqual(down);
    expect(found[1].slice(0, 4)).toEqual(down.reverse());
    expect(found[2]).toEqual(given);
    expect(found.map(each => each[4])).toEqual([NaN, NaN, NaN]);
  });

  it('is gone through with the keys, and a row selects its leaf', async () => {
    const page = await shown(trained(60));
    const focused = (): string => document.activeElement?.textContent ?? '';
    const button = rowsOf(page)[0].querySelector('button');
    await act(async () => button?.focus());
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowUp'])
      await page.press(key, document.activeElement ?? undefined);
    expect(focused()).toBe('model.w1');
    await act(async () => (document.activeElement as HTMLElement).click());
    const { model } = page;
    expect(model.titleOf(model.selected ?? -1)).toBe('model.w1');
    expect(rowsOf(page)[1].getAttribute('aria-current')).toBe('true');
    const stops = rowsOf(page).filter(row => row.querySelector('button')?.tabIndex === 0);
    expect(stops).toHaveLength(1);
  });

  it('tells why there is none, as text whatever it says', async () => {
    const page = await shown(trained(2));
    const row = rowsOf(page)[2];
    expect(row.textContent).toBe(`${MARKUP}[4]Nonedetached, In[4] line 2`);
    await act(async () => row.querySelector('button')?.click());
    expect(page.text('.agv-params-why')).toContain(`what ${MARKUP} computes is detached`);
    expect(page.element.querySelector('.agv-params img')).toBeNull();
    await act(async () => page.element.querySelector<HTMLElement>('.agv-params label')?.click());
    expect(namesOf(page)).toEqual([MARKUP]);
  });

  it('says where norms of values are, and where they were left out', async () => {
    const weights = { parameters: { 1: 0.5, 2: 'Infinity' }, storages: {}, left_out: 0 };
    const page = await shown(trained(2, weights));
    const ratios = rowsOf(page).map(row => row.querySelectorAll('td')[2].textContent);
    const norm = Number(rowsOf(page)[0].querySelectorAll('td')[1].textContent);
    expect(Number(ratios[0])).toBeCloseTo(norm / 0.5, 2);
    expect(ratios[1]).toBe('0');
    expect(page.text('.agv-params')).not.toContain('This file');
    const bare = await shown(trained(2));
    expect(bare.text('.agv-params')).toContain('This file has no norms of the values');
  });

  it('is there for a graph without parameters', async () => {
    const program = new Program(['y = f(x)']);
    program.op('MulBackward0', 1, [null], [2]);
    const page = await shown(recordingOf([program.writer.flush()]));
    expect(page.text('[role="tabpanel"]')).toBe('No parameter takes part in this pass.');
  });

  it('asks a kernel for norms once it is open', async () => {
    const kernel = new FakeKernel();
    const page = await open(kernel);
    await act(async () => kernel.train());
    await page.settle();
    const asked = (): number => kernel.asked.filter(({ command }) => command === 'weights').length;
    expect(asked()).toBe(0);
    await page.click('Parameters');
    expect(asked()).toBe(1);
  });
});
