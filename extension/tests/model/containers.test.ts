// Groups: where they come from, what is open at first, and what stays right when they close.

import { describe, expect, it } from 'vitest';
import type { Container } from '../../src/model/container';
import { containerAt } from '../../src/model/containers';
import { FIRST_VIEW } from '../../src/model/folding';
import { InspectorModel } from '../../src/model/inspector';
import { State } from '../../src/model/states';
import { layoutInput } from '../../src/layout/input';
import { Scene } from '../../src/draw/scene';
import { viewStates } from '../../src/model/view';
import { layOut } from '../../src/layout/layout';
import { NONE } from '../../src/protocol/schema';
import type { Recording } from '../../src/protocol/schema';
import { openRecording } from '../../src/protocol/recording';
import { Program } from '../synthetic/program';
import { chain, dag, layers, residual, rnn, training } from '../synthetic/recordings';
import { decodeBatch } from '../../src/protocol/decode';
import { recordingOf } from '../synthetic/writer';

function modelOf(recording: Recording): InspectorModel {
  const model = new InspectorModel();
  for (const batch of openRecording(recording).batches) model.take(batch);
  model.refresh();
  return model;
}

function trained(): InspectorModel {
  const model = new InspectorModel();
  for (const { header, buffer } of training(2)) model.take(decodeBatch(header, buffer));
  model.refresh();
  return model;
}

function titles(container: Container): string[] {
  return container.children.map(({ title }) => title);
}

function all(root: Container): Container[] {
  return root.children.flatMap(child => [child, ...all(child)]);
}

function named(root: Container, wanted: string): Container {
  return all(root).find(({ title }) => title === wanted) as Container;
}

/** Two equal blocks of two linear layers, as modules tell it. */
function modules(blocks = 2): Recording {
  const program = new Program(['y = net(x)', 'loss = y.sum()']);
  const { writer } = program;
  let calls = 0;
  const call = (name: string, kind: string, parent = NONE): number => {
    const row = { call: ++calls, parent, name: writer.string(name), kind: writer.string(kind) };
    writer.row('calls', { ...row, t: writer.t });
    return calls;
  };
  const op = (name: string, inputs: (number | null)[], scope: number): number => {
    const seq = program.op(name, 1, inputs, [4, 4]);
    writer.row('scopes', { seq, call: scope });
    return seq;
  };
  const net = call('Net', 'Net');
  let x: number | null = null;
  for (let b = 0; b < blocks; b++) {
    const block = call(`layers.${b}`, 'Block', net);
    const a = op('AddmmBackward0', [x, program.leaf(`w${b}`, [4, 4])], call('a', 'Linear', block));
    x = op('ReluBackward0', [a], block);
  }
  program.backward(program.op('SumBackward0', 2, [x], []), 2);
  return recordingOf([writer.flush()]);
}

/** A net of two parts, then a layer of its own, whose parameters have the user's names. */
function labelled(): Recording {
  const program = new Program(['y = out(model(x))', 'loss = y.sum()']);
  const { writer } = program;
  const call = (number: number, name: string, kind: string, parent = NONE): number => {
    const row = { call: number, parent, name: writer.string(name), kind: writer.string(kind) };
    writer.row('calls', { ...row, t: writer.t });
    return number;
  };
  const op = (name: string, inputs: (number | null)[], of: number): number => {
    const seq = program.op(name, 1, inputs, [4, 4]);
    writer.row('scopes', { seq, call: of });
    return seq;
  };
  call(1, 'Net', 'Net');
  const enc = op(
    'AddmmBackward0',
    [null, program.leaf('model.enc.weight', [4, 4])],
    call(2, 'enc', 'Linear', 1)
  );
  const relu = op('ReluBackward0', [enc], 1);
  const mul = op('MulBackward0', [relu, program.leaf('model.scale', [4, 4])], 1);
  const last = op(
    'AddmmBackward0',
    [mul, program.leaf('out.weight', [4, 4])],
    call(3, 'Linear', 'Linear')
  );
  const free = op('TanhBackward0', [last], call(4, 'Tanh', 'Tanh'));
  program.backward(program.op('SumBackward0', 2, [free], []), 2);
  return recordingOf([writer.flush()]);
}

