// Between model, host and panels: applies batches, refreshes once a frame, sends commands, keeps
// what they answer. What the panels show of their own (tab, side, theme ...) are cells, to each of
// which a component subscribes by `useCell`; the model is one more, by `useInspector`. Nothing here
// draws.

import { createContext, useContext, useSyncExternalStore } from 'react';
import type { ReadonlyCell } from '../protocol/cell';
import { Cell } from '../protocol/cell';
import type { Controller, Theme } from '../protocol/controller';
import type {
  CommandName,
  Commands,
  Control,
  CourseLesson,
  NodeDetails,
  Jacobian,
  NodeHooks,
  Problem,
  Site,
  Values,
  Weights
} from '../protocol/schema';
import type { Disposable } from '../protocol/signal';
import type { Container } from '../model/container';
import type { Drawing } from '../model/drawing';
import { readDrawing } from '../model/drawing';
import { InspectorModel } from '../model/inspector';
import type { Heights } from '../model/passes';
import type { GraphCanvas } from '../draw/graph_canvas';
import type { Answer } from './answers';
import { Answers } from './answers';
import type { TextStorage } from './bookmarks';
import { Bookmarks } from './bookmarks';
import { Debugger } from './debugger';
import type { Comparing } from './compare/comparing';
import { Timing } from './profile/timing';
import { Refresher } from './refresher';
import { Teaching } from './teaching';
import { WatchingKernels } from './watching';

export interface Notice {
  kind: 'error' | 'info';
  text: string;
}

export type Tab = 'node' | 'outline' | 'parameters' | 'tensors' | 'hooks' | 'jacobians' |
  'problems';
/** What is kept of a side that was closed by hand. */
const CLOSED = 'closed';

/** The drawing of every number, while it is there. */
export interface NumberDrawing {
  zoomBy(factor: number): void;
  fit(): void;
  /** pixels of height that this element needs for all of it to be seen */
  roomNeeded(around: HTMLElement): number;
}

export class Presenter implements Disposable {
  readonly model: InspectorModel;
  readonly answers: Answers;
  readonly bookmarks: Bookmarks;
  readonly debugger: Debugger;
  readonly teaching: Teaching;
  readonly timing: Timing;
  readonly notice = new Cell<Notice | null>(null);
  readonly tab = new Cell<Tab>('node');
  /** the reader wants the side; it is there when it has something to say */
  readonly sideOpen: Cell<boolean>;
  /** the side was opened though nothing is selected */
  readonly sideKept = new Cell(false);
  readonly helpOpen = new Cell(false);
  /** whose lines are marked in the notebook; null: the newest */
  readonly problem = new Cell<number | null>(null);
  readonly theme = new Cell<Theme>('light');
  /** what the bars of passes are as high as */
  readonly heights = new Cell<Heights>('gradient');
  /** two backward passes side by side in place of one */
  readonly comparing = new Cell<Comparing | null>(null);
  /** grows with every change of the model, of answers and of a lesson */
  readonly drawing = new Cell(0);
  /** set by the graph view while it is mounted */
  canvas: GraphCanvas | null = null;
  /** set by the drawing of every number while that is mounted in its place */
  numbers: NumberDrawing | null = null;
  focusSearch: () => void = () => undefined;
  /** where the page has an address of its own: one that makes the lesson on screen */
  lessonLink: (() => string) | null = null;

  private readonly connections: Disposable[];
  private readonly watchingKernels: WatchingKernels;
  private readonly refresher = new Refresher(() => this.refresh());
  private receiving = false;
  private wasPaused = '';
  private resyncing = false;

