// The panel beside the notebook: shows the Inspector of the notebook that was active last, keeps
// those of the others. A pinned one stays with its notebook, so that two can be seen at once.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import type { InspectorHandle } from '../panels';
import { mountInspector } from '../panels';
import type { TextStorage } from '../panels/bookmarks';
import { webStorage } from '../panels/bookmarks';
import { Cell } from '../protocol/cell';
import type { Watching } from '../protocol/controller';
import type { Disposable } from '../protocol/signal';
import { Signal } from '../protocol/signal';
import { NotebookController } from './controller';
import { inspectorIcon } from './icon';
import { OVERLAY, pausedOverlay } from './overlay';
import { openRun } from './recordings';

export const PANEL_ID = 'ag-visual-inspector';

const NO_NOTEBOOK = 'Open a notebook: its backward passes are shown here.';

/**
 * One notebook's Inspector, mounted in an element of its own so that it keeps its view while
 * another is shown.
 */
class Mounted implements Disposable {
  readonly element = document.createElement('div');
  readonly controller: NotebookController;
  readonly inspector: InspectorHandle;
  private overlay: Disposable | null = null;

  constructor(
    app: JupyterFrontEnd,
    notebook: NotebookPanel,
    parent: HTMLElement,
    watching: Cell<Watching>,
    readonly pinned: Cell<boolean>
  ) {
    this.element.className = 'ag-inspector-host';
    parent.appendChild(this.element);
    const open = (recording: unknown, name: string): void => openRun(app, recording, name);
    this.controller = new NotebookController(app, notebook, watching, pinned, open);
    const kept = (what: string): TextStorage =>
      webStorage(
        () => window.localStorage,
        () => `ag-visual-inspector:${what}:${notebook.context.path}`
      );
    this.inspector = mountInspector(this.element, this.controller, {
      storage: kept('views'),
      choices: kept('drawing'),
      sidePlace: webStorage(() => window.localStorage, () => 'ag-visual-inspector:side')
    });
  }

  /** The bar over the notebook while a backward of it is paused. */
  showPaused(notebook: NotebookPanel, stopped: boolean): void {
    this.overlay?.dispose();
    // Where two panels show one notebook, one bar is enough.
    this.overlay = stopped && !notebook.node.querySelector(`:scope > .${OVERLAY}`)
      ? pausedOverlay(notebook, [
          { label: 'Continue', keys: 'F9', run: () => this.inspector.run('continue') },
          { label: 'Step', keys: 'F10', run: () => this.inspector.run('step') }
        ].filter(({ label }) => !this.inspector.hides(label === 'Step' ? 'step' : 'continue')))
      : null;
  }

  dispose(): void {
    this.overlay?.dispose();
    this.pinned.dispose();
    this.inspector.dispose();
    this.controller.dispose();
    this.element.remove();
  }
}

