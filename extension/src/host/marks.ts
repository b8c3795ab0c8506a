// What the Inspector marks in a notebook's cells: in the gutter the lines that made nodes, in the
// text the expressions that are spoken of. No cursor and no focus moves; an edited line loses its
// marks, others keep them.

import type { Cell } from '@jupyterlab/cells';
import { CodeCell } from '@jupyterlab/cells';
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Extension, StateEffectType, Text, Transaction } from '@codemirror/state';
import { RangeSet, StateEffect, StateField } from '@codemirror/state';
import type { DecorationSet } from '@codemirror/view';
import { Decoration, EditorView, GutterMarker, gutter } from '@codemirror/view';
import type { HeatMark, LineMark, PlaceMark } from '../protocol/controller';
import type { Disposable } from '../protocol/signal';
import { oneLine } from '../protocol/text';

class Dot extends GutterMarker {
  constructor(readonly mark: LineMark) {
    super();
  }

  override eq(other: Dot): boolean {
    return other.mark.line === this.mark.line && other.mark.nodes === this.mark.nodes;
  }

  override toDOM(): Node {
    const dot = document.createElement('span');
    dot.className = 'ag-line-mark';
    const { nodes } = this.mark;
    dot.title = `${nodes} ${nodes === 1 ? 'node' : 'nodes'} of the graph: click to select`;
    return dot;
  }
}

/** Two bars beside a line: its share of the time, and of the memory at its peak. */
class Heat extends GutterMarker {
  constructor(readonly mark: HeatMark) {
    super();
  }

  override eq(other: Heat): boolean {
    const { time, memory, says } = this.mark;
    return other.mark.time === time && other.mark.memory === memory && other.mark.says === says;
  }

  override toDOM(): Node {
    const strip = document.createElement('span');
    strip.className = 'ag-heat';
    strip.title = oneLine(this.mark.says, 200);
    for (const what of ['time', 'memory'] as const) {
      const bar = document.createElement('i');
      bar.dataset.of = what;
      bar.style.height = `${Math.round(100 * Math.min(1, Math.max(0, this.mark[what])))}%`;
      strip.append(bar);
    }
    return strip;
  }
}

const setHeat = StateEffect.define<readonly HeatMark[]>();
const setLines = StateEffect.define<readonly LineMark[]>();
const setPlaces = StateEffect.define<readonly PlaceMark[]>();

/** Whether a line of a document still reads as it did when it ran. */
function reads(document: Text, line: number, text: string): boolean {
  const there = line >= 1 && line <= document.lines;
  return there && (text === '' || document.line(line).text.trim() === text.trim());
}

/** Marks at lines that an effect sets; a line that is edited loses its own. */
function beside<M extends { line: number; text: string }, G extends GutterMarker & { mark: M }>(
  set: StateEffectType<readonly M[]>,
  make: (mark: M) => G
): StateField<RangeSet<G>> {
  return StateField.define<RangeSet<G>>({
    create: () => RangeSet.empty,
    update(marks, transaction) {
      const { doc } = transaction.state;
      for (const effect of transaction.effects) {
        if (effect.is(set)) {
          return RangeSet.of(
            effect.value
              .filter(({ line, text }) => reads(doc, line, text))
              .map(mark => make(mark).range(doc.line(mark.line).from)),
            true
          );
        }
      }
      if (!transaction.docChanged) {
        return marks;
      }
      return marks.map(transaction.changes).update({
        filter: (from, _, { mark }) => doc.lineAt(from).text.trim() === mark.text.trim()
      });
    }
  });
}

const lines = beside(setLines, mark => new Dot(mark));
const heat = beside(setHeat, mark => new Heat(mark));

function decorations(document: Text, places: readonly PlaceMark[]): DecorationSet {
  const ranges = places.flatMap(({ site, kind, says }) => {
    if (!reads(document, site.line, site.source_line)) {
      return [];
    }
    const first = document.line(site.line);
    const last = document.line(Math.min(Math.max(site.end_line, site.line), document.lines));
    const from = Math.min(first.from + site.col, first.to);
    const to = Math.min(last.from + site.end_col, last.to);
    if (to <= from) {
      return [];
    }
    const attributes = { 'data-kind': kind, title: oneLine(says, 120) };
    return [Decoration.mark({ class: 'ag-place', attributes }).range(from, to)];
  });
  return Decoration.set(ranges, true);
}

