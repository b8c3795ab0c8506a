// A notebook in the folder of another one: the kernel wrote it there, the page opens it.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { PathExt } from '@jupyterlab/coreutils';
import type { NotebookPanel } from '@jupyterlab/notebook';

/** Opens it; false where the server has none of this name beside the notebook of the panel. */
export async function openNotebook(
  app: JupyterFrontEnd,
  panel: NotebookPanel,
  name: string
): Promise<boolean> {
  const path = PathExt.join(PathExt.dirname(panel.context.path), name);
  const { contents } = app.serviceManager;
  const there = await contents.get(path, { content: false }).catch(() => null);
  if (!there) {
    return false;
  }
  await app.commands.execute('docmanager:open', { path });
  return true;
}
