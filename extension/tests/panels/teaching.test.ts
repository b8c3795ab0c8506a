// @vitest-environment jsdom
// Class mode on a page: playing and what stops it, predicting and what it hides, lessons.

import { act } from 'react';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { OfflineController } from '../../src/model/offline';
import { InspectorModel } from '../../src/model/inspector';
import type { CommandName, Commands, Lesson, Numbers, OpCard } from '../../src/protocol/schema';
import { NO_LESSON, readFragment } from '../../src/protocol/lesson';
import { FakeKernel } from '../synthetic/fake_kernel';
import { residual } from '../synthetic/recordings';
import type { Page } from './page';
import { close, furnish, open } from './page';

beforeAll(furnish);
afterEach(async () => {
  await close();
  history.replaceState(null, '', '#');
});

/** Tells of every node that it hands −0.5 on to a scalar and [3, 1] to a vector of two. */
class Teller extends FakeKernel {
  override request<C extends CommandName>(
    command: C,
    args: Commands[C]['args']
  ): Promise<Commands[C]['result']> {
    if (command === 'local') {
      const { seq } = args as { seq: number };
      const told: Numbers = {
        seq,
        name: 'SomeBackward0',
        label: '',
        outputs: [{ shape: [], values: null, gradient: [1] }],
        inputs: [
          { seq: seq - 1, index: 0, shape: [], slopes: null, gives: [-0.5] },
          { seq: seq - 2, index: 0, shape: [2], slopes: null, gives: [3, 1] }
        ],
        why: ''
      };
      return Promise.resolve(told as Commands[C]['result']);
    }
    return super.request(command, args);
  }
}

async function offline(lesson: Lesson | null = null, address = false): Promise<Page> {
  const controller = new OfflineController(residual({ paused: false, problem: false }));
  const model = new InspectorModel();
  controller.fill(model);
  return open(controller, { model, lesson, address });
}

async function paused(kernel: FakeKernel): Promise<Page> {
  const page = await open(kernel);
  await act(async () => kernel.begin());
  await page.settle();
  return page;
}

/** Waits for a condition, not for a time. */
async function until(page: Page, condition: () => boolean): Promise<void> {
  for (let i = 0; i < 200 && !condition(); i++) await page.settle(50);
  expect(condition()).toBe(true);
}

async function type(input: Element | null, text: string): Promise<void> {
  const field = input as HTMLInputElement | HTMLSelectElement;
  const proto = Object.getPrototypeOf(field) as object;
  await act(async () => {
    Object.getOwnPropertyDescriptor(proto, 'value')?.set?.call(field, text);
    const kind = field.tagName === 'SELECT' ? 'change' : 'input';
    field.dispatchEvent(new Event(kind, { bubbles: true }));
  });
}

describe('playing', () => {
  it('steps a paused backward to its end', async () => {
    const kernel = new Teller();
    const page = await paused(kernel);
    await page.press('k');
    expect(page.button('Playing').getAttribute('aria-pressed')).toBe('true');
    // Faster only now: on a busy machine it would be over before it is looked at.
    await page.click('1×');
    await page.click('○ 8×');
    await until(page, () => !page.text('.agv-bar').includes('Playing'));
    expect(kernel.state.paused).toBeNull();
    expect(kernel.asked.filter(({ command }) => command === 'step').length).toBe(8);
  });

  it('stops at a breakpoint and says so', async () => {
    const kernel = new Teller();
    const page = await paused(kernel);
    const third = (kernel.state.paused?.seq ?? NaN) - 2;
    await page.click('1×');
    await page.click('○ 8×');
    const stop = Object.getOwnPropertyDescriptor(FakeKernel.prototype, 'stop')!.value as () => void;
    vi.spyOn(FakeKernel.prototype as unknown as { stop: () => void }, 'stop').mockImplementation(
      function (this: FakeKernel) {
        stop.call(this);
        if (this.state.paused?.seq === third) this.state.paused.breakpoint = 1;
      }
    );
    await page.press('k');
    await until(page, () => page.text('.agv-notice').includes('breakpoint'));
    expect(kernel.state.paused?.seq).toBe(third);
    vi.restoreAllMocks();
  });

  it('is stopped by any other control', async () => {
    const kernel = new Teller();
    const page = await paused(kernel);
    await page.click('1×');
    await page.click('○ ¼×');
    await page.press('k');
    expect(page.button('Playing')).toBeTruthy();
    await page.click('Step');
    expect(page.button('Play').textContent).toContain('Play');
    expect(page.button('Play').getAttribute('aria-pressed')).toBe('false');
    await page.press('k');
    await page.press('ArrowLeft', page.element.querySelector('.agv-axis') as Element);
    expect(page.button('Play').getAttribute('aria-pressed')).toBe('false');
  });

  it('stops where the kernel takes no commands any more, and stays at the pause', async () => {
    const kernel = new Teller();
    const page = await paused(kernel);
    await page.press('k');
    expect(page.button('Playing')).toBeTruthy();
    const steps = kernel.asked.filter(({ command }) => command === 'step').length;
    await act(async () => {
      kernel.capabilities = { live: true, control: false, requests: true };
    });
    await until(page, () => page.text('.agv-notice').includes('takes no commands'));
    expect(page.text('.agv-bar')).not.toContain('Playing');
    expect(page.handle.model.cursor).toBeNull();
    expect(kernel.asked.filter(({ command }) => command === 'step').length).toBe(steps);
  });

  it('stops when a step is refused', async () => {
    const kernel = new Teller();
    const page = await paused(kernel);
    kernel.refuse.step = 'The kernel is elsewhere.';
    await page.press('k');
    await until(page, () => page.text('.agv-notice').includes('The kernel is elsewhere.'));
    expect(page.text('.agv-bar')).not.toContain('Playing');
    expect(page.handle.model.cursor).toBeNull();
  });

  it('goes through a recording, on and back', async () => {
    // At the slowest pace: on a busy machine a page may take longer to draw than a step lasts.
    const page = await offline({ ...NO_LESSON, speed: 0.25 });
    await page.press('k');
    await until(page, () => /^Before step ([2-9]|1\d) /.test(page.text('.agv-pill')));
    expect(page.handle.model.selected).not.toBeNull();
    expect(page.text('.agv-bar')).toContain('Playing');
    await page.press('k');
    expect(page.text('.agv-bar')).not.toContain('Playing');
    const { cursor } = page.handle.model;
    await page.settle(2200);
    expect(page.handle.model.cursor).toBe(cursor);
    await close();
    const back = await offline({ ...NO_LESSON, speed: 8, direction: 'back' });
    const { length } = back.handle.model;
    await back.press('k');
    await until(back, () => (back.handle.model.cursor ?? length) <= length - 3);
  });
});

