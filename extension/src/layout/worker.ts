// The layout's own thread. Bundled into a string (worker_source.ts) and started from a blob, so
// that JupyterLab, a cell's output and a saved page need no second file.

import type { LayoutInput } from './measures';
import { layOut } from './layout';

interface Port {
  onmessage: ((event: MessageEvent<{ id: number; input: LayoutInput }>) => void) | null;
  postMessage(message: unknown, transfer?: Transferable[]): void;
}

const port = self as unknown as Port;

port.onmessage = ({ data }) => {
  try {
    const layout = layOut(data.input);
    const arrays = [
      layout.x,
      layout.y,
      layout.groupX,
      layout.groupY,
      layout.groupWidth,
      layout.groupHeight,
      layout.rowEnd,
      layout.groupEnd
    ];
    const all = [...arrays, layout.routeStart, layout.routeX, layout.routeY];
    port.postMessage({ id: data.id, layout }, [
      ...new Set(all.map(array => array.buffer as ArrayBuffer))
    ]);
  } catch (error) {
    port.postMessage({ id: data.id, error: String(error) });
  }
};