export class InspectorPanel extends Widget {
  private readonly mounted = new Map<NotebookPanel, Mounted>();
  private readonly empty = document.createElement('p');
  private current: Mounted | null = null;
  /** it was opened for one notebook, and goes with it */
  private readonly alone: boolean;

  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly notebooks: INotebookTracker,
    private readonly watching: Cell<Watching>,
    /** the one notebook that it shows; without one, whichever is active */
    private kept: NotebookPanel | null = null
  ) {
    super();
    const { kept: pinned } = this;
    this.alone = pinned !== null;
    this.id = pinned ? `${PANEL_ID}-${pinned.id}` : PANEL_ID;
    this.addClass('ag-inspector-panel');
    this.node.tabIndex = -1;
    this.title.label = 'Inspector';
    this.title.icon = inspectorIcon;
    this.title.closable = true;
    this.empty.className = 'ag-inspector-empty';
    this.empty.textContent = NO_NOTEBOOK;
    this.node.appendChild(this.empty);
    this.node.setAttribute('role', 'region');
    notebooks.currentChanged.connect(this.follow, this);
    this.follow();
  }

  /** The one notebook that it stays with; null: it shows the active one. */
  get pinned(): NotebookPanel | null {
    return this.kept;
  }

  /** The pin was pressed, or another one was told. */
  readonly onPinned = new Signal<void>();

  /** Stays with a notebook from now on, or with null follows the active one. */
  pin(notebook: NotebookPanel | null): void {
    if (notebook !== this.kept) {
      this.kept = notebook;
      this.follow();
      this.onPinned.emit();
    }
  }

  /** The notebook that is shown. */
  get notebook(): NotebookPanel | null {
    return this.current?.controller.panel ?? null;
  }

  /** The controller of the notebook that is shown. */
  get controller(): NotebookController | null {
    return this.current?.controller ?? null;
  }

  /** What is mounted for that notebook. */
  get inspector(): InspectorHandle | null {
    return this.current?.inspector ?? null;
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.notebooks.currentChanged.disconnect(this.follow, this);
    this.mounted.forEach((_, notebook) => notebook.title.changed.disconnect(this.retitle, this));
    this.mounted.forEach(mounted => mounted.dispose());
    this.mounted.clear();
    this.current = null;
    super.dispose();
  }

  /** A closed panel listens no longer: a pause that nobody watches ends, as it says in its cell. */
  protected override onCloseRequest(message: Message): void {
    super.onCloseRequest(message);
    this.dispose();
  }

  protected override onActivateRequest(): void {
    const inside = this.current?.element.querySelector<HTMLElement>('[tabindex="0"]');
    (inside ?? this.node).focus();
  }

  private follow(): void {
    const notebook = this.kept ?? this.notebooks.currentWidget;
    this.toggleClass('ag-mod-pinned', this.kept !== null);
    let next: Mounted | null = null;
    if (notebook && !notebook.isDisposed) {
      next = this.mounted.get(notebook) ?? this.mount(notebook);
    }
    this.current = next;
    this.mounted.forEach(mounted => {
      mounted.element.hidden = mounted !== next;
      mounted.pinned.set(this.kept !== null);
    });
    this.empty.hidden = next !== null;
    this.retitle();
  }

  private mount(notebook: NotebookPanel): Mounted {
    const pinned = new Cell(this.kept !== null);
    const mounted = new Mounted(this.app, notebook, this.node, this.watching, pinned);
    pinned.subscribe(() => {
      if (this.current === mounted) this.pin(pinned.value ? notebook : null);
    });
    this.mounted.set(notebook, mounted);
    notebook.title.changed.connect(this.retitle, this);
    mounted.controller.onPaused.connect(() => this.retitle());
    mounted.controller.onPaused.connect(stopped => mounted.showPaused(notebook, stopped));
    notebook.disposed.connect(() => {
      this.mounted.delete(notebook);
      mounted.dispose();
      if (this.alone && this.kept === notebook) {
        this.current = null;
        this.dispose();
        return;
      }
      if (this.kept === notebook) this.pin(null);
      else if (this.current === mounted) this.follow();
    });
    return mounted;
  }

  /**
   * The tab says when something is paused, also while the panel lies behind another, and where
   * there are several notebooks whose passes these are.
   */
  private retitle(): void {
    const shown = this.current?.controller;
    const paused = shown?.paused ?? false;
    const several = this.kept !== null || this.notebooks.size > 1;
    const name = shown && several ? `Inspector: ${shown.panel.title.label}` : 'Inspector';
    this.title.label = paused ? `${name} (paused)` : name;
    this.title.className = paused ? 'ag-mod-paused' : '';
    this.title.caption = shown ? `Backward passes of ${shown.panel.title.label}` : NO_NOTEBOOK;
    this.node.setAttribute('aria-label', `Inspector. ${this.title.caption}`);
    this.app.commands.notifyCommandChanged();
  }
}
