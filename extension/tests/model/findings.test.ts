// What runs of passes are remarkable for: who is to blame, since when, and what is not told.

import { expect, it } from 'vitest';
import { InspectorModel } from '../../src/model/inspector';
import { MOST_PASSES } from '../../src/model/findings/ledger';
import { passesOf } from '../../src/model/passes';
import { bitOf } from '../../src/model/findings/finding';
import { moduleOf } from '../../src/model/findings/pass';
import { calledIn } from '../../src/model/graph_breaks';
import { NONE } from '../../src/protocol/schema';
import type { OpOptions } from '../synthetic/program';
import { Program } from '../synthetic/program';

const CELL = [
  'for x, y in data:',
  '    p = torch.softmax(model(x), 1)',
  '    loss = -(y * torch.log(p)).sum()',
  '    loss.backward()'
];
const COUNTS = { elements: 384, nan: 0, inf: 0, zero: 0, negative: 0, beyond: 0 };

class Training {
  readonly program = new Program(CELL);
  readonly model = new InspectorModel();

  op(name: string, line: number, inputs: number[], options: OpOptions = {}): number {
    return this.program.op(name, line, inputs, [8, 4], options);
  }

  odd(
    seq: number,
    task: number,
    name: string,
    counts: Partial<typeof COUNTS>,
    flags = name === 'result' || name === '' ? 1 : 0
  ): void {
    const { writer } = this.program;
    const of = { seq, task, name: writer.string(name), flags };
    writer.row('odd', { ...of, ...COUNTS, ...counts, t: writer.t });
  }

  send(): void {
    expect(this.model.receive(this.program.writer.flush())).toBe('ok');
    this.model.refresh();
  }

  /** A chain of linear layers and what comes after each; the weights' gradients by layer. */
  layers(norms: number[], options: { activation?: string; count?: number } = {}): void {
    const { program } = this;
    const weights: number[] = [];
    let at: number | null = null;
    norms.forEach((_, i) => {
      const weight = program.leaf(`model.${i}.weight`, [8, 8]);
      weights.push(weight);
      at = program.op('AddmmBackward0', 2, [weight, at], [8, 8], { text: 'model(x)' });
      at = program.op(options.activation ?? 'ReluBackward0', 2, [at], [8, 8], { text: 'model(x)' });
    });
    const root = program.op('SumBackward0', 3, [at], []);
    program.backward(root, 4, {
      count: options.count,
      norm: seq => (weights.includes(seq) ? norms[weights.indexOf(seq)] : 1)
    });
    this.send();
  }

  get told(): string[] {
    return this.model.findings.map(({ kind }) => kind);
  }
}

/** A step of a classifier; bad: probabilities that are 0. */
function classify(training: Training, bad: boolean, options: { count?: number } = {}): void {
  const { program } = training;
  const w = program.leaf('model.head.weight', [4, 4]);
  const mm = training.op('MmBackward0', 2, [w], { text: 'model(x)' });
  const softmax = training.op('SoftmaxBackward0', 2, [mm], { text: 'torch.softmax(model(x), 1)' });
  const log = training.op('LogBackward0', 3, [softmax], { text: 'torch.log(p)' });
  const mul = training.op('MulBackward0', 3, [log]);
  const sum = program.op('SumBackward0', 3, [mul], []);
  const nan = (seq: number): number | undefined => (bad && seq <= softmax ? NaN : undefined);
  const task = program.backward(sum, 4, { ...options, norm: nan });
  if (bad) training.odd(log, task, 'self', { zero: 3 });
  training.send();
}

it('has nothing to say of healthy passes', () => {
  const training = new Training();
  for (let i = 0; i < 5; i++) {
    classify(training, false);
    training.layers([1, 0.9, 0.5, 0.7, 0.2, 0.1]);
  }
  expect(training.model.findings).toEqual([]);
});

