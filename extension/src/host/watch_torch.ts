// ag.watch(torch) at a click: a cell below the active one, which runs as if the user had typed it.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { WATCH_TORCH } from '../protocol/controller';
import { insertCell } from './cells';

/** Inserts the cell and runs it; false where the notebook takes none. */
export async function watchTorch(app: JupyterFrontEnd, panel: NotebookPanel): Promise<boolean> {
  if (!insertCell(app, panel, WATCH_TORCH)) {
    return false;
  }
  await app.commands.execute('notebook:run-cell');
  return true;
}
