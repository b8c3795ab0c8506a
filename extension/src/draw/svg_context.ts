// A canvas context that writes SVG: as much of one as the painters use. What is drawn on screen is
// what is written, so the two never differ. Text is escaped; nothing else comes from a program.

const DIGITS = 2;

function n(value: number): string {
  return String(Number(value.toFixed(DIGITS)));
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

interface Saved {
  transform: string;
  alpha: number;
}

/** Radii of the corners from the top left one on, as roundRect takes them. */
function corners(radii: number | readonly number[]): [number, number, number, number] {
  if (typeof radii === 'number') {
    return [radii, radii, radii, radii];
  }
  const [a = 0, b = a, c = a, d = b] = radii;
  return [a, b, c, d];
}

export class SvgContext {
  fillStyle = '#000';
  strokeStyle = '#000';
  lineWidth = 1;
  font = '10px sans-serif';
  globalAlpha = 1;
  private readonly parts: string[] = [];
  private readonly stack: Saved[] = [];
  private path = '';
  private dash: readonly number[] = [];
  private transform = '';

  constructor(
    private readonly width: number,
    private readonly height: number
  ) {}

  /** The context as the painters take it. */
  get asCanvas(): CanvasRenderingContext2D {
    return this as unknown as CanvasRenderingContext2D;
  }

  get text(): string {
    const [w, h] = [n(this.width), n(this.height)];
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" ` +
      `viewBox="0 0 ${w} ${h}">\n${this.parts.join('\n')}\n</svg>\n`
    );
  }

  setTransform(a: number, b: number, c: number, d: number, e: number, f: number): void {
    const plain = a === 1 && b === 0 && c === 0 && d === 1 && e === 0 && f === 0;
    this.transform = plain ? '' : `matrix(${[a, b, c, d, e, f].map(n).join(' ')})`;
  }

  save(): void {
    this.stack.push({ transform: this.transform, alpha: this.globalAlpha });
  }

  restore(): void {
    const saved = this.stack.pop();
    if (saved) [this.transform, this.globalAlpha] = [saved.transform, saved.alpha];
  }

  translate(x: number, y: number): void {
    this.transform += ` translate(${n(x)} ${n(y)})`;
  }

  rotate(angle: number): void {
    this.transform += ` rotate(${n((angle * 180) / Math.PI)})`;
  }

  setLineDash(dash: readonly number[]): void {
    this.dash = dash;
  }

  beginPath(): void {
    this.path = '';
  }

  moveTo(x: number, y: number): void {
    this.path += `M${n(x)} ${n(y)}`;
  }

  lineTo(x: number, y: number): void {
    this.path += `L${n(x)} ${n(y)}`;
  }

  bezierCurveTo(a: number, b: number, c: number, d: number, x: number, y: number): void {
    this.path += `C${[a, b, c, d, x, y].map(n).join(' ')}`;
  }

  roundRect(x: number, y: number, w: number, h: number, radii: number | number[]): void {
    const [a, b, c, d] = corners(radii).map(r => Math.min(r, w / 2, h / 2));
    const arc = (r: number, toX: number, toY: number): string =>
      r > 0 ? `A${n(r)} ${n(r)} 0 0 1 ${n(toX)} ${n(toY)}` : '';
    this.path +=
      `M${n(x + a)} ${n(y)}H${n(x + w - b)}${arc(b, x + w, y + b)}V${n(y + h - c)}` +
      `${arc(c, x + w - c, y + h)}H${n(x + d)}${arc(d, x, y + h - d)}V${n(y + a)}` +
      `${arc(a, x + a, y)}Z`;
  }

  fill(): void {
    this.add(`<path d="${this.path}" fill="${escaped(this.fillStyle)}"`);
  }

  stroke(): void {
    const dash = this.dash.length > 0 ? ` stroke-dasharray="${this.dash.map(n).join(' ')}"` : '';
    this.add(
      `<path d="${this.path}" fill="none" stroke="${escaped(this.strokeStyle)}" ` +
        `stroke-width="${n(this.lineWidth)}"${dash}`
    );
  }

  fillRect(x: number, y: number, w: number, h: number): void {
    this.add(
      `<rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}" ` +
        `fill="${escaped(this.fillStyle)}"`
    );
  }

  fillText(text: string, x: number, y: number): void {
    const found = /^(?:(\d+) )?([\d.]+)px (.*)$/.exec(this.font);
    const [weight, size, family] = [found?.[1] ?? '400', found?.[2] ?? '10', found?.[3] ?? ''];
    this.add(
      `<text x="${n(x)}" y="${n(y)}" fill="${escaped(this.fillStyle)}" font-size="${size}" ` +
        `font-weight="${weight}" font-family="${escaped(family)}" xml:space="preserve"`,
      escaped(text)
    );
  }

  private add(start: string, content?: string): void {
    const moved = this.transform.trim() === '' ? '' : ` transform="${this.transform.trim()}"`;
    const faint = this.globalAlpha < 1 ? ` opacity="${n(this.globalAlpha)}"` : '';
    const end = content === undefined ? '/>' : `>${content}</text>`;
    this.parts.push(start + moved + faint + end);
  }
}
