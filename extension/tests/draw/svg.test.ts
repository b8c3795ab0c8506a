// @vitest-environment jsdom
// The drawing that is saved: well-formed, whole, and free of what a program may have written.

import { describe, expect, it } from 'vitest';
import { Camera } from '../../src/draw/camera';
import { Labels } from '../../src/draw/labels';
import type { Palette } from '../../src/draw/palette';
import { paint } from '../../src/draw/painter';
import { Scene } from '../../src/draw/scene';
import { SvgContext } from '../../src/draw/svg_context';
import { layoutInput } from '../../src/layout/input';
import { layOut } from '../../src/layout/layout';
import { InspectorModel } from '../../src/model/inspector';
import { dotOf, jsonOf } from '../../src/model/text_graph';
import { openRecording } from '../../src/protocol/recording';
import type { Recording } from '../../src/protocol/schema';
import { hostile, residual, rnn } from '../synthetic/recordings';
import { fakeContext } from './context';

const palette = new Proxy({}, { get: (_, name) => String(name) }) as unknown as Palette;

function modelOf(recording: Recording): InspectorModel {
  const model = new InspectorModel();
  for (const batch of openRecording(recording).batches) model.take(batch);
  model.refresh();
  return model;
}

function drawn(model: InspectorModel): Document {
  const layout = layOut(layoutInput(model.store, model.view, null));
  const scene = new Scene(model.store, model.view, layout);
  const camera = new Camera();
  camera.k = 1;
  camera.width = scene.bounds.width;
  camera.height = scene.bounds.height;
  const context = new SvgContext(camera.width, camera.height);
  paint(context.asCanvas, {
    scene,
    states: model.drawn,
    store: model.store,
    camera,
    palette,
    labels: new Labels(fakeContext().ctx),
    ratio: 1,
    selected: null,
    selectedBox: -1,
    over: null,
    hits: new Set(),
    hitBoxes: new Set()
  });
  return new DOMParser().parseFromString(context.text, 'image/svg+xml');
}

describe('SvgContext', () => {
  it('writes each node with its name, and nothing that does not parse', () => {
    const svg = drawn(modelOf(residual()));
    expect(svg.querySelector('parsererror')).toBeNull();
    const texts = [...svg.querySelectorAll('text')].map(text => text.textContent);
    expect(texts.filter(text => text === 'ReluBackward0').length).toBe(2);
    expect(svg.querySelectorAll('path').length).toBeGreaterThan(20);
    expect(svg.documentElement.outerHTML).not.toContain('NaN');
  });

  it('keeps markup in names as text', () => {
    const svg = drawn(modelOf(hostile()));
    expect(svg.querySelector('parsererror')).toBeNull();
    expect(svg.querySelector('img, script')).toBeNull();
    expect([...svg.querySelectorAll('text')].some(t => t.textContent?.includes('<img'))).toBe(true);
  });
});

describe('texts of the graph', () => {
  it('are DOT of what is drawn', () => {
    const text = dotOf(modelOf(rnn(250)));
    expect(text).toContain('n0 [label="SumBackward0"];');
    expect(text).toContain('250 × In[4] lines 2 to 3\\n1250 nodes", peripheries=2');
    expect(text).toContain('n0 -> n1;');
    expect(dotOf(modelOf(residual()))).toMatch(/leaf\d+ \[label="W1", shape=ellipse\]/);
  });

  it('are JSON of every node', () => {
    const model = modelOf(residual());
    const read = JSON.parse(jsonOf(model)) as {
      nodes: { seq: number; name: string; next: (number | null)[]; saved: { name: string }[] }[];
      leaves: { name: string | null }[];
    };
    expect(read.nodes.map(({ seq }) => seq)).toEqual([...model.graph.seqs]);
    expect(read.nodes[1].next).toEqual([read.nodes[2].seq]);
    expect(read.nodes[1].saved.map(({ name }) => name)).toEqual(['result']);
    expect(read.leaves.map(({ name }) => name)).toEqual(['W3', 'W2', 'b1', 'W1']);
  });

  it('survive hostile names', () => {
    const model = modelOf(hostile());
    expect(() => JSON.parse(jsonOf(model)) as unknown).not.toThrow();
    for (const line of dotOf(model).split('\n')) {
      expect((line.replace(/\\./g, '').match(/"/g) ?? []).length % 2).toBe(0);
    }
  });
});
