// The whole graph in a corner: frames (or nodes where there are few), and the part that is on
// screen. It fills its box in both directions: a graph a hundred times taller than wide is still a
// picture.

import type { Colouring } from '../model/colouring';
import type { Marks } from '../model/compare/model';
import type { States } from '../model/states';
import { State } from '../model/states';
import type { Camera } from './camera';
import { markColour } from './marks';
import { toneStep } from './nodes';
import type { Frame } from './painter';
import type { Colours, Palette } from './palette';
import type { Scene } from './scene';

const INSET = 6;

interface Scale {
  sx: number;
  sy: number;
  x: number;
  y: number;
}

/** World to minimap: uneven where the graph is very long, never more than eightfold. */
export function minimapScale(scene: Scene, width: number, height: number): Scale {
  const { layout } = scene;
  let sx = (width - 2 * INSET) / Math.max(1, layout.width);
  let sy = (height - 2 * INSET) / Math.max(1, layout.height);
  sx = Math.min(sx, 8 * sy, 0.25);
  sy = Math.min(sy, 8 * sx, 0.25);
  return { sx, sy, x: (width - layout.width * sx) / 2, y: (height - layout.height * sy) / 2 };
}

const COLOURS: Partial<Record<number, keyof Colours>> = {
  [State.done]: 'done',
  [State.next]: 'run',
  [State.running]: 'run',
  [State.problem]: 'bad'
};

/** The least height of a view, in boxes of the minimap: in a lower one it would hide the graph. */
const ROOM = 6;
/** From its box to the side of the view, as in the style sheet. */
const SIDE = 14;

type Corner = 'right' | 'left';

/** Whether nothing that has a name lies behind it in that corner. */
function isFree(corner: Corner, box: HTMLElement, scene: Scene, camera: Camera): boolean {
  const { offsetTop, offsetWidth, offsetHeight } = box;
  const x = corner === 'left' ? SIDE : camera.width - SIDE - offsetWidth;
  return !scene.anyIn({
    x: camera.worldX(x),
    y: camera.worldY(offsetTop),
    width: offsetWidth / camera.k,
    height: offsetHeight / camera.k
  });
}

/** Puts it where it hides nothing; where there is no such corner, it is pale until it is used. */
function place(box: HTMLElement, scene: Scene, camera: Camera): void {
  const { dataset } = box;
  const here: Corner = dataset.corner === 'left' ? 'left' : 'right';
  const other: Corner = here === 'left' ? 'right' : 'left';
  const free = [here, other].find(corner => isFree(corner, box, scene, camera));
  dataset.corner = free ?? here;
  dataset.pale = free ? 'no' : 'yes';
}

/** Draws it into its box, which is hidden while all of the graph is on screen, and in low views. */
export function drawMinimap(minimap: HTMLCanvasElement, frame: Frame): void {
  const { scene, states, camera, palette, ratio, marks, colouring } = frame;
  const view = camera.view;
  const needed =
    scene !== null &&
    camera.height >= ROOM * minimap.clientHeight &&
    (view.x > 0 ||
      view.y > 0 ||
      view.x + view.width < scene.layout.width ||
      view.y + view.height < scene.layout.height);
  const parent = minimap.parentElement;
  if (parent) parent.dataset.needed = needed ? 'yes' : 'no';
  if (parent && needed) place(parent, scene, camera);
  const ctx = minimap.getContext('2d');
  if (!ctx || !needed || minimap.clientWidth === 0) {
    return;
  }
  const { clientWidth: width, clientHeight: height } = minimap;
  if (minimap.width !== Math.round(width * ratio)) {
    minimap.width = Math.round(width * ratio);
    minimap.height = Math.round(height * ratio);
  }
  paintMinimap(ctx, scene, states, camera, palette, width, height, ratio, marks, colouring);
}

function paintMinimap(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  states: States,
  camera: Camera,
  palette: Palette,
  width: number,
  height: number,
  ratio: number,
  marks: Marks | null | undefined,
  colouring: Colouring | null | undefined
): void {
  const { sx, sy, x, y } = minimapScale(scene, width, height);
  const { layout, graph } = scene;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.fillStyle = palette.line;
  const frames = graph.frames.length;
  // More frames than pixels: every n-th is enough.
  const every = Math.max(1, Math.floor(frames / 4000));
  for (let g = 0; g < frames; g += every) {
    ctx.fillRect(
      x + layout.groupX[g] * sx,
      y + layout.groupY[g] * sy,
      Math.max(1, layout.groupWidth[g] * sx),
      Math.max(1, layout.groupHeight[g] * sy - 1)
    );
  }
  const nodes = graph.seqs.length;
  const step = Math.max(1, Math.floor(nodes / 4000));
  for (let i = 0; i < nodes; i++) {
    // Every n-th is enough, but none that differs may be missing.
    if (i % step !== 0 && !marks?.kind[i]) continue;
    const colour = COLOURS[states.node[i]];
    const tone = palette.ramp[marks ? -1 : toneStep(colouring, states, i)];
    const plain = colouring && states.node[i] === State.done ? 'line2' : (colour ?? 'line2');
    ctx.fillStyle = tone ? tone.fill : marks ? markColour(palette, marks, i) : palette[plain];
    ctx.fillRect(
      x + layout.x[i] * sx,
      y + layout.y[i] * sy,
      Math.max(1.5, layout.nodeWidth * sx),
      Math.max(1, 30 * sy)
    );
  }
  const view = camera.view;
  const left = Math.max(1, x + view.x * sx);
  const top = Math.max(1, y + view.y * sy);
  const right = Math.min(width - 1, x + (view.x + view.width) * sx);
  const bottom = Math.min(height - 1, y + (view.y + view.height) * sy);
  ctx.strokeStyle = palette.accent;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.roundRect(left, top, Math.max(4, right - left), Math.max(4, bottom - top), 3);
  ctx.stroke();
}