/** Marks in lines that a change touches go; the others move along. */
function untouched(marks: DecorationSet, { changes, startState }: Transaction): DecorationSet {
  const { doc } = startState;
  return marks
    .update({
      filter: (from, to) => !changes.touchesRange(doc.lineAt(from).from, doc.lineAt(to).to)
    })
    .map(changes);
}

const places = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(setPlaces)) return decorations(transaction.state.doc, effect.value);
    }
    return transaction.docChanged ? untouched(marks, transaction) : marks;
  },
  provide: field => EditorView.decorations.from(field)
});

/** What one Inspector marks in an editor, and who hears of a click. */
interface Marked {
  lines: readonly LineMark[];
  heat: readonly HeatMark[];
  places: readonly PlaceMark[];
  chosen: (line: number) => void;
}

/**
 * An editor keeps what is injected into it, while Inspectors come and go and two may show one
 * notebook: so the editor gets one gutter, which shows and tells all that are there now.
 */
const markers = new WeakMap<EditorView, Map<NotebookMarks, Marked>>();

/** All of them, each once. */
function distinct<T>(all: readonly T[], key: (one: T) => unknown): T[] {
  return [...new Map(all.map(one => [key(one), one] as const)).values()];
}

function mark(editor: CodeMirrorEditor, owner: NotebookMarks, own: Marked): void {
  const view = editor.editor;
  const all = markers.get(view) ?? new Map<NotebookMarks, Marked>();
  markers.set(view, all);
  if (own.lines.length + own.heat.length + own.places.length > 0) all.set(owner, own);
  else all.delete(owner);
  if (view.state.field(lines, false) === undefined) editor.injectExtension(EXTENSION);
  const shown = [...all.values()];
  view.dispatch({
    effects: [
      setLines.of(distinct(shown.flatMap(one => one.lines), ({ line }) => line)),
      setHeat.of(distinct(shown.flatMap(one => one.heat), ({ line }) => line)),
      setPlaces.of(distinct(shown.flatMap(one => one.places), place => JSON.stringify(place)))
    ]
  });
}

function click(view: EditorView, position: number): boolean {
  // As it was numbered when it ran: lines above may have come since.
  const at = (markAt(view, position) ?? heatAt(view, position))?.line;
  if (at === undefined) {
    return false;
  }
  for (const own of markers.get(view)?.values() ?? []) {
    if ([...own.lines, ...own.heat].some(({ line }) => line === at)) own.chosen(at);
  }
  return true;
}

const EXTENSION: Extension = [
  lines,
  places,
  gutter({
    class: 'ag-line-gutter',
    markers: view => view.state.field(lines),
    domEventHandlers: { mousedown: (view, block) => click(view, block.from) }
  }),
  heat,
  gutter({
    class: 'ag-heat-gutter',
    markers: view => view.state.field(heat),
    domEventHandlers: { mousedown: (view, block) => click(view, block.from) }
  })
];

function foundAt<M, G extends GutterMarker & { mark: M }>(
  view: EditorView,
  position: number,
  marks: StateField<RangeSet<G>>
): M | null {
  let found: M | null = null;
  const { from, to } = view.state.doc.lineAt(position);
  view.state.field(marks, false)?.between(from, to, (_, __, { mark }) => {
    found = mark;
  });
  return found;
}

const markAt = (view: EditorView, position: number): LineMark | null =>
  foundAt(view, position, lines);
const heatAt = (view: EditorView, position: number): HeatMark | null =>
  foundAt(view, position, heat);

export class NotebookMarks implements Disposable {
  private lines = new Map<string, LineMark[]>();
  private heat = new Map<string, HeatMark[]>();
  private places = new Map<string, PlaceMark[]>();
  /** what each editor shows */
  private shown = new WeakMap<CodeMirrorEditor, string>();
  private waiting = new WeakSet<Cell>();
  private frame = 0;

