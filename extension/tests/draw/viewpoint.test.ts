// Where the view goes: what lies over the canvas never lies over the node that is shown.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Box } from '../../src/draw/camera';
import type { Scene } from '../../src/draw/scene';
import { Viewpoint } from '../../src/draw/viewpoint';

const NODE = { width: 190, height: 38 };
/** A legend of two rows, the switch, and the minimap. */
const OVER: Box[] = [
  { x: 14, y: 540, width: 330, height: 44 },
  { x: 14, y: 12, width: 190, height: 26 },
  { x: 480, y: 502, width: 120, height: 86 }
];

function sceneAt(x: number, y: number): { scene: Scene; box: Box; frame: Box } {
  const box = { x, y, ...NODE };
  const frame = { x: x - 22, y: y - 32, width: 240, height: 92 };
  const scene = {
    boxOf: () => box,
    frameOf: () => frame,
    bounds: { x: 0, y: 0, width: 620, height: 4000 }
  } as unknown as Scene;
  return { scene, box, frame };
}

function overlaps(viewpoint: Viewpoint, { x, y, width, height }: Box): boolean {
  const { camera } = viewpoint;
  const [left, top] = [camera.screenX(x), camera.screenY(y)];
  const [right, bottom] = [camera.screenX(x + width), camera.screenY(y + height)];
  return OVER.some(
    over =>
      right > over.x && left < over.x + over.width && bottom > over.y && top < over.y + over.height
  );
}

describe('a node that is followed', () => {
  beforeEach(() => void vi.stubGlobal('matchMedia', () => ({ matches: true })));
  afterEach(() => void vi.unstubAllGlobals());

  it.each([
    ['the legend', 40, 545],
    ['the legend, by a corner', 300, 510],
    ['the minimap', 420, 520],
    ['the switch', 30, 14],
    ['the border', 30, 590]
  ])('comes out from under %s', (_, x, y) => {
    const viewpoint = new Viewpoint(
      () => OVER,
      () => undefined
    );
    Object.assign(viewpoint.camera, { x: 0, y: 0, k: 1, width: 620, height: 600 });
    const { scene, box, frame } = sceneAt(x, y);
    viewpoint.follow(scene, 7);
    expect(overlaps(viewpoint, box)).toBe(false);
    // The title of its line can be read, too.
    expect(overlaps(viewpoint, { ...frame, height: 24 })).toBe(false);
    expect(viewpoint.camera.screenY(box.y + box.height)).toBeLessThan(600);
  });

  it('stays where it is in plain view', () => {
    const viewpoint = new Viewpoint(
      () => OVER,
      () => undefined
    );
    Object.assign(viewpoint.camera, { x: 0, y: 0, k: 1, width: 620, height: 600 });
    viewpoint.follow(sceneAt(220, 300).scene, 7);
    expect([viewpoint.camera.x, viewpoint.camera.y]).toEqual([0, 0]);
  });

  it.each([
    ['in view at first', 500],
    ['that the view went to', 2000]
  ])('%s stays in view when the side takes room, until its reader moves', (_, y) => {
    const viewpoint = new Viewpoint(
      () => OVER.map(over => ({ ...over, y: over.y > 100 ? over.y - 600 + height : over.y })),
      () => undefined
    );
    let height = 600;
    const { scene, box } = sceneAt(220, y);
    Object.assign(scene, {
      graph: { seqs: [1] },
      layout: { width: 620, across: false },
      bounds: { x: 0, y: 0, width: 620, height: 4000 }
    });
    viewpoint.resize(620, 600, 0, scene);
    viewpoint.reveal(scene, 7);
    height = 300;
    viewpoint.resize(620, 300, 0, scene);
    const [top, bottom] = [box.y, box.y + box.height].map(at => viewpoint.camera.screenY(at));
    expect(top).toBeGreaterThan(8);
    expect(bottom).toBeLessThan(height - 60);
    viewpoint.move(camera => camera.pan(0, 1000));
    const moved = viewpoint.camera.y;
    height = 280;
    viewpoint.resize(620, 280, 0, scene);
    expect(viewpoint.camera.y).toBe(moved);
  });

  it('that is in view at first leaves the graph fitted to its room', () => {
    const viewpoint = new Viewpoint(
      () => OVER,
      () => undefined
    );
    const { scene, box } = sceneAt(60, 200);
    Object.assign(scene, { bounds: { x: 0, y: 0, width: 500, height: 400 } });
    viewpoint.resize(1000, 600, 0, scene);
    const before = { ...viewpoint.camera };
    viewpoint.reveal(scene, 7);
    expect({ ...viewpoint.camera }).toEqual(before);
    // The side opens: all of the graph is on screen, as it was.
    viewpoint.resize(600, 600, 0, scene);
    const { camera } = viewpoint;
    expect(camera.screenX(0)).toBeGreaterThan(0);
    expect(camera.screenX(500)).toBeLessThan(600);
    expect(camera.screenX(box.x)).toBeGreaterThan(0);
  });
});

describe('a pass after another one', () => {
  beforeEach(() => void vi.stubGlobal('matchMedia', () => ({ matches: true })));
  afterEach(() => void vi.unstubAllGlobals());

  /** Where the middle of node 61 is shown: in the next pass it is what node 48 was before. */
  function shown(moved: boolean, selected: number | null): number {
    const viewpoint = new Viewpoint(
      () => [],
      () => undefined
    );
    Object.assign(viewpoint.camera, { width: 620, height: 600 });
    const at = (seq: number, y: number): Scene => {
      const box = { x: 200, y, ...NODE };
      const graph = { seqs: [seq], indexOf: new Map() };
      return {
        ...sceneAt(200, y).scene,
        graph,
        nodes: { within: () => undefined },
        layout: { width: 620, across: false },
        boxOf: (one: number) => (one === seq ? box : null)
      } as unknown as Scene;
    };
    viewpoint.adopt(null, at(48, 2000), null, null);
    if (moved) viewpoint.move(camera => camera.centre(295, 2019));
    viewpoint.adopt(at(48, 2000), at(61, 2400), selected, 48);
    return viewpoint.camera.screenY(2419);
  }

  it('has what was selected in the same place, where the reader had gone to it', () => {
    expect(shown(true, 61)).toBeCloseTo(300, 0);
  });

  it('begins at its beginning where nothing is selected, or nobody moved', () => {
    expect(shown(true, null)).toBeGreaterThan(1000);
    expect(shown(false, 61)).toBeGreaterThan(1000);
  });
});