/** An nn.Sequential of Linear and Sigmoid in turn, all called in one line. */
function sequential(layers: number): Recording {
  const program = new Program(['y = net(x)', 'loss = y.sum()']);
  const { writer } = program;
  const call = (number: number, name: string, kind: string, parent: number): number => {
    const row = { call: number, parent, name: writer.string(name), kind: writer.string(kind) };
    writer.row('calls', { ...row, t: writer.t });
    return number;
  };
  const net = call(1, 'Sequential', 'Sequential', NONE);
  let x: number | null = null;
  for (let i = 0; i < layers; i++) {
    const linear = i % 2 === 0;
    const one = call(i + 2, `${i}`, linear ? 'Linear' : 'Sigmoid', net);
    const inputs = linear ? [x, program.leaf(`w${i}`, [4, 4])] : [x];
    x = program.op(linear ? 'AddmmBackward0' : 'SigmoidBackward0', 1, inputs, [4, 4]);
    writer.row('scopes', { seq: x, call: one });
  }
  program.backward(program.op('SumBackward0', 2, [x], []), 2);
  return recordingOf([writer.flush()]);
}

/** An nn.RNN whose nodes have the line of its call, then a loop that is one line. */
function recurrent(steps: number): Recording {
  const program = new Program(['y, h = rnn(x)', 'for i in range(n): y = y * y.exp()']);
  const { writer } = program;
  const [name, t] = [writer.string('RNN'), writer.t];
  writer.row('calls', { call: 1, parent: NONE, name, kind: name, t });
  const op = (kind: string, inputs: (number | null)[]): number => {
    const seq = program.op(kind, 1, inputs, [4, 4]);
    writer.row('scopes', { seq, call: 1 });
    return seq;
  };
  const w = program.leaf('weight_hh_l0', [4, 4]);
  const input = op('SplitBackward0', [op('AddmmBackward0', [null, w])]);
  let h: number | null = null;
  for (let i = 0; i < steps; i++) {
    const gates: number = op('AddmmBackward0', [h, op('TBackward0', [w])]);
    h = op('TanhBackward0', [op('AddBackward0', [input, gates])]);
  }
  let y = op('CatBackward0', [h]);
  for (let i = 0; i < (steps < 10 ? 3 : 30); i++) {
    const exp = program.op('ExpBackward0', 2, [y], [4, 4]);
    y = program.op('MulBackward0', 2, [exp, y], [4, 4]);
  }
  program.backward(program.op('SumBackward0', 3, [y], []), 3);
  return recordingOf([writer.flush()]);
}

it("outermost modules have the user's names, as far as their parameters tell them", () => {
  const found = all(modelOf(labelled()).root).map(({ title, detail }) => `${title}: ${detail}`);
  expect(found).toContain('model: Net');
  expect(found).toContain('enc: Linear');
  expect(found).toContain('out: Linear');
  expect(found).toContain('Tanh: Tanh');
});

