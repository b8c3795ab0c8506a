// Synthetic recordings: the residual block of the design sketch, an RNN with shared weights, graphs
// by the thousand.

import type { NodeDetails, Recording, Values } from '../../src/protocol/schema';
import { NONE } from '../../src/protocol/schema';
import { Program } from './program';
import { Writer, recordingOf } from './writer';

/** Repeatable numbers in [0, 1). */
export function random(seed: number): () => number {
  let state = (seed * 2654435761) % 2147483647 || 1;
  return () => {
    state = (state * 16807) % 2147483647;
    return state / 2147483647;
  };
}

function summary(shape: number[], seed: number, kind: 'relu' | 'normal'): Values {
  const next = random(seed);
  const [rows, cols] = [Math.min(16, shape[0] ?? 1), Math.min(32, shape[1] ?? 1)];
  const normal = (): number =>
    (next() + next() + next() + next() - 2) * (kind === 'relu' ? 1 : 0.0016);
  const values = Array.from({ length: rows * cols }, () =>
    kind === 'relu' ? Math.max(0, normal()) : normal()
  );
  const min = Math.min(...values);
  const max = Math.max(...values);
  const counts = new Array<number>(41).fill(0);
  for (let i = 0; i < 8192; i++) {
    const value = kind === 'relu' ? Math.max(0, normal()) : normal();
    counts[Math.max(0, Math.min(40, Math.floor(((value - min) / (max - min)) * 41)))]++;
  }
  const numel = shape.reduce((a, b) => a * b, 1);
  return {
    shape,
    dtype: 'float32',
    numel,
    bytes: 4 * numel,
    min,
    max,
    mean: values.reduce((a, b) => a + b, 0) / values.length,
    norm: Math.sqrt(values.reduce((a, b) => a + b * b, 0)),
    nan: 0,
    inf: 0,
    zero: kind === 'relu' ? Math.round(numel * 0.47) : Math.round(numel * 0.12),
    sampled: numel,
    histogram: {
      edges: Array.from({ length: 42 }, (_, i) => min + ((max - min) * i) / 41),
      counts
    },
    picture: { rows, cols, values, pooled: true },
    text: `tensor([[${values
      .slice(0, 4)
      .map(v => v.toFixed(4))
      .join(', ')}, ...], ...])`
  };
}

const RESIDUAL = [
  'h = (X @ W1 + b1).relu()',
  'out = torch.relu(h @ W2)',
  'out += h',
  'loss = F.cross_entropy(out @ W3, y)'
];