  constructor(
    private readonly panel: NotebookPanel,
    private readonly chosen: (cell: string, line: number) => void
  ) {
    panel.content.modelContentChanged.connect(this.later, this);
  }

  setLines(marks: readonly LineMark[]): void {
    this.lines = grouped(marks, ({ cell }) => cell);
    this.later();
  }

  setHeat(marks: readonly HeatMark[]): void {
    this.heat = grouped(marks, ({ cell }) => cell);
    this.later();
  }

  setPlaces(marks: readonly PlaceMark[]): void {
    const cells = marks.filter(({ site }) => site.kind === 'cell');
    this.places = grouped(cells, ({ site }) => site.cell_id ?? '');
    this.later();
    const first = cells[0]?.site;
    if (first) this.show(first.cell_id ?? '', first.line);
  }

  /** The marked line on which the cursor of the active cell stands, as it was when it ran. */
  lineAtCursor(): { cell: string; line: number } | null {
    const cell = this.panel.content.activeCell;
    const editor = cell?.editor;
    if (!cell || !(editor instanceof CodeMirrorEditor)) {
      return null;
    }
    const { state } = editor.editor;
    const mark = markAt(editor.editor, state.selection.main.head);
    return mark && { cell: cell.model.id, line: mark.line };
  }

  dispose(): void {
    cancelAnimationFrame(this.frame);
    this.lines.clear();
    this.heat.clear();
    this.places.clear();
    if (!this.panel.isDisposed) {
      this.panel.content.modelContentChanged.disconnect(this.later, this);
      this.apply();
    }
  }

  private later(): void {
    if (this.frame === 0) {
      // After the frame, not in it: the graph that it shows is what somebody waits for.
      this.frame = requestAnimationFrame(() =>
        setTimeout(() => {
          this.frame = 0;
          this.apply();
        })
      );
    }
  }

  private apply(): void {
    if (this.panel.isDisposed) {
      return;
    }
    for (const cell of this.panel.content.widgets) {
      if (cell instanceof CodeCell) this.applyTo(cell);
    }
  }

  private applyTo(cell: CodeCell): void {
    const { id, executionCount } = cell.model;
    // While a cell runs it has no count: its marks stay until it has another one.
    const newest = ({ execution }: { execution: number | null }): boolean =>
      executionCount === null || execution === executionCount;
    const own = (this.lines.get(id) ?? []).filter(newest);
    const hot = (this.heat.get(id) ?? []).filter(newest);
    const spoken = this.places.get(id) ?? [];
    const { editor } = cell;
    if (!(editor instanceof CodeMirrorEditor)) {
      if (own.length + hot.length + spoken.length > 0 && !this.waiting.has(cell)) {
        this.waiting.add(cell);
        void cell.ready.then(() => {
          this.waiting.delete(cell);
          this.later();
        });
      }
      return;
    }
    const now = JSON.stringify([own, hot, spoken]);
    if (now === (this.shown.get(editor) ?? '[[],[],[]]')) {
      return;
    }
    this.shown.set(editor, now);
    const chosen = (line: number): void => this.chosen(id, line);
    mark(editor, this, { lines: own, heat: hot, places: spoken, chosen });
  }

  /** Scrolls a line into view, unless the user is at work in the notebook. */
  private show(id: string, line: number): void {
    const { content, node } = this.panel;
    const cell = content.widgets.find(({ model }) => model.id === id);
    if (!cell || node.contains(document.activeElement)) {
      return;
    }
    const { editor } = cell;
    if (editor instanceof CodeMirrorEditor && cell.inViewport) {
      const { doc } = editor.editor.state;
      const at = doc.line(Math.min(Math.max(1, line), doc.lines)).from;
      editor.editor.dispatch({ effects: EditorView.scrollIntoView(at, { y: 'nearest' }) });
    } else {
      void content.scrollToCell(cell, 'auto').catch(() => undefined);
    }
  }
}

function grouped<T>(all: readonly T[], key: (one: T) => string): Map<string, T[]> {
  const found = new Map<string, T[]>();
  for (const one of all) {
    const known = found.get(key(one));
    if (known) known.push(one);
    else found.set(key(one), [one]);
  }
  return found;
}
