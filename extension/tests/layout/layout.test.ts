// Properties of the layout: nothing overlaps, edges lead downward, time grows linearly, what stood
// stays.

import { workOf } from '../synthetic/work';
import { describe, expect, it } from 'vitest';
import { extentOf, readable } from '../../src/layout/extent';
import { layoutInput } from '../../src/layout/input';
import { layOut } from '../../src/layout/layout';
import type { Layout, LayoutInput } from '../../src/layout/measures';
import { NODE_HEIGHT } from '../../src/layout/measures';
import { ranks } from '../../src/layout/ranks';
import type { Recording } from '../../src/protocol/schema';
import { openRecording } from '../../src/protocol/recording';
import { InspectorModel } from '../../src/model/inspector';
import { Program } from '../synthetic/program';
import { chain, dag, layers, random, residual, rnn } from '../synthetic/recordings';
import { recordingOf } from '../synthetic/writer';

function modelOf(recording: Recording): InspectorModel {
  const model = new InspectorModel();
  for (const batch of openRecording(recording).batches) model.take(batch);
  model.refresh();
  model.foldAll(true);
  model.refresh();
  return model;
}

function laidOut(
  recording: Recording,
  upward = false,
  across = false
): {
  model: InspectorModel;
  input: LayoutInput;
  layout: Layout;
} {
  const model = modelOf(recording);
  const input = layoutInput(model.store, model.view, null, upward, across);
  return { model, input, layout: layOut(input) };
}

/** Pairs of rectangles that overlap, found by a sweep over y. */
function overlaps(
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  w: (i: number) => number,
  h: (i: number) => number
): number {
  const order = Array.from({ length: x.length }, (_, i) => i).sort((a, b) => y[a] - y[b]);
  let found = 0;
  for (let i = 0; i < order.length; i++) {
    for (let j = i + 1; j < order.length && y[order[j]] < y[order[i]] + h(order[i]) - 0.01; j++) {
      const [a, b] = [order[i], order[j]];
      if (x[a] < x[b] + w(b) - 0.01 && x[b] < x[a] + w(a) - 0.01) found++;
    }
  }
  return found;
}

function check({ input, layout }: { input: LayoutInput; layout: Layout }): void {
  const side = (i: number): number => input.boxWidth[i];
  const under = (i: number): number => input.boxHeight[i];
  expect(overlaps(layout.x, layout.y, side, under)).toBe(0);
  expect(
    overlaps(
      layout.groupX,
      layout.groupY,
      g => layout.groupWidth[g],
      g => layout.groupHeight[g]
    )
  ).toBe(0);
  for (let v = 0; v < input.count; v++) {
    const g = input.groupOf[v];
    expect(layout.x[v]).toBeGreaterThanOrEqual(layout.groupX[g] - 0.01);
    expect(layout.y[v]).toBeGreaterThanOrEqual(layout.groupY[g] - 0.01);
    expect(layout.x[v] + side(v)).toBeLessThanOrEqual(
      layout.groupX[g] + layout.groupWidth[g] + 0.01
    );
    expect(layout.y[v] + under(v)).toBeLessThanOrEqual(
      layout.groupY[g] + layout.groupHeight[g] + 0.01
    );
  }
  // Edges leave a node on the side that they lead to, and go on in that direction.
  const [place, route, long] = layout.across
    ? [layout.x, layout.routeX, input.nodeWidth]
    : [layout.y, layout.routeY, NODE_HEIGHT];
  const [sign, leaves, arrives] = layout.upward ? [-1, 0, long] : [1, long, 0];
  for (let e = 0; e < input.edgeFrom.length; e++) {
    const [a, b] = [input.edgeFrom[e], input.edgeTo[e]];
    const end = place[b] + arrives;
    let y = place[a] + leaves;
    expect(sign * (end - y)).toBeGreaterThan(0);
    for (let p = layout.routeStart[e]; p < layout.routeStart[e + 1]; p++) {
      expect(sign * (route[p] - y)).toBeGreaterThanOrEqual(-0.01);
      y = route[p];
    }
    expect(sign * (end - y)).toBeGreaterThanOrEqual(-0.01);
  }
}

