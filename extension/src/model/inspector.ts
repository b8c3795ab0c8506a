// The Inspector's state: what was recorded, which graph is shown, at which moment, what is
// selected. Pure (no DOM, no requests); panels and the canvas read it and draw again when `changed`
// fires.

import type { Problem, Site } from '../protocol/schema';
import { NONE } from '../protocol/schema';
import type { ConnectionStatus, RawBatch } from '../protocol/controller';
import type { Batch } from '../protocol/decode';
import { ProtocolError, decodeBatch, readState } from '../protocol/decode';
import type { Listenable } from '../protocol/signal';
import { Signal } from '../protocol/signal';
import type { Axis } from './axis';
import { NO_AXIS, timeAxis } from './axis';
import { Carried } from './carried';
import type { Colouring } from './colouring';
import { colouringOf } from './colouring';
import { Container } from './container';
import { containerAt, containersOf } from './containers';
import type { Drawing } from './drawing';
import { PLAIN_DRAWING } from './drawing';
import { detachedAmong } from './findings/detached_inputs';
import type { Finding } from './findings/finding';
import { Ledger, findingsOfPass, onceSeen } from './findings/ledger';
import { Folding } from './folding';
import type { Graph } from './graph';
import { NO_GRAPH, graphOfNewest, graphOfTask, neighbours } from './graph';
import { Lines } from './lines';
import { passMs } from './passes';
import { search } from './search';
import type { Flag, NodeState, States } from './states';
import { State, statesAt } from './states';
import type { Limits, Task } from './store';
import { Store } from './store';
import type { View } from './view';
import { NO_VIEW, viewOf, viewStates } from './view';

/** Which graph is shown: the newest backward, a chosen one, or the newest nodes of all. */
export type Target = { kind: 'latest' } | { kind: 'task'; task: number } | { kind: 'newest' };

export type Handled = 'ok' | 'gap' | 'failed';

type Arrow = 'up' | 'down' | 'left' | 'right';

/** The keys of a drawing whose rows stand beside each other, as those of one of the usual kind. */
const EXCHANGED: Record<Arrow, Arrow> = { right: 'down', left: 'up', down: 'right', up: 'left' };

const NO_ROOT = new Container('root', '', '', '', null, 0, 0, null);

/** What the graph on screen was made from. */
const NOT_BUILT = { structure: -1, labelled: 0, task: NaN, forgotten: 0 };

export class InspectorModel {
  readonly store: Store;
  graph: Graph = NO_GRAPH;
  /** its groups, and which of them are open */
  root: Container = NO_ROOT;
  readonly folding = new Folding();
  /** the graph as it is drawn, closed containers as one box each, and the states of its boxes */
  view: View = NO_VIEW;
  drawn: States;
  /** what its boxes are coloured by; null: by their state */
  colouring: Colouring | null = null;
  /** how the reader wants it drawn */
  drawing: Drawing = PLAIN_DRAWING;
  axis: Axis = NO_AXIS;
  states: States;
  status: ConnectionStatus = { kind: 'none', detail: '', busy: false, subject: '' };
  target: Target = { kind: 'latest' };
  /** node number, or null */
  selected: number | null = null;
  /** a container in place of a node */
  group: Container | null = null;
  /** position on the axis; null follows what happens */
  cursor: number | null = null;
  query = '';
  hits: number[] = [];
  /** nodes that the reader points at elsewhere: ringed as long as that lasts */
  pointed: readonly number[] = [];
  /** Why nothing can be shown; '' while all is well. */
  failure = '';
  /** grows with every change of anything */
  version = 0;

  /** what all passes so far are remarkable for */
  readonly ledger = new Ledger();
  private found: { of: string; graph: Graph; findings: Finding[] } | null = null;
  private readonly carried = new Carried();
  private linesKnown: { graph: Graph; lines: Lines } | null = null;
  private readonly signal = new Signal<void>();
  private stale = true;
  private built = NOT_BUILT;
  /** how often each was told, by its id */
  private seenProblems = new Map<number, number>();
  private viewed = -1;

