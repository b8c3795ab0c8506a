// What differs between two graphs, and that the answer is the smallest one.

import { workOf } from '../synthetic/work';
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { align, rising } from '../../src/model/compare/align';
import type { Comparison } from '../../src/model/compare/differences';
import { KIND_NAMES, Kind, compare, gradientText } from '../../src/model/compare/differences';
import { factsOf } from '../../src/model/compare/facts';
import type { Source } from '../../src/model/compare/side';
import { Side } from '../../src/model/compare/side';
import { sourcesOfRecording } from '../../src/model/compare/sources';
import { graphOfTask } from '../../src/model/graph';
import { Store } from '../../src/model/store';
import { decodeBatch } from '../../src/protocol/decode';
import { openRecording } from '../../src/protocol/recording';
import type { Recording } from '../../src/protocol/schema';
import { Program } from '../synthetic/program';
import { chain, dag, hostile, rnn } from '../synthetic/recordings';

function storeOf(recording: Recording): Store {
  const store = new Store();
  for (const batch of openRecording(recording).batches) store.apply(batch);
  return store;
}

function compared(a: Recording | Store, b: Recording | Store): Comparison {
  const facts = (of: Recording | Store): ReturnType<typeof factsOf> => {
    const store = of instanceof Store ? of : storeOf(of);
    return factsOf(store, graphOfTask(store, 1));
  };
  return compare(facts(a), facts(b));
}

interface Net {
  widths: number[];
  activation?: (layer: number) => string;
  batch?: number;
  text?: string;
  nanAt?: number;
  skip?: boolean;
}

/** A network of layers that one line makes, as a loop over layers does. */
function net({ widths, activation, batch = 16, text = 'act(x @ w)', nanAt, skip }: Net): Store {
  const program = new Program(['for w in weights:', `    x = ${text}`, 'loss = x.sum()']);
  let x: number | null = null;
  for (let i = 0; i + 1 < widths.length; i++) {
    const w = program.leaf(`w${i}`, [widths[i], widths[i + 1]]);
    const shape = [batch, widths[i + 1]];
    const mm: number = program.op('MmBackward0', 2, [x, w], shape, { text: 'x @ w' });
    const act: number = program.op(activation?.(i) ?? 'ReluBackward0', 2, [mm], shape, {
      text,
      saved: [{ name: 'result', storage: program.storage(), own: true }]
    });
    const same: boolean | undefined = skip && x !== null && widths[i] === widths[i + 1];
    x = same ? program.op('AddBackward0', 2, [act, x], shape) : act;
  }
  const loss = program.op('SumBackward0', 3, [x], []);
  program.backward(loss, 3, { nanAt });
  const store = new Store();
  const { header, buffer } = program.writer.flush();
  store.apply(decodeBatch(header, buffer));
  return store;
}

const WIDE = [8, 64, 64, 64, 64, 64, 4];

describe('align', () => {
  const lengthOf = (a: number[], b: number[]): number => {
    const row = (): number[] => new Array<number>(b.length + 1).fill(0);
    const rows = Array.from({ length: a.length + 1 }, row);
    for (let i = 1; i <= a.length; i++)
      for (let j = 1; j <= b.length; j++)
        rows[i][j] =
          a[i - 1] === b[j - 1]
            ? rows[i - 1][j - 1] + 1
            : Math.max(rows[i - 1][j], rows[i][j - 1]);
    return rows[a.length][b.length];
  };

  it('finds as many pairs as the table of all parts does', () => {
    let state = 7;
    const next = (n: number): number => (state = (state * 48271) % 2147483647) % n;
    for (let round = 0; round < 300; round++) {
      const a = Array.from({ length: next(24) }, () => next(4));
      const b = Array.from({ length: next(24) }, () => next(4));
      const pairs = align(a, b);
      expect(pairs.every(([i, j]) => a[i] === b[j])).toBe(true);
      pairs.slice(1).forEach(([i, j], k) => {
        expect(i).toBeGreaterThan(pairs[k][0]);
        expect(j).toBeGreaterThan(pairs[k][1]);
      });
      expect(pairs.length).toBe(lengthOf(a, b));
    }
  });

  it('takes the coarse way where two long rows have little in common', () => {
    const a = Array.from({ length: 20_000 }, (_, i) => (i * 7919) % 5000);
    const b = Array.from({ length: 20_000 }, (_, i) => (i * 104729) % 5000);
    let pairs: [number, number][] = [];
    // The walk is given up after a fixed number of steps; about 240 blocks a number.
    const work = workOf(() => (pairs = align(a, b)));
    expect(work).toBeGreaterThan(20_000);
    expect(work).toBeLessThan(1000 * 20_000);
    expect(pairs.length).toBeGreaterThan(0);
    expect(pairs.every(([i, j]) => a[i] === b[j])).toBe(true);
  });

  it('keeps the longest rising part', () => {
    const found = rising([
      [0, 5],
      [1, 1],
      [2, 2],
      [3, 0],
      [4, 3]
    ]);
    expect(found).toEqual([
      [1, 1],
      [2, 2],
      [4, 3]
    ]);
  });
});

