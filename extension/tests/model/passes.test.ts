// How long passes and nodes took: time in which a reader had stopped them is told apart.

import { expect, test } from 'vitest';
import { timeAxis } from '../../src/model/axis';
import { InspectorModel } from '../../src/model/inspector';
import { gradientText } from '../../src/model/compare/differences';
import { gradientKind } from '../../src/model/gradient_kind';
import { parametersOf } from '../../src/model/parameters';
import { passText, passesOf, runMs, tookText } from '../../src/model/passes';
import { State } from '../../src/model/states';
import { UNWATCHED } from '../../src/model/store';
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

/** The third of four passes was watched; the fourth was told when its cell had ended. */
function unwatchedLast(): InspectorModel {
  const program = new Program(['y = x.exp().sum()', 'y.backward()']);
  const { writer } = program;
  const x = program.leaf('x', [3]);
  const about = { site: writer.site(program.site(2)), total: 3, retain: 0, thread: 0 };
  for (const [task, norm, missed] of [
    [3, 1, 2],
    [9, UNWATCHED, 5]
  ]) {
    const exp = program.op('ExpBackward0', 1, [x], [3]);
    const sum = program.op('SumBackward0', 1, [exp], []);
    const t = (writer.t = Math.ceil(writer.t) + 1);
    writer.row('missed', { task, passes: missed, t });
    writer.row('tasks', { ...about, task, t, ended: 0, root: sum });
    [sum, exp, x].forEach((seq, order) =>
      writer.row('runs', { seq, task, order, t0: t + 1, t1: t + 1, norm, flags: 0 })
    );
    writer.row('tasks', { ...about, task, t: t + 1, ended: 1, root: NONE });
    writer.t += 1;
  }
  writer.state.missed = 7;
  const model = new InspectorModel();
  model.receive(writer.flush());
  model.refresh();
  return model;
}

test('a pass that nobody watched is counted, done, and of its gradients nothing is said', () => {
  const model = unwatchedLast();
  const { store, ledger, states, graph } = model;
  const passes = passesOf(store, ledger);
  expect([...passes.numbers]).toEqual([3, 9]);
  expect(store.passes).toBe(16);
  expect([...passes.unwatched]).toEqual([0, 1]);
  expect(passText(passes, 1, store.passes)).toBe(
    'backward 9 of 16, not watched while it ran, 5 before it not watched, 1.0 ms'
  );
  expect(passText(passes, 0, store.passes)).not.toContain('ran');
  expect(passes.norms[1]).toBe(-1);
  expect(graph.seqs.length).toBe(2);
  expect([...states.node]).toEqual([State.done, State.done]);
  expect([0, 1].map(i => gradientKind(states, i))).toEqual(['plain', 'plain']);
  expect(parametersOf(model, null).map(({ state, norm }) => [state, norm])).toEqual([
    ['unwatched', null]
  ]);
  expect(gradientText({ from: 1, to: UNWATCHED })).toBe('norm 1 → not watched');
});
