// A 2D context that remembers what was drawn on it.

export interface Drawn {
  texts: string[];
  fonts: Set<string>;
  rects: number;
  strokes: number;
  dashes: number;
}

export function fakeContext(): { ctx: CanvasRenderingContext2D; drawn: Drawn } {
  const drawn: Drawn = { texts: [], fonts: new Set(), rects: 0, strokes: 0, dashes: 0 };
  const known: Record<string, unknown> = {
    fillText: (text: string) => void drawn.texts.push(text),
    measureText: (text: string) => ({ width: 6.2 * text.length }),
    fillRect: () => void drawn.rects++,
    stroke: () => void drawn.strokes++,
    setLineDash: (dash: number[]) => void (drawn.dashes += dash.length > 0 ? 1 : 0)
  };
  const ctx = new Proxy(known, {
    get: (target, name) => target[name as string] ?? (() => undefined),
    set: (target, name, value) => {
      if (name === 'font') drawn.fonts.add(String(value));
      target[name as string] = value;
      return true;
    }
  });
  return { ctx: ctx as unknown as CanvasRenderingContext2D, drawn };
}
