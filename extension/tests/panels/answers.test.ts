// What the kernel was asked: a question that came at a bad moment is asked again by itself.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { InspectorModel } from '../../src/model/inspector';
import { Answers } from '../../src/panels/answers';
import type { Controller } from '../../src/protocol/controller';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Answers that somebody looks at: whatever changes, the same question is asked. */
function looking(refusals: string[]): { asked: () => number; shown: () => string; end(): void } {
  let asked = 0;
  const controller = {
    capabilities: { live: true },
    request: async () => {
      asked += 1;
      const refusal = refusals.shift();
      if (refusal) throw new Error(refusal);
      return { numel: 3 };
    }
  } as unknown as Controller;
  const store = { session: 's', epoch: 1, now: 0, state: { paused: null } };
  const model = {
    store,
    status: { kind: 'connected' },
    stateOf: () => 0
  } as unknown as InspectorModel;
  let kind = '';
  const answers: Answers = new Answers(controller, model, () => draw());
  const draw = (): void => void (({ kind } = answers.values(1, 'grad')));
  draw();
  return { asked: () => asked, shown: () => kind, end: () => answers.dispose() };
}

describe('a question to a kernel that is busy', () => {
  it('is asked again while somebody looks, though nothing else happens', async () => {
    const page = looking(['busy: ask again', 'busy: ask again']);
    await vi.advanceTimersByTimeAsync(0);
    expect([page.asked(), page.shown()]).toEqual([1, 'none']);
    await vi.advanceTimersByTimeAsync(10_000);
    expect([page.asked(), page.shown()]).toEqual([3, 'answer']);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(page.asked()).toBe(3);
  });

  it('is asked no more when it is refused for good, or nobody looks', async () => {
    const refused = looking(['node.seq should be a number']);
    const closed = looking(['busy: ask again']);
    await vi.advanceTimersByTimeAsync(0);
    closed.end();
    await vi.advanceTimersByTimeAsync(60_000);
    expect([refused.asked(), closed.asked()]).toEqual([1, 1]);
  });
});