describe('containersOf', () => {
  it('are the lines of a cell', () => {
    const { root } = modelOf(residual());
    expect(titles(root)).toEqual(['In[4] line 4', 'In[4] line 3', 'In[4] line 2', 'In[4] line 1']);
    expect(root.children.map(({ nodes }) => nodes)).toEqual([3, 1, 2, 3]);
    expect(root.children.every(({ framed }) => framed)).toBe(true);
  });

  it('are modules where modules were called', () => {
    const { root } = modelOf(modules());
    const [, net] = root.children;
    expect([net.kind, net.title, net.nodes]).toEqual(['call', 'Net', 4]);
    expect(titles(net)).toEqual(['layers.1', 'layers.0']);
    expect(net.children[0].detail).toBe('Block');
    expect(titles(net.children[0])).toEqual(['In[4] line 1', 'a']);
    expect(net.children[0].children[1].framed).toBe(true);
  });

  it('are levels of transforms, named beside the line in them', () => {
    const program = new Program(['y = vmap(grad(f))(x)', 'loss = y.sum()']);
    const { writer } = program;
    const level = (call: number, parent: number, name: string): void => {
      const [text, kind] = [writer.string(name), writer.string('vmap')];
      writer.row('calls', { call, parent, name: text, kind, t: writer.t });
      writer.row('levels', { call, kind, depth: call, size: 0, site: NONE, t: writer.t });
    };
    level(1, NONE, 'vmap, 64 lanes');
    level(2, 1, 'grad, level 2');
    const made = program.op('SinBackward0', 1, [program.leaf('w', [4])], [4]);
    writer.row('scopes', { seq: made, call: 2 });
    const after = program.op('MulBackward0', 1, [made], [4]);
    writer.row('scopes', { seq: after, call: 1 });
    program.backward(program.op('SumBackward0', 2, [after], []), 2);
    const { root } = modelOf(recordingOf([writer.flush()]));
    const [, outer] = root.children;
    expect([outer.kind, outer.title, outer.nodes]).toEqual(['level', 'vmap, 64 lanes', 2]);
    const [line, inner] = outer.children;
    expect(line.title).toBe('In[4] line 1');
    expect([inner.kind, inner.title, inner.framed]).toEqual(['level', 'grad, level 2', true]);
  });

  it('fold equal layers with their count', () => {
    const { root } = modelOf(modules(6));
    const [repeat] = root.children[1].children;
    expect([repeat.kind, repeat.times, repeat.title]).toEqual(['repeat', 6, '6 × Block']);
    expect(titles(repeat)).toEqual([5, 4, 3, 2, 1, 0].map(i => `layers.${i}`));
  });

  it('call modules that repeat one after the other layers, from the first one on', () => {
    const { root } = modelOf(sequential(41));
    const net = root.children[1];
    expect(titles(net)).toEqual(['40', '20 × Linear, Sigmoid']);
    const [, repeat] = net.children;
    expect(repeat.children.map(({ kind }) => kind)).toEqual(Array(20).fill('layers'));
    expect(repeat.children[0].title).toBe('38 to 39');
    expect(titles(repeat.children[19])).toEqual(['1', '0']);
    expect(repeat.children[19].detail).toBe('Linear, Sigmoid');
  });

  it('fold the steps of a recurrent module, and the turns of a loop in one line', () => {
    const { root } = modelOf(recurrent(100));
    const rnn = named(root, 'RNN');
    const line = named(root, 'In[4] line 2');
    const [steps] = rnn.children;
    expect([rnn.title, steps.title, steps.times, steps.nodes]).toEqual([
      ...['RNN', '100 steps'],
      ...[100, 400]
    ]);
    expect(rnn.nodes).toBe(403);
    expect([steps.children[0].title, steps.children[99].title]).toEqual(['step 100', 'step 1']);
    expect(steps.children.every(({ nodes }) => nodes === 4)).toBe(true);
    expect(titles(line)).toEqual(['30 × 2 nodes']);
    expect(line.children[0].children[29].title).toBe('turn 1');
  });

  it('are the layers of one line where each turn has parameters of its own', () => {
    const program = new Program(['model(x).sum().backward()']);
    let at: number | null = null;
    for (let i = 0; i < 20; i++) {
      const weight = program.leaf(`model.${2 * i}.weight`, [8, 8]);
      const turned = program.op('TBackward0', 1, [weight], [8, 8]);
      at = program.op('MmBackward0', 1, [at, turned], [4, 8]);
      at = program.op('SigmoidBackward0', 1, [at], [4, 8]);
    }
    const root = program.op('SumBackward0', 1, [at], []);
    program.backward(root, 1);
    const [line] = modelOf(recordingOf([program.writer.flush()])).root.children;
    const [repeat] = line.kind === 'repeat' ? [line] : line.children;
    expect([repeat.title, repeat.times]).toEqual(['20 layers', 20]);
    expect(repeat.children.map(({ kind }) => kind)).toEqual(Array(20).fill('layers'));
    expect(titles(repeat).slice(0, 2)).toEqual(['model.38', 'model.36']);
  });

  it('leave few nodes of one line, and a row of equal ones, as they are', () => {
    const few = modelOf(recurrent(7));
    expect(named(few.root, 'RNN').children).toEqual([]);
    expect(named(few.root, 'In[4] line 2').framed).toBe(true);
    const [row] = modelOf(chain(400)).root.children;
    expect([row.kind, row.nodes, row.children.length]).toEqual(['line', 400, 0]);
  });

  it('fold the turns of a loop, and number them as they ran', () => {
    const { root } = modelOf(rnn(250));
    const repeat = root.children[1];
    expect([repeat.kind, repeat.times, repeat.nodes]).toEqual(['repeat', 250, 1250]);
    expect(repeat.title).toBe('250 × In[4] lines 2 to 3');
    expect(repeat.children[0].title).toBe('turn 250');
    expect(titles(repeat.children[0])).toEqual(['In[4] line 3', 'In[4] line 2']);
  });

  it('hold every node once, in ranges that lie within each other', () => {
    for (const recording of [residual(), rnn(40), modules(5), dag(400)]) {
      const { root, graph } = modelOf(recording);
      for (const container of [root, ...all(root)]) {
        let at = container.first;
        for (const child of container.children) {
          expect(child.first).toBeGreaterThanOrEqual(at);
          expect(child.parent).toBe(container);
          at = child.last;
        }
        expect(at).toBeLessThanOrEqual(container.last);
      }
      for (let i = 0; i < graph.seqs.length; i++) {
        const { first, last } = containerAt(root, i);
        expect(first <= i && i < last).toBe(true);
      }
      expect(new Set(all(root).map(({ key }) => key)).size).toBe(all(root).length);
    }
  });

  it('have the same keys in the next pass of the same program', () => {
    const model = trained();
    const keys = all(model.root).map(({ key }) => key);
    model.showNeighbour(-1);
    model.refresh();
    expect(all(model.root).map(({ key }) => key)).toEqual(keys);
  });
});

