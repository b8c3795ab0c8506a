// Where the panel stands: beside the notebook in JupyterLab's dock, in the right sidebar of
// Notebook 7, whose main area holds one document alone. A notebook that is opened does not lie over
// it: JupyterLab adds documents to the tabs of whatever was used last.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Widget } from '@lumino/widgets';
import { DockPanel, SplitPanel } from '@lumino/widgets';

const LAB = 'JupyterLab';
/** Share of the window that the panel gets beside a notebook: half of it, as in JupyterLab. */
const SHARE = 0.5;

interface Sidebar {
  expandRight(id?: string): void;
}

function hasSidebar(shell: unknown): shell is Sidebar {
  return typeof (shell as Partial<Sidebar>).expandRight === 'function';
}

/** Gives the sidebar its share; it would open at a width that fits a list of headings. */
function widen(panel: Widget): void {
  let part: Widget = panel;
  while (part.parent && !(part.parent instanceof SplitPanel)) {
    part = part.parent;
  }
  const split = part.parent;
  if (split instanceof SplitPanel && split.orientation === 'horizontal') {
    const others = split.widgets.filter(widget => widget !== part && widget.isVisible).length;
    const shares = split.widgets.map(widget =>
      widget === part ? SHARE : widget.isVisible ? (1 - SHARE) / others : 0
    );
    split.setRelativeSizes(shares);
  }
}

/**
 * Adds the panel to the application: below another one, else to the right of a notebook where there
 * is one.
 */
export function dock(
  app: JupyterFrontEnd,
  panel: Widget,
  beside: NotebookPanel | null,
  below: Widget | null = null
): void {
  const { shell } = app;
  if (app.name === LAB || !hasSidebar(shell)) {
    const right = beside ? ({ mode: 'split-right', ref: beside.id } as const) : {};
    shell.add(panel, 'main', below ? { mode: 'split-bottom', ref: below.id } : right);
    return;
  }
  shell.add(panel, 'right');
  shell.expandRight(panel.id);
  requestAnimationFrame(() => widen(panel));
}

/** Whether two widgets are tabs of one place, so that only one of them is seen. */
function together(one: Widget, other: Widget): boolean {
  const { parent } = one;
  return (
    parent instanceof DockPanel &&
    parent.mode === 'multiple-document' &&
    [...parent.tabBars()].some(
      ({ titles }) => titles.includes(one.title) && titles.includes(other.title)
    )
  );
}

/**
 * A notebook was opened among the tabs of a panel: it moves to those of another notebook; where
 * there is none, the panel moves to the right of it.
 */
export function makeRoom(
  { shell }: JupyterFrontEnd,
  panel: Widget,
  notebook: NotebookPanel,
  notebooks: INotebookTracker
): void {
  if (!together(panel, notebook)) {
    return;
  }
  const ref = notebooks.find(
    other => other !== notebook && other.parent === panel.parent && !together(panel, other)
  );
  if (ref) {
    shell.add(notebook, 'main', { mode: 'tab-after', ref: ref.id });
  } else {
    shell.add(panel, 'main', { mode: 'split-right', ref: notebook.id, activate: false });
  }
}
