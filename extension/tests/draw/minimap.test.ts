import { describe, expect, it } from 'vitest';

import { Camera } from '../../src/draw/camera';
import { drawMinimap } from '../../src/draw/minimap';
import type { Frame } from '../../src/draw/painter';

const BOX = 86;

/** Whether the minimap is shown beside a graph of 400 x 2000 in a view of this size. */
function shown(width: number, height: number, k = 1): string | undefined {
  const box: { dataset: { needed?: string } } = { dataset: {} };
  const minimap = {
    parentElement: box,
    clientWidth: 120,
    clientHeight: BOX,
    getContext: () => null
  };
  const camera = new Camera();
  Object.assign(camera, { width, height, x: 0, y: 0, k });
  const frame = { scene: { layout: { width: 400, height: 2000 } }, camera };
  drawMinimap(minimap as unknown as HTMLCanvasElement, frame as unknown as Frame);
  return box.dataset.needed;
}

describe('the minimap', () => {
  it('is shown while a part of the graph is outside of the view', () => {
    expect(shown(600, 600)).toBe('yes');
    expect(shown(600, 600, 0.2)).toBe('no');
  });

  it('is hidden in a view so low that it would cover what is to be seen', () => {
    expect(shown(600, 6 * BOX)).toBe('yes');
    expect(shown(600, 6 * BOX - 1)).toBe('no');
  });
});