describe('what is open', () => {
  it('is all of a small graph and few boxes of a large one', () => {
    expect(modelOf(residual()).view.seqs.length).toBe(9);
    expect(modelOf(rnn(250)).view.seqs.length).toBe(2);
    for (const recording of [chain(100_000), dag(20_000)]) {
      const { view } = modelOf(recording);
      expect(view.seqs.length).toBeLessThanOrEqual(FIRST_VIEW);
      expect(view.first[view.seqs.length]).toBeGreaterThanOrEqual(20_000);
    }
  });

  it('stays as the reader chose it in the next pass', () => {
    const model = trained();
    const [head] = model.root.children;
    model.fold(head, false);
    model.refresh();
    const boxes = model.view.seqs.length;
    model.showNeighbour(-1);
    model.refresh();
    expect(model.view.seqs.length).toBe(boxes);
    expect(model.folding.isOpen(model.root.children[0])).toBe(false);
  });

  it('opens around a node that is looked for', () => {
    const model = modelOf(rnn(250));
    model.setQuery('mm');
    model.nextHit(1);
    model.refresh();
    expect(model.foldOf(model.selected as number)).toBeNull();
  });
});

describe('a view with closed containers', () => {
  it('leads edges between what is drawn, from above to below', () => {
    const model = modelOf(rnn(60));
    const repeat = model.root.children.find(({ kind }) => kind === 'repeat') as Container;
    model.fold(repeat, true);
    model.fold(repeat.children[3], true);
    model.refresh();
    const { view, graph } = model;
    const pairs = new Set<string>();
    for (let e = 0; e < view.edgeFrom.length; e++) {
      expect(view.edgeFrom[e]).toBeLessThan(view.edgeTo[e]);
      pairs.add(`${view.edgeFrom[e]} ${view.edgeTo[e]}`);
    }
    const wanted = new Set<string>();
    for (let e = 0; e < graph.edgeFrom.length; e++) {
      const [a, b] = [graph.edgeFrom[e], graph.edgeTo[e]].map(i =>
        view.indexOf.get(graph.seqs[i])
      );
      if (a !== b) wanted.add(`${a} ${b}`);
    }
    expect(pairs).toEqual(wanted);
    const layout = layOut(layoutInput(model.store, view, null));
    for (let e = 0; e < view.edgeFrom.length; e++) {
      expect(layout.y[view.edgeFrom[e]]).toBeLessThan(layout.y[view.edgeTo[e]]);
    }
  });

  it('shows the state that must not be missed', () => {
    const model = modelOf(residual());
    const states = [...model.drawn.node];
    expect(states).toContain(State.next);
    for (const container of model.root.children) model.fold(container, false);
    model.refresh();
    expect(model.view.seqs.length).toBe(4);
    expect(model.drawn.node[0]).toBe(State.done);
    expect(model.drawn.node[2]).toBe(State.next);
    expect(model.drawn.next).toBe(2);
  });

  it('lets the keys walk over closed containers and select them', () => {
    const model = modelOf(residual());
    model.select(model.graph.seqs[0]);
    model.fold(model.root.children[1], false);
    model.refresh();
    for (let i = 0; i < 3; i++) model.move('down');
    expect(model.group).toBe(model.root.children[1]);
    expect(model.selected).toBeNull();
    model.move('down');
    expect(model.store.nameOf(model.selected as number)).toBe('ReluBackward0');
  });

  it('closes over what is selected inside', () => {
    const model = modelOf(residual());
    model.select(model.graph.seqs[1]);
    model.foldAll(false);
    model.refresh();
    expect(model.group).toBe(model.root.children[0]);
    model.foldAll(true);
    model.refresh();
    expect(model.view.seqs.length).toBe(9);
  });
});

