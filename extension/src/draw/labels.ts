// Measuring and eliding text for the canvas, remembered: a frame asks for the same few hundred
// labels again and again.

import { oneLine } from '../protocol/text';

const REMEMBERED = 20_000;

export class Labels {
  private readonly fitted = new Map<string, string>();
  private readonly widths = new Map<string, number>();

  constructor(private readonly context: CanvasRenderingContext2D) {}

  /** Width of a text in a font; the context's font is changed. */
  width(text: string, font: string): number {
    const key = `${font}\n${text}`;
    const known = this.widths.get(key);
    if (known !== undefined) {
      return known;
    }
    if (this.widths.size > REMEMBERED) this.widths.clear();
    this.context.font = font;
    const width = this.context.measureText(text).width;
    this.widths.set(key, width);
    return width;
  }

  /** The text, cut at its end with an ellipsis so that it fits. */
  fit(raw: string, font: string, width: number): string {
    const room = Math.floor(width);
    const text = oneLine(raw, 240);
    const key = `${font}\n${room}\n${text}`;
    const known = this.fitted.get(key);
    if (known !== undefined) {
      return known;
    }
    if (this.fitted.size > REMEMBERED) this.fitted.clear();
    this.context.font = font;
    let fits = text;
    if (this.context.measureText(text).width > room) {
      let [low, high] = [0, text.length];
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.context.measureText(text.slice(0, middle) + '…').width <= room) low = middle;
        else high = middle - 1;
      }
      fits = low > 0 ? text.slice(0, low).trimEnd() + '…' : '';
    }
    this.fitted.set(key, fits);
    return fits;
  }

  /** Fonts or device pixels changed. */
  clear(): void {
    this.fitted.clear();
    this.widths.clear();
  }
}
