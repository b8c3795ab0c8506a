// What is drawn: only what is in view, at the detail of the zoom, states by sign as well as colour,
// texts as texts.

import { describe, expect, it } from 'vitest';
import { Camera } from '../../src/draw/camera';
import { chipsOf } from '../../src/draw/chips';
import { Grid } from '../../src/draw/grid';
import { Labels } from '../../src/draw/labels';
import type { Frame } from '../../src/draw/painter';
import { paint } from '../../src/draw/painter';
import type { Palette } from '../../src/draw/palette';
import { Scene } from '../../src/draw/scene';
import {
  LABELS_WIDTH,
  paintTimeline,
  positionAt,
  sliceAt,
  timelineScale,
  xOfPosition
} from '../../src/draw/timeline_painter';
import { sliceWords } from '../../src/panels/timeline';
import { layoutInput } from '../../src/layout/input';
import { layOut } from '../../src/layout/layout';
import { InspectorModel } from '../../src/model/inspector';
import type { Recording } from '../../src/protocol/schema';
import { openRecording } from '../../src/protocol/recording';
import { chain, dag, hostile, random, residual, rnn } from '../synthetic/recordings';
import { fakeContext } from './context';

const palette = new Proxy({}, { get: (_, name) => String(name) }) as unknown as Palette;

function sceneOf(recording: Recording): { model: InspectorModel; scene: Scene } {
  const model = new InspectorModel();
  for (const batch of openRecording(recording).batches) model.take(batch);
  model.refresh();
  model.foldAll(true);
  model.refresh();
  const layout = layOut(layoutInput(model.store, model.view, null));
  return { model, scene: new Scene(model.store, model.view, layout) };
}

function framed(
  model: InspectorModel,
  scene: Scene,
  camera: Camera,
  ctx: CanvasRenderingContext2D
): Frame {
  const { states, store } = model;
  const labels = new Labels(ctx);
  return {
    scene,
    states,
    store,
    camera,
    palette,
    labels,
    ratio: 1,
    selected: null,
    over: null,
    hits: new Set(),
    selectedBox: -1,
    hitBoxes: new Set()
  };
}

function view(width = 700, height = 650): Camera {
  const camera = new Camera();
  Object.assign(camera, { width, height });
  return camera;
}

describe('Camera', () => {
  it('keeps the point under the pointer when it zooms', () => {
    const camera = view();
    camera.x = 33;
    camera.y = -120;
    for (const factor of [1.5, 0.2, 3, 0.9]) {
      const before = [camera.worldX(200), camera.worldY(310)];
      camera.zoomAt(200, 310, factor);
      expect(camera.worldX(200)).toBeCloseTo(before[0], 6);
      expect(camera.worldY(310)).toBeCloseTo(before[1], 6);
    }
  });

  it('fits and reveals boxes', () => {
    const camera = view();
    const box = { x: -300, y: 40, width: 5000, height: 900 };
    camera.fit(box, 20);
    expect(camera.screenX(box.x)).toBeGreaterThanOrEqual(19.9);
    expect(camera.screenX(box.x + box.width)).toBeLessThanOrEqual(700 - 19.9);
    camera.k = 1;
    const small = { x: 9000, y: -4000, width: 180, height: 38 };
    camera.reveal(small, 50, 60);
    expect(camera.screenX(small.x + small.width)).toBeCloseTo(650, 6);
    expect(camera.screenY(small.y)).toBeCloseTo(50, 6);
    const at = [camera.x, camera.y];
    camera.reveal(small, 50, 60);
    expect([camera.x, camera.y]).toEqual(at);
  });
});

describe('Grid', () => {
  it('finds what a search through all rectangles finds', () => {
    const next = random(9);
    const count = 400;
    const [width, height] = [20_000, 300];
    const x = Float64Array.from({ length: count }, () => next() * width);
    const y = Float64Array.from({ length: count }, () => next() * height);
    // Some are as long as the picture.
    const right = x.map(left => left + (next() < 0.05 ? next() * width : 180));
    const bottom = y.map(top => top + 38);
    const grid = new Grid(x, y, right, bottom, width, height);
    for (let i = 0; i < 200; i++) {
      const box = {
        x: next() * width - 500,
        y: next() * height - 50,
        width: next() * 3000,
        height: next() * 200
      };
      const found: number[] = [];
      grid.within(box, index => found.push(index));
      const wanted = [...x.keys()].filter(
        k =>
          x[k] <= box.x + box.width &&
          right[k] >= box.x &&
          y[k] <= box.y + box.height &&
          bottom[k] >= box.y
      );
      expect(found.sort((a, b) => a - b)).toEqual(wanted);
    }
    expect(grid.at(-10, -10)).toBe(-1);
  });

  it('takes nothing at all', () => {
    const none = new Float64Array(0);
    expect(new Grid(none, none, none, none, 0, 0).at(0, 0)).toBe(-1);
  });
});

