// States of nodes at every moment: forward, backward, pause, stale saved tensors, silent writes,
// NaN.

import { describe, expect, it } from 'vitest';
import { timeAxis } from '../../src/model/axis';
import type { Graph } from '../../src/model/graph';
import { graphOfNewest, graphOfTask } from '../../src/model/graph';
import type { States } from '../../src/model/states';
import { Flag, STATE_NAMES, statesAt } from '../../src/model/states';
import type { NodeState } from '../../src/model/states';
import { Store } from '../../src/model/store';
import { decodeBatch } from '../../src/protocol/decode';
import { openRecording } from '../../src/protocol/recording';
import { Program } from '../synthetic/program';
import { residual } from '../synthetic/recordings';

interface Shown {
  store: Store;
  graph: Graph;
  at: (cursor: number | null) => States;
  names: (cursor: number | null) => string[];
}

function shown(store: Store, graph: Graph): Shown {
  const axis = timeAxis(store, graph);
  const at = (cursor: number | null): States => statesAt(store, graph, axis, cursor);
  return {
    store,
    graph,
    at,
    names: cursor => Array.from(at(cursor).node, state => STATE_NAMES[state as NodeState])
  };
}

function ofProgram(program: Program, task: number | null = 1): Shown {
  const store = new Store();
  const { header, buffer } = program.writer.flush();
  store.apply(decodeBatch(header, buffer));
  return shown(store, task === null ? graphOfNewest(store) : graphOfTask(store, task));
}

function ofResidual(options: Parameters<typeof residual>[0]): Shown {
  const store = new Store();
  for (const batch of openRecording(residual(options)).batches) store.apply(batch);
  return shown(store, graphOfTask(store, 1));
}

