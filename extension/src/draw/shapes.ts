// Canvas outlines used by several painters.

export function pill(
  ctx: CanvasRenderingContext2D,
  x: number,
  y: number,
  w: number,
  h: number,
  r: number
): void {
  ctx.beginPath();
  ctx.roundRect(x, y, w, h, Math.min(r, w / 2, h / 2));
}

/** How far a curve goes straight on at its ends, of which one is `way` behind the other. */
function bendOf(way: number): number {
  return Math.min(Math.max(Math.abs(way) / 2, 10), 90) * (way < 0 ? -1 : 1);
}

/**
 * An S-curve that leaves and arrives vertically; a straight line where both ends are in one column.
 */
export function verticalCurve(
  ctx: CanvasRenderingContext2D,
  x0: number,
  y0: number,
  x1: number,
  y1: number,
  straight: boolean
): void {
  if (straight || Math.abs(x1 - x0) < 0.5) {
    ctx.lineTo(x1, y1);
    return;
  }
  const bend = bendOf(y1 - y0);
  ctx.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
}

/** The same for edges that lead to the side: it leaves and arrives horizontally. */
export function levelCurve(
  ctx: CanvasRenderingContext2D,
  x0: number,
  y0: number,
  x1: number,
  y1: number,
  straight: boolean
): void {
  if (straight || Math.abs(y1 - y0) < 0.5) {
    ctx.lineTo(x1, y1);
    return;
  }
  const bend = bendOf(x1 - x0);
  ctx.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
}

/** A quarter of an ellipse; `level` where it begins horizontally, otherwise where it ends so. */
export function quarterCurve(
  ctx: CanvasRenderingContext2D,
  x0: number,
  y0: number,
  x1: number,
  y1: number,
  level: 'begins' | 'ends'
): void {
  const [dx, dy] = [(x1 - x0) * 0.6, (y1 - y0) * 0.6];
  if (level === 'begins') ctx.bezierCurveTo(x0 + dx, y0, x1, y1 - dy, x1, y1);
  else ctx.bezierCurveTo(x0, y0 + dy, x1 - dx, y1, x1, y1);
}

export function tick(ctx: CanvasRenderingContext2D, x: number, y: number): void {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x + 4, y + 4);
  ctx.lineTo(x + 11, y - 4);
  ctx.stroke();
}

/** The sign of what can be opened ('right') or closed ('down'), in a square of that size. */
export function triangle(
  ctx: CanvasRenderingContext2D,
  x: number,
  y: number,
  size: number,
  points: 'right' | 'down',
  colour: string
): void {
  ctx.fillStyle = colour;
  ctx.beginPath();
  if (points === 'right') {
    ctx.moveTo(x + size * 0.2, y);
    ctx.lineTo(x + size, y + size / 2);
    ctx.lineTo(x + size * 0.2, y + size);
  } else {
    ctx.moveTo(x, y + size * 0.2);
    ctx.lineTo(x + size, y + size * 0.2);
    ctx.lineTo(x + size / 2, y + size);
  }
  ctx.fill();
}
