import { describe, expect, it } from 'vitest';

import { Camera } from '../../src/draw/camera';
import { drawMinimap } from '../../src/draw/minimap';
import type { Frame } from '../../src/draw/painter';

const BOX = 86;

interface Dataset {
  needed?: string;
  corner?: string;
  pale?: string;
}

/** What is said of the minimap beside a graph of 400 x 2000 in a view of this size. */
function drawn(
  width: number,
  height: number,
  k = 1,
  anyIn: (at: { x: number; y: number }) => boolean = () => false
): Dataset {
  const dataset: Dataset = {};
  const box = { dataset, offsetTop: height - 12 - BOX, offsetWidth: 120, offsetHeight: BOX };
  const minimap = {
    parentElement: box,
    clientWidth: 120,
    clientHeight: BOX,
    getContext: () => null
  };
  const camera = new Camera();
  Object.assign(camera, { width, height, x: 0, y: 0, k });
  const frame = { scene: { layout: { width: 400, height: 2000 }, anyIn }, camera };
  drawMinimap(minimap as unknown as HTMLCanvasElement, frame as unknown as Frame);
  return box.dataset;
}

const shown = (width: number, height: number, k = 1): string | undefined =>
  drawn(width, height, k).needed;

describe('the minimap', () => {
  it('is shown while a part of the graph is outside of the view', () => {
    expect(shown(600, 600)).toBe('yes');
    expect(shown(600, 600, 0.2)).toBe('no');
  });

  it('is hidden in a view so low that it would cover what is to be seen', () => {
    expect(shown(600, 6 * BOX)).toBe('yes');
    expect(shown(600, 6 * BOX - 1)).toBe('no');
  });

  it('stands in a corner in which it hides no node, and is pale where there is none', () => {
    const at: { x: number; y: number }[] = [];
    const free = drawn(600, 600, 2, box => at.push(box) < 1);
    expect(free).toMatchObject({ corner: 'right', pale: 'no' });
    const [x, y] = [(600 - 14 - 120) / 2, (600 - 12 - BOX) / 2];
    expect(at).toEqual([{ x, y, width: 60, height: 43 }]);
    expect(drawn(600, 600, 1, ({ x }) => x > 300)).toMatchObject({ corner: 'left', pale: 'no' });
    expect(drawn(600, 600, 1, () => true)).toMatchObject({ corner: 'right', pale: 'yes' });
  });
});
