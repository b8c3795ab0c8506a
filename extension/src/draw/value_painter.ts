// Pictures of values: a heat map and a histogram on small canvases. Pure drawing.

import type { Histogram, Picture } from '../protocol/schema';
import type { Palette } from './palette';

/** Makes a canvas as sharp as the screen and gives its context in CSS pixels. */
export function prepare(
  canvas: HTMLCanvasElement,
  width: number,
  height: number
): CanvasRenderingContext2D | null {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext('2d');
  ctx?.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ctx;
}

const LARGEST_CELL = 24;

/** Size of a heat map where there is so much room: cells near square, neither huge nor unseen. */
export function heatSize(picture: Picture, room: number): { width: number; height: number } {
  const [rows, cols] = [Math.max(1, picture.rows), Math.max(1, picture.cols)];
  const width = Math.min(room, cols * LARGEST_CELL);
  const tall = Math.max(3, Math.min(width / cols, rows > 8 ? 13 : 18));
  return { width, height: Math.round(Math.min(150, Math.max(14, rows * tall))) };
}

/** Height of a heat map that is as wide as there is room: near square, and never very tall. */
export function fillHeight({ rows, cols }: Picture, width: number): number {
  const cell = width / Math.max(1, cols);
  return Math.round(Math.max(22, Math.min(320, rows * Math.max(2, Math.min(cell, 26)))));
}

/**
 * Zero has the colour of the ground; positive values go to the accent, negative ones to amber, so
 * the sign shows. What is not finite is red with a diagonal line.
 */
export function paintHeat(
  ctx: CanvasRenderingContext2D,
  picture: Picture,
  palette: Palette,
  width: number,
  height: number
): void {
  const { rows, cols, values } = picture;
  let peak = 0;
  for (const value of values) if (value !== null) peak = Math.max(peak, Math.abs(value));
  ctx.clearRect(0, 0, width, height);
  const [w, h] = [width / Math.max(1, cols), height / Math.max(1, rows)];
  const gap = w > 5 && h > 5 ? 1 : 0;
  for (let i = 0; i < rows * cols; i++) {
    const x = (i % cols) * w;
    const y = Math.floor(i / cols) * h;
    const value = values[i];
    if (value === null || value === undefined) {
      ctx.fillStyle = palette.badBg;
      ctx.fillRect(x, y, w - gap, h - gap);
      ctx.strokeStyle = palette.bad;
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(x + 1, y + h - gap - 1);
      ctx.lineTo(x + w - gap - 1, y + 1);
      ctx.stroke();
      continue;
    }
    ctx.fillStyle = palette.group;
    ctx.fillRect(x, y, w - gap, h - gap);
    if (peak > 0 && value !== 0) {
      ctx.globalAlpha = Math.min(1, 0.06 + 0.94 * (Math.abs(value) / peak));
      ctx.fillStyle = value > 0 ? palette.accent : palette.run;
      ctx.fillRect(x, y, w - gap, h - gap);
      ctx.globalAlpha = 1;
    }
  }
}

export function paintHistogram(
  ctx: CanvasRenderingContext2D,
  histogram: Histogram,
  palette: Palette,
  width: number,
  height: number
): void {
  const { counts, edges } = histogram;
  const most = Math.max(1, ...counts);
  const w = width / Math.max(1, counts.length);
  ctx.clearRect(0, 0, width, height);
  counts.forEach((count, i) => {
    const tall = count === 0 ? 0 : Math.max(1.5, (count / most) * (height - 2));
    const holdsZero = edges[i] <= 0 && edges[i + 1] > 0;
    ctx.fillStyle = holdsZero ? palette.ink3 : palette.accent;
    ctx.globalAlpha = 0.78;
    ctx.beginPath();
    ctx.roundRect(i * w, height - tall, Math.max(1, w - 1.5), tall, Math.min(1.5, w / 3));
    ctx.fill();
  });
  ctx.globalAlpha = 1;
}
