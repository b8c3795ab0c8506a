// What the user calls the inputs of a node: said where it is sure, by the line or by the edges.

import { describe, expect, it } from 'vitest';
import { inputNames, resultName } from '../../src/model/inputs';
import { InspectorModel } from '../../src/model/inspector';
import type { Site, Written } from '../../src/protocol/schema';
import { Program } from '../synthetic/program';

const MUL = { op: 'mul', params: ['self', 'other'], edges: ['self', 'other'] };
const ADDMM = {
  op: 'addmm',
  params: ['self', 'mat1', 'mat2', 'beta', 'alpha'],
  edges: ['self', 'mat1', 'mat2']
};

const operator = (call: string, ...args: string[]): Written => ({
  how: 'operator',
  call,
  on: '',
  args,
  named: [],
  target: ''
});
const call = (on: string, name: string, ...args: string[]): Written => ({
  ...operator(name, ...args),
  how: 'call',
  on
});

/** Makes a program whose lines read as they are told to. */
class Lines extends Program {
  constructor(private readonly reads: Record<string, Partial<Written> & { text?: string }>) {
    super(Object.keys(reads));
  }

  override site(line: number, text?: string): Site {
    const found = this.reads[this.cell[line - 1]] ?? {};
    const site = super.site(line, text ?? found.text);
    const written = found.call ? ({ ...operator(''), ...found } as Written) : null;
    return { ...site, written };
  }

  get model(): InspectorModel {
    const model = new InspectorModel();
    const { header, buffer } = this.writer.flush();
    expect(model.receive({ header, buffer })).toBe('ok');
    return model;
  }
}

const texts = (names: ReturnType<typeof inputNames>): string[] =>
  names.map(({ input, text }) => `${input}: ${text}`);

describe('names of inputs', () => {
  it('are the operands of the expression, with the nodes that they come from', () => {
    const program = new Lines({
      's = torch.sin(x)': { ...call('torch', 'sin', 'x'), target: 's', text: 'torch.sin(x)' },
      'y = s * x': { ...operator('mul', 's', 'x'), target: 'y', text: 's * x' }
    });
    const x = program.leaf('x', []);
    const sin = program.op('SinBackward0', 1, [x], []);
    const mul = program.op('MulBackward0', 2, [sin, x], []);
    const { store } = program.model;
    expect(inputNames(store, mul, MUL)).toEqual([
      { input: 'self', text: 's', seq: sin },
      { input: 'other', text: 'x', seq: x }
    ]);
    expect(resultName(store, mul, MUL)).toBe('y');
    const of = { op: 'sin', params: ['self'], edges: ['self'] };
    expect(texts(inputNames(store, sin, of))).toEqual(['self: x']);
  });

  it('come from what made an input where the expression does not say them', () => {
    const program = new Lines({
      'h = torch.relu(q)': { ...call('torch', 'relu', 'q'), target: 'h', text: 'torch.relu(q)' },
      'out = model(h)': { ...call('', 'model', 'h'), target: 'out', text: 'model(h)' }
    });
    const weight = program.leaf('fc.weight', [4, 3]);
    const bias = program.leaf('fc.bias', [4]);
    const q = program.leaf('q', [2, 3]);
    const relu = program.op('ReluBackward0', 1, [q], [2, 3]);
    const turned = program.op('TBackward0', 2, [weight], [3, 4]);
    const addmm = program.op('AddmmBackward0', 2, [bias, relu, turned], [2, 4]);
    const tanh = program.op('TanhBackward0', 2, [addmm], [2, 4]);
    const { store } = program.model;
    expect(texts(inputNames(store, addmm, ADDMM))).toEqual([
      'self: fc.bias',
      'mat1: h',
      'mat2: fc.weight.T'
    ]);
    // A step inside of model(h) has no name of the user's, but a node.
    expect(inputNames(store, tanh, { op: 'tanh', params: ['self'], edges: ['self'] })).toEqual([
      { input: 'self', text: '', seq: addmm }
    ]);
    expect(resultName(store, tanh, { op: 'tanh' })).toBe('');
  });

  it('are not guessed where a number could be on either side', () => {
    const program = new Lines({
      'z = make()': { ...call('', 'make'), target: 'z', text: 'make()' },
      'a = k * h': { ...operator('mul', 'k', 'h'), text: 'k * h' },
      'b = 2 * h': { ...operator('mul', '2', 'h'), text: '2 * h' },
      'c = k * z': { ...operator('mul', 'k', 'z'), text: 'k * z' }
    });
    const made = program.op('SinBackward0', 1, [null], [3]);
    const unsure = program.op('MulBackward0', 2, [made, null], [3]);
    const literal = program.op('MulBackward0', 3, [made, null], [3]);
    const sure = program.op('MulBackward0', 4, [made, null], [3]);
    const { store } = program.model;
    expect(texts(inputNames(store, unsure, MUL))).toEqual(['self: z']);
    expect(texts(inputNames(store, literal, MUL))).toEqual(['self: h', 'other: 2']);
    expect(texts(inputNames(store, sure, MUL))).toEqual(['self: z', 'other: k']);
  });

  it('of a method begin with what stands before the dot, of a list go by its edges', () => {
    const program = new Lines({
      's = (a + b).sum(0)': { ...call('(a + b)', 'sum', '0'), text: '(a + b).sum(0)' },
      'c = torch.cat([p, q])': { ...call('torch', 'cat', '[p, q]'), text: 'torch.cat([p, q])' }
    });
    const p = program.leaf('p', [3]);
    const q = program.leaf('q', [3]);
    const sum = program.op('SumBackward1', 1, [p], []);
    const cat = program.op('CatBackward0', 2, [p, q], [6]);
    const { store } = program.model;
    const sums = { op: 'sum', params: ['self', 'dim', 'keepdim'], edges: ['self'] };
    expect(texts(inputNames(store, sum, sums))).toEqual(['self: (a + b)']);
    const cats = { op: 'cat', params: ['tensors', 'dim'], edges: ['tensors[]'] };
    expect(texts(inputNames(store, cat, cats))).toEqual(['tensors[0]: p', 'tensors[1]: q']);
  });

  it('are none in a recording without source', () => {
    const program = new Lines({ 'y = x * x': {} });
    const x = program.leaf('', []);
    const mul = program.op('MulBackward0', 1, [x, x], []);
    const { store } = program.model;
    expect(inputNames(store, mul, MUL).map(({ text }) => text)).toEqual(['', '']);
  });
});
