// A picture without numbers asks for them once, when a reader wants them.

import { expect, it, vi } from 'vitest';
import { OfflineController } from '../../src/model/offline';
import { residual } from '../synthetic/recordings';

const NUMBERS = { nodes: [], seq: null, why: 'It is gone.' };

it('asks for numbers when they are wanted, and says why there are none', async () => {
  const numbers = vi.fn(() => Promise.resolve(NUMBERS));
  const controller = new OfflineController(residual(), numbers);
  expect(numbers).not.toHaveBeenCalled();
  const [one, other] = await Promise.all([
    controller.request('scalars', { seqs: [1] }),
    controller.request('scalars', { seqs: [2] })
  ]);
  expect(numbers).toHaveBeenCalledTimes(1);
  expect(one).toEqual({ nodes: [], seq: null, why: 'It is gone.' });
  expect(other).toEqual(one);
});

it('has nothing to ask without a kernel', async () => {
  const controller = new OfflineController(residual());
  const { why } = await controller.request('scalars', { seqs: [1] });
  expect(why).toContain('were not kept');
});