it('blames the op that gave the first infinity, and says since which pass', () => {
  const training = new Training();
  for (let i = 0; i < 40; i++) classify(training, i === 20);
  const [finding, ...rest] = training.model.findings;
  expect(rest).toEqual([]);
  expect(finding.title).toBe('`torch.log(p)` gave −∞: `p` is 0 in 3 of 384');
  expect(finding.lines.map(({ site }) => site.line)).toEqual([3, 2]);
  expect(finding.lines[1].says).toContain('SoftmaxBackward0');
  expect(finding.advice?.text).toContain('log_softmax');
  expect(finding.first.pass).toBe(21);
  expect([finding.passes, finding.of, finding.matters]).toEqual([1, 40, true]);
  const { kinds, numbers } = passesOf(training.model.store, training.model.ledger);
  expect([...kinds].filter(Boolean)).toEqual([bitOf('nonfinite')]);
  expect(numbers[kinds.findIndex(Boolean)]).toBe(21);
});

it('counts the passes after a NaN to it, and calls it solved when its cell runs without it', () => {
  const training = new Training();
  for (let i = 0; i < 6; i++) classify(training, i >= 3, { count: 5 });
  const { program } = training;
  // The weights are NaN now: another op is the first to show it.
  const w = program.leaf('w', [4, 4]);
  const exp = training.op('ExpBackward0', 2, [w]);
  program.backward(training.op('SumBackward0', 3, [exp]), 4, { nanAt: 0, count: 5 });
  training.send();
  const [finding, ...rest] = training.model.findings;
  expect(rest).toEqual([]);
  expect([finding.first.pass, finding.passes, finding.of]).toEqual([4, 4, 7]);
  // It occurred in the fourth pass: three good ones say little while the cell runs.
  training.model.setStatus({ ...training.model.status, busy: true });
  for (let i = 0; i < 3; i++) classify(training, false, { count: 6 });
  expect(training.model.findings[0].solved).toBe(false);
  classify(training, false, { count: 6 });
  expect(training.model.findings[0].solved).toBe(true);
  // The same once more is the same finding.
  for (let i = 0; i < 2; i++) classify(training, true, { count: 7 });
  const [again, ...others] = training.model.findings;
  expect(others).toEqual([]);
  expect([again.times, again.solved, again.first.pass]).toEqual([2, false, 12]);
});

it('blames the parameter that came in as NaN, and data that did', () => {
  for (const known of [true, false]) {
    const training = new Training();
    const { program } = training;
    const w = program.leaf('net.weight', [8, 4]);
    const storage = program.storage();
    const mm = program.op('MmBackward0', 2, [known ? w : null], [8, 4], {
      text: 'net(x)',
      saved: [{ name: 'mat2', storage }]
    });
    const sum = program.op('SumBackward0', 3, [mm], []);
    const task = program.backward(sum, 4, { nanAt: 1 });
    // Where no op saved the weight, what it gave is the first that is odd beside it.
    training.odd(known ? w : mm, task, known ? '' : 'mat2', { nan: 5 });
    training.odd(sum, task, '', { elements: 1, nan: 1 });
    training.send();
    const [{ title, advice }] = training.model.findings;
    expect(title).toBe(
      known
        ? '`net.weight` itself holds NaN, in 5 of 384'
        : '`net(x)` was given NaN: `mat2`, in 5 of 384'
    );
    expect(advice?.text).toContain(known ? 'update' : 'data');
  }
});

it('blames a target that came in as NaN, and not what it was compared with', () => {
  const training = new Training();
  const { program } = training;
  const text = 'mse_loss(net(x), y)';
  const mm = program.op('MmBackward0', 2, [program.leaf('w', [8, 4])], [8, 4], { text: 'net(x)' });
  const storage = program.storage();
  const saved = [{ name: 'target', storage }];
  const loss = program.op('MseLossBackward0', 3, [mm, null], [], { text, saved });
  const task = program.backward(loss, 4, { nanAt: 1 });
  training.odd(loss, task, 'target', { nan: 1 }, 2);
  training.odd(loss, task, '', { elements: 1, nan: 1 });
  training.send();
  const [{ title, advice }] = training.model.findings;
  expect(title).toBe(`\`${text}\` was given NaN: \`target\`, in 1 of 384`);
  expect(advice?.text).toContain('look at the data');
});

