// Parameters of a pass: with or without a gradient, in the model's order, over passes.

import { describe, expect, it } from 'vitest';
import { InspectorModel } from '../../src/model/inspector';
import type { Parameter } from '../../src/model/parameters';
import { passesOf } from '../../src/model/passes';
import {
  changeText,
  filtered,
  historyOf,
  lineOf,
  newestPass,
  parametersOf,
  ratioOf,
  sortedParameters
} from '../../src/model/parameters';
import { decodeBatch } from '../../src/protocol/decode';
import { openRecording } from '../../src/protocol/recording';
import { recordingOf } from '../synthetic/writer';
import { Program } from '../synthetic/program';
import { training } from '../synthetic/recordings';

const CELL = ['loss = model(x).sum()', 'h = h.detach()', 'loss.backward()'];
const [W, B, SCALE, FROZEN] = [11, 12, 13, 14];

/** A model whose scale is cut off, with a frozen parameter and a leaf of nobody. */
class Training {
  readonly program = new Program(CELL);
  readonly model: InspectorModel;
  private told = false;

  constructor(limits?: { nodes: number; writes: number; problems: number }) {
    this.model = new InspectorModel(limits);
  }

  /** storage: of the weight */
  step(storage = 1, taken = true): number {
    const { program } = this;
    const w = program.leaf('model.w', [4, 2], storage);
    const b = program.leaf('model.b', [4], 2);
    const free = program.leaf('', [3], 3);
    if (!this.told) {
      this.told = true;
      program.parameter(SCALE, 'model.scale', [4], 4);
      program.parameter(W, 'model.w', [4, 2], 1);
      program.parameter(B, 'model.b', [4], 2);
      program.parameter(FROZEN, 'model.frozen', [2, 2], 5, { trained: false });
      program.parameter(99, 'other.w', [4], 6, { module: 2000 });
      program.absent(SCALE, 1, 'detach', 'what it computes is detached', 2);
      program.absent(FROZEN, 1, 'frozen', 'requires_grad is False');
    }
    const root = program.op('AddmmBackward0', 1, [b, w, free], [1, 4]);
    const task = program.backward(root, 3);
    if (taken) this.take();
    return task;
  }

  take(): void {
    const { header, buffer } = this.program.writer.flush();
    this.model.take(decodeBatch(header, buffer));
    this.model.refresh();
  }

  rows(): Parameter[] {
    return parametersOf(this.model, null);
  }
}

const brief = ({ name, state, why }: Parameter): string[] => [name, state, why?.words ?? ''];

