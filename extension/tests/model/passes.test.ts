// How long passes and nodes took: time in which a reader had stopped them is told apart.

import { expect, test } from 'vitest';
import { timeAxis } from '../../src/model/axis';
import { InspectorModel } from '../../src/model/inspector';
import { passesOf, runMs, tookText } from '../../src/model/passes';
import { NONE } from '../../src/protocol/schema';
import { Program } from '../synthetic/program';

/** The times of a backward with another one inside of its second node, which is stopped. */
function nested({ over }: { over: boolean }): InspectorModel {
  const program = new Program(['y = x.exp().sum()', 'y.backward()']);
  const { writer } = program;
  const x = program.leaf('x', [3]);
  const exp = program.op('ExpBackward0', 1, [x], [3]);
  const sum = program.op('SumBackward0', 1, [exp], []);
  const start = (writer.t = Math.ceil(writer.t));
  const about = { site: writer.site(program.site(2)), total: 2, retain: 0, thread: 0 };
  const run = (task: number, seq: number, order: number, t0: number, t1: number): void =>
    writer.row('runs', { seq, task, order, t0: start + t0, t1: start + t1, norm: 1, flags: 0 });
  writer.row('tasks', { ...about, task: 1, t: start, ended: 0, root: sum });
  run(1, sum, 0, 0, 2);
  writer.row('tasks', { ...about, task: 2, t: start + 3, ended: 0, root: NONE });
  writer.t = start + 20_004;
  if (!over) {
    const paused = { task: 2, seq: exp, order: 0, total: 1, thread: 0, since: start + 4 };
    writer.state.paused = paused;
  } else {
    writer.row('pauses', { task: 2, thread: 0, since: start + 4, t: start + 20_004 });
    // Another thread that waited for its turn is none of theirs.
    writer.row('pauses', { task: 9, thread: 7, since: start + 1, t: start + 20_004 });
    const ended = { ...about, ended: 1, root: NONE };
    writer.row('tasks', { ...ended, task: 2, t: start + 20_005 });
    run(1, exp, 1, 2, 20_007);
    writer.row('tasks', { ...ended, task: 1, t: start + 20_008 });
  }
  const model = new InspectorModel();
  model.receive(writer.flush());
  model.show({ kind: 'task', task: 1 });
  model.refresh();
  return model;
}

test('a stop inside of an inner pass counts in no pass and no node', () => {
  const { store, graph } = nested({ over: true });
  const passes = passesOf(store);
  expect([...passes.ms]).toEqual([8, 2]);
  expect([0, 1].map(i => tookText(passes, i))).toEqual([
    '8.0 ms, paused 20.0 s',
    '2.0 ms, paused 20.0 s'
  ]);
  const took = runMs(store);
  expect(store.runsIn.rows(1).map(took).sort()).toEqual([2, 5]);
  const { backwardX } = timeAxis(store, graph);
  expect(backwardX[2] - backwardX[1]).toBeLessThan(1.8);
});

test('a stop that lasts counts in none either', () => {
  const passes = passesOf(nested({ over: false }).store);
  expect([...passes.ms]).toEqual([4, 1]);
  expect([...passes.stopped]).toEqual([20_000, 20_000]);
});
