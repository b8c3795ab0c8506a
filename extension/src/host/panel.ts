// The panel beside the notebook: shows the Inspector of the notebook that was active last, keeps
// those of the others. A pinned one stays with its notebook, so that two can be seen at once.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { LabIcon } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import type { InspectorHandle } from '../panels';
import { mountInspector } from '../panels';
import type { TextStorage } from '../panels/bookmarks';
import { webStorage } from '../panels/bookmarks';
import type { Cell } from '../protocol/cell';
import type { Watching } from '../protocol/controller';
import type { Disposable } from '../protocol/signal';
import { NotebookController } from './controller';
import { OVERLAY, pausedOverlay } from './overlay';

export const PANEL_ID = 'ag-visual-inspector';

const NO_NOTEBOOK = 'Open a notebook: its backward passes are shown here.';

export const inspectorIcon = new LabIcon({
  name: 'ag-visual:inspector',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">' +
    '<g class="jp-icon3" fill="#616161">' +
    '<rect x="4.5" y="1" width="7" height="4" rx="1"/>' +
    '<rect x="1" y="11" width="6" height="4" rx="1"/>' +
    '<rect x="9" y="11" width="6" height="4" rx="1"/>' +
    '<path d="M7.4 5v2.5L4 9.4V11h1V10l3-1.7 3 1.7v1h1V9.4L8.6 7.5V5z"/></g></svg>'
});

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
    watching: Cell<Watching>
  ) {
    this.element.className = 'ag-inspector-host';
    parent.appendChild(this.element);
    this.controller = new NotebookController(app, notebook, watching);
    const kept = (what: string): TextStorage =>
      webStorage(
        () => window.localStorage,
        () => `ag-visual-inspector:${what}:${notebook.context.path}`
      );
    this.inspector = mountInspector(this.element, this.controller, {
      storage: kept('views'),
      choices: kept('drawing')
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
    this.inspector.dispose();
    this.controller.dispose();
    this.element.remove();
  }
}

export class InspectorPanel extends Widget {
  private readonly mounted = new Map<NotebookPanel, Mounted>();
  private readonly empty = document.createElement('p');
  private current: Mounted | null = null;

  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly notebooks: INotebookTracker,
    private readonly watching: Cell<Watching>,
    /** the one notebook that it shows; without one, whichever is active */
    readonly pinned: NotebookPanel | null = null
  ) {
    super();
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
    this.toggleClass('ag-mod-pinned', pinned !== null);
    if (!pinned) {
      notebooks.currentChanged.connect(this.follow, this);
    }
    this.follow();
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
    const notebook = this.pinned ?? this.notebooks.currentWidget;
    let next: Mounted | null = null;
    if (notebook && !notebook.isDisposed) {
      next = this.mounted.get(notebook) ?? this.mount(notebook);
    }
    this.current = next;
    this.mounted.forEach(mounted => {
      mounted.element.hidden = mounted !== next;
    });
    this.empty.hidden = next !== null;
    this.retitle();
  }

  private mount(notebook: NotebookPanel): Mounted {
    const mounted = new Mounted(this.app, notebook, this.node, this.watching);
    this.mounted.set(notebook, mounted);
    notebook.title.changed.connect(this.retitle, this);
    mounted.controller.onPaused.connect(() => this.retitle());
    mounted.controller.onPaused.connect(stopped => mounted.showPaused(notebook, stopped));
    notebook.disposed.connect(() => {
      this.mounted.delete(notebook);
      mounted.dispose();
      if (this.pinned) {
        this.current = null;
        this.dispose();
      } else if (this.current === mounted) {
        this.follow();
      }
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
    const several = this.pinned !== null || this.notebooks.size > 1;
    const name = shown && several ? `Inspector: ${shown.panel.title.label}` : 'Inspector';
    this.title.label = paused ? `${name} (paused)` : name;
    this.title.className = paused ? 'ag-mod-paused' : '';
    this.title.caption = shown ? `Backward passes of ${shown.panel.title.label}` : NO_NOTEBOOK;
    this.node.setAttribute('aria-label', `Inspector. ${this.title.caption}`);
    this.app.commands.notifyCommandChanged();
  }
}