describe('parametersOf', () => {
  it('gives those of the modules that took part, in their order, then other leaves', () => {
    const training = new Training();
    training.step();
    expect(training.rows().map(brief)).toEqual([
      ['model.w', 'got', ''],
      ['model.b', 'got', ''],
      ['model.scale', 'none', 'detached'],
      ['model.frozen', 'none', 'requires_grad is False'],
      ['', 'got', '']
    ]);
    const [, , scale] = training.rows();
    expect(scale.why).toMatchObject({ text: 'what it computes is detached', repair: 'remove it' });
    expect(scale.why?.site?.line).toBe(2);
    expect(scale.seq).toBeNull();
  });

  it('gives one of each name where a part of the model was replaced: the one of that time', () => {
    const training = new Training();
    training.step();
    const { program, model } = training;
    // model.scale = another one, which the next pass uses, and one after it, which none does.
    const uses = (storage: number): void => {
      const scale = program.leaf('model.scale', [4], storage);
      const w = program.leaf('model.w', [4, 2], 1);
      program.backward(program.op('MulBackward0', 1, [scale, w], [4]), 3);
    };
    program.writer.t += 1;
    program.parameter(21, 'model.scale', [4], 21);
    uses(21);
    training.take();
    const scales = (): (string | number | null)[][] =>
      training
        .rows()
        .filter(({ name }) => name === 'model.scale')
        .map(({ number, state }) => [number, state]);
    expect(scales()).toEqual([[21, 'got']]);
    program.writer.t += 1;
    program.parameter(22, 'model.scale', [4], 22);
    training.step();
    expect(scales()).toEqual([[22, 'none']]);
    model.showNeighbour(-1);
    model.refresh();
    expect(scales()).toEqual([[21, 'got']]);
    model.showNeighbour(-1);
    model.refresh();
    expect(scales()).toEqual([[SCALE, 'none']]);
  });

  it('compares with the pass before, and with the values of now', () => {
    const training = new Training();
    training.step();
    training.step();
    const { model } = training;
    const weights = { parameters: { [W]: 2, [B]: 'NaN' }, storages: { '3': 4 }, left_out: 0 };
    const rows = parametersOf(model, weights);
    const { runs } = model.store;
    const first = model.store.runsIn
      .rows(1)
      .find(row => model.store.label(runs.at.seq[row]) === 'model.w');
    expect(rows[0].before).toBe(runs.at.norm[first ?? -1]);
    expect(ratioOf(rows[0])).toBe((rows[0].norm ?? 0) / 2);
    expect(ratioOf(rows[1])).toBeNaN();
    expect(rows[4].weight).toBe(4);
    expect(rows[2].weight).toBeNull();
    model.showNeighbour(-1);
    model.refresh();
    expect(training.rows()[0].before).toBeNull();
    expect(newestPass(model.store)).toBe(2);
  });

  it('says what waits while the pass is on its way, and nothing of a time before it', () => {
    const training = new Training();
    training.step();
    training.model.scrub(0);
    training.model.refresh();
    const [w, , scale] = training.rows();
    expect([w.state, w.why, scale.state]).toEqual(['waits', null, 'none']);
  });

  it('knows a parameter by its name where its memory is another one', () => {
    const training = new Training();
    training.step();
    training.step(77);
    expect(training.rows().map(({ number }) => number)).toEqual([W, B, SCALE, FROZEN, null]);
  });

  it('tells a leaf that got nothing though the pass reaches it', () => {
    const program = new Program(CELL);
    const leaf = program.leaf('w', [2]);
    const root = program.op('MulBackward0', 1, [leaf], [2]);
    program.made.set(root, { seq: root, next: [], leaf: false });
    program.backward(root, 3);
    const model = new InspectorModel();
    const { header, buffer } = program.writer.flush();
    model.take(decodeBatch(header, buffer));
    model.refresh();
    expect(parametersOf(model, null).map(brief)).toEqual([['w', 'none', 'none arrived']]);
  });

  it('gives leaves alone where a recording tells of no modules, as early ones do', () => {
    const model = new InspectorModel();
    for (const { header, buffer } of training(2)) {
      delete (header.tables as Record<string, unknown>).parameters;
      model.take(decodeBatch(header, buffer));
    }
    model.refresh();
    const rows = parametersOf(model, null);
    expect(rows.length).toBeGreaterThan(0);
    expect(rows.every(({ number, state }) => number === null && state === 'got')).toBe(true);
  });

  it('chooses the reason of the same line, else the last one before', () => {
    const training = new Training();
    const first = training.step();
    const { program } = training;
    program.absent(SCALE, first + 1, 'no_grad', 'under a block', 1);
    const [w, b] = [program.leaf('model.w', [4, 2], 1), program.leaf('model.b', [4], 2)];
    program.backward(program.op('AddmmBackward0', 1, [b, w], [1, 4]), 1);
    training.step();
    const kinds = [1, 2, 3].map(task => {
      training.model.show({ kind: 'task', task });
      training.model.refresh();
      return training.rows().find(({ number }) => number === SCALE)?.why?.kind;
    });
    expect(kinds).toEqual(['detach', 'no_grad', 'detach']);
  });
});

describe('findings', () => {
  it('name what got none once, with the line, and leave out what is frozen', () => {
    const training = new Training();
    for (let i = 0; i < 3; i++) training.step();
    const found = training.model.findings.filter(({ kind }) => kind === 'none');
    expect(found.map(({ title, matters }) => [title, matters])).toEqual([
      ['`model.scale.grad` stays None: detached', true]
    ]);
    expect(found[0].lines.map(({ site }) => site.line)).toEqual([2]);
    expect(found[0]).toMatchObject({ module: 'model', passes: 3, advice: { text: 'remove it' } });
  });

  it('say those that are cut off, or unused, for one reason in one', () => {
    const { program, model } = new Training();
    const w = program.leaf('w', [2], 1);
    program.parameter(W, 'w', [2], 1);
    for (const [number, name] of [[21, 'a'], [22, 'b'], [23, 'c']] as const) {
      program.parameter(number, name, [2], 100 + number);
      program.absent(number, 1, 'unused', 'not used in this pass');
    }
    program.backward(program.op('MulBackward0', 1, [w], [2]), 3);
    const { header, buffer } = program.writer.flush();
    model.take(decodeBatch(header, buffer));
    model.refresh();
    const [found] = model.findings;
    expect(found.title).toBe('`a.grad` stays None, and 2 others: not used in this pass');
    expect(found.detail).toBe('So do `b`, `c`.');
  });

  it('do not tell of one that another pass of the run gives a gradient, before it or after', () => {
    const training = new Training();
    const { program, model } = training;
    const told = (): string[] => model.findings.map(({ kind }) => kind);
    training.step();
    expect(told()).toEqual(['none']);
    const scale = program.leaf('model.scale', [4], 4);
    program.backward(program.op('MulBackward0', 1, [scale], [4]), 1);
    training.step();
    expect(told()).toEqual([]);
    expect(passesOf(model.store, model.ledger).kinds.some(Boolean)).toBe(false);
  });
});