describe('recordings of version 1', () => {
  const golden = new URL('../../../tests/golden/recordings/', import.meta.url);
  const sourcesOf = (name: string): Source[] => {
    const text = gunzipSync(readFileSync(new URL(name, golden))).toString();
    return sourcesOfRecording(openRecording(text), name);
  };

  it.each([
    ['before_after', 'v1_after.agv', 1, 0],
    ['steps_1_2', 'v1_before.agv', 0, 1]
  ])('always open, and differ as the Python side says: %s', (name, other, first, second) => {
    const a = new Side(sourcesOf('v1_before.agv')[first]);
    const b = new Side(sourcesOf(other)[second]);
    const found = compare(a.facts, b.facts);
    const all = JSON.parse(readFileSync(new URL('compared.json', golden), 'utf8'));
    const { nodes, leaves, differences } = all[name];
    expect(found.nodes).toEqual(nodes);
    expect(found.leaves).toEqual(leaves);
    const told = found.differences.map(d => [
      KIND_NAMES[d.kind],
      d.leaf,
      d.a,
      d.b,
      d.changes.map(({ what }) => what)
    ]);
    const sorted = (rows: unknown[]): string[] => rows.map(row => JSON.stringify(row)).sort();
    expect(sorted(told)).toEqual(sorted(differences));
  });
});