  constructor(
    readonly controller: Controller,
    model?: InspectorModel,
    storage: TextStorage | null = null,
    private readonly choices: TextStorage | null = null,
    /** a cell's output: little room, the side is a drawer */
    readonly compact = false,
    /** keeps whether the side was closed by hand */
    sidePlace: TextStorage | null = null
  ) {
    this.sideOpen = new Cell(sidePlace?.read() !== CLOSED);
    this.sideOpen.subscribe(() => sidePlace?.write(this.sideOpen.value ? '' : CLOSED));
    this.bookmarks = new Bookmarks(this, storage);
    this.model = model ?? new InspectorModel();
    if (choices) this.model.draw(readDrawing(choices.read()));
    this.answers = new Answers(controller, this.model, () => this.show());
    this.debugger = new Debugger(this);
    this.teaching = new Teaching(this);
    this.timing = new Timing(this);
    this.model.setStatus(controller.status);
    this.connections = [
      controller.onBatch.connect(batch => {
        this.receiving = true;
        const handled = this.model.receive(batch);
        this.receiving = false;
        // Who stopped a backward, or steps through it, waits for what comes.
        const trigger = this.model.store.underWay ? 'growing' : 'whole';
        this.refresher.ask(this.paused ? 'reader' : trigger);
        if (handled === 'gap') void this.resync();
        else if (handled === 'ok') this.resyncing = false;
      }),
      controller.onStatus.connect(status => this.model.setStatus(status)),
      ...(controller.onState
        ? [controller.onState.connect(state => this.model.setState(state))]
        : []),
      this.model.changed.connect(() => {
        if (!this.receiving) this.refresher.ask('reader');
      })
    ];
    this.watchingKernels = new WatchingKernels(this);
    controller.ready?.();
    this.refresher.run();
  }

  dispose(): void {
    this.comparing.value?.dispose();
    this.teaching.dispose();
    this.timing.dispose();
    for (const connection of this.connections) connection.dispose();
    this.watchingKernels.dispose();
    this.refresher.dispose();
    this.answers.dispose();
    const { notice, tab, sideOpen, sideKept, helpOpen, problem, theme, comparing } = this;
    const { heights, drawing } = this;
    for (const cell of [notice, tab, sideOpen, sideKept, helpOpen, problem]) cell.dispose();
    for (const cell of [theme, comparing, heights, drawing]) cell.dispose();
  }

  /** The model, an answer or the lesson changed: draw what shows them again. */
  show(): void {
    this.drawing.set(this.drawing.value + 1);
  }

  /** Draws the graph in another way, and remembers it. */
  draw(drawing: Partial<Drawing>): void {
    this.model.draw(drawing);
    this.choices?.write(JSON.stringify(this.model.drawing));
  }

  /** Opens a tab of the side, and the side with it. */
  openTab(tab: Tab): void {
    this.tab.set(tab);
    this.openSide();
  }

  openSide(): void {
    this.sideKept.set(true);
    this.sideOpen.set(true);
  }

  /** Closes the side: an output's until something is selected, a panel's until it is opened. */
  closeSide(): void {
    this.sideKept.set(false);
    if (this.compact) {
      this.tab.set('node');
      this.model.select(null);
    } else {
      this.sideOpen.set(false);
    }
  }

  /** The side is open: it has something to say, or was asked for. */
  get sideShown(): boolean {
    const { selected, group } = this.model;
    const speaks = this.tab.value !== 'node' || selected !== null || group !== null;
    return this.sideOpen.value && (speaks || this.sideKept.value);
  }

  /** Shows a comparison, or with null the one graph again. */
  compare(comparing: Comparing | null): void {
    this.comparing.value?.dispose();
    this.comparing.set(comparing);
  }

  notify(kind: Notice['kind'], text: string): void {
    this.notice.set({ kind, text });
  }

  clearNotice(): void {
    this.notice.set(null);
  }

  /** The problem that is spoken of. */
  shownProblem(): Problem | null {
    const open = this.model.openProblems;
    const chosen = open.find(({ id }) => id === this.problem.value);
    return chosen ?? open[open.length - 1] ?? null;
  }

  /** A lesson hides this control, and what its keys do. */
  hides(control: Control): boolean {
    return this.teaching.hides(control);
  }

  get live(): boolean {
    return this.controller.capabilities.live;
  }

  /** Commands can be sent now. */
  get commandable(): boolean {
    return this.model.status.kind === 'connected' && this.controller.capabilities.control;
  }

  /** Requests are answered, perhaps only when no cell runs. */
  get reachable(): boolean {
    const { control, requests } = this.controller.capabilities;
    return this.model.status.kind === 'connected' && (control || (requests ?? false));
  }

  /** What is asked is answered now, by the kernel or from the recording. */
  get answering(): boolean {
    const { kind } = this.model.status;
    return kind === 'connected' || kind === 'offline';
  }