describe('states', () => {
  it('of a paused backward: done above, next at the pause, waiting below', () => {
    const { names, at } = ofResidual({ problem: false });
    expect(names(null)).toEqual([
      'done',
      'done',
      'done',
      'done',
      'next',
      'waiting',
      'waiting',
      'waiting',
      'waiting'
    ]);
    expect(at(null).next).toBe(4);
    expect(at(null).norm[0]).toBeGreaterThan(0);
    expect(at(null).norm[5]).toBe(-1);
  });

  it('move one node per event when the reader goes through time', () => {
    const { names, graph, at } = ofResidual({ paused: false, problem: false });
    const count = graph.seqs.length;
    expect(names(0)).toEqual(new Array(count).fill('not created yet'));
    for (let created = 0; created <= count; created++) {
      expect(names(created).filter(name => name === 'not created yet').length).toBe(
        count - created
      );
    }
    const leaves = graph.leaves.length;
    for (let ran = 0; ran <= count + leaves; ran++) {
      const states = at(count + ran);
      const done = names(count + ran).filter(name => name === 'done').length;
      const leavesDone = [...states.leaf.values()].filter(
        state => STATE_NAMES[state] === 'done'
      ).length;
      expect(done + leavesDone).toBe(ran);
      expect(states.next >= 0 || states.nextLeaf >= 0).toBe(ran < count + leaves);
    }
  });

  it('tell a node whose problem was raised', () => {
    const { names } = ofResidual({ problem: true });
    // The pause is at that node: what happens now comes first.
    expect(names(null)[4]).toBe('next');
    const { names: past } = ofResidual({ problem: true });
    expect(past(9)[4]).toBe('problem');
  });

  it('mark saved tensors that were overwritten, from the write until the node ran', () => {
    const { at, graph, store } = ofResidual({ paused: false, problem: false });
    const stale = (cursor: number | null): number[] =>
      [...at(cursor).flags].flatMap((flag, i) => (flag & Flag.stale ? [i] : []));
    expect(stale(9)).toEqual([4]);
    // Before the line that writes had run nothing was stale.
    expect(stale(5)).toEqual([]);
    const order = store.runsIn.rows(1).map(row => graph.indexOf.get(store.runs.at.seq[row]));
    const ran = order.indexOf(4);
    expect(stale(9 + ran)).toEqual([4]);
    expect(stale(9 + ran + 1)).toEqual([]);
  });

  it('see a write through .data, which moves no version', () => {
    const program = new Program(['y = x.exp()', 'y.data.zero_()']);
    const store = program.storage();
    program.write(store, 1, 'add_', 1);
    const w = program.leaf('w', [2]);
    const loud = program.op('ExpBackward0', 1, [w], [2], {
      saved: [{ name: 'result', storage: store, version: 1, own: true }]
    });
    const before = ofProgram(program, null);
    expect(before.at(null).flags[before.graph.indexOf.get(loud)] & Flag.stale).toBe(0);

    const again = new Program(['y = x.exp()', 'y.data.zero_()']);
    again.write(1, 1, 'add_', 1);
    const node = again.op('ExpBackward0', 1, [again.leaf('w', [2])], [2], {
      saved: [{ name: 'result', storage: 1, version: 1, own: true }]
    });
    again.write(1, 1, 'zero_', 2, 2);
    const after = ofProgram(again, null);
    expect(after.at(null).flags[after.graph.indexOf.get(node)] & Flag.stale).toBe(Flag.stale);
  });

  it('turn to problem where NaN arrived', () => {
    const program = new Program(['a']);
    let x = program.leaf('w', [2]);
    for (let i = 0; i < 4; i++) x = program.op('LogBackward0', 1, [x], [2]);
    program.backward(x, 1, { nanAt: 2 });
    const { names, at } = ofProgram(program);
    expect(names(null)).toEqual(['done', 'done', 'problem', 'problem']);
    expect(at(null).flags[2] & Flag.nonfinite).toBe(Flag.nonfinite);
    expect(at(null).peak).toBeGreaterThan(0);
    expect(Number.isNaN(at(null).norm[3])).toBe(true);
  });

  it('flag breakpoints on a node and on a name', () => {
    const program = new Program(['a']);
    const a = program.op('MulBackward0', 1, [program.leaf('w', [2])], [2]);
    const b = program.op('SinBackward0', 1, [a], [2]);
    const c = program.op('MulBackward0', 1, [b], [2]);
    program.writer.state.breakpoints = [
      { id: 1, kind: 'name', name: 'MulBackward0' },
      { id: 2, kind: 'node', seq: b }
    ];
    const one = ofProgram(program, null);
    const flagged = [a, b, c].filter(
      seq => one.at(null).flags[one.graph.indexOf.get(seq)] & Flag.breakpoint
    );
    expect(flagged).toEqual([a, b, c]);
  });

  it('tell nodes that were freed before they could run', () => {
    const program = new Program(['a']);
    const a = program.op('MulBackward0', 1, [program.leaf('w', [2])], [2]);
    program.writer.row('freed', { seq: a, t: program.writer.t });
    expect(ofProgram(program, null).names(null)).toEqual(['freed']);
  });
});

describe('timeAxis', () => {
  it('orders nodes as they were created and runs as they ran, and keeps a long pause short', () => {
    const program = new Program(['a']);
    let x = program.leaf('w', [2]);
    for (let i = 0; i < 6; i++) x = program.op('MulBackward0', 1, [x], [2]);
    program.writer.t += 60_000;
    x = program.op('MulBackward0', 1, [x], [2]);
    program.backward(x, 1, { until: 3 });
    const { store, graph } = ofProgram(program);
    const axis = timeAxis(store, graph);
    expect([...axis.forward]).toEqual([6, 5, 4, 3, 2, 1, 0]);
    expect(axis.runs.length).toBe(3);
    expect(axis.slots).toBe(8);
    for (let i = 0; i < 7; i++) {
      const width = axis.forwardX[i + 1] - axis.forwardX[i];
      expect(width).toBeGreaterThan(0.5);
      expect(width).toBeLessThan(2);
    }
  });
});