describe('a transposed weight', () => {
  const model = modelOf(layers(4));
  const transposes = [...model.graph.seqs].filter(
    seq => model.store.nameOf(seq) === 'TBackward0'
  );

  it('has no box of its own: the badge of the weight stands for it', () => {
    expect(transposes.length).toBe(4);
    expect(model.view.folds.length).toBe(8);
    for (const seq of transposes) {
      const box = model.view.indexOf.get(seq);
      expect(model.store.nameOf(model.view.seqs[box])).toBe('AddmmBackward0');
      expect(model.store.label(model.view.stubOf.get(seq) ?? -1)).toContain('weight');
    }
    const scene = new Scene(
      model.store,
      model.view,
      layOut(layoutInput(model.store, model.view, null))
    );
    const texts = Array.from(model.view.badgeSeq, (_, badge) => scene.badgeText(badge).label);
    expect(texts.slice(0, 2)).toEqual(['3.bias', '3.weight ᵀ']);
    const [first] = transposes;
    expect(scene.boxOf(first)).toEqual(scene.boxOf(model.view.stubOf.get(first) ?? -1));
  });

  it('is next, and has a problem, at its badge', () => {
    const last = model.states.node.length - 1;
    const node = new Uint8Array(last + 1);
    const at = model.graph.indexOf.get(transposes[1]);
    node[at] = State.next;
    const shown = viewStates(model.view, { ...model.states, node, next: at });
    const badge = model.view.stubOf.get(transposes[1]) ?? -1;
    expect([shown.next, shown.nextLeaf]).toEqual([-1, badge]);
    expect(shown.leaf.get(badge)).toBe(State.next);
    expect(model.states.leaf.get(badge)).not.toBe(State.next);
  });

  it('gets a box when its badge is opened, in the next pass, too, and gives it back', () => {
    const own = modelOf(layers(4));
    const count = own.view.folds.length;
    const leaf = own.view.stubOf.get(transposes[1]) ?? -1;
    const named = (): string[] => [...own.view.seqs].map(seq => own.store.nameOf(seq));
    expect(own.boxTransposes(own.graph.seqs[0], true)).toBe(false);
    expect(own.boxTransposes(leaf, true)).toBe(true);
    expect(own.boxTransposes(leaf, true)).toBe(false);
    own.refresh();
    expect(own.view.folds.length).toBe(count + 1);
    expect(named().filter(name => name === 'TBackward0')).toHaveLength(1);
    const box = own.view.indexOf.get(transposes[1]);
    expect(own.view.seqs[box]).toBe(transposes[1]);
    expect(own.view.stubOf.has(transposes[1])).toBe(false);
    // The badge is now that of the transpose, and plain.
    expect([...own.view.badgeSeq.subarray(own.view.badgeStart[box])][0]).toBe(leaf);
    expect(own.view.badgeKnown[own.view.badgeStart[box]]).toBe(1);
    // The choice is kept by what the program is, not by numbers.
    const other = modelOf(layers(4));
    other.folding.choose(own.folding.chosen);
    other.show({ kind: 'latest' });
    other.refresh();
    expect([...other.view.seqs].map(seq => other.store.nameOf(seq))).toEqual(named());
    own.select(transposes[1]);
    expect(own.boxTransposes(own.selected, false)).toBe(true);
    own.refresh();
    expect(own.view.folds.length).toBe(count);
    expect(own.view.stubOf.get(transposes[1])).toBe(leaf);
    const scene = new Scene(own.store, own.view, layOut(layoutInput(own.store, own.view, null)));
    expect(scene.boxOf(transposes[1])).toEqual(scene.boxOf(leaf));
  });

  it('keeps its box where two nodes use it', () => {
    const program = new Program(['w = W.t()', 'y = x @ w', 'z = y @ w']);
    const w = program.op('TBackward0', 1, [program.leaf('W', [4, 4])], [4, 4]);
    const y = program.op('MmBackward0', 2, [null, w], [4, 4]);
    program.backward(program.op('MmBackward0', 3, [y, w], [4, 4]), 3);
    const twice = modelOf(recordingOf([program.writer.flush()]));
    expect(twice.view.folds.length).toBe(3);
    expect(twice.view.stubOf.size).toBe(0);
  });
});
