// The recorded nodes as a plain list.

import type { Controller } from '../protocol/controller';
import { decodeBatch } from '../protocol/decode';

export function mountOutline(element: HTMLElement, controller: Controller): { dispose(): void } {
  const status = element.appendChild(document.createElement('p'));
  const list = element.appendChild(document.createElement('ol'));
  const strings: string[] = [];
  const tell = (): void => {
    const { kind, detail } = controller.status;
    status.textContent = `${kind} ${detail}`;
  };
  const connections = [
    controller.onStatus.connect(tell),
    controller.onBatch.connect(raw => {
      const batch = decodeBatch(raw.header, raw.buffer);
      if (batch.batch === 1) {
        strings.length = 0;
        list.replaceChildren();
      }
      strings.push(...batch.strings);
      const { nodes } = batch.tables;
      for (let row = 0; nodes && row < nodes.rows; row++) {
        const item = list.appendChild(document.createElement('li'));
        item.textContent = strings[nodes.name[row]] ?? '';
      }
    })
  ];
  tell();
  controller.ready?.();
  return { dispose: () => connections.forEach(connection => connection.dispose()) };
}
