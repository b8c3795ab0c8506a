// Where edges run in a scene: they bend between rows and between frames, in every direction.

import { describe, expect, it } from 'vitest';
import type { Box } from '../../src/draw/camera';
import { ARRIVES, LEAVES, Scene } from '../../src/draw/scene';
import { layoutInput } from '../../src/layout/input';
import { layOut } from '../../src/layout/layout';
import { FRAME_TOP, NODE_HEIGHT } from '../../src/layout/measures';
import { InspectorModel } from '../../src/model/inspector';
import { openRecording } from '../../src/protocol/recording';
import type { Recording } from '../../src/protocol/schema';
import { dag, layers, residual, rnn } from '../synthetic/recordings';

function sceneOf(recording: Recording, upward: boolean, across: boolean): Scene {
  const model = new InspectorModel();
  for (const batch of openRecording(recording).batches) model.take(batch);
  model.refresh();
  model.foldAll(true);
  model.refresh();
  const input = layoutInput(model.store, model.view, null, upward, across);
  return new Scene(model.store, model.view, layOut(input));
}

function meet(a: Box, b: Box): boolean {
  const by = 0.5;
  return (
    a.x < b.x + b.width - by &&
    b.x < a.x + a.width - by &&
    a.y < b.y + b.height - by &&
    b.y < a.y + a.height - by
  );
}

/** Boxes in which an edge bends, but where it enters or leaves a node at its side. */
function bends(scene: Scene, edge: number): Box[] {
  const { pathX, pathY, pathStart, sideways } = scene;
  const [first, last] = [pathStart[edge], pathStart[edge + 1] - 1];
  const found: Box[] = [];
  for (let p = first; p < last; p++) {
    if (p === first && sideways[edge] & LEAVES) continue;
    if (p + 1 === last && sideways[edge] & ARRIVES) continue;
    const [dx, dy] = [pathX[p + 1] - pathX[p], pathY[p + 1] - pathY[p]];
    if (Math.abs(scene.layout.across ? dy : dx) < 1) continue;
    found.push({
      x: Math.min(pathX[p], pathX[p + 1]),
      y: Math.min(pathY[p], pathY[p + 1]),
      width: Math.abs(dx),
      height: Math.abs(dy)
    });
  }
  return found;
}

const GRAPHS: [string, Recording][] = [
  ['a residual net', residual()],
  ['layers with weights that were computed', layers(8, ['ExpBackward0'], 2)],
  ['an unrolled RNN', rnn(12)],
  ...[1, 2, 3, 4].map((seed): [string, Recording] => [`graph ${seed}`, dag(120, seed)])
];
const WAYS: [string, boolean, boolean][] = [
  ['down', false, false],
  ['up', true, false],
  ['to the right', false, true],
  ['to the left', true, true]
];

describe.each(WAYS)('edges that lead %s', (_, upward, across) => {
  it.each(GRAPHS)('bend beside nodes, badges and titles: %s', (_name, recording) => {
    const scene = sceneOf(recording, upward, across);
    const { layout, graph } = scene;
    const met: string[] = [];
    for (let e = 0; e < graph.edgeFrom.length; e++) {
      const ends = [graph.edgeFrom[e], graph.edgeTo[e]];
      for (const bend of bends(scene, e)) {
        graph.seqs.forEach((_seq, v) => {
          const node = {
            x: layout.x[v],
            y: layout.y[v],
            width: layout.nodeWidth,
            height: NODE_HEIGHT
          };
          if (!ends.includes(v) && meet(bend, node)) met.push(`edge ${e} and node ${v}`);
        });
        scene.badgeNode.forEach((v, badge) => {
          const box = {
            x: scene.badgeX[badge],
            y: scene.badgeY[badge],
            width: scene.badgeWidth[badge],
            height: 28
          };
          if (meet(bend, box)) met.push(`edge ${e} and a badge of node ${v}`);
        });
        graph.frames.forEach((_frame, g) => {
          const title = {
            x: layout.groupX[g],
            y: layout.groupY[g],
            width: layout.groupWidth[g],
            height: FRAME_TOP - 6
          };
          if (scene.framed(g) && meet(bend, title)) met.push(`edge ${e} and title ${g}`);
        });
      }
    }
    expect(met).toEqual([]);
  });

  it('is fitted with its outlines', () => {
    const scene = sceneOf(residual(), upward, across);
    const { bounds, outlines } = scene;
    for (const { box } of outlines) {
      expect(bounds.x).toBeLessThanOrEqual(box.x);
      expect(bounds.y).toBeLessThanOrEqual(box.y);
      expect(bounds.x + bounds.width).toBeGreaterThanOrEqual(box.x + box.width);
      expect(bounds.y + bounds.height).toBeGreaterThanOrEqual(box.y + box.height);
    }
  });
});
