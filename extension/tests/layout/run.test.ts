// Where the layout runs: in a worker, in pieces where there is none, and never for nobody.

import { afterEach, describe, expect, it, vi } from 'vitest';
import { layoutInput } from '../../src/layout/input';
import { layOut } from '../../src/layout/layout';
import type { LayoutInput } from '../../src/layout/measures';
import { AT_ONCE, LayoutRunner } from '../../src/layout/run';
import { InspectorModel } from '../../src/model/inspector';
import { openRecording } from '../../src/protocol/recording';
import { dag } from '../synthetic/recordings';

function inputOf(count: number): LayoutInput {
  const model = new InspectorModel();
  for (const batch of openRecording(dag(count)).batches) model.take(batch);
  model.refresh();
  model.foldAll(true);
  model.refresh();
  return layoutInput(model.store, model.view, null);
}

const large = inputOf(AT_ONCE);
const wanted = layOut(large);

/** A worker that does what the test says. */
function workers(answer: (post: Worker, data: { id: number; input: LayoutInput }) => void): void {
  vi.stubGlobal(
    'Worker',
    class {
      onmessage: ((event: MessageEvent) => void) | null = null;
      onerror: ((event: unknown) => void) | null = null;
      postMessage(data: { id: number; input: LayoutInput }): void {
        setTimeout(() => answer(this as unknown as Worker, data));
      }
      terminate(): void {}
    }
  );
}

afterEach(() => vi.unstubAllGlobals());

describe('LayoutRunner', () => {
  it('gives the same layout in pieces as at once', async () => {
    vi.stubGlobal('Worker', undefined);
    const found = await new LayoutRunner().run(large);
    expect(found?.x).toEqual(wanted.x);
    expect(found?.routeY).toEqual(wanted.routeY);
  });

  it('uses a worker where one may be started', async () => {
    workers((worker, { id, input }) =>
      worker.onmessage?.({ data: { id, layout: layOut(input) } } as MessageEvent)
    );
    const found = await new LayoutRunner().run(large);
    expect(found?.y).toEqual(wanted.y);
  });

  it('goes on by itself when the page forbids workers, at once or later', async () => {
    vi.stubGlobal(
      'Worker',
      class {
        constructor() {
          throw new Error('refused by the content security policy');
        }
      }
    );
    expect((await new LayoutRunner().run(large))?.x).toEqual(wanted.x);
    workers(worker => worker.onerror?.({} as ErrorEvent));
    const runner = new LayoutRunner();
    expect((await runner.run(large))?.x).toEqual(wanted.x);
    expect((await runner.run(large))?.x).toEqual(wanted.x);
  });

  it('goes on by itself when the worker fails', async () => {
    workers((worker, { id }) =>
      worker.onmessage?.({ data: { id, error: 'out of memory' } } as MessageEvent)
    );
    expect((await new LayoutRunner().run(large))?.x).toEqual(wanted.x);
  });

  it('gives up a layout that is not wanted any more', async () => {
    vi.stubGlobal('Worker', undefined);
    const runner = new LayoutRunner();
    const first = runner.run(large);
    const second = runner.run(large);
    expect(await first).toBeNull();
    expect((await second)?.x).toEqual(wanted.x);
    const third = runner.run(large);
    runner.dispose();
    expect(await third).toBeNull();
  });
});
