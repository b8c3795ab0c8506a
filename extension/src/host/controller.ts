// One notebook as the Inspector sees it: follows the notebook through changes and restarts of its
// kernel.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type {
  Capabilities,
  ConnectionStatus,
  Controller,
  HeatMark,
  LineMark,
  PlaceMark,
  RawBatch,
  Watching
} from '../protocol/controller';
import type { Cell } from '../protocol/cell';
import type { CommandName, Commands, Edit, Site, State } from '../protocol/schema';
import type { Disposable } from '../protocol/signal';
import { Signal } from '../protocol/signal';
import { importedAs, insertCell } from './cells';
import { LabKernel, uniqueName } from './kernel';
import { NotebookMarks } from './marks';
import { openNotebook } from './open_notebook';
import { reveal } from './source';
import type { Asked } from './transport';
import { Transport } from './transport';
import { tryOut } from './try_out';
import { watchTorch } from './watch_torch';


const NO_KERNEL = 'This notebook has no kernel: choose one in its toolbar.';

/** Panels that show a notebook as paused: its keys work as long as one does. */
const showing = new WeakMap<NotebookPanel, number>();

function pausedIn(state: unknown): boolean | undefined {
  return typeof state === 'object' && state !== null && 'paused' in state
    ? state.paused !== null
    : undefined;
}

export class NotebookController implements Controller, Disposable {
  readonly onBatch = new Signal<RawBatch>();
  readonly onStatus = new Signal<ConnectionStatus>();
  readonly onState = new Signal<State>();
  readonly onLine = new Signal<{ cell: string; line: number }>();
  /** A backward pass of this notebook stopped, or went on. */
  readonly onPaused = new Signal<boolean>();

  /** Two panels may show one kernel: each is a page to it, whatever it connects to. */
  private readonly page = uniqueName();
  /** outlives kernels: what its reader chose holds for the notebook */
  private readonly asked: Asked = { record: null, session: '' };
  private readonly marks: NotebookMarks;
  private kernel: LabKernel | null = null;
  private transport: Transport | null = null;
  private listening = false;
  private stopped = false;

  constructor(
    private readonly app: JupyterFrontEnd,
    readonly panel: NotebookPanel,
    readonly watching: Cell<Watching>,
    readonly pinned: Cell<boolean>,
    readonly openRun: (recording: unknown, name: string) => void
  ) {
    this.marks = new NotebookMarks(panel, (cell, line) => this.onLine.emit({ cell, line }));
    panel.sessionContext.kernelChanged.connect(this.follow, this);
    panel.title.changed.connect(this.announce, this);
    this.follow();
  }

  get capabilities(): Capabilities {
    const link = this.transport?.link;
    return {
      live: link?.kind === 'connected',
      control: link?.control ?? false,
      requests: link?.requests ?? false
    };
  }

  get status(): ConnectionStatus {
    const subject = this.panel.title.label;
    if (!this.transport) {
      return { kind: 'none', detail: NO_KERNEL, busy: false, subject };
    }
    const { kind, detail, torch } = this.transport.link;
    return { kind, detail, busy: this.kernel?.busy ?? false, subject, torch };
  }

  get paused(): boolean {
    return this.stopped;
  }

  async request<C extends CommandName>(
    command: C,
    args: Commands[C]['args']
  ): Promise<Commands[C]['result']> {
    if (!this.transport) {
      throw new Error(NO_KERNEL);
    }
    return this.transport.request(command, args);
  }

  async reveal(site: Site): Promise<boolean> {
    const found = await reveal(this.app, this.panel, site);
    if (found && site.kind === 'cell') {
      this.app.shell.activateById(this.panel.id);
      this.panel.content.mode = 'edit';
    }
    return found;
  }

  markLines(lines: readonly LineMark[]): void {
    this.marks.setLines(lines);
  }

  markHeat(lines: readonly HeatMark[]): void {
    this.marks.setHeat(lines);
  }

  markPlaces(places: readonly PlaceMark[]): void {
    this.marks.setPlaces(places);
  }

  tryOut(edit: Edit): Promise<boolean> {
    return tryOut(this.panel, edit);
  }

  watchTorch(): Promise<boolean> {
    return watchTorch(this.app, this.panel);
  }

  openNotebook(name: string): Promise<boolean> {
    return openNotebook(this.app, this.panel, name);
  }

  importedAs(): string | null {
    return importedAs(this.panel);
  }

  insertCell(source: string): Promise<boolean> {
    return Promise.resolve(insertCell(this.app, this.panel, source));
  }

  /** Asks for the nodes of the line on which the notebook's cursor stands; false: it has none. */
  selectLine(): boolean {
    const found = this.marks.lineAtCursor();
    if (found) this.onLine.emit(found);
    return found !== null;
  }

  ready(): void {
    this.listening = true;
    this.transport?.listen();
  }

  dispose(): void {
    this.panel.sessionContext.kernelChanged.disconnect(this.follow, this);
    this.panel.title.changed.disconnect(this.announce, this);
    this.transport?.dispose();
    this.transport = null;
    this.marks.dispose();
    this.setPaused(false);
    this.onLine.clear();
    this.onBatch.clear();
    this.onStatus.clear();
    this.onState.clear();
    this.onPaused.clear();
  }

  private follow(): void {
    this.transport?.dispose();
    this.transport = null;
    this.kernel = null;
    this.setPaused(false);
    const connection = this.panel.sessionContext.session?.kernel;
    if (connection) {
      this.kernel = new LabKernel(connection);
      this.transport = new Transport(this.kernel, this.page, this.asked);
      this.kernel.onChange.connect(() => this.announce());
      this.transport.onLink.connect(link => {
        if (link.kind !== 'connected') {
          this.setPaused(false);
        }
        this.announce();
      });
      this.transport.onState.connect(state => {
        this.setPaused(pausedIn(state) ?? false);
        this.onState.emit(state);
      });
      this.transport.onBatch.connect(batch => {
        // Not from replies: they take another way and may be overtaken by the batches.
        const { state } = batch.header as { state?: unknown };
        const paused = pausedIn(state);
        if (paused !== undefined) {
          this.setPaused(paused);
        }
        this.onBatch.emit(batch);
      });
      if (this.listening) {
        this.transport.listen();
      }
    }
    this.announce();
  }

  private setPaused(paused: boolean): void {
    if (paused !== this.stopped) {
      this.stopped = paused;
      const panels = (showing.get(this.panel) ?? 0) + (paused ? 1 : -1);
      showing.set(this.panel, panels);
      this.panel.toggleClass('ag-mod-paused', panels > 0);
      this.onPaused.emit(paused);
    }
  }

  private announce(): void {
    this.onStatus.emit(this.status);
  }
}