describe('compare', () => {
  it('finds nothing between a graph and itself', () => {
    for (const recording of [rnn(30), dag(400), chain(100), hostile()]) {
      const found = compared(recording, recording);
      expect(found.differences).toEqual([]);
      expect(found.nodes).toMatchObject({ added: 0, removed: 0, changed: 0 });
      expect(found.summary).toMatch(/^No difference in [\d,]+ nodes?; gradients match\.$/);
    }
  });

  it('names an op that changed in the middle of a repeated structure', () => {
    const gelu = (i: number): string => (i === 3 ? 'GeluBackward0' : 'ReluBackward0');
    const found = compared(net({ widths: WIDE }), net({ widths: WIDE, activation: gelu }));
    expect(found.nodes).toEqual({ added: 0, removed: 0, changed: 1, equal: 12 });
    expect(found.leaves).toEqual({ added: 0, removed: 0, changed: 0, equal: 6 });
    expect(found.differences.map(({ title, changes }) => [title, changes])).toEqual([
      [
        'ReluBackward0 → GeluBackward0',
        [{ what: 'op', of: '', from: 'ReluBackward0', to: 'GeluBackward0' }]
      ]
    ]);
  });

  it.each([true, false])('finds an inserted layer, all others being equal (skip %s)', skip => {
    const deeper = [...WIDE.slice(0, 3), 64, ...WIDE.slice(3)];
    const found = compared(net({ widths: WIDE, skip }), net({ widths: deeper, skip }));
    const more = skip ? 3 : 2;
    expect(found.nodes).toMatchObject({ added: more, removed: 0, changed: 0 });
    expect(found.leaves).toMatchObject({ added: 1, removed: 0 });
    const [added] = found.differences.filter(({ kind, leaf }) => kind === Kind.added && !leaf);
    expect(added.b).toHaveLength(more);
    const back = compared(net({ widths: deeper, skip }), net({ widths: WIDE, skip }));
    expect(back.nodes).toMatchObject({ added: 0, removed: more, changed: 0 });
  });

  it('follows a width through the nodes that have it', () => {
    const other = [8, 64, 64, 32, 64, 64, 4];
    const found = compared(net({ widths: WIDE }), net({ widths: other }));
    expect(found.nodes).toEqual({ added: 0, removed: 0, changed: 2, equal: 11 });
    expect(found.leaves).toEqual({ added: 0, removed: 0, changed: 2, equal: 4 });
    const shape = { what: 'shape', of: '', from: '[16, 64]', to: '[16, 32]' };
    expect(found.differences.filter(({ leaf }) => !leaf).map(({ changes }) => changes)).toEqual([
      [shape],
      [shape]
    ]);
  });

  it('matches all nodes though every shape changed', () => {
    const found = compared(net({ widths: WIDE }), net({ widths: WIDE, batch: 32 }));
    expect(found.nodes).toEqual({ added: 0, removed: 0, changed: 12, equal: 1 });
    expect(found.leaves.equal).toBe(6);
  });

  it('names an edited line once for each node of it', () => {
    const edited = net({ widths: [4, 4, 4], text: 'act(x @ w) * 1' });
    const found = compared(net({ widths: [4, 4, 4] }), edited);
    expect(found.nodes).toMatchObject({ added: 0, removed: 0, changed: 4 });
    expect(found.differences[0].changes[0]).toMatchObject({ what: 'source' });
  });

  it('tells gradients apart by factor, NaN before all', () => {
    const found = compared(net({ widths: WIDE }), net({ widths: WIDE, nanAt: 8 }));
    expect(found.nodes.changed).toBe(0);
    expect(found.differences.length).toBeGreaterThan(3);
    expect(found.differences[0].gradient?.to).toBeNaN();
    expect(found.summary).toContain('from or to NaN, ∞ or nothing');
    expect(gradientText({ from: 0.5, to: 2 })).toBe('norm 0.5 → 2, 4 times larger');
    expect(gradientText({ from: 2, to: 0.5 })).toBe('norm 2 → 0.5, 4 times smaller');
    expect(gradientText({ from: 2, to: 2 })).toBe('norm 2 → 2, the same');
    expect(gradientText({ from: -1, to: 2 })).toBe('norm no gradient → 2');
  });

  it('tells an input that needs no gradient any more', () => {
    const make = (cut: boolean): Store => {
      const program = new Program(['y = a * b']);
      const [a, b] = [program.leaf('a', [2]), program.leaf('b', [2])];
      program.backward(program.op('MulBackward0', 1, [a, cut ? null : b], [2]), 1);
      const store = new Store();
      const { header, buffer } = program.writer.flush();
      store.apply(decodeBatch(header, buffer));
      return store;
    };
    const found = compared(make(false), make(true));
    expect(found.differences[0].changes).toEqual([
      { what: 'inputs', of: 'input 2', from: 'b', to: 'nothing' }
    ]);
    expect(found.leaves).toMatchObject({ removed: 1, equal: 1 });
  });

  it('tells attributes where both sides know them', () => {
    const store = net({ widths: [4, 4] });
    const graph = graphOfTask(store, 1);
    const facts = (value: string): ReturnType<typeof factsOf> =>
      factsOf(store, graph, seq =>
        store.nameOf(seq) === 'SumBackward0' ? new Map([['dim', value]]) : null
      );
    const found = compare(facts('(0,)'), facts('(1,)'));
    expect(found.nodes.changed).toBe(1);
    expect(found.differences[0].changes).toEqual([
      { what: 'attribute', of: 'dim', from: '(0,)', to: '(1,)' }
    ]);
  });

  it('pairs every node at most once, in both directions', () => {
    const found = compared(dag(500, 1), dag(480, 2));
    found.matching.ofA.forEach((j, i) => j >= 0 && expect(found.matching.ofB[j]).toBe(i));
    found.matching.ofB.forEach((i, j) => i >= 0 && expect(found.matching.ofA[i]).toBe(j));
    const { nodes } = found;
    expect(nodes.equal + nodes.changed + nodes.removed).toBe(found.a.seqs.length);
    expect(nodes.equal + nodes.changed + nodes.added).toBe(found.b.seqs.length);
  });

  it.each([
    ['a graph and itself', dag(10_000, 1), dag(10_000, 1)],
    ['a loop of more turns', rnn(2000), rnn(2100)],
    ['nothing in common', dag(10_000, 1), dag(10_000, 2)]
  ])('compares 10,000 nodes with little work for each: %s', (_, a, b) => {
    const [one, other] = [storeOf(a), storeOf(b)];
    const work = workOf(() => compared(one, other));
    // 500 to 1000 blocks a node.
    expect(work).toBeGreaterThan(10_000);
    expect(work).toBeLessThan(2000 * 10_000);
  });
});