describe('predicting', () => {
  it('asks, marks, keeps the score, and can be skipped', async () => {
    const kernel = new Teller();
    const page = await paused(kernel);
    await page.press('q');
    const form = (): Element => page.element.querySelector('.agv-predict') as Element;
    expect(form().textContent).toContain('Which gradient does MeanBackward0 hand on?');
    expect(form().textContent).not.toContain('0.5');
    expect(form().textContent).not.toContain('right');
    expect(page.element.querySelector('.agv-det')?.firstElementChild).toBe(form());
    expect(page.button('Reveal').disabled).toBe(true);
    const [first, second] = form().querySelectorAll('input');
    await type(first, '-1/2');
    expect(form().textContent).toContain('= −0.5');
    await type(form().querySelector('select'), '1');
    await type(second, '4');
    await page.click('Reveal');
    const marks = [...form().querySelectorAll('.agv-mark')];
    expect(marks[0].textContent).toBe('✓ you −0.5, right −0.5');
    expect(marks[1].textContent).toContain('✗');
    expect(marks[1].textContent).toBe(
      '✗ [0]: you 4, right 3 · shape right, right sign; off by 1 of [2]'
    );
    expect(page.text('.agv-score')).toBe('1 of 2 right');
    await page.click('Next node');
    expect(page.text('.agv-pill')).toBe('Paused before step 2 of 8');
    await page.click('Skip');
    expect(page.text('.agv-score')).toBe('1 of 2 right, 2 skipped');
    await page.press('q');
    expect(page.element.querySelector('.agv-predict')).toBeNull();
  });

  it('says of nonsense what is wrong with it', async () => {
    const page = await paused(new Teller());
    await page.press('q');
    const input = page.element.querySelector('.agv-predict input');
    await type(input, 'import(1)');
    expect(page.text('.agv-predict')).toContain('“import” is not known here.');
    expect(input?.getAttribute('aria-invalid')).toBe('true');
    expect(page.button('Reveal').disabled).toBe(true);
  });

  it('hides gradients that did not arrive as long as it is on', async () => {
    const kernel = new Teller();
    const page = await paused(kernel);
    const [leaf] = page.handle.model.graph.leaves;
    await page.press('q');
    await act(async () => page.handle.model.select(leaf));
    await page.settle();
    expect(page.text('.agv-det')).toContain('A prediction is open');
    expect(page.text('.agv-det')).toContain('Its gradient is hidden');
    await page.click('A prediction is open');
    await page.click('Skip');
    await act(async () => page.handle.model.select(leaf));
    await page.settle();
    expect(page.text('.agv-det')).not.toContain('A prediction is open');
    expect(page.text('.agv-det')).toContain('Its gradient is hidden');
    await page.press('q');
    expect(page.text('.agv-det')).not.toContain('hidden');
  });

  it('makes playing wait', async () => {
    const kernel = new Teller();
    const page = await paused(kernel);
    await page.press('q');
    await page.click('1×');
    await page.click('○ 8×');
    await page.press('k');
    await page.settle(300);
    expect(page.text('.agv-bar')).toContain('Waits for you');
    expect(page.text('.agv-pill')).toBe('Paused before step 1 of 8');
    await page.click('Skip');
    await until(page, () => page.text('.agv-pill') === 'Paused before step 2 of 8');
  });

  it('says in a recording without numbers how to keep them', async () => {
    const page = await offline({ ...NO_LESSON, predict: true });
    expect(page.text('.agv-pill')).toMatch(/^Before step 1 /);
    expect(page.text('.agv-det')).toContain('record(scalars=True)');
  });
});