describe('Scene', () => {
  it('finds nodes and badges under the pointer', () => {
    const { model, scene } = sceneOf(residual());
    for (const seq of [...model.graph.seqs, ...model.graph.leaves]) {
      const box = scene.boxOf(seq);
      expect(box).not.toBeNull();
      const hit = box && scene.hit(box.x + box.width / 2, box.y + box.height / 2);
      expect(hit && scene.seqOf(hit)).toBe(seq);
    }
    expect(scene.hit(-50, -50)).toBeNull();
  });

  it('lets a skip connection leave and enter at the side of its nodes', () => {
    const { scene } = sceneOf(residual());
    const skip = [...scene.graph.edgeFrom.keys()].filter(e => scene.sideways[e] !== 0);
    expect(skip.length).toBe(1);
    expect(scene.sideways[skip[0]]).toBe(3);
  });
});

describe('paint', () => {
  it('writes names, shapes, lines, parameters and notes of what is in view', () => {
    const { model, scene } = sceneOf(residual());
    const { ctx, drawn } = fakeContext();
    const camera = view(900, 900);
    paint(ctx, framed(model, scene, camera, ctx));
    for (const text of [
      'ReluBackward0',
      '[64, 128]',
      'W2',
      'In[4] line 2',
      'out += h',
      'result v0, now v1',
      'breakpoint',
      'hook clip'
    ]) {
      expect(drawn.texts).toContain(text);
    }
    expect(drawn.texts.some(text => text.includes('norm'))).toBe(true);
  });

  it('draws nothing of what is out of view', () => {
    const { model, scene } = sceneOf(rnn(200));
    const { ctx, drawn } = fakeContext();
    const camera = view();
    expect(paint(ctx, framed(model, scene, camera, ctx))).toBeLessThan(40);
    expect(drawn.texts.length).toBeLessThan(200);
    camera.y = 1e6;
    expect(paint(ctx, framed(model, scene, camera, ctx))).toBe(0);
  });

  it('leaves out texts, then outlines, as the reader moves away', () => {
    const { model, scene } = sceneOf(dag(2000, 4));
    const texts: number[] = [];
    for (const k of [1, 0.4, 0.2, 0.02]) {
      const { ctx, drawn } = fakeContext();
      const camera = view();
      camera.k = k;
      paint(ctx, framed(model, scene, camera, ctx));
      texts.push(drawn.texts.length);
    }
    expect(texts[0]).toBeGreaterThan(0);
    expect(texts[2]).toBe(0);
    expect(texts[3]).toBe(0);
  });

  it('spends no more than the pixels on 100,000 nodes', () => {
    const { model, scene } = sceneOf(chain(100_000));
    const { ctx, drawn } = fakeContext();
    const camera = view();
    camera.fit(scene.bounds, 20);
    paint(ctx, framed(model, scene, camera, ctx));
    expect(drawn.rects).toBeLessThan(6000);
    expect(drawn.strokes).toBeLessThan(1000);
  });

  it('tells every state by a sign and not by colour alone', () => {
    // Marks per state: dashes, texts and strokes differ even where all colours are one.
    const { model, scene } = sceneOf(residual());
    const marks = (state: number): string => {
      const { ctx } = fakeContext();
      const log: string[] = [];
      const spy = new Proxy(ctx, {
        get: (target, name) => {
          const value = Reflect.get(target, name) as unknown;
          return typeof value === 'function'
            ? (...args: unknown[]) => {
                log.push(`${String(name)}(${args.join()})`);
                return (value as (...given: unknown[]) => unknown)(...args);
              }
            : value;
        },
        set: (target, name, value) => {
          if (name === 'lineWidth') log.push(`width ${String(value)}`);
          return Reflect.set(target, name, value);
        }
      });
      const { states } = model;
      const node = states.node.slice();
      node.fill(state);
      const frame = framed(model, scene, view(900, 900), spy);
      paint(spy, {
        ...frame,
        states: {
          ...states,
          node,
          norm: states.norm.slice().fill(-1),
          flags: states.flags.slice().fill(0)
        }
      });
      return log.join(';');
    };
    const seen = new Set([0, 1, 2, 3, 4, 5, 6].map(marks));
    expect(seen.size).toBe(7);
  });

  it('writes markup as text, and cuts what is long', () => {
    const { model, scene } = sceneOf(hostile());
    const { ctx, drawn } = fakeContext();
    paint(ctx, framed(model, scene, view(1200, 900), ctx));
    expect(drawn.texts.some(text => text.startsWith('<img src=x'))).toBe(true);
    for (const text of drawn.texts) {
      expect(text.length).toBeLessThan(120);
      expect(text).not.toMatch(/[\u202a-\u202e]/);
    }
  });
});

