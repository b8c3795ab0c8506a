// Which way the edges of graphs lead, alone and beside each other.

import { expect, it } from 'vitest';
import { Turning } from '../../src/draw/turning';
import { InspectorModel } from '../../src/model/inspector';
import { OfflineController } from '../../src/model/offline';
import type { Recording } from '../../src/protocol/schema';
import { residual, rnn } from '../synthetic/recordings';

function modelOf(recording: Recording): InspectorModel {
  const model = new InspectorModel();
  new OfflineController(recording).fill(model);
  model.refresh();
  return model;
}

const WIDE = { width: 1400, height: 260 };
const HIGH = { width: 300, height: 900 };

it('is to the side where there is more room', () => {
  const turning = new Turning([modelOf(residual())]);
  expect(turning.choose(WIDE, 'wide')).toBe(true);
  expect(turning.across).toBe(true);
  // What opens beside the graph is no reason; another room is one.
  expect(turning.choose(HIGH, 'wide')).toBe(false);
  expect(turning.choose(HIGH, 'high')).toBe(true);
  expect(turning.across).toBe(false);
});

it('is one for graphs beside each other, and changes with either', () => {
  const [one, other] = [modelOf(residual()), modelOf(rnn(10))];
  const turning = new Turning([one, other]);
  turning.choose(WIDE, 'wide');
  const { across } = turning;
  expect(turning.choose({ width: 20, height: 20_000 }, 'wide')).toBe(false);
  turning.choose({ width: 20, height: 20_000 }, 'narrow');
  expect([across, turning.across]).toEqual([true, false]);
  turning.forget();
  expect(turning.choose({ width: 1, height: 1 }, 'nothing drawn yet')).toBe(false);
});
