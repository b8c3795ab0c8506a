// Every number of a small graph: its links, the chain rule in words, and where the numbers stand.

import { describe, expect, it } from 'vitest';
import { BOX, placeLabels, placeNumbers, pointOf } from '../../src/layout/scalars';
import { chainText, nameOf, numberAt, numberGraph, opName } from '../../src/model/scalars';
import { fittedScale } from '../../src/panels/number_zoom';
import type { Numbers } from '../../src/protocol/schema';

/** z = w @ x with w of 2 numbers; h = relu(z), dead; loss = h * h, named. */
const NODES: Numbers[] = [
  {
    seq: 1,
    name: 'torch::autograd::AccumulateGrad',
    label: 'w',
    outputs: [{ shape: [1, 2], values: [3, 4], gradient: [5, 0] }],
    inputs: [],
    why: ''
  },
  {
    seq: 2,
    name: 'ReluBackward0',
    label: '',
    outputs: [{ shape: [2], values: [3, 0], gradient: [5, 0] }],
    inputs: [{ seq: 1, index: 0, shape: [1, 2], slopes: [1, 0, 0, 0], gives: [5, 0] }],
    why: ''
  },
  {
    seq: 3,
    name: 'MulBackward0',
    label: 'loss',
    outputs: [{ shape: [], values: [9], gradient: [1] }],
    inputs: [
      { seq: 2, index: 0, shape: [2], slopes: [3, -0.5], gives: [3, -0.5] },
      { seq: 2, index: 0, shape: [2], slopes: [2, 0.5], gives: [2, 0.5] },
      { seq: null, index: 0, shape: [], slopes: null, gives: null }
    ],
    why: ''
  }
];

const graph = numberGraph(NODES, seq => (seq === 1 ? 'W' : ''));

describe('numbers', () => {
  it('are named as a reader does', () => {
    expect(graph.groups.map(({ title }) => title)).toEqual(['W', 'relu', 'loss = mul']);
    expect(nameOf(graph, 1)).toBe('W[1]');
    expect(nameOf(graph, 4)).toBe('loss');
    expect(opName('LogSoftmaxBackward0')).toBe('logSoftmax');
  });

  it('are linked where they influence each other, a dead unit included', () => {
    const found = graph.links.map(({ from, to, slope }) => [from, to, slope]);
    // The same input twice is one line with both derivatives in it.
    expect(found).toEqual([
      [0, 2, 1],
      [1, 3, 0],
      [2, 4, 5],
      [3, 4, 0]
    ]);
  });

  it('tell the chain rule, and hide what is not known', () => {
    expect(chainText(graph, 0, () => true)).toBe('∂loss/∂W[0] = 1 × 5 = 5');
    expect(chainText(graph, 2, () => true)).toBe('∂loss/∂relu[0] = 5 × 1 = 5');
    expect(chainText(graph, 2, num => num === 4)).toBe('∂loss/∂relu[0] = 5 × 1 = ?');
    expect(chainText(graph, 4, () => true)).toContain('the backward begins here');
  });

  it('stay chosen in the graph of another pass', () => {
    const chosen = { seq: 2, output: 0, element: 1 };
    expect(numberAt(graph.nums, 2, chosen)).toBe(3);
    // Another node was selected elsewhere: its first number.
    expect(numberAt(graph.nums, 1, chosen)).toBe(0);
    const later = numberGraph(
      NODES.map(one => ({
        ...one,
        seq: one.seq + 10,
        inputs: one.inputs.map(input => ({ ...input, seq: input.seq && input.seq + 10 }))
      })),
      () => ''
    );
    expect(numberAt(later.nums, 12, chosen)).toBe(3);
    expect(numberAt(later.nums, 13, chosen)).toBe(4);
    expect(numberAt(later.nums, null, chosen)).toBe(-1);
  });

  it('are fitted to the width as long as they can be read there', () => {
    const view = { width: 800, height: 500 };
    expect(fittedScale({ width: 1000, height: 3000 }, view)).toBe(0.8);
    expect(fittedScale({ width: 1050, height: 300 }, view)).toBeCloseTo(800 / 1050);
    expect(fittedScale({ width: 100, height: 100 }, view)).toBe(1.4);
    // Too wide: scrolled to the side alone, where its height can be had.
    const scale = fittedScale({ width: 4000, height: 560 }, view);
    expect(scale).toBeCloseTo(500 / 560);
    expect(fittedScale({ width: 4000, height: 2000 }, view)).toBe(0.75);
    expect(fittedScale({ width: 4000, height: 90 }, view)).toBe(1);
  });

  it('say where lines are missing', () => {
    const [, relu] = NODES;
    const gap: Numbers = {
      ...relu,
      inputs: [{ ...relu.inputs[0], slopes: null }],
      why: 'its saved tensors are gone'
    };
    const found = numberGraph([NODES[0], gap], () => '');
    expect(found.links).toEqual([]);
    expect(found.gaps).toEqual(['its saved tensors are gone']);
    expect(found.ties).toEqual([{ from: 0, to: 1 }]);
    expect(chainText(found, 0, () => true)).toContain('the local derivatives');
  });
});