it('says of an infinity in how many passes what leads to it grew', () => {
  const training = new Training();
  const { program } = training;
  const w = program.leaf('w', [8, 4]);
  for (const norm of [2, 3, 4e9, Infinity]) {
    const loss = program.op('MeanBackward0', 3, [w], [], { text: 'loss(x)' });
    const last = norm === Infinity;
    const nanAt = last ? 1 : -1;
    const task = program.backward(loss, 4, { norm: () => (last ? 1 : norm), nanAt });
    if (last) training.odd(loss, task, '', { elements: 1, inf: 1 });
  }
  training.send();
  const [{ title, advice }] = training.model.findings.filter(one => one.kind === 'nonfinite');
  expect(title).toBe('`loss(x)` gave ∞ in 1 of 1');
  expect(advice?.text).toContain('|grad| grew from 2 to 4.00e9');
});

it('tells of a loss that is not finite though all gradients are, with what made it so', () => {
  const training = new Training();
  const { program } = training;
  const w = program.leaf('w', [8, 4]);
  const log = training.op('LogBackward0', 2, [w], { text: 'torch.log(p)' });
  const where = training.op('WhereBackward0', 3, [log]);
  const sum = program.op('SumBackward0', 3, [where], [], { text: 'kept.sum()' });
  const task = program.backward(sum, 4);
  training.odd(log, task, 'self', { zero: 3 });
  training.send();
  // A log of 0 that is left out of the loss is none of the reader's business.
  expect(training.model.findings).toEqual([]);
  const again = program.backward(sum, 4);
  training.odd(log, again, 'self', { zero: 3 });
  training.odd(sum, again, '', { elements: 1, inf: 1, negative: 1 });
  training.send();
  const [finding, ...rest] = training.model.findings;
  expect(rest).toEqual([]);
  expect(finding.title).toBe('`torch.log(p)` gave −∞: `p` is 0 in 3 of 384');
  expect(finding.detail).toContain('is not finite; all gradients are');
  expect(finding.lines.map(({ says }) => says)).toEqual(['gave −∞', 'the result is not finite']);
  expect(finding.first).toMatchObject({ seq: sum, pass: 2 });
  expect(finding.matters).toBe(true);

  const unknown = new Training();
  const x = unknown.program.leaf('x', [4]);
  const root = unknown.program.op('AddBackward0', 3, [x], [], { text: 'loss + penalty' });
  unknown.odd(root, unknown.program.backward(root, 4), '', { elements: 1, inf: 1 });
  unknown.send();
  const [{ title, advice }] = unknown.model.findings;
  expect(title).toBe('`loss + penalty` gave ∞ in 1 of 1');
  expect(advice?.text).toContain('too large for its dtype');
});

it('names modules as the reader does, from the call and a parameter of the same call', () => {
  const { program, model } = new Training();
  const { writer } = program;
  const call = (number: number, name: string, kind: string, parent = NONE): number => {
    const row = { call: number, parent, name: writer.string(name), kind: writer.string(kind) };
    writer.row('calls', { ...row, t: writer.t });
    return number;
  };
  const made = (scope: number, name: string, inputs: number[]): number => {
    const seq = program.op(name, 2, inputs, [8, 8]);
    writer.row('scopes', { seq, call: scope });
    return seq;
  };
  const net = call(1, 'Sequential', 'Sequential');
  const block = call(3, '2', 'Block', net);
  const fc = made(call(4, 'fc', 'Linear', block), 'AddmmBackward0', [
    program.leaf('blocks.2.fc.weight', [8, 8])
  ]);
  const relu = made(block, 'ReluBackward0', [fc]);
  const alone = made(call(5, 'Softmax', 'Softmax'), 'SoftmaxBackward0', [relu]);
  program.backward(program.op('SumBackward0', 3, [alone], []), 4);
  expect(model.receive(writer.flush())).toBe('ok');
  expect(moduleOf(model.store, relu)).toEqual({ name: 'blocks.2', exact: true });
  expect(moduleOf(model.store, fc)).toEqual({ name: 'blocks.2.fc', exact: true });
  // A parameter of another call does not name this one.
  expect(moduleOf(model.store, alone)).toEqual({ name: 'Softmax', exact: true });
});

