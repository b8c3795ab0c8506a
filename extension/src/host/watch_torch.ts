// ag.watch(torch) at a click: a cell below the active one, which runs as if the user had typed it.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { WATCH_TORCH } from '../protocol/controller';

/** Inserts the cell and runs it; false where the notebook takes none. */
export async function watchTorch(app: JupyterFrontEnd, panel: NotebookPanel): Promise<boolean> {
  const { content } = panel;
  const notebook = content.model;
  if (!notebook || notebook.readOnly) {
    return false;
  }
  const index = content.widgets.length === 0 ? 0 : content.activeCellIndex + 1;
  notebook.sharedModel.insertCell(index, { cell_type: 'code', source: WATCH_TORCH });
  app.shell.activateById(panel.id);
  content.deselectAll();
  content.activeCellIndex = index;
  await app.commands.execute('notebook:run-cell');
  return true;
}