  constructor(limits?: Limits) {
    this.store = new Store(limits);
    this.store.onEnd = task => this.ledger.take(this.store, task, passMs(this.store, task));
    this.states = statesAt(this.store, NO_GRAPH, NO_AXIS, null);
    this.drawn = this.states;
  }

  get changed(): Listenable<void> {
    return this.signal;
  }

  /** Takes a batch as it came; the graph follows with the next `refresh`. */
  receive(raw: RawBatch): Handled {
    try {
      return this.take(decodeBatch(raw.header, raw.buffer));
    } catch (error) {
      this.fail(error instanceof ProtocolError ? error.message : String(error));
      return 'failed';
    }
  }

  take(batch: Batch): Handled {
    const { session, epoch } = this.store;
    this.carried.keep(this.store, this.graph, this.selected);
    const applied = this.store.apply(batch);
    if (applied === 'gap') {
      return 'gap';
    }
    if (session !== this.store.session || epoch !== this.store.epoch) {
      this.target = { kind: 'latest' };
      this.cursor = null;
      this.seenProblems.clear();
      this.built = NOT_BUILT;
      if (session !== this.store.session) {
        this.selected = null;
        this.carried.forget();
      }
    }
    this.failure = '';
    this.touch();
    return 'ok';
  }

  fail(message: string): void {
    this.failure = message;
    this.touch(false);
  }

  setStatus(status: ConnectionStatus): void {
    this.status = status;
    this.touch(false);
  }

  /** The kernel's state from a reply, ahead of the next batch. */
  setState(state: unknown): void {
    this.store.state = readState(state);
    this.touch();
  }

  /** Brings graph, axis, states and hits up to date. Cheap when nothing changed. */
  refresh(): void {
    if (!this.stale) {
      return;
    }
    this.stale = false;
    const task = this.shownTask();
    const { store } = this;
    const id = task?.task ?? -1;
    if (this.mustRebuild(task)) {
      if (id !== this.built.task) this.cursor = null;
      this.carried.keep(store, this.graph, this.selected);
      this.graph = task ? graphOfTask(store, task.task) : graphOfNewest(store);
      const { structure, labelled, forgotten } = store;
      this.built = { structure, labelled, task: id, forgotten: forgotten.nodes };
      this.takeContainers();
      this.selected = this.carried.into(store, this.graph, this.selected);
      if (this.query) this.hits = search(store, this.graph, this.query);
    }
    this.axis = timeAxis(store, this.graph);
    if (this.cursor !== null) {
      this.cursor = Math.min(this.cursor, this.length);
    }
    this.states = statesAt(store, this.graph, this.axis, this.cursor);
    if (this.viewed !== this.folding.version) {
      this.viewed = this.folding.version;
      const boxed = this.folding.boxed(this.root, this.graph.stubs);
      const isOpen = (container: Container): boolean => this.folding.isOpen(container);
      this.view = viewOf(this.graph, this.root, isOpen, boxed);
    }
    this.drawn = viewStates(this.view, this.states);
    const { graph, view, axis, states } = this;
    const { colourBy } = this.drawing;
    this.colouring =
      colourBy === 'state' ? null : colouringOf(store, graph, view, axis, states, colourBy);
  }

  /** The groups of a new graph; one of the same shape as before keeps them. */
  private takeContainers(): void {
    const known = new Map<string, Container>();
    const chosen = this.group?.key;
    this.root = containersOf(this.store, this.graph);
    this.folding.settle(this.root);
    if (chosen !== undefined) {
      const stack = [...this.root.children];
      for (let at = stack.pop(); at; at = stack.pop()) {
        known.set(at.key, at);
        stack.push(...at.children);
      }
      this.group = known.get(chosen) ?? null;
    }
  }

