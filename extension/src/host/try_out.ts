// A repair tried out: a changed copy of the cell below it, so that the cell itself stays.

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Edit } from '../protocol/schema';

/** The source with the edit in it; null where it does not read as it ran. */
export function edited(source: string, { first, was, becomes }: Edit): string | null {
  const lines = source.split('\n');
  const there = lines.slice(first - 1, first - 1 + was.length);
  if (there.length < was.length || was.some((one, i) => one.trimEnd() !== there[i].trimEnd())) {
    return null;
  }
  lines.splice(first - 1, was.length, ...becomes);
  return lines.join('\n');
}

/** Inserts the copy and makes it the active cell; nothing runs. */
export async function tryOut({ content }: NotebookPanel, edit: Edit): Promise<boolean> {
  const index = content.widgets.findIndex(({ model }) => model.id === edit.site.cell_id);
  const notebook = content.model;
  if (index < 0 || !notebook) {
    return false;
  }
  const source = edited(content.widgets[index].model.sharedModel.getSource(), edit);
  if (source === null) {
    return false;
  }
  notebook.sharedModel.insertCell(index + 1, { cell_type: 'code', source });
  content.deselectAll();
  content.activeCellIndex = index + 1;
  await content.scrollToCell(content.widgets[index + 1], 'auto').catch(() => undefined);
  return true;
}