describe('lessons', () => {
  const hide = ['search', 'export', 'timeline', 'tensors', 'step', 'zoom'];

  it('take controls and their keys away, and show their text as text', async () => {
    const page = await offline({ ...NO_LESSON, text: 'Find <b>it</b>', hide });
    expect(page.text('.agv-lesson')).toBe('Find <b>it</b>');
    expect(page.element.querySelector('.agv-lesson b')).toBeNull();
    for (const gone of ['.agv-search', '.agv-time', '.agv-zoom']) {
      expect(page.element.querySelector(gone)).toBeNull();
    }
    expect(() => page.button('Export')).toThrow();
    expect(() => page.button('Back')).toThrow();
    expect(page.button('Tensors').hidden).toBe(true);
    const { cursor } = page.handle.model;
    await page.press(',');
    await page.press('F10');
    expect(page.handle.model.cursor).toBe(cursor);
    await page.press('?');
    expect(page.text('.agv-help')).toContain('These keys');
    expect(page.text('.agv-help')).not.toContain('One event back or on');
  });

  it('begin at a node and a moment', async () => {
    const page = await offline({ ...NO_LESSON, step: 4, node: 'relu' });
    expect(page.text('.agv-pill')).toMatch(/^Before step 4 /);
    expect(page.handle.model.titleOf(page.handle.model.selected ?? -1)).toBe('ReluBackward0');
    await close();
    const other = await offline({ ...NO_LESSON, node: 'Nothing' });
    expect(other.text('.agv-notice')).toContain('begins at Nothing: not here');
  });

  it('are read from the address, which follows what the reader sets', async () => {
    history.replaceState(null, '', '#lesson=Look&hide=search,wings&speed=2&step=2');
    const page = await offline(null, true);
    expect(page.text('.agv-lesson')).toBe('Look');
    expect(page.text('.agv-notice')).toContain('“hide=wings”');
    await page.press('.');
    await page.press('q');
    await until(page, () => readFragment(location.hash).lesson?.step === 3);
    expect(readFragment(location.hash).lesson).toMatchObject({
      text: 'Look',
      hide: ['search'],
      predict: true,
      speed: 2
    });
    await page.click('Export');
    expect(page.button('Copy lesson link')).toBeTruthy();
  });

  it('leave the address of a plain page alone', async () => {
    const page = await offline(null, true);
    await page.press(',');
    await page.settle(600);
    expect(location.hash).toBe('');
  });

  it('show the node that they begin at, not the problem of a cell before', async () => {
    const kernel = new Teller();
    const page = await open(kernel);
    await act(async () => kernel.train());
    await page.settle();
    await page.click('Problems');
    await act(async () => {
      kernel.state.lesson = { ...NO_LESSON, text: 'Look', node: 'tanh' };
      kernel.train();
    });
    await page.settle();
    expect(page.text('[role=tab][aria-selected=true]')).toBe('Node');
    expect(page.text('.agv-det')).toContain('TanhBackward0');
  });

  it('come and go with the kernel’s state', async () => {
    const kernel = new Teller();
    const page = await open(kernel);
    await act(async () => {
      kernel.state.lesson = { ...NO_LESSON, text: 'Now', hide: ['record'] };
      kernel.train();
    });
    await page.settle();
    expect(page.text('.agv-lesson')).toBe('Now');
    expect(page.button('Record').hidden).toBe(true);
    await act(async () => {
      kernel.state.lesson = null;
      kernel.train();
    });
    await page.settle();
    expect(page.element.querySelector('.agv-lesson')).toBeNull();
    expect(page.button('Record').hidden).toBe(false);
  });
});

/** Answers requests between cells, and no command: its card offers a check. */
class Between extends FakeKernel {
  override capabilities = { live: true, control: false, requests: true };

  override request<C extends CommandName>(
    command: C,
    args: Commands[C]['args']
  ): Promise<Commands[C]['result']> {
    if (command === 'card') {
      const math = { op: 'row', of: [] } as unknown as OpCard['forward'];
      const card: OpCard = {
        op: 'tanh',
        says: '',
        forward: math,
        text: '',
        derivatives: [],
        given: [],
        note: ''
      };
      return Promise.resolve(card as Commands[C]['result']);
    }
    return super.request(command, args);
  }
}

describe('a check by finite differences', () => {
  it('is offered by a kernel that answers between cells only', async () => {
    const kernel = new Between();
    const page = await open(kernel);
    await act(async () => kernel.train());
    await page.settle();
    const { model } = page.handle;
    await act(async () => model.select(model.graph.seqs[1]));
    await page.settle();
    expect(page.button('Check by finite differences').disabled).toBe(false);
    await page.click('Check by finite differences');
    expect(kernel.asked.map(({ command }) => command)).toContain('check');
  });
});