it('names the maker where the derivative alone is not finite, and the hook that made it', () => {
  const training = new Training();
  const { program } = training;
  const x = program.leaf('x', [4]);
  const mul = training.op('MulBackward0', 2, [x]);
  const sqrt = training.op('SqrtBackward0', 3, [mul], { text: 'v.sqrt()' });
  program.backward(training.op('SumBackward0', 3, [sqrt]), 4, { nanAt: 2 });
  training.send();
  expect(training.model.findings[0].title).toBe('The derivative of `v.sqrt()` gave NaN or ∞');
  expect(training.model.findings[0].advice?.code).toBe('(v + 1e-8).sqrt()');

  const hooked = new Training();
  const y = hooked.op('MulBackward0', 2, [hooked.program.leaf('x', [4])]);
  const { writer } = hooked.program;
  const hook = { seq: y, kind: writer.string('tensor'), name: writer.string('spoil') };
  const task = hooked.program.backward(hooked.op('ExpBackward0', 3, [y]), 4, { nanAt: 1 });
  writer.row('hooks', { ...hook, task, before_nan: 0, after_nan: 8, t: 0 });
  hooked.send();
  expect(hooked.model.findings[0].title).toContain('The hook `spoil` made NaN');
});

it('tells of layers that a gradient does not reach, once it does not in three passes', () => {
  const training = new Training();
  const sigmoid = { activation: 'SigmoidBackward0' };
  const norms = Array.from({ length: 20 }, (_, i) => 0.15 ** (19 - i));
  for (let i = 0; i < 10; i++) training.layers(Array<number>(20).fill(0.1));
  training.layers(norms, sigmoid);
  training.layers(norms, sigmoid);
  expect(training.told).toEqual([]);
  training.layers(norms, sigmoid);
  const [finding] = training.model.findings;
  expect(finding.kind).toBe('vanishing');
  expect(finding.title).toContain('`model.0.weight`');
  expect(finding.detail).toContain('a factor of 0.15 per layer over 20 layers');
  expect(finding.advice?.text).toContain('ReLU in place of sigmoid');
  expect([finding.first.pass, finding.passes, finding.module]).toEqual([11, 3, 'model.0']);
  const { kinds } = passesOf(training.model.store, training.model.ledger);
  expect([...kinds].map(Boolean)).toEqual([...Array<boolean>(10).fill(false), true, true, true]);
});

it('takes back what only the first pass of a run had', () => {
  const training = new Training();
  training.layers([1e-9, 1e-9, 1e-3, 1, 1, 1]);
  expect(training.told).toEqual(['vanishing']);
  training.layers([1, 1, 1, 1, 1, 1]);
  expect(training.told).toEqual([]);
  expect([...passesOf(training.model.store, training.model.ledger).kinds]).toEqual([0, 0]);
});

it('tells of gradients that grow, from layer to layer and from pass to pass', () => {
  const deep = new Training();
  deep.layers([1e7, 1e6, 1e5, 10, 1, 1]);
  expect(deep.told).toEqual(['exploding']);
  const long = new Training();
  for (let i = 0; i < 6; i++) long.layers([1, 2, 3]);
  long.layers([1e6, 1, 1]);
  expect(long.told).toEqual(['exploding']);
  expect(long.model.findings[0].detail).toContain('`model.0.weight`');
  expect(long.model.findings[0].first.pass).toBe(7);
});

it('tells units that are dead from zeros that may be meant so', () => {
  for (const [op, kind] of [
    ['ReluBackward0', 'dead'],
    ['MulBackward0', 'zero']
  ]) {
    const training = new Training();
    const { program } = training;
    for (let i = 0; i < 4; i++) {
      const w = program.leaf('model.fc.weight', [4, 4], 7);
      const mm = training.op('MmBackward0', 2, [w]);
      const gate = training.op(op, 2, [mm], { text: 'gate(h)' });
      const sum = program.op('SumBackward0', 3, [gate], []);
      program.backward(sum, 4, { norm: seq => (seq <= mm && i > 0 ? 0 : 1) });
      training.send();
      expect(training.told).toEqual(i === 3 ? [kind] : []);
    }
    const [finding] = training.model.findings;
    expect(finding.matters).toBe(kind === 'dead');
    expect(finding.detail).toBe('The gradient of `model.fc.weight` is zero.');
    expect(finding.title).toContain('`gate(h)`');
  }
});

