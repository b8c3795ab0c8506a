// Which nodes are on screen, and when two graphs are the same to the eye.

import { describe, expect, it } from 'vitest';
import { graphOfNewest, graphOfTask, neighbours } from '../../src/model/graph';
import { Store } from '../../src/model/store';
import { decodeBatch } from '../../src/protocol/decode';
import { openRecording } from '../../src/protocol/recording';
import type { Recording } from '../../src/protocol/schema';
import { Program } from '../synthetic/program';
import { chain, residual, training } from '../synthetic/recordings';

function storeOf(recording: Recording): Store {
  const store = new Store();
  for (const batch of openRecording(recording).batches) store.apply(batch);
  return store;
}

function storeOfProgram(program: Program): Store {
  const store = new Store();
  const { header, buffer } = program.writer.flush();
  store.apply(decodeBatch(header, buffer));
  return store;
}

describe('graphOfTask', () => {
  it('holds what the root reaches, newest first, with leaves as badges', () => {
    const store = storeOf(residual());
    const graph = graphOfTask(store, 1);
    const names = [...graph.seqs].map(seq => store.nameOf(seq));
    expect(names).toEqual([
      'NllLossBackward0',
      'LogSoftmaxBackward0',
      'MmBackward0',
      'AddBackward0',
      'ReluBackward0',
      'MmBackward0',
      'ReluBackward0',
      'AddBackward0',
      'MmBackward0'
    ]);
    expect([...graph.leaves].map(seq => store.label(seq))).toEqual(['W3', 'W2', 'b1', 'W1']);
    expect([...graph.seqs]).toEqual([...graph.seqs].sort((a, b) => b - a));
  });

  it('leaves out nodes that the backward does not reach', () => {
    const program = new Program(['a', 'b']);
    const w = program.leaf('w', [2]);
    const used = program.op('MulBackward0', 1, [w], [2]);
    program.op('SinBackward0', 2, [used], [2]);
    program.backward(used, 1);
    const graph = graphOfTask(storeOfProgram(program), 1);
    expect([...graph.seqs]).toEqual([used]);
  });

  it('shows an edge to a node that was never recorded as an unknown badge', () => {
    const program = new Program(['a']);
    const node = program.op('MulBackward0', 1, [77, null], [2]);
    const store = storeOfProgram(program);
    const graph = graphOfNewest(store);
    expect([...graph.badgeSeq]).toEqual([77]);
    expect([...graph.badgeKnown]).toEqual([0]);
    expect([...graph.seqs]).toEqual([node]);
  });

  it('takes a chain of 100,000 nodes', () => {
    const graph = graphOfTask(storeOf(chain(100_000)), 1);
    expect(graph.seqs.length).toBe(100_000);
    expect(graph.edgeFrom.length).toBe(99_999);
  });

  it('gives every use of a shared leaf', () => {
    const program = new Program(['a', 'b']);
    const w = program.leaf('w', [2]);
    const a = program.op('MulBackward0', 1, [w, w], [2]);
    const b = program.op('MulBackward0', 2, [a, w], [2]);
    program.backward(b, 1);
    const graph = graphOfTask(storeOfProgram(program), 1);
    expect(graph.leafUses.get(w)).toEqual([0, 1, 1]);
    expect(graph.badgeSeq.length).toBe(3);
    expect(graph.leaves.length).toBe(1);
  });
});

describe('graphOfNewest', () => {
  it('holds what hangs together with the newest node, but not through a shared leaf', () => {
    const program = new Program(['a', 'b']);
    const w = program.leaf('w', [2]);
    program.op('MulBackward0', 1, [w], [2]);
    const a = program.op('SinBackward0', 2, [w], [2]);
    const side = program.op('CosBackward0', 2, [a], [2]);
    const b = program.op('ExpBackward0', 2, [a], [2]);
    const graph = graphOfNewest(storeOfProgram(program));
    expect([...graph.seqs]).toEqual([b, side, a]);
  });
});

describe('signature', () => {
  it('is the same for every step of a training loop', () => {
    const store = new Store();
    for (const { header, buffer } of training(5)) store.apply(decodeBatch(header, buffer));
    const marks = [1, 2, 3, 4, 5].map(task => graphOfTask(store, task).signature);
    expect(new Set(marks).size).toBe(1);
  });

  it('differs when an edge, a name or a line does', () => {
    const make = (name: string, line: number, twice: boolean): string => {
      const program = new Program(['a', 'b']);
      const w = program.leaf('w', [2]);
      const a = program.op('MulBackward0', 1, [w], [2]);
      const b = program.op('SinBackward0', 1, [a], [2]);
      program.op(name, line, twice ? [a, b] : [b, b], [2]);
      // Ids are dealt in order of arrival: name the alternatives first, so that they differ by what
      // they are.
      return graphOfNewest(storeOfProgram(program)).signature;
    };
    const marks = [
      make('AddBackward0', 1, true),
      make('AddBackward0', 2, true),
      make('AddBackward0', 1, false),
      make('MulBackward0', 1, true)
    ];
    expect(new Set(marks).size).toBe(4);
  });
});

describe('neighbours', () => {
  it('names each neighbour once', () => {
    const graph = graphOfTask(storeOf(residual()), 1);
    // AddBackward0 of `out += h` leads to both relu nodes.
    expect(neighbours(graph, 3)).toEqual({ above: [2], below: [4, 6] });
    expect(neighbours(graph, 6)).toEqual({ above: [3, 5], below: [7] });
  });
});