  /** A backward ran, or runs: there are moments to look at. */
  get ran(): boolean {
    return this.model.store.tasks.size > 0;
  }

  /** Time is gone through here: an output of a graph that no backward ran through has none. */
  get moments(): boolean {
    return !this.compact || this.ran;
  }

  get paused(): boolean {
    return this.model.store.state.paused !== null;
  }

  /** Sends a command whose answer is the kernel's state; a failure is shown. */
  async command<C extends CommandName>(command: C, args: Commands[C]['args']): Promise<boolean> {
    this.teaching.player.commanded(command);
    const { store } = this.model;
    const { epoch, batch } = store;
    try {
      const state: unknown = await this.controller.request(command, args);
      // Batches take another way and may overtake the reply: then they know better.
      const overtaken = store.epoch !== epoch || store.batch !== batch;
      if (!overtaken && typeof state === 'object' && state !== null && 'recording' in state)
        this.model.setState(state);
      if (this.notice.value?.kind === 'error') this.clearNotice();
      return true;
    } catch (error) {
      this.notify('error', error instanceof Error ? error.message : String(error));
      return false;
    }
  }

  record(on: boolean): Promise<boolean> {
    const { watching } = this.controller;
    if (!on && watching?.value === 'everything') {
      watching.set('newest');
      return Promise.resolve(true);
    }
    return this.command('record', on ? { on, scope: 'every', every: 1 } : { on });
  }

  async reveal(site: Site): Promise<void> {
    let found = false;
    try {
      found = await this.controller.reveal(site);
    } catch (error) {
      this.notify('error', error instanceof Error ? error.message : String(error));
      return;
    }
    if (!found && this.live)
      this.notify('error', `${site.where || 'This line'} is not open here any more.`);
  }

  /** Puts a copy of the cell with the repair in it below the cell. */
  async tryOut({ repair }: Problem): Promise<void> {
    const { tryOut } = this.controller;
    if (!tryOut || !repair?.edit) {
      return;
    }
    const { site } = repair.edit;
    if (await tryOut.call(this.controller, repair.edit)) {
      this.notify('info', 'The changed cell stands below the one that failed. Run it to try it.');
    } else {
      this.notify(
        'error',
        `${site.where} was changed since it ran, or is not a cell: copy the line.`
      );
    }
  }

  /** Puts lines into the notebook, to be run by their reader. */
  async insertCell(source: string): Promise<void> {
    if (!(await this.controller.insertCell?.(source).catch(() => false))) {
      this.notify('error', 'No cell could be inserted here: copy the lines.');
    }
  }

  /** Has the PyTorch of the notebook watched from now on. */
  async watchTorch(): Promise<void> {
    if (!(await this.controller.watchTorch?.().catch(() => false))) {
      this.notify('error', 'No cell could be run here: run `ag.watch(torch)` in one of your own.');
    }
  }

  /** The lessons of the course; none where no kernel tells. */
  async course(): Promise<CourseLesson[]> {
    return this.controller.openNotebook
      ? this.controller.request('course', {}).catch(() => [])
      : [];
  }

  /** Has a lesson written beside the notebook, where it is not there yet, and opens it. */
  async openLesson({ name, title }: CourseLesson): Promise<void> {
    try {
      await this.controller.request('course', { open: name });
      if (!(await this.controller.openNotebook?.(name))) {
        throw new Error(`${name} lies in the kernel's folder, which is not this notebook's.`);
      }
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.notify('error', `“${title}” cannot be opened here: ${why}`);
    }
  }

  open(seq: number): void {
    const site = this.model.siteOf(seq);
    if (site) void this.reveal(site);
  }

  /** Selects a node and brings it into view. */
  goTo(seq: number): void {
    this.model.unfoldTo(seq);
    this.model.select(seq);
    this.canvas?.reveal(seq);
    this.show();
  }

  /** The same for a node of another pass, which is shown then. */
  goAnywhere(seq: number): void {
    const { graph, store } = this.model;
    if (!graph.indexOf.has(seq) && !graph.leafUses.has(seq)) {
      const task = store.taskOf(seq);
      if (task !== null) {
        this.model.show({ kind: 'task', task });
        this.model.refresh();
      }
    }
    this.goTo(seq);
  }