  /** The container around a node that is closed, the outermost; null for a node that is drawn. */
  foldOf(seq: number): Container | null {
    const box = this.view.indexOf.get(seq);
    return box < 0 ? null : this.view.folds[box];
  }

  /** The innermost container of what is selected. */
  containerOfSelection(): Container | null {
    if (this.group) {
      return this.group;
    }
    const index = this.selected === null ? -1 : this.graph.indexOf.get(this.selected);
    const found = index < 0 ? null : containerAt(this.root, index);
    return found && found.kind !== 'root' ? found : null;
  }

  selectGroup(container: Container | null): void {
    this.group = container;
    this.selected = null;
    this.carried.forget();
    this.touch(false);
  }

  /** What was selected in another pass and is not in this one: its name and line; or ''. */
  get lost(): string {
    return this.carried.lost;
  }

  /** Opens or closes one container. */
  fold(container: Container, open: boolean): void {
    this.folding.set(container, open);
    // What is selected inside is no longer seen: its container stands for it.
    const index = this.selected === null ? -1 : this.graph.indexOf.get(this.selected);
    const hidden = index >= container.first && index < container.last;
    if (!open && hidden) this.selectGroup(container);
    else if (open && this.group === container) this.select(this.graph.seqs[container.first]);
    this.touch();
  }

  /** Draws in another way: what is not named stays. */
  draw(drawing: Partial<Drawing>): void {
    this.drawing = { ...this.drawing, ...drawing };
    this.touch(drawing.colourBy !== undefined);
  }

  /** The nodes that only transpose a leaf, by their number or by that of the leaf. */
  private transposes(seq: number | null): number[] {
    const { graph } = this;
    const index = seq === null ? -1 : graph.indexOf.get(seq);
    const leaf = index >= 0 && graph.stubs[index] ? graph.badgeSeq[graph.badgeStart[index]] : seq;
    return (graph.leafUses.get(leaf ?? -1) ?? []).filter(use => graph.stubs[use] === 1);
  }

  /**
   * Draws the transposes of a leaf as boxes of their own, or as part of its badge again; false
   * where there are none that this would change.
   */
  boxTransposes(seq: number | null, boxed: boolean): boolean {
    const { root, graph, folding } = this;
    const now = folding.boxed(root, graph.stubs);
    const change = this.transposes(seq).filter(index => now.has(index) !== boxed);
    if (change.length === 0) {
      return false;
    }
    folding.setBoxed(root, change, boxed);
    this.touch();
    return true;
  }

  foldAll(open: boolean): void {
    this.folding.setAll(this.root, open);
    if (!open && this.selected !== null) {
      const outermost = [...(this.containerOfSelection()?.chain() ?? [])].pop();
      if (outermost) this.selectGroup(outermost);
    }
    this.touch();
  }

  /** Opens whatever hides a node. */
  unfoldTo(seq: number): void {
    const index = this.graph.indexOf.get(seq);
    if (index < 0) {
      return;
    }
    for (const container of containerAt(this.root, index).chain()) {
      if (!this.folding.isOpen(container)) this.folding.set(container, true);
    }
    this.touch();
    this.refresh();
  }

  /** A finished pass whose nodes are all there stays as it is, however many nodes come after it. */
  private mustRebuild(task: Task | null): boolean {
    const { built, store, graph } = this;
    if (built.structure === store.structure && built.task === (task?.task ?? -1)) {
      return false;
    }
    const whole = graph.seqs.length > 0 && !graph.badgeKnown.includes(0);
    const same =
      task !== null &&
      task.task === built.task &&
      built.forgotten === store.forgotten.nodes &&
      built.labelled === store.labelled;
    return !(same && whole && task.ended !== 'no');
  }

  /** Positions on the axis. */
  get length(): number {
    return this.axis.forward.length + this.axis.runs.length;
  }

  get tasks(): Task[] {
    return [...this.store.tasks.values()];
  }