/** The residual block that is paused before the node whose saved result was overwritten. */
export function residual(options: { paused?: boolean; problem?: boolean } = {}): Recording {
  const { paused = true, problem = true } = options;
  const program = new Program(RESIDUAL);
  const { writer } = program;
  const [W1, b1] = [program.leaf('W1', [64, 128]), program.leaf('b1', [128])];
  const [hStore, outStore] = [program.storage(), program.storage()];
  const mm1 = program.op('MmBackward0', 1, [null, W1], [64, 128], { text: 'X @ W1' });
  const add1 = program.op('AddBackward0', 1, [mm1, b1], [64, 128], { text: 'X @ W1 + b1' });
  const relu1 = program.op('ReluBackward0', 1, [add1], [64, 128], {
    text: '(X @ W1 + b1).relu()',
    saved: [{ name: 'result', storage: hStore, own: true }]
  });
  const W2 = program.leaf('W2', [128, 128]);
  const mm2 = program.op('MmBackward0', 2, [relu1, W2], [64, 128], {
    text: 'h @ W2',
    saved: [
      { name: 'self', storage: hStore },
      { name: 'mat2', storage: program.storage(), shape: [128, 128] }
    ]
  });
  const relu2 = program.op('ReluBackward0', 2, [mm2], [64, 128], {
    text: 'torch.relu(h @ W2)',
    saved: [{ name: 'result', storage: outStore, own: true }]
  });
  program.write(outStore, 1, 'add_', 3);
  const add2 = program.op('AddBackward0', 3, [relu2, relu1], [64, 128], { text: 'out += h' });
  const W3 = program.leaf('W3', [128, 10]);
  const mm3 = program.op('MmBackward0', 4, [add2, W3], [64, 10], {
    text: 'out @ W3',
    saved: [{ name: 'self', storage: outStore, version: 1, shape: [64, 128] }]
  });
  const soft = program.op('LogSoftmaxBackward0', 4, [mm3], [64, 10], {
    text: 'F.cross_entropy(out @ W3, y)',
    saved: [{ name: 'result', storage: program.storage(), own: true }]
  });
  const nll = program.op('NllLossBackward0', 4, [soft], [], {
    text: 'F.cross_entropy(out @ W3, y)'
  });
  const batches = [writer.flush()];

  const order = program.order(nll);
  const at = order.indexOf(relu2);
  program.backward(nll, 1, paused ? { until: at } : { retain: true });
  writer.row('hooks', {
    seq: relu2,
    task: 1,
    kind: writer.string('tensor'),
    name: writer.string('clip'),
    number: 0,
    hook: 1,
    site: NONE,
    effect: writer.string('replaced'),
    factor: 1,
    error: 0,
    before: 0.053,
    before_min: -0.002,
    before_max: 0.003,
    before_nan: 0,
    before_inf: 0,
    after: 0.0412,
    after_min: -0.001,
    after_max: 0.001,
    after_nan: 0,
    after_inf: 0,
    t: writer.t
  });
  if (paused) {
    writer.state.breakpoints = [{ id: 1, kind: 'node', seq: relu2 }];
  }
  if (problem) {
    writer.problem({
      id: 1,
      kind: 'modified-by-inplace',
      title: 'The output of relu was overwritten before backward could use it',
      detail: 'out, float32 [64, 128]. ReluBackward0 needs the values it saved.',
      node_seq: relu2,
      node_name: 'ReluBackward0',
      saved_name: 'result',
      tensor: { name: 'out', shape: [64, 128], dtype: 'float32' },
      saved: { site: program.site(2, 'torch.relu(h @ W2)'), version: 0 },
      writes: [{ site: program.site(3, 'out += h'), version: 1, op: 'add_' }],
      more_writes: 0,
      version_then: 0,
      version_now: 1,
      repair: { text: 'keeps both versions', code: 'out = out + h' },
      where: program.site(1),
      text:
        'one of the variables needed for gradient computation has been modified ' +
        'by an inplace operation'
    });
  }
  batches.push(writer.flush());

  const details: Record<string, NodeDetails> = {};
  const values: Record<string, Values> = {};
  const add = (detail: Partial<NodeDetails> & { seq: number; name: string }): void => {
    const base = {
      site: null,
      next: [],
      outputs: [],
      saved: [],
      values: [],
      hooks: [],
      alive: true,
      variable: null
    };
    details[detail.seq] = { ...base, ...detail };
  };
  add({
    seq: relu2,
    name: 'ReluBackward0',
    site: program.site(2, 'torch.relu(h @ W2)'),
    next: [{ seq: mm2, name: 'MmBackward0', label: null, index: 0 }],
    outputs: [{ shape: [64, 128], dtype: 'float32' }],
    saved: [
      {
        name: 'result',
        shape: [64, 128],
        dtype: 'float32',
        bytes: 32768,
        version_then: 0,
        version_now: 1,
        storage: outStore,
        shared_with: ['out', 'self of MmBackward0'],
        freed: false,
        own_output: true
      }
    ],
    hooks: [
      { kind: 'tensor', name: 'clip', number: 0, hook: 1, site: null },
      { kind: 'retain_grad', name: 'retain_grad', number: 0, hook: null, site: null }
    ]
  });
  values[`${relu2} saved:result`] = summary([64, 128], 3, 'relu');
  values[`${relu2} grad`] = summary([64, 128], 5, 'normal');
  values[`${W2} variable`] = summary([128, 128], 8, 'normal');
  return recordingOf(batches, details, values);
}

/** An unrolled RNN: `steps` steps of four nodes, three parameters that every step uses. */
export function rnn(steps = 250, options: { until?: number } = {}): Recording {
  const program = new Program([
    'for x in sequence:',
    '    a = x @ Wx + h @ Wh',
    '    h = torch.tanh(a + b)',
    'loss = h.sum()'
  ]);
  const leaves = {
    Wx: program.leaf('Wx', [32, 64]),
    Wh: program.leaf('Wh', [64, 64]),
    b: program.leaf('b', [64])
  };
  let h = program.leaf('h0', [16, 64]);
  for (let i = 0; i < steps; i++) {
    const mx = program.op('MmBackward0', 2, [null, leaves.Wx], [16, 64], { text: 'x @ Wx' });
    const mh = program.op('MmBackward0', 2, [h, leaves.Wh], [16, 64], { text: 'h @ Wh' });
    const a = program.op('AddBackward0', 2, [mx, mh], [16, 64], { text: 'x @ Wx + h @ Wh' });
    const ab = program.op('AddBackward0', 3, [a, leaves.b], [16, 64], { text: 'a + b' });
    h = program.op('TanhBackward0', 3, [ab], [16, 64], {
      text: 'torch.tanh(a + b)',
      saved: [{ name: 'result', storage: program.storage(), own: true }]
    });
  }
  const loss = program.op('SumBackward0', 4, [h], []);
  program.backward(loss, 4, { until: options.until });
  return recordingOf([program.writer.flush()]);
}

/**
 * Layers of x @ W.t() + b and an activation; side: what stands between the weight and the product;
 * every: after so many layers what went in is added.
 */
