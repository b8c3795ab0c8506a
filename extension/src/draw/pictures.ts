// Pictures of the graph to keep: a bitmap or SVG, painted by the same painter as the screen.

import { Camera } from './camera';
import { Labels } from './labels';
import type { Frame } from './painter';
import { paint } from './painter';
import { SvgContext } from './svg_context';
import { LEGIBLE } from './viewpoint';

/** Around a picture of the whole graph. */
const MARGIN = 60;
const BITMAP_MARGIN = 30;
/** Longest side of a bitmap in pixels: browsers refuse much larger ones. */
const LARGEST = 6000;

/** What is selected stays marked; what the pointer and the search point at does not. */
function forPaper(frame: Frame): Frame {
  return { ...frame, over: null, hits: new Set(), hitBoxes: new Set() };
}

/** A picture of the whole graph where it stays legible, otherwise of what is on screen. */
export function bitmapOf(frame: Frame, page: Document): Promise<Blob | null> {
  const bounds = frame.scene?.bounds ?? { x: 0, y: 0, width: 1, height: 1 };
  const width = bounds.width + 2 * BITMAP_MARGIN;
  const height = bounds.height + 2 * BITMAP_MARGIN;
  const camera = new Camera();
  const scale = Math.min(2, LARGEST / width, LARGEST / height);
  if (scale >= LEGIBLE) {
    Object.assign(camera, { k: 1, width, height, x: BITMAP_MARGIN, y: BITMAP_MARGIN });
  } else {
    Object.assign(camera, frame.camera);
  }
  const ratio = scale >= LEGIBLE ? scale : 2;
  const canvas = page.createElement('canvas');
  canvas.width = Math.round(camera.width * ratio);
  canvas.height = Math.round(camera.height * ratio);
  const ctx = canvas.getContext('2d', { alpha: false });
  if (!ctx) {
    return Promise.resolve(null);
  }
  paint(ctx, { ...forPaper(frame), camera, labels: new Labels(ctx), ratio });
  return new Promise(resolve => canvas.toBlob(resolve, 'image/png'));
}

/** All of the graph as SVG, at its own size; null while there is none. */
export function svgOf(frame: Frame, measure: CanvasRenderingContext2D): string | null {
  const { scene } = frame;
  if (!scene) {
    return null;
  }
  const camera = new Camera();
  camera.k = 1;
  camera.x = camera.y = MARGIN;
  camera.width = scene.bounds.width + 2 * MARGIN;
  camera.height = scene.bounds.height + 2 * MARGIN;
  const context = new SvgContext(camera.width, camera.height);
  // Widths are measured where they are known: on the canvas.
  paint(context.asCanvas, { ...forPaper(frame), camera, labels: new Labels(measure), ratio: 1 });
  return context.text;
}
