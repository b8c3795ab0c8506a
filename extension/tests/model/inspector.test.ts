// What the reader does: follow, choose, scrub, walk with the keys, search; and what goes wrong.

import { workOf } from '../synthetic/work';
import { describe, expect, it } from 'vitest';
import { InspectorModel } from '../../src/model/inspector';
import { search } from '../../src/model/search';
import { State } from '../../src/model/states';
import { openRecording } from '../../src/protocol/recording';
import type { Recording } from '../../src/protocol/schema';
import { Program } from '../synthetic/program';
import { chain, residual, rnn, training } from '../synthetic/recordings';

function modelOf(recording: Recording): InspectorModel {
  const model = new InspectorModel();
  for (const batch of openRecording(recording).batches) model.take(batch);
  model.refresh();
  return model;
}

function trained(steps: number): InspectorModel {
  const model = new InspectorModel();
  for (const batch of training(steps)) model.receive(batch);
  model.refresh();
  return model;
}

describe('InspectorModel', () => {
  it('follows the newest backward and stays with a chosen one', () => {
    const batches = training(4);
    const model = new InspectorModel();
    model.receive(batches[0]);
    model.receive(batches[1]);
    model.refresh();
    expect(model.graph.task).toBe(2);
    model.showNeighbour(-1);
    model.refresh();
    expect(model.graph.task).toBe(1);
    model.receive(batches[2]);
    model.refresh();
    expect(model.graph.task).toBe(1);
    model.showNeighbour(1);
    model.showNeighbour(1);
    model.refresh();
    expect(model.graph.task).toBe(3);
    model.receive(batches[3]);
    model.refresh();
    expect(model.graph.task).toBe(4);
  });

  it('carries the selection to the node in its place in another pass, and back', () => {
    const batches = training(3);
    const model = new InspectorModel();
    model.receive(batches[0]);
    model.refresh();
    const chosen = model.graph.seqs[2];
    model.select(chosen);
    model.receive(batches[1]);
    model.refresh();
    expect(model.selected).toBe(model.graph.seqs[2]);
    expect(model.selected).not.toBe(chosen);
    expect(model.stateOf(model.selected ?? -1)).toBe(State.done);
    model.showNeighbour(-1);
    model.refresh();
    expect(model.selected).toBe(chosen);
    const [leaf] = model.graph.leaves;
    model.select(leaf);
    model.receive(batches[2]);
    model.show({ kind: 'latest' });
    model.refresh();
    expect(model.selected).toBe(model.graph.leaves[0]);
    expect(model.store.label(model.selected ?? -1)).toBe(model.store.label(leaf));
  });

  it('carries it where the program was changed, and says what has no partner', () => {
    const program = new Program(['a = x @ W', 'b = a.tanh()', 'b.sum().backward()']);
    const model = new InspectorModel();
    const run = (middle: string[]): void => {
      program.step++;
      let at = program.op('MmBackward0', 1, [program.leaf('W', [4, 4])], [4, 4], { text: 'x @ W' });
      for (const name of middle) at = program.op(name, 2, [at], [4, 4], { text: name });
      program.backward(program.op('SumBackward0', 3, [at], [], { text: 'b.sum()' }), 3);
      model.receive(program.writer.flush());
      model.refresh();
    };
    const named = (): string => model.store.nameOf(model.selected ?? -1);
    run(['TanhBackward0', 'ExpBackward0']);
    model.select(model.graph.seqs[2]);
    expect(named()).toBe('TanhBackward0');
    run(['SinBackward0', 'SinBackward0', 'TanhBackward0', 'ExpBackward0']);
    expect(named()).toBe('TanhBackward0');
    expect(model.graph.indexOf.has(model.selected ?? -1)).toBe(true);
    run([]);
    expect(model.selected).toBeNull();
    expect(model.lost).toBe('TanhBackward0 (In[4] line 2)');
    run(['TanhBackward0', 'ExpBackward0']);
    expect(named()).toBe('TanhBackward0');
    expect(model.lost).toBe('');
    model.select(null);
    run(['TanhBackward0', 'ExpBackward0']);
    expect([model.selected, model.lost]).toEqual([null, '']);
  });

  it('keeps its graph object while nothing of it changed', () => {
    const model = trained(3);
    const { graph } = model;
    model.select(graph.seqs[0]);
    model.scrub(2);
    model.refresh();
    expect(model.graph).toBe(graph);
    model.show({ kind: 'task', task: 3 });
    model.refresh();
    for (const batch of training(5).slice(3)) model.receive(batch);
    model.refresh();
    expect(model.graph).toBe(graph);
  });

  it('keeps the cursor on the axis', () => {
    const model = trained(1);
    model.scrub(-5);
    expect(model.cursor).toBe(0);
    model.scrub(1e9);
    expect(model.cursor).toBe(model.length);
    model.scrub(null);
    expect(model.cursor).toBe(null);
  });

  it('walks along the edges and to leaves and back', () => {
    const model = modelOf(residual({ paused: false }));
    const { graph, store } = model;
    model.move('down');
    expect(model.selected).toBe(graph.seqs[0]);
    for (let i = 0; i < 3; i++) model.move('down');
    expect(model.selected).toBe(graph.seqs[3]);
    model.move('down');
    expect(model.selected).toBe(graph.seqs[4]);
    // The skip connection's other target stands beside it.
    model.move('right');
    expect(model.selected).toBe(graph.seqs[6]);
    model.move('left');
    expect(model.selected).toBe(graph.seqs[4]);
    model.move('down');
    model.move('right');
    expect(store.label(model.selected ?? 0)).toBe('W2');
    model.move('left');
    expect(model.selected).toBe(graph.seqs[5]);
    model.move('up');
    expect(model.selected).toBe(graph.seqs[4]);
  });

  it('starts at the next node when paused', () => {
    const model = modelOf(residual());
    model.move('up');
    expect(model.selected).toBe(model.graph.seqs[4]);
  });

  it('tells a foreign batch and goes on with the next good one', () => {
    const [one, two] = training(2);
    const model = new InspectorModel();
    model.receive(one);
    expect(model.receive({ header: { v: 9 }, buffer: new ArrayBuffer(0) })).toBe('failed');
    expect(model.failure).toMatch(/format 9/);
    expect(model.receive(two)).toBe('ok');
    expect(model.failure).toBe('');
  });

  it('asks for everything again when a batch is missing', () => {
    const [one, , three] = training(3);
    const model = new InspectorModel();
    expect(model.receive(one)).toBe('ok');
    expect(model.receive(three)).toBe('gap');
  });

  it('gives each new problem once', () => {
    const model = modelOf(residual());
    expect(model.takeNewProblems().length).toBe(1);
    expect(model.takeNewProblems().length).toBe(0);
  });

  it('builds and colours 100,000 nodes with work in proportion to them', () => {
    const work = (nodes: number): number => {
      const { batches } = openRecording(chain(nodes));
      const model = new InspectorModel();
      const done = workOf(() => {
        for (const batch of batches) model.take(batch);
        model.refresh();
      });
      expect(model.graph.seqs.length).toBe(nodes);
      return done;
    };
    const half = work(50_000);
    const whole = work(100_000);
    expect(half).toBeGreaterThan(50_000);
    expect(whole).toBeLessThan(2.5 * half);
    // About 210 blocks a node.
    expect(whole).toBeLessThan(600 * 100_000);
  });
});