describe('historyOf', () => {
  it('has the last passes, the oldest first', () => {
    const training = new Training();
    for (let i = 0; i < 30; i++) training.step();
    const [w] = training.rows();
    const points = historyOf(training.model.store, w, 10);
    expect(points.map(({ task }) => task)).toEqual([21, 22, 23, 24, 25, 26, 27, 28, 29, 30]);
    expect(points[9].norm).toBe(w.norm);
  });

  it('stays bounded over thousands of passes, and keeps what was told once', () => {
    const training = new Training({ nodes: 800, writes: 100, problems: 10 });
    let bytes = 0;
    for (let i = 1; i <= 10_000; i++) {
      training.step(1, i % 100 === 0);
      if (i === 4_000) ({ bytes } = training.model.store);
    }
    const { store } = training.model;
    expect(store.bytes).toBeLessThanOrEqual(2 * bytes);
    const rows = training.rows();
    expect(rows.map(brief)[2]).toEqual(['model.scale', 'none', 'detached']);
    expect(historyOf(store, rows[0], 50)).toHaveLength(50);
  });
});

const CUT = { kind: 'detach', words: 'detached', text: '', repair: '', site: null };

describe('tables', () => {
  const row = (name: string, norm: number | null, weight: number | null = 1): Parameter => ({
    key: name,
    name,
    shape: '2×3',
    dtype: 'float32',
    number: null,
    storage: 0,
    seq: 1,
    norm,
    state: norm === null ? 'none' : 'got',
    why: norm === null ? CUT : null,
    before: null,
    weight
  });
  const rows = [row('b', 1), row('a', null), row('d', NaN), row('c', 3, 30)];
  const names = (found: Parameter[]): string => found.map(({ name }) => name).join('');

  it('sort by norms with what is not finite on top and None at the end either way', () => {
    expect(names(sortedParameters(rows, 'norm', false))).toBe('dcba');
    expect(names(sortedParameters(rows, 'norm', true))).toBe('bcda');
    expect(names(sortedParameters(rows, 'ratio', false))).toBe('dbca');
    expect(names(sortedParameters(rows, 'name', false))).toBe('abcd');
    expect(names(sortedParameters(rows, 'order', false))).toBe('badc');
  });

  it('filter by all words, reasons included', () => {
    expect(names(filtered(rows, 'none detach'))).toBe('a');
    expect(names(filtered(rows, '2×3 c'))).toBe('ac');
    expect(names(filtered(rows, ' '))).toBe('badc');
  });

  it('say how a norm changed', () => {
    expect([1.25, 0.5, 1, 12345, 0, Infinity, null].map(changeText)).toEqual([
      '×1.25',
      '÷2.00',
      '=',
      '×1e4',
      'to 0',
      '×∞',
      ''
    ]);
  });
});

describe('lineOf', () => {
  const points = (...norms: number[]): { task: number; norm: number }[] =>
    norms.map((norm, task) => ({ task, norm }));

  it('is logarithmic, with zero at the bottom and a gap for NaN', () => {
    const { path, ys } = lineOf(points(1, 10, 100, NaN, 0), 40, 12);
    expect(ys).toEqual([11, 6, 1, NaN, 11]);
    expect(path).toBe('M0.0 11.0L10.0 6.0L20.0 1.0M40.0 11.0');
  });

  it('is level where nothing changes, and empty where nothing is known', () => {
    expect(lineOf(points(2, 2), 10, 12).ys).toEqual([6, 6]);
    expect(lineOf(points(0, NaN), 10, 12).path).toBe('');
    expect(lineOf([], 10, 12).path).toBe('');
  });
});

describe('a recording', () => {
  it('has norms of values where they were kept, and only numbers and words of them', () => {
    const program = new Program(CELL);
    program.leaf('w', [2]);
    const file = recordingOf([program.writer.flush()]);
    expect(openRecording(file).weights).toBeNull();
    const weights = { parameters: { 1: 2, 2: 'NaN', 3: { a: 1 } }, storages: null, left_out: 'x' };
    const open = openRecording({ ...file, weights });
    expect(open.weights).toEqual({
      parameters: { 1: 2, 2: 'NaN' },
      storages: {},
      left_out: 0
    });
  });
});