  /** Selects a container; nothing moves, so that a second click meets what the first one met. */
  chooseGroup(container: Container): void {
    this.model.selectGroup(container);
    if (this.tab.value === 'problems') this.tab.set('node');
    this.show();
  }

  /** Selects a container and brings its first node into view. */
  goToGroup(container: Container): void {
    this.canvas?.reveal(this.model.graph.seqs[container.first]);
    this.chooseGroup(container);
  }

  /** Opens or closes a container; what is around it stays where it is. */
  fold(container: Container, open: boolean): void {
    const change = (): void => this.model.fold(container, open);
    if (this.canvas) this.canvas.hold(container, change);
    else change();
  }

  /** Opens the chosen container, or closes the one around what is chosen. */
  foldSelected(open: boolean): void {
    const { model } = this;
    if (model.group === null && model.boxTransposes(model.selected, open)) {
      return;
    }
    const around = model.containerOfSelection();
    if (!around) {
      return;
    }
    if (open) {
      if (model.group) this.fold(model.group, true);
      return;
    }
    // A closed one is closed with the next one around it.
    for (const container of around.chain()) {
      if (model.folding.isOpen(container)) {
        this.fold(container, false);
        return;
      }
    }
  }

  /** Opens or closes all of them, and shows the whole anew. */
  foldAll(open: boolean): void {
    const change = (): void => this.model.foldAll(open);
    if (this.canvas) this.canvas.anew(change);
    else change();
  }

  async copy(text: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      this.notify('info', 'Copied.');
    } catch {
      this.notify(
        'error',
        'The browser does not let this page copy. Select the text and copy it by hand.'
      );
    }
  }

  /** What is kept of a node. */
  details(seq: number): Answer<NodeDetails> {
    return this.answers.details(seq);
  }

  jacobians(): Answer<Jacobian[]> {
    return this.answers.jacobians();
  }

  /** Norms of the values of parameters, of the newest pass that has ended. */
  weights(): Answer<Weights> {
    return this.answers.weights();
  }

  hooks(): Answer<NodeHooks[]> {
    return this.answers.hooks();
  }

  values(seq: number, which: string): Answer<Values> {
    return this.answers.values(seq, which);
  }

  private async resync(): Promise<void> {
    if (this.resyncing || this.model.status.kind !== 'connected') {
      return;
    }
    this.resyncing = true;
    try {
      await this.controller.request('resync', {});
    } catch (error) {
      this.resyncing = false;
      this.notify('error', error instanceof Error ? error.message : String(error));
    }
  }

  private refresh(): void {
    this.model.refresh();
    if (this.model.selected !== null) this.sideKept.set(false);
    this.noticePause();
    const fresh = this.model.takeNewProblems();
    this.teaching.refreshed();
    if (this.model.store.state.recording) this.canvas?.warm();
    this.canvas?.update();
    if (fresh.length > 0 && !this.paused) {
      this.tab.set('problems');
      this.problem.set(null);
      const { node_seq: seq } = fresh[fresh.length - 1];
      if (seq !== null && this.model.store.nodeRow.has(seq)) {
        this.goAnywhere(seq);
        this.canvas?.update();
      }
    }
    this.show();
  }

  /** A new stop selects the node that is about to run. */
  private noticePause(): void {
    const { paused } = this.model.store.state;
    const key = paused ? `${this.model.store.session} ${paused.task} ${paused.seq}` : '';
    if (key !== this.wasPaused) {
      this.wasPaused = key;
      if (paused) {
        this.model.select(paused.seq);
        this.tab.set('node');
      }
    }
  }
}

export const InspectorContext = createContext<Presenter | null>(null);

/** The presenter alone: the component draws again only for the cells that it subscribes to. */
export function usePresenter(): Presenter {
  const presenter = useContext(InspectorContext);
  if (!presenter) {
    throw new Error('A panel was rendered outside the Inspector.');
  }
  return presenter;
}

/** The value of a cell; the component draws again when it changes. */
export function useCell<T>(cell: ReadonlyCell<T>): T {
  return useSyncExternalStore(cell.subscribe, () => cell.value);
}

/** The presenter; the component draws again whenever the model may have changed. */
export function useInspector(): Presenter {
  const presenter = usePresenter();
  useCell(presenter.drawing);
  return presenter;
}
