// Every number of a small graph: its links, the chain rule in words, and where the numbers stand.

import { describe, expect, it } from 'vitest';
import { BOX, placeLabels, placeNumbers } from '../../src/layout/scalars';
import { chainText, nameOf, numberGraph, opName } from '../../src/model/scalars';
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
    expect(chainText(graph, 4, () => true)).toContain('nothing here was made from it');
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
    const labels = placeLabels(graph, places, new Map(graph.links.map((_, i) => [i, '0.123'])));
    expect(labels.length).toBe(graph.links.length);
    labels.forEach((a, i) =>
      labels.forEach((b, j) => {
        const apart = Math.abs(a.x - b.x) >= (a.width + b.width) / 2 || Math.abs(a.y - b.y) >= 13;
        expect(i === j || apart).toBe(true);
      })
    );
  });
});