describe('chips', () => {
  it('name the overwritten tensor first', () => {
    const { model } = sceneOf(residual());
    const { store, view: graph, states } = model;
    const chips = chipsOf(store, graph, states, 4);
    expect(chips.map(({ text }) => text)).toEqual(['result v0, now v1', 'breakpoint', 'hook clip']);
    expect(chipsOf(store, graph, states, 6).map(({ text }) => text)).toEqual(['result v0']);
    expect(chipsOf(store, graph, states, 0)).toEqual([]);
  });

  it('count the hooks of a node, each once however often it ran', () => {
    const { model } = sceneOf(residual());
    const { store, view: graph, states } = model;
    const { hooks } = store;
    const row = hooks.at.seq.indexOf(graph.seqs[4]);
    const texts = (): string[] => chipsOf(store, graph, states, 4).map(({ text }) => text);
    const rows = store.hooksOf.rows.bind(store.hooksOf);
    store.hooksOf.rows = seq => [...rows(seq), ...rows(seq)];
    expect(texts()).toContain('hook clip');
    // A second hook of the same name, as a loop registers them.
    const second = hooks.rows; // the arrays are longer
    for (const values of Object.values(hooks.at)) values[second] = values[row];
    hooks.at.hook[second] = hooks.at.hook[row] + 1;
    store.hooksOf.rows = seq => [...rows(seq), second];
    expect(texts()).toContain('2 hooks');
  });
});

describe('timeline', () => {
  it('finds the position that it drew', () => {
    for (const recording of [residual(), rnn(20), chain(3000)]) {
      const { model } = sceneOf(recording);
      const scale = timelineScale(model.axis, 1000);
      for (let position = 0; position <= model.length; position += Math.ceil(model.length / 60)) {
        const x = xOfPosition(model.axis, scale, position);
        expect(x).toBeGreaterThanOrEqual(LABELS_WIDTH);
        expect(x).toBeLessThanOrEqual(1000);
        const found = positionAt(model.axis, scale, x);
        // Two positions stand at the gap between forward and backward, and many in one pixel of a
        // long axis.
        expect(Math.abs(xOfPosition(model.axis, scale, found) - x)).toBeLessThanOrEqual(20.5);
      }
    }
  });

  it('knows the slice at each pixel, and where there is none', () => {
    const { model } = sceneOf(residual({ paused: false, problem: false }));
    const { axis } = model;
    const scale = timelineScale(axis, 1000);
    const middle = (position: number): number =>
      xOfPosition(axis, scale, position) + 0.2 * scale.perShare;
    axis.forward.forEach((node, i) =>
      expect(sliceAt(axis, scale, middle(i))).toEqual({ kind: 'node', node })
    );
    axis.runs.forEach((run, i) => {
      const x = middle(axis.forward.length + i);
      expect(sliceAt(axis, scale, x)).toEqual({ kind: 'run', run });
    });
    expect(sliceAt(axis, scale, LABELS_WIDTH - 1)).toBeNull();
    expect(sliceAt(axis, scale, 5000)).toBeNull();
    const [run] = axis.runs;
    const words = sliceWords(model, { kind: 'run', run }, false);
    expect(words).toMatch(/^\w+Backward0, step 1 of \d+, .+s, gradient norm 0\.9/);
    // While a prediction hides what is to come, its norm is no answer.
    model.scrub(axis.forward.length);
    model.refresh();
    expect(sliceWords(model, { kind: 'run', run }, true)).not.toContain('norm');
    const [node] = axis.forward;
    expect(sliceWords(model, { kind: 'node', node }, false)).toContain('made at In[4] line');
    expect(sliceWords(model, null, false)).toBe('');
  });

  it('costs the pixels that it fills, not the events', () => {
    const { model } = sceneOf(chain(100_000));
    const { ctx, drawn } = fakeContext();
    const { store, graph, axis, states } = model;
    paintTimeline(ctx, {
      store,
      graph,
      axis,
      states,
      cursor: null,
      selected: null,
      palette,
      width: 1000,
      ratio: 1
    });
    expect(drawn.rects).toBeLessThan(3000);
  });
});
