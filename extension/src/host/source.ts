// Shows a place in the user's code: the cell or file, the cursor on its line, the expression
// marked.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { CodeEditor } from '@jupyterlab/codeeditor';
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { PageConfig, PathExt } from '@jupyterlab/coreutils';
import type { IDocumentWidget } from '@jupyterlab/docregistry';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { StateEffect, StateField } from '@codemirror/state';
import type { DecorationSet } from '@codemirror/view';
import { Decoration, EditorView } from '@codemirror/view';
import type { Site } from '../protocol/schema';

const mark = StateEffect.define<{ from: number; to: number } | null>();
const line = Decoration.line({ class: 'ag-source-line' });
const expression = Decoration.mark({ class: 'ag-source-expression' });

/** What is marked in one editor: a line and the expression in it; an edit removes the mark. */
const marked = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(decorations, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(mark)) {
        if (effect.value === null) {
          return Decoration.none;
        }
        const { from, to } = effect.value;
        const start = transaction.state.doc.lineAt(from).from;
        const ranges = [line.range(start)];
        return Decoration.set(to > from ? [...ranges, expression.range(from, to)] : ranges, true);
      }
    }
    return transaction.docChanged ? Decoration.none : decorations;
  },
  provide: field => EditorView.decorations.from(field)
});

let shown: CodeMirrorEditor | null = null;

/**
 * Puts the cursor on the site's line and marks its expression; false if the editor has no such
 * line.
 */
function show(editor: CodeEditor.IEditor, site: Site): boolean {
  if (site.line < 1 || site.line > editor.lineCount) {
    return false;
  }
  const column = Math.min(site.col, editor.getLine(site.line - 1)?.length ?? 0);
  editor.setCursorPosition({ line: site.line - 1, column });
  if (editor instanceof CodeMirrorEditor) {
    const view = editor.editor;
    if (view.state.field(marked, false) === undefined) {
      editor.injectExtension(marked);
    }
    if (shown && shown !== editor && !shown.isDisposed) {
      shown.editor.dispatch({ effects: mark.of(null) });
    }
    shown = editor;
    const document = view.state.doc;
    const from = document.line(site.line).from + column;
    const last = document.line(Math.min(Math.max(site.end_line, site.line), document.lines));
    const to = Math.min(last.from + site.end_col, last.to);
    view.dispatch({
      effects: [
        mark.of({ from, to: Math.max(from, to) }),
        EditorView.scrollIntoView(from, { y: 'nearest' })
      ]
    });
  }
  return true;
}

/** Whether the line still reads as it did when it ran. */
function unchanged(editor: CodeEditor.IEditor, site: Site): boolean {
  const now = editor.getLine(site.line - 1);
  return now !== undefined && (site.source_line === '' || now.trim() === site.source_line.trim());
}

async function revealCell(panel: NotebookPanel, site: Site): Promise<boolean> {
  const notebook = panel.content;
  const index = notebook.widgets.findIndex(cell => cell.model.id === site.cell_id);
  if (index < 0) {
    return false;
  }
  notebook.deselectAll();
  notebook.activeCellIndex = index;
  await notebook.scrollToCell(notebook.widgets[index], 'auto').catch(() => undefined);
  const cell = notebook.widgets[index];
  cell.inputHidden = false;
  await cell.ready;
  return cell.editor !== null && unchanged(cell.editor, site) && show(cell.editor, site);
}

async function revealFile(app: JupyterFrontEnd, site: Site): Promise<boolean> {
  const root = PageConfig.getOption('serverRoot');
  if (!root || !site.file.startsWith(`${root.replace(/\/$/, '')}/`)) {
    return false;
  }
  const path = PathExt.relative(root, site.file);
  const opened = (await app.commands.execute('docmanager:open', { path })) as
    IDocumentWidget | undefined;
  await opened?.revealed;
  const content = opened?.content as { editor?: CodeEditor.IEditor } | undefined;
  return content?.editor !== undefined && show(content.editor, site);
}

/**
 * False when the cell was deleted or its line edited since it ran, or when the file is out of the
 * server's reach.
 */
export async function reveal(
  app: JupyterFrontEnd,
  panel: NotebookPanel,
  site: Site
): Promise<boolean> {
  return site.kind === 'cell' ? revealCell(panel, site) : revealFile(app, site);
}
