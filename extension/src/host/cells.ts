// What the panel reads of a notebook's cells and puts between them.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { NotebookPanel } from '@jupyterlab/notebook';

const IMPORT = /^[ \t]*import[ \t]+ag_visual(?:[ \t]+as[ \t]+([A-Za-z_]\w*))?[ \t]*(?:$|[,;#])/gm;
const AS_TORCH = /^[ \t]*%(?:ag_visual|autograd)[ \t]+as_torch\b/m;
const TORCH = /^[ \t]*import[ \t]+torch(?:[ \t]+as[ \t]+([A-Za-z_]\w*))?[ \t]*(?:$|[,;#])/gm;

function lastName(source: string, pattern: RegExp, plain: string): string | null {
  const found = [...source.matchAll(pattern)].pop();
  return found ? (found[1] ?? plain) : null;
}

/** The name that these cells give the package; null where none imports it. */
export function nameOfPackage(sources: readonly string[]): string | null {
  const all = sources.join('\n');
  const own = lastName(all, IMPORT, 'ag_visual');
  return own ?? (AS_TORCH.test(all) ? lastName(all, TORCH, 'torch') : null);
}

export function importedAs({ content }: NotebookPanel): string | null {
  const codes = content.widgets.filter(({ model }) => model.type === 'code');
  return nameOfPackage(codes.map(({ model }) => model.sharedModel.getSource()));
}

/** Puts a cell below the active one and makes it active; false where the notebook takes none. */
export function insertCell(app: JupyterFrontEnd, panel: NotebookPanel, source: string): boolean {
  const { content } = panel;
  const notebook = content.model;
  if (!notebook || notebook.readOnly) {
    return false;
  }
  const index = content.widgets.length === 0 ? 0 : content.activeCellIndex + 1;
  notebook.sharedModel.insertCell(index, { cell_type: 'code', source });
  app.shell.activateById(panel.id);
  content.deselectAll();
  content.activeCellIndex = index;
  return true;
}