describe('places', () => {
  const places = placeNumbers(graph);

  it('go from left to right with what was computed', () => {
    for (const { from, to } of graph.links) {
      expect(places.x[to]).toBeGreaterThan(places.x[from] + BOX.width);
    }
  });

  it('never overlap and lie inside of the drawing', () => {
    graph.nums.forEach((_, a) => {
      expect(places.x[a]).toBeGreaterThanOrEqual(0);
      expect(places.y[a]).toBeGreaterThanOrEqual(0);
      expect(places.x[a] + BOX.width).toBeLessThanOrEqual(places.width);
      expect(places.y[a] + BOX.height).toBeLessThanOrEqual(places.height);
      graph.nums.forEach((_other, b) => {
        const apart =
          Math.abs(places.x[a] - places.x[b]) >= BOX.width ||
          Math.abs(places.y[a] - places.y[b]) >= BOX.height;
        expect(a === b || apart).toBe(true);
      });
    });
  });

  it('keep the texts of lines apart', () => {
    const labels = placeLabels(places, new Map(graph.links.map((_, i) => [i, '0.123'])));
    expect(labels.length).toBe(graph.links.length);
    labels.forEach((a, i) =>
      labels.forEach((b, j) => {
        const apart = Math.abs(a.x - b.x) >= (a.width + b.width) / 2 || Math.abs(a.y - b.y) >= 13;
        expect(i === j || apart).toBe(true);
      })
    );
  });
});

/** A node with `count` numbers, made from others: each number from that of the same place. */
function made(seq: number, name: string, from: number[], count: number, known = true): Numbers {
  const shape = count > 1 ? [count] : [];
  return {
    seq,
    name,
    label: '',
    outputs: [{ shape, values: null, gradient: null }],
    inputs: from.map(below => ({
      seq: below,
      index: 0,
      shape,
      slopes: known
        ? Array.from({ length: count * count }, (_, i) => (i % (count + 1) === 0 ? 1 : 0))
        : null,
      gives: null
    })),
    why: known ? '' : 'its saved tensors are gone'
  };
}

/** y = sin(x) * x, and w used at the beginning and at the end. */
function roundabout(known: boolean): Numbers[] {
  return [
    made(1, 'torch::autograd::AccumulateGrad', [], 3),
    made(2, 'torch::autograd::AccumulateGrad', [], 3),
    made(3, 'SinBackward0', [1], 3, known),
    made(4, 'MulBackward0', [3, 1], 3, known),
    made(5, 'MulBackward0', [4, 2], 3, known),
    made(6, 'AddBackward0', [5, 1], 3, known)
  ];
}

describe.each([true, false])('lines past columns, derivatives known: %s', known => {
  const past = numberGraph(roundabout(known), () => '');
  const places = placeNumbers(past);
  const lines = known
    ? past.links.map(({ from, to }, i) => ({ from, to, route: places.routes[i] }))
    : past.ties.map(({ from, to }, i) => ({
        from: past.groups[from].first,
        to: past.groups[to].first,
        route: places.tied[i]
      }));

  it('go around all boxes, and no two of them are one', () => {
    expect(lines.length).toBe(known ? 21 : 7);
    for (const { from, to, route } of lines) {
      for (let t = 0; t <= 1; t += 1 / 64) {
        const [x, y] = pointOf(route, t);
        expect(y).toBeGreaterThan(0);
        expect(y).toBeLessThan(places.height);
        past.nums.forEach(({ group }, i) => {
          const own = group === past.nums[from].group || group === past.nums[to].group;
          const inX = x > places.x[i] - 1 && x < places.x[i] + BOX.width + 1;
          const inY = y > places.y[i] - 4 && y < places.y[i] + BOX.height + 4;
          expect(!own && inX && inY).toBe(false);
        });
      }
    }
    expect(new Set(lines.map(({ route }) => String(route))).size).toBe(lines.length);
  });

  it('stand with what was computed later to the right', () => {
    for (const { from, to } of lines) expect(places.x[to]).toBeGreaterThan(places.x[from]);
    expect(places.columns.map(list => list.length)).toEqual([1, 1, 2, 1, 1]);
  });

  it('leave the texts readable', () => {
    const texts = new Map(past.links.map((_, i) => [i, '0.12']));
    for (const { x, y, width } of placeLabels(places, texts)) {
      past.nums.forEach((_, i) => {
        const inX = x + width / 2 > places.x[i] && x - width / 2 < places.x[i] + BOX.width;
        const inY = y + 6 > places.y[i] && y - 6 < places.y[i] + BOX.height;
        expect(inX && inY).toBe(false);
      });
    }
  });
});