describe('layout', () => {
  it('keeps nodes, badges and frames apart and lets every edge lead downward', () => {
    check(laidOut(residual()));
    check(laidOut(rnn(60)));
    check(laidOut(chain(300)));
    for (let seed = 1; seed <= 5; seed++) check(laidOut(dag(400, seed)));
  });

  it('turns round: what ran first stands on top, and every edge leads upward', () => {
    for (const recording of [residual(), rnn(60), dag(400, 3)]) {
      const turned = laidOut(recording, true);
      check(turned);
      const { layout } = laidOut(recording);
      expect([turned.layout.width, turned.layout.height]).toEqual([layout.width, layout.height]);
      expect(turned.layout.x).toEqual(layout.x);
    }
  });

  it('lays rows beside each other, in either direction, with nothing over anything', () => {
    for (const upward of [false, true]) {
      check(laidOut(residual(), upward, true));
      check(laidOut(rnn(60), upward, true));
      for (let seed = 1; seed <= 5; seed++) check(laidOut(dag(400, seed), upward, true));
    }
  });

  it('puts a chain with side branches in one line where rows stand beside each other', () => {
    const { model, input, layout } = laidOut(layers(20, ['TBackward0'], 2), false, true);
    check({ input, layout });
    const spine = Array.from(layout.y).filter((_y, box) =>
      /^(Addmm|Sigmoid|Add)Backward0$/.test(model.store.nameOf(model.view.seqs[box]))
    );
    expect(spine.length).toBeGreaterThanOrEqual(40);
    expect(Math.max(...spine) - Math.min(...spine)).toBeLessThanOrEqual(1);
  });

  it('knows the size of a drawing without lanes before it is laid out', () => {
    for (const across of [false, true]) {
      for (const recording of [residual(), layers(20, ['TBackward0'], 0), rnn(20)]) {
        const { input, layout } = laidOut(recording, false, across);
        const { width, height } = extentOf(input);
        const [long, guess] = across ? [layout.width, width] : [layout.height, height];
        expect(guess).toBeCloseTo(long, 3);
      }
    }
  });

  it('turns a long narrow graph to the side in a wide view, and in no other', () => {
    const model = modelOf(layers(20, ['TBackward0'], 0));
    const wins = (width: number, height: number): boolean => {
      const [down, right] = [false, true].map(across => {
        const input = layoutInput(model.store, model.view, null, false, across);
        return readable(extentOf(input), { width, height }, 0.7, 0.85);
      });
      return right > down;
    };
    expect(wins(1500, 420)).toBe(true);
    expect(wins(900, 240)).toBe(true);
    expect(wins(700, 700)).toBe(false);
    expect(wins(420, 900)).toBe(false);
  });

  it('lets passing edges keep clear of the nodes that they pass', () => {
    const { input, layout } = laidOut(residual());
    for (let e = 0; e < input.edgeFrom.length; e++) {
      for (let p = layout.routeStart[e]; p + 1 < layout.routeStart[e + 1]; p += 2) {
        for (let v = 0; v < input.count; v++) {
          const inside =
            layout.routeX[p] > layout.x[v] &&
            layout.routeX[p] < layout.x[v] + input.nodeWidth &&
            layout.routeY[p] < layout.y[v] + NODE_HEIGHT &&
            layout.routeY[p + 1] > layout.y[v];
          expect(inside).toBe(false);
        }
      }
    }
  });

  it('puts a straight chain in one column', () => {
    const { input, layout } = laidOut(residual());
    const middles = new Set(Array.from(layout.x, x => Math.round(x + input.nodeWidth / 2)));
    expect(Math.max(...middles) - Math.min(...middles)).toBeLessThanOrEqual(1);
  });

  it.each([
    ['a transposed weight', ['TBackward0'], 0],
    ['a weight that was computed', ['ExpBackward0', 'MulBackward0'], 0],
    ['a transposed weight, and residual blocks', ['TBackward0'], 2],
    ['a computed weight, and residual blocks', ['ExpBackward0'], 2]
  ])('keeps the spine straight beside %s', (_, side, every) => {
    const { model, input, layout } = laidOut(layers(20, side, every));
    check({ input, layout });
    const spine = Array.from(layout.x).filter((_x, box) =>
      /^(Addmm|Sigmoid|Add)Backward0$/.test(model.store.nameOf(model.view.seqs[box]))
    );
    expect(spine.length).toBeGreaterThanOrEqual(40);
    expect(Math.max(...spine) - Math.min(...spine)).toBeLessThanOrEqual(1);
  });

  it('stands the nodes of branches beside each other straight, in either direction', () => {
    const program = new Program(['y = f(a) * g(a)']);
    const branch = (from: number, length: number): number => {
      let at = from;
      for (let i = 0; i < length; i++) at = program.op('SinBackward0', 1, [at], [4]);
      return at;
    };
    const a = program.op('ExpBackward0', 1, [program.leaf('a', [4])], [4]);
    const ends = [branch(a, 6), branch(a, 6), branch(a, 6)];
    const sum = program.op('CatBackward0', 1, ends, [12]);
    program.backward(program.op('SumBackward0', 1, [sum], []), 1);
    const recording = recordingOf([program.writer.flush()]);
    for (const across of [false, true]) {
      const { model, layout } = laidOut(recording, false, across);
      const place = across ? layout.y : layout.x;
      const columns = new Map<number, number>();
      model.view.seqs.forEach((seq, box) => {
        if (model.store.nameOf(seq) !== 'SinBackward0') return;
        const column = Math.round(place[box]);
        columns.set(column, (columns.get(column) ?? 0) + 1);
      });
      expect([...columns.values()]).toEqual([6, 6, 6]);
    }
  });

  it('draws a parameter once per use', () => {
    const { model } = laidOut(rnn(60));
    expect(model.graph.leaves.length).toBe(4);
    expect(model.graph.badgeSeq.length).toBe(3 * 60 + 1);
    expect(model.graph.seqs.length).toBe(5 * 60 + 1);
  });

  it('bundles the edges of a node that many others use, in either direction', () => {
    const program = new Program(['w = f(p)', 'h = g(h, w)', 'loss = cat(all)']);
    const shared = program.op('SliceBackward0', 1, [program.leaf('p', [4])], [4]);
    const all: number[] = [];
    let h = program.leaf('h', [4]);
    for (let i = 0; i < 400; i++) {
      h = program.op('MulBackward0', 2, [h, shared], [4]);
      all.push(h);
    }
    const loss = program.op('CatBackward0', 3, all, [400, 4]);
    program.backward(loss, 3);
    const { input, layout } = laidOut(recordingOf([program.writer.flush()]));
    check({ input, layout });
    // One bundle at each side: 800 edges over 400 rows fit into a few columns, not into hundreds.
    expect(layout.width).toBeLessThan(input.nodeWidth + 700);
    expect(layout.routeX.length).toBeLessThan(20 * input.edgeFrom.length);
  });

  it('takes a hub of 20,000 uses', () => {
    const program = new Program(['w = f(p)', 'h = g(h, w)']);
    const shared = program.op('SliceBackward0', 1, [program.leaf('p', [4])], [4]);
    let h = shared;
    for (let i = 0; i < 20_000; i++) h = program.op('MulBackward0', 2, [h, shared], [4]);
    program.backward(h, 2);
    const model = modelOf(recordingOf([program.writer.flush()]));
    const input = layoutInput(model.store, model.view, null);
    const work = workOf(() => layOut(input));
    // About 1000 blocks a use.
    expect(work).toBeGreaterThan(20_000);
    expect(work).toBeLessThan(2000 * 20_000);
  });

  it('takes work in proportion to the graph', () => {
    const work = (recording: Recording): number => {
      const model = modelOf(recording);
      const input = layoutInput(model.store, model.view, null);
      return workOf(() => layOut(input));
    };
    const ten = work(dag(10_000));
    const thirty = work(dag(30_000));
    expect(thirty).toBeLessThan(5 * ten);
    expect(ten).toBeGreaterThan(10_000);
    // 130 to 400 blocks a node.
    expect(ten).toBeLessThan(1200 * 10_000);
    expect(work(chain(100_000))).toBeLessThan(1200 * 100_000);
  });

  it('opens cycles, which only a damaged recording can hold', () => {
    const from = [0, 1, 2, 2];
    const to = [1, 2, 0, 3];
    expect([...ranks(4, from, to)]).toEqual([0, 1, 2, 3]);
    expect([...ranks(2, [0, 1], [1, 0])]).toEqual([0, 1]);
    expect([...ranks(1, [0], [0])]).toEqual([0]);
  });

  it('gives longest paths on random graphs', () => {
    const next = random(11);
    const count = 300;
    const from: number[] = [];
    const to: number[] = [];
    for (let e = 0; e < 900; e++) {
      const a = Math.floor(next() * (count - 1));
      from.push(a);
      to.push(a + 1 + Math.floor(next() * Math.min(20, count - a - 1)));
    }
    const rank = ranks(count, from, to);
    const longest = new Int32Array(count);
    for (let v = 0; v < count; v++) {
      for (let e = 0; e < from.length; e++)
        if (from[e] === v) longest[to[e]] = Math.max(longest[to[e]], longest[v] + 1);
    }
    expect(rank).toEqual(longest);
  });

  it('keeps what stood where it stood, however often it is laid out again', () => {
    const { input, layout } = laidOut(dag(300, 3));
    const second = layOut({ ...input, before: layout.x });
    let moved = 0;
    for (let v = 0; v < input.count; v++) if (Math.abs(second.x[v] - layout.x[v]) > 1) moved++;
    expect(moved / input.count).toBeLessThan(0.05);
    expect([...second.y]).toEqual([...layout.y]);
  });

  it('moves what stood as one piece when nodes are added above', () => {
    const small = laidOut(rnn(20));
    const large = modelOf(rnn(24));
    const oldSeqs = small.model.graph;
    const shared = [...large.graph.seqs].map(seq => oldSeqs.indexOf.get(seq));
    // All but the loss, whose number another node has in the longer run.
    shared.forEach((old, i) => (shared[i] = old === 0 ? -1 : old));
    const before = Float64Array.from(shared, old => (old < 0 ? NaN : small.layout.x[old]));
    const layout = layOut(layoutInput(large.store, large.view, before));
    const shifts = new Set<string>();
    shared.forEach((old, i) => {
      if (old >= 0) {
        const dx = Math.round(layout.x[i] - small.layout.x[old]);
        const dy = Math.round(layout.y[i] - small.layout.y[old]);
        shifts.add(`${dx},${dy}`);
      }
    });
    expect(shared.filter(old => old >= 0).length).toBe(100);
    expect(shifts.size).toBe(1);
  });
});