it('tells no zeros of what opens by itself, comes to nothing, or is new in each pass', () => {
  const passes = (
    make: (training: Training) => { root: number; zero: Set<number> },
    count: number
  ): string[][] => {
    const training = new Training();
    return Array.from({ length: count }, (_, i) => {
      const { root, zero } = make(training);
      training.program.backward(root, 4, { norm: seq => (zero.has(seq) && i < 3 ? 0 : 1) });
      training.send();
      return training.told;
    });
  };
  const chain = (training: Training, storage?: number): number =>
    training.op('MmBackward0', 2, [training.program.leaf('w', [4, 4], storage)]);
  // A block whose last weight is 0 until the first update, after three passes of a step.
  const opens = passes(training => {
    const mm = chain(training, 7);
    const root = training.op('SumBackward0', 3, [training.op('MulBackward0', 2, [mm])]);
    return { root, zero: new Set([mm, mm - 1]) };
  }, 4);
  expect(opens).toEqual([['zero'], ['zero'], ['zero'], []]);
  // Two terms whose gradients cancel in a bias that both share.
  const cancels = passes(training => {
    const bias = training.program.leaf('bias', [4], 7);
    const [one, other] = [2, 3].map(line => training.op('AddmmBackward0', line, [bias]));
    const root = training.op('SubBackward0', 3, [one, other]);
    return { root, zero: new Set([bias]) };
  }, 3);
  expect(cancels.flat()).toEqual([]);
  // An input of a gradient penalty, another tensor in each pass.
  const fresh = passes(training => {
    const mm = chain(training);
    const root = training.op('SumBackward0', 3, [training.op('MulBackward0', 2, [mm])]);
    return { root, zero: new Set([mm, mm - 1]) };
  }, 3);
  expect(fresh[2]).toEqual([]);
});

it('tells dead units once: what is multiplied by their zeros has a zero gradient by them', () => {
  const training = new Training();
  const { program } = training;
  const first = training.op('MmBackward0', 2, [program.leaf('net.0.weight', [4, 4], 7)]);
  const relu = training.op('ReluBackward0', 2, [first], { text: 'relu(h)' });
  const weight = program.leaf('net.2.weight', [4, 4], 8);
  const root = training.op('SumBackward0', 3, [training.op('MmBackward0', 3, [relu, weight])]);
  const zero = new Set([first, first - 1, weight]);
  program.backward(root, 4, { norm: seq => (zero.has(seq) ? 0 : 1) });
  training.send();
  expect(training.told).toEqual(['dead']);
});

it('does not call a power of a whole number wrong for numbers below 0', () => {
  const training = new Training();
  const { program } = training;
  const mm = training.op('MmBackward0', 2, [program.leaf('w', [4])]);
  const pow = training.op('PowBackward0', 3, [mm], { text: 'h.square()' });
  program.backward(training.op('SumBackward0', 3, [pow]), 4, { nanAt: 2 });
  training.send();
  const [{ title, advice }] = training.model.findings;
  expect([title, advice]).toEqual(['The derivative of `h.square()` gave NaN or ∞', null]);
});

it('names the line that cut a parameter off', () => {
  const training = new Training();
  const { program } = training;
  const { writer } = program;
  const w = program.leaf('model.enc.fc.weight', [4, 4]);
  const enc = training.op('MmBackward0', 2, [w]);
  const head = program.leaf('model.head.weight', [4, 4]);
  const mm = training.op('MmBackward0', 3, [head]);
  writer.row('breaks', {
    seq: mm,
    name: writer.string('self'),
    kind: writer.string('detach'),
    site: writer.site(program.site(2, 'h.detach()')),
    maker: enc,
    flags: 0,
    t: writer.t
  });
  program.backward(program.op('SumBackward0', 3, [mm], []), 4);
  training.send();
  const [finding] = training.model.findings;
  expect(finding.title).toBe('`model.enc.fc.weight.grad` stays None: detached');
  expect([finding.module, finding.matters]).toEqual(['model.enc.fc', true]);
  expect(finding.lines[0].site.line).toBe(2);
});

