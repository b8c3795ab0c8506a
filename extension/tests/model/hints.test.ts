// What a backward pass is remarkable for: its first NaN, and where its gradient became zero.

import { expect, it } from 'vitest';
import { InspectorModel } from '../../src/model/inspector';
import { hintsOf } from '../../src/model/hints';
import { OfflineController } from '../../src/model/offline';
import { residual } from '../synthetic/recordings';

function filled(): InspectorModel {
  const model = new InspectorModel();
  new OfflineController(residual()).fill(model);
  model.refresh();
  return model;
}

it('has nothing to say of an ordinary pass', () => {
  expect(hintsOf(filled())).toEqual([]);
});

it('finds the first run with a NaN, and what computed it', () => {
  const model = filled();
  const { axis, store } = model;
  for (const row of axis.runs.subarray(2)) store.runs.at.flags[row] = 1;
  const [hint, ...rest] = hintsOf(model);
  expect(rest).toEqual([]);
  expect(hint.kind).toBe('nonfinite');
  expect(hint.seq).toBe(store.runs.at.seq[axis.runs[2]]);
  expect(hint.moment).toBe(axis.forward.length + 3);
  expect(hint.title).toContain(`\`${model.titleOf(hint.seq)}\` in step 3`);
  expect(hint.detail).toContain('which had a finite gradient');
});

it('says where a gradient became zero, and not what follows from it', () => {
  const model = filled();
  const { axis, store } = model;
  for (const row of axis.runs.subarray(1)) store.runs.at.norm[row] = 0;
  const [hint, ...rest] = hintsOf(model);
  expect(rest).toEqual([]);
  expect(hint.seq).toBe(store.runs.at.seq[axis.runs[1]]);
  expect(hint.detail).toContain(model.titleOf(store.runs.at.seq[axis.runs[0]]));
  store.runs.at.norm[axis.runs[0]] = 0;
  expect(hintsOf(model)[0].detail).toContain('began with a gradient that is zero');
});