describe('search', () => {
  const model = modelOf(residual());
  const found = (query: string): string[] =>
    search(model.store, model.graph, query).map(seq => model.titleOf(seq));

  it('finds names, variables, lines, shapes and saved tensors', () => {
    expect(found('logsoftmax')).toEqual(['LogSoftmaxBackward0']);
    expect(found('W2')).toContain('W2');
    expect(found('torch.relu')).toEqual(['ReluBackward0', 'MmBackward0']);
    expect(found('64x10')).toContain('LogSoftmaxBackward0');
    expect(found('mat2')).toEqual(['MmBackward0']);
    expect(found('line 3')).toEqual(['AddBackward0']);
  });

  it('takes the text of lines where nothing has the name itself', () => {
    expect([...new Set(found('relu'))]).toEqual(['ReluBackward0']);
    expect(found('torch.relu line')).toEqual(found('torch.relu'));
  });

  it('wants all words, in any order', () => {
    expect(found('mm line 1')).toEqual(['MmBackward0']);
    expect(found('relu line 1')).toEqual(['ReluBackward0']);
    expect(found('line mm 1')).toEqual(found('mm line 1'));
    expect(found('nowhere')).toEqual([]);
    expect(found('   ')).toEqual([]);
  });

  it('goes round through the hits', () => {
    const walk = modelOf(rnn(5));
    walk.setQuery('tanh');
    const hits = walk.hits.length;
    expect(hits).toBeGreaterThan(4);
    walk.nextHit(1);
    const first = walk.selected;
    for (let i = 0; i < hits; i++) walk.nextHit(1);
    expect(walk.selected).toBe(first);
    walk.nextHit(-1);
    expect(walk.selected).toBe(walk.hits[hits - 1]);
  });
});