  /** The backward pass on screen, or null while the newest nodes are shown. */
  shownTask(): Task | null {
    const { store, target } = this;
    if (target.kind === 'newest') {
      return null;
    }
    if (target.kind === 'task') {
      const chosen = store.tasks.get(target.task);
      if (chosen) return chosen;
    }
    if (store.state.paused) {
      const paused = store.tasks.get(store.state.paused.task);
      if (paused) return paused;
    }
    let newest: Task | null = null;
    for (const task of store.tasks.values()) {
      if (task.root !== NONE && (!newest || task.task > newest.task)) newest = task;
    }
    return newest;
  }

  show(target: Target): void {
    this.target = target;
    this.cursor = null;
    this.touch();
  }

  /** Goes to the backward pass before (-1) or after (+1) the one on screen. */
  showNeighbour(direction: -1 | 1): void {
    const ids = this.tasks.map(({ task }) => task).sort((a, b) => a - b);
    const shown = this.shownTask();
    const at = shown ? ids.indexOf(shown.task) : ids.length;
    const wanted = at + direction;
    if (wanted >= 0 && wanted < ids.length) {
      const last = wanted === ids.length - 1;
      this.show(last ? { kind: 'latest' } : { kind: 'task', task: ids[wanted] });
    }
  }

  select(seq: number | null): void {
    this.carried.forget();
    if (this.selected !== seq || this.group !== null) {
      this.selected = seq;
      this.group = null;
      this.touch(false);
    }
  }

  /** Moves in time; null follows what happens. */
  scrub(cursor: number | null): void {
    this.refresh();
    const wanted = cursor === null ? null : Math.min(this.length, Math.max(0, Math.round(cursor)));
    if (wanted !== this.cursor) {
      this.cursor = wanted;
      this.touch();
    }
  }

  setQuery(query: string): void {
    this.refresh();
    this.query = query;
    this.hits = search(this.store, this.graph, query);
    this.touch(false);
  }

  /** Lines of cells that made nodes of the graph on screen. */
  get lines(): Lines {
    if (this.linesKnown?.graph !== this.graph) {
      this.linesKnown = { graph: this.graph, lines: new Lines(this.store, this.graph) };
    }
    return this.linesKnown.lines;
  }

  /** Rings these nodes as a search would, and lets the keys go through them. */
  ring(seqs: readonly number[]): void {
    this.query = '';
    this.hits = [...seqs];
    this.touch(false);
  }

  /** Rings these nodes until others are pointed at, or none. */
  point(seqs: readonly number[]): void {
    if (seqs.length + this.pointed.length > 0) {
      this.pointed = seqs;
      this.touch(false);
    }
  }

  /** Selects the hit after (or before) the selected node. */
  nextHit(direction: 1 | -1): void {
    const { hits } = this;
    if (hits.length === 0) {
      return;
    }
    const at = this.selected === null ? -1 : hits.indexOf(this.selected);
    const start = at < 0 && direction < 0 ? 0 : at;
    const wanted = hits[(start + direction + hits.length) % hits.length];
    this.unfoldTo(wanted);
    this.select(wanted);
  }

  /**
   * Selects what an arrow key leads to: along the edges, or among the neighbours of the same
   * parent; across: edges are drawn to the side, and badges below their nodes.
   */
  move(pressed: Arrow, across = false): void {
    this.refresh();
    const direction = across ? EXCHANGED[pressed] : pressed;
    const { view } = this;
    if (view.seqs.length === 0) {
      return;
    }
    const box = this.selectedBox();
    if (box < 0) {
      const uses = this.selected === null ? undefined : view.leafUses.get(this.selected);
      // A leaf: left and up lead back to the node that uses it.
      if (uses === undefined) this.selectBox(Math.max(0, this.drawn.next));
      else if (direction !== 'right') this.selectBox(uses[0]);
      return;
    }
    const { above, below } = neighbours(view, box);
    const [toLoss, away] = this.drawing.upward ? ['down', 'up'] : ['up', 'down'];
    if (direction === away && below.length > 0) {
      this.selectBox(below[0]);
    } else if (direction === toLoss && above.length > 0) {
      this.selectBox(above[0]);
    } else if (direction === 'right' && view.badgeStart[box + 1] > view.badgeStart[box]) {
      this.select(view.badgeSeq[view.badgeStart[box]]);
    } else if (above.length > 0) {
      const siblings = neighbours(view, above[0]).below;
      const at = siblings.indexOf(box);
      const wanted = siblings[at + (direction === 'left' ? -1 : 1)];
      if ((direction === 'left' || direction === 'right') && wanted !== undefined) {
        this.selectBox(wanted);
      }
    }
  }