it.each([
  ['fake.detach()', true],
  // nothing of what was detached is left: it is known by its name alone
  ['make(noise(4)).detach()', false],
  ['self.make(z).view(-1).detach()', false]
])('does not tell of a network that another pass of the run trains: %s', (text, kept) => {
  const training = new Training();
  const { program } = training;
  const { writer } = program;
  for (let i = 0; i < 3; i++) {
    const made = training.op('MmBackward0', 2, [program.leaf('make.weight', [4, 4])]);
    const judged = training.op('MmBackward0', 3, [program.leaf('judge.weight', [4, 4])]);
    const how = { name: writer.string('self'), kind: writer.string('detach'), flags: 0 };
    const site = writer.site(program.site(2, text));
    writer.row('breaks', { seq: judged, ...how, site, maker: kept ? made : NONE, t: writer.t });
    program.backward(judged, 3);
    training.send();
    expect(training.told).toEqual(i === 0 ? ['detached'] : []);
    program.backward(made, 4);
    training.send();
    expect(training.told).toEqual([]);
  }
  expect(passesOf(training.model.store, training.model.ledger).kinds.some(Boolean)).toBe(false);
});

it('tells of a cut behind a function of which nothing else is known', () => {
  expect(calledIn('make(z).detach()')).toBe('make');
  for (const text of ['x.detach()', '(make(z) + h).detach()', 'make(z) + h', '', 'make(z'])
    expect(calledIn(text)).toBe('');
  const training = new Training();
  const { program } = training;
  const { writer } = program;
  const judged = training.op('MmBackward0', 3, [program.leaf('maker.weight', [4, 4])]);
  const how = { name: writer.string('self'), kind: writer.string('detach'), flags: 0 };
  const site = writer.site(program.site(2, 'make(z).detach()'));
  writer.row('breaks', { seq: judged, ...how, site, maker: NONE, t: writer.t });
  program.backward(judged, 3);
  training.send();
  expect(training.told).toEqual(['detached']);
});

it('tells of gradients that went through updates without being zeroed', () => {
  const training = new Training();
  for (let i = 0; i < 5; i++) {
    const task = i + 1;
    const { writer } = training.program;
    if (i > 1) writer.row('held', { task, seq: 1, updates: i, leaves: 2, t: writer.t });
    training.layers([1, 1]);
    expect(training.told).toEqual(i < 3 ? [] : ['accumulating']);
  }
  const [{ first, advice, passes, of, detail }] = training.model.findings;
  expect([first.pass, passes, of, advice?.code]).toEqual([4, 2, 5, 'optimizer.zero_grad()']);
  expect(detail).toContain('`model.0.weight.grad` and 1 other');
});

it('tells of a parameter that gets gradients and no update, without counting it', () => {
  const training = new Training();
  const { writer } = training.program;
  writer.row('held', { task: 1, seq: 1, updates: 0, leaves: 1, t: writer.t });
  training.layers([1, 1]);
  const [{ title, matters, advice }] = training.model.findings;
  expect([title, matters]).toEqual(['No update changes `model.0.weight`', false]);
  expect(advice?.text).toContain('requires_grad_(False)');
});

it('keeps findings and marks of passes whose nodes are gone, and no more than so many', () => {
  const model = new InspectorModel({ nodes: 40, writes: 10, problems: 5 });
  const program = new Program(CELL);
  const passes = MOST_PASSES + 5000;
  for (let i = 0; i < passes; i++) {
    const w = program.leaf('w', [4]);
    const log = program.op('LogBackward0', 3, [w], [4], { text: 'torch.log(p)' });
    program.backward(log, 4, i === 3 ? { nanAt: 1 } : {});
    if (i % 100 === 99) model.receive(program.writer.flush());
  }
  model.refresh();
  expect(model.store.tasks.size).toBeLessThan(150);
  const [{ first, of, passes: k }] = model.findings;
  expect([first.pass, k, of]).toEqual([4, 1, passes]);
  expect(model.ledger.marks.length).toBeLessThanOrEqual(MOST_PASSES);
  const { numbers, kept } = passesOf(model.store, model.ledger);
  expect([numbers[numbers.length - 1], kept[0]]).toEqual([passes, 0]);
});