export function layers(count = 20, side = ['TBackward0'], every = 0): Recording {
  const program = new Program(['x = F.linear(x, f(W), b)', 'x = torch.sigmoid(x)', 'x = x + h']);
  let x: number | null = null;
  let h: number | null = null;
  for (let i = 0; i < count; i++) {
    const [W, b] = [program.leaf(`${i}.weight`, [32, 32]), program.leaf(`${i}.bias`, [32])];
    let w = W;
    for (const name of side) w = program.op(name, 1, [w], [32, 32], { text: 'f(W)' });
    x = program.op('AddmmBackward0', 1, [b, x, w], [64, 32], { text: 'F.linear(x, f(W), b)' });
    x = program.op('SigmoidBackward0', 2, [x], [64, 32], { text: 'torch.sigmoid(x)' });
    if (every > 0 && (i + 1) % every === 0) {
      x = program.op('AddBackward0', 3, [x, h], [64, 32], { text: 'x + h' });
      h = x;
    }
  }
  program.backward(x as number, 3);
  return recordingOf([program.writer.flush()]);
}

/**
 * A random graph: `count` nodes with one or two inputs each, mostly recent ones, in lines of a few
 * nodes.
 */
export function dag(count = 10_000, seed = 1, options: { until?: number } = {}): Recording {
  const next = random(seed);
  const lines = Array.from(
    { length: 400 },
    (_, i) => `y${i} = f${i % 17}(y${Math.max(0, i - 1)}, w${i % 29})`
  );
  const program = new Program(lines);
  const names = [
    'MulBackward0',
    'AddBackward0',
    'TanhBackward0',
    'MmBackward0',
    'SumBackward1',
    'ReluBackward0'
  ];
  const leaves = Array.from({ length: 40 }, (_, i) => program.leaf(`w${i}`, [64, 64]));
  const open: number[] = [program.op('MmBackward0', 1, [leaves[0]], [64, 64])];
  let line = 1;
  for (let i = 1; i < count - 1; i++) {
    if (next() < 0.3) line = (line % lines.length) + 1;
    const inputs: number[] = [];
    // Take one of the open ends, so that all of them are reached from the loss.
    inputs.push(open.splice(Math.floor(next() * next() * open.length), 1)[0]);
    if (next() < 0.25 && open.length > 1)
      inputs.push(open.splice(Math.floor(next() * open.length), 1)[0]);
    if (next() < 0.25) inputs.push(leaves[Math.floor(next() * leaves.length)]);
    const made = program.op(names[Math.floor(next() * names.length)], line, inputs, [64, 64]);
    open.push(made);
    if (next() < 0.2 && open.length < 12) open.push(made);
  }
  const loss = program.op('StackBackward0', line, [...new Set(open)], []);
  program.backward(loss, 1, { until: options.until });
  return recordingOf([program.writer.flush()]);
}

/** One line in a loop: a chain of `count` nodes. */
export function chain(count: number): Recording {
  const program = new Program(['for i in range(n):', '    x = x * 1.01']);
  let x = program.leaf('x', [4]);
  for (let i = 0; i < count; i++) x = program.op('MulBackward0', 2, [x], [4]);
  program.backward(x, 2);
  return recordingOf([program.writer.flush()]);
}

/** Names and lines that try to be markup, and one that is very long. */
export function hostile(): Recording {
  const markup = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';
  const program = new Program([
    `y = f("${markup}")`,
    'x'.repeat(1_000_000),
    '\u202Egnp.exe = x  # right to left'
  ]);
  const w = program.leaf(markup, [2]);
  const a = program.op(markup, 1, [w], [2], { saved: [{ name: markup, storage: 1, own: true }] });
  const b = program.op('N'.repeat(1_000_000), 2, [a], [2]);
  const c = program.op('MulBackward0', 3, [b, a], [2]);
  program.write(1, 1, markup, 1);
  program.backward(c, 1, { until: 1 });
  return recordingOf([program.writer.flush()]);
}

/** Training steps of a small model, one batch each; the kernel's side of a live session. */
export function training(steps: number): ReturnType<Writer['flush']>[] {
  const batches: ReturnType<Writer['flush']>[] = [];
  const program = new Program([
    'z = torch.tanh(x @ W + b)',
    'loss = (z - y).pow(2).mean()',
    'loss.backward()'
  ]);
  for (let step = 0; step < steps; step++) {
    const W = program.leaf('W', [8, 4]);
    const b = program.leaf('b', [4]);
    const mm = program.op('MmBackward0', 1, [null, W], [16, 4], { text: 'x @ W' });
    const add = program.op('AddBackward0', 1, [mm, b], [16, 4], { text: 'x @ W + b' });
    const tanh = program.op('TanhBackward0', 1, [add], [16, 4], {
      saved: [{ name: 'result', storage: program.storage(), own: true }]
    });
    const sub = program.op('SubBackward0', 2, [tanh], [16, 4], { text: 'z - y' });
    const pow = program.op('PowBackward0', 2, [sub], [16, 4], { text: '(z - y).pow(2)' });
    const mean = program.op('MeanBackward0', 2, [pow], []);
    program.backward(mean, 3);
    batches.push(program.writer.flush());
  }
  return batches;
}