  /** The box of what is selected: a node's own, or that of the container that hides it; or -1. */
  selectedBox(): number {
    if (this.group) {
      const box = this.view.indexOf.get(this.graph.seqs[this.group.first]);
      return box >= 0 ? box : -1;
    }
    return this.selected === null ? -1 : this.view.indexOf.get(this.selected);
  }

  selectBox(box: number): void {
    const fold = this.view.folds[box];
    if (fold) this.selectGroup(fold);
    else this.select(this.view.seqs[box]);
  }

  /** The state of a node or leaf at the moment shown. */
  stateOf(seq: number): NodeState {
    const index = this.graph.indexOf.get(seq);
    if (index >= 0) {
      return this.states.node[index] as NodeState;
    }
    return this.states.leaf.get(seq) ?? State.waiting;
  }

  hasFlag(seq: number, flag: (typeof Flag)[keyof typeof Flag]): boolean {
    const index = this.graph.indexOf.get(seq);
    return index >= 0 && (this.states.flags[index] & flag) !== 0;
  }

  /** Name for the reader: the class name, or the variable of a leaf. */
  titleOf(seq: number): string {
    return this.store.label(seq) || this.store.nameOf(seq) || `node ${seq}`;
  }

  siteOf(seq: number): Site | null {
    return this.store.siteOf(seq);
  }

  problemsOf(seq: number): Problem[] {
    return this.store.problems.filter(problem => problem.node_seq === seq);
  }

  /** What all passes so far, and the one that is stopped, are remarkable for, the gravest first. */
  get findings(): Finding[] {
    const { store, ledger, graph, status } = this;
    const task = this.shownTask();
    const open = task?.ended === 'no' && store.state.paused ? task : null;
    const order = store.state.paused?.order ?? 0;
    const idle = !status.busy;
    const of = [ledger.version, idle, open?.task, order, store.structure].join(' ');
    if (this.found?.of !== of || this.found.graph !== graph) {
      const findings = ledger.list(idle);
      // A pass that has not ended is in no list; a graph without one has only its graph breaks.
      const also = open
        ? findingsOfPass(store, open)
        : task === null && graph.seqs.length > 0
          ? detachedAmong(store, graph.seqs).map(found => onceSeen(found, null))
          : [];
      findings.push(...also.filter(({ key }) => !findings.some(known => known.key === key)));
      this.found = { of, graph, findings };
    }
    return this.found.findings;
  }

  /** Problems that nobody has solved, the newest last. */
  get openProblems(): Problem[] {
    return this.store.problems.filter(({ solved }) => !solved);
  }

  /** Problems that came, or came again, since the last call. */
  takeNewProblems(): Problem[] {
    const fresh: Problem[] = [];
    for (const problem of this.store.problems) {
      const { id, times = 1, solved } = problem;
      if (times > (this.seenProblems.get(id) ?? 0)) {
        this.seenProblems.set(id, times);
        if (!solved) fresh.push(problem);
      }
    }
    return fresh;
  }

  private touch(recompute = true): void {
    this.stale = this.stale || recompute;
    this.version++;
    this.signal.emit();
  }
}
