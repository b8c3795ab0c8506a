// Everything that was received, as columns with indexes; no DOM, no drawing, no graph yet.
// Memory is bounded: the oldest training steps leave first, and how many left is counted.

import type { Problem, Site, State } from '../protocol/schema';
import { NONE } from '../protocol/schema';
import type { Batch } from '../protocol/decode';
import { readState } from '../protocol/decode';
import { Columns } from './columns';
import { Chain, IntMap } from './intmap';

/** One backward pass. */
export interface Task {
  task: number;
  t: number;
  site: number;
  total: number;
  retain: boolean;
  ended: 'no' | 'well' | 'in error';
  end: number;
  thread: number;
  root: number;
  /** from 1, in the order in which they began, those between that were not recorded included */
  number: number;
  /** how many before it were not recorded */
  missed: number;
}

/** In place of a norm: the pass was told when its cell had ended, nobody watched it run. */
export const UNWATCHED = -2;

export interface Limits {
  /** nodes kept; the steps beyond leave, oldest first */
  nodes: number;
  writes: number;
  problems: number;
}

export const LIMITS: Limits = { nodes: 250_000, writes: 100_000, problems: 100 };

export type Applied = 'applied' | 'repeated' | 'gap';

export class Store {
  session = '';
  epoch = -1;
  batch = 0;
  now = 0;
  state: State = readState({});
  problems: Problem[] = [];
  coalesced: Record<string, number> = {};
  /** backward passes left out by the kernel */
  droppedSteps = 0;
  /** training steps and nodes that this page has let go */
  forgotten = { steps: 0, nodes: 0 };
  /** grows with every change of nodes, leaves or edges */
  structure = 0;
  /** the newest batch told a part of a forward or backward pass whose rest is still to come */
  underWay = false;
  /** grows when names of leaves are found */
  labelled = 0;

  readonly nodes = new Columns('nodes');
  readonly leaves = new Columns('leaves');
  readonly edges = new Columns('edges');
  readonly saved = new Columns('saved');
  readonly runs = new Columns('runs');
  readonly writes = new Columns('writes');
  readonly hooks = new Columns('hooks');
  readonly freed = new Columns('freed');
  /** inputs that had left a graph before they came to a node */
  readonly breaks = new Columns('breaks');
  /** calls of modules and levels of transforms, and which of them made a node */
  readonly calls = new Columns('calls');
  /** more about calls that are levels */
  readonly levels = new Columns('levels');
  readonly scopes = new Columns('scopes');
  /** when a backward stood still because its reader stopped it */
  readonly pauses = new Columns('pauses');
  /** of modules; the newest row of each counts */
  readonly parameters = new Columns('parameters');
  /** which of them got no gradient in a pass and those like it, and why */
  readonly absent = new Columns('absent');
  /** what ops saved that they cannot use; gradients that were there as a backward began */
  readonly odd = new Columns('odd');
  readonly held = new Columns('held');

  /** rows by node number */
  readonly nodeRow = new IntMap();
  readonly leafRow = new IntMap();
  readonly freedRow = new IntMap();
  /** the innermost call that made a node */
  readonly callOf = new IntMap();
  /** row by call */
  readonly callRow = new IntMap();
  readonly levelRow = new IntMap();
  readonly edgesOf = new Chain();
  readonly savedOf = new Chain();
  readonly runsOf = new Chain();
  readonly hooksOf = new Chain();
  readonly breaksOf = new Chain();
  /** rows by backward pass, by storage */
  readonly runsIn = new Chain();
  readonly oddIn = new Chain();
  readonly heldIn = new Chain();
  readonly writesTo = new Chain();
  readonly leavesOn = new Chain();
  /** rows by parameter */
  readonly parameterRow = new IntMap();
  readonly absentOf = new Chain();
  readonly tasks = new Map<number, Task>();

  /** told each backward pass that ended, while all that it was is still there */
  onEnd: ((task: Task) => void) | null = null;

  private told = 0;
  private readonly missed = new Map<number, number>();
  private ended: Task[] = [];
  private strings: string[] = [];
  private sites: Site[] = [];
  private readonly labels = new Map<number, number>();

  constructor(private readonly limits: Limits = LIMITS) {}

  string(id: number): string {
    return this.strings[id] ?? '';
  }

  site(id: number): Site | null {
    return this.sites[id] ?? null;
  }

  get stringCount(): number {
    return this.strings.length;
  }

  get siteCount(): number {
    return this.sites.length;
  }

  /** The variable's name of a leaf; '' while unknown. */
  label(seq: number): string {
    const later = this.labels.get(seq);
    if (later !== undefined) {
      return this.string(later);
    }
    const row = this.leafRow.get(seq);
    return row < 0 ? '' : this.string(this.leaves.at.label[row]);
  }

  /** A node's class name; a leaf is its AccumulateGrad. */
  nameOf(seq: number): string {
    const row = this.nodeRow.get(seq);
    if (row >= 0) {
      return this.string(this.nodes.at.name[row]);
    }
    return this.leafRow.has(seq) ? 'AccumulateGrad' : '';
  }

  siteOf(seq: number): Site | null {
    const row = this.nodeRow.get(seq);
    if (row >= 0) {
      return this.site(this.nodes.at.site[row]);
    }
    const leaf = this.leafRow.get(seq);
    return leaf < 0 ? null : this.site(this.leaves.at.site[leaf]);
  }

  /** The newest backward pass that ran a node, or one from which gradient goes to it. */
  taskOf(seq: number): number | null {
    let run = this.runsOf.newest(seq);
    for (let row = this.edges.rows - 1; row >= 0 && run === -1; row--) {
      if (this.edges.at.dst[row] === seq) run = this.runsOf.newest(this.edges.at.src[row]);
    }
    return run === -1 ? null : this.runs.at.task[run];
  }

  /** The newest write to a storage not later than `t`: its row, or -1. */
  writeAt(storage: number, t: number): number {
    let row = this.writesTo.newest(storage);
    while (row !== -1 && this.writes.at.t[row] > t) {
      row = this.writesTo.before(row);
    }
    return row;
  }

  /**
   * Takes the next batch. 'gap': one is missing and this one was not taken; ask for everything
   * again.
   */
  apply(batch: Batch): Applied {
    const other = batch.session !== this.session;
    if (other || batch.epoch > this.epoch) {
      if (batch.batch !== 1) {
        return 'gap';
      }
      this.reset(batch.session, batch.epoch);
    } else if (batch.epoch < this.epoch || batch.batch <= this.batch) {
      return 'repeated';
    } else if (batch.batch !== this.batch + 1) {
      return 'gap';
    }
    this.batch = batch.batch;
    this.now = Math.max(this.now, batch.t);
    this.state = batch.state;
    this.coalesced = batch.coalesced;
    this.droppedSteps = batch.droppedSteps;
    for (const text of batch.strings) {
      this.strings.push(text);
    }
    for (const site of batch.sites) {
      this.sites.push(site);
    }
    this.ended = [];
    this.takeTables(batch.tables);
    const { tasks, nodes: born, runs } = batch.tables;
    const ended = tasks?.ended.includes(1) || tasks?.ended.includes(2);
    this.underWay = !ended && !batch.state.paused && (born ?? runs) !== undefined;
    for (const problem of batch.problems) {
      const known = this.problems.findIndex(({ id }) => id === problem.id);
      const again = known >= 0 && (problem.times ?? 1) > (this.problems[known].times ?? 1);
      if (known >= 0 && !again) {
        this.problems[known] = problem;
      } else {
        // One that occurred again is the newest.
        if (again) this.problems.splice(known, 1);
        this.problems.push(problem);
      }
    }
    this.problems.splice(0, this.problems.length - this.limits.problems);
    for (const task of this.ended) this.onEnd?.(task);
    const { nodes, writes } = this.limits;
    const { leaves, hooks, breaks, freed, calls, parameters, absent } = this;
    const others = [leaves, this.runs, hooks, breaks, freed, calls, parameters, absent];
    if (
      this.nodes.rows > nodes ||
      this.writes.rows > 2 * writes ||
      others.some(({ rows }) => rows > 4 * nodes)
    ) {
      this.forget();
    }
    return 'applied';
  }

  reset(session = '', epoch = -1): void {
    this.session = session;
    this.epoch = epoch;
    this.batch = 0;
    this.now = 0;
    this.state = readState({});
    this.problems = [];
    this.coalesced = {};
    this.droppedSteps = 0;
    this.told = 0;
    this.missed.clear();
    this.underWay = false;
    this.forgotten = { steps: 0, nodes: 0 };
    this.structure++;
    this.strings = [];
    this.sites = [];
    this.labels.clear();
    this.tasks.clear();
    for (const table of this.all()) {
      table.clear();
    }
    this.reindex();
  }

  /** Backward passes so far, those that were not recorded included. */
  get passes(): number {
    return this.told + (this.state.missed ?? 0);
  }

  /** Whether somebody watched a pass while it ran. */
  watched(task: number): boolean {
    const row = this.runsIn.newest(task);
    return row === -1 || this.runs.at.norm[row] !== UNWATCHED;
  }

  /** Bytes of memory in columns and indexes. */
  get bytes(): number {
    return [...this.all(), ...this.indexes()].reduce((sum, part) => sum + part.bytes, 0);
  }

  private all(): { readonly bytes: number; clear(): void }[] {
    const { nodes, leaves, edges, saved, runs, writes, hooks, breaks, freed } = this;
    const { calls, levels, scopes } = this;
    const { pauses, parameters, absent, odd, held } = this;
    const rare = [pauses, calls, levels, scopes, parameters, absent, odd, held];
    return [nodes, leaves, edges, saved, runs, writes, hooks, breaks, freed, ...rare];
  }

  private takeTables(tables: Batch['tables']): void {
    const from = {
      nodes: this.nodes.rows,
      leaves: this.leaves.rows,
      edges: this.edges.rows,
      saved: this.saved.rows,
      runs: this.runs.rows,
      writes: this.writes.rows,
      hooks: this.hooks.rows,
      breaks: this.breaks.rows,
      freed: this.freed.rows,
      calls: this.calls.rows,
      levels: this.levels.rows,
      scopes: this.scopes.rows,
      parameters: this.parameters.rows,
      absent: this.absent.rows,
      odd: this.odd.rows,
      held: this.held.rows
    };
    if (tables.nodes) this.nodes.append(tables.nodes);
    if (tables.leaves) this.leaves.append(tables.leaves);
    if (tables.edges) this.edges.append(tables.edges);
    if (tables.saved) this.saved.append(tables.saved);
    if (tables.runs) this.runs.append(tables.runs);
    if (tables.writes) this.writes.append(tables.writes);
    if (tables.hooks) this.hooks.append(tables.hooks);
    if (tables.breaks) this.breaks.append(tables.breaks);
    if (tables.freed) this.freed.append(tables.freed);
    if (tables.calls) this.calls.append(tables.calls);
    if (tables.levels) this.levels.append(tables.levels);
    if (tables.scopes) this.scopes.append(tables.scopes);
    if (tables.pauses) this.pauses.append(tables.pauses);
    if (tables.parameters) this.parameters.append(tables.parameters);
    if (tables.absent) this.absent.append(tables.absent);
    if (tables.odd) this.odd.append(tables.odd);
    if (tables.held) this.held.append(tables.held);
    const { missed } = tables;
    for (let row = 0; missed && row < missed.rows; row++) {
      this.missed.set(missed.task[row], missed.passes[row]);
    }
    if (tables.tasks) this.takeTasks(tables.tasks);
    if (tables.labels) {
      this.labelled++;
      this.structure++;
      for (let row = 0; row < tables.labels.rows; row++) {
        this.labels.set(tables.labels.seq[row], tables.labels.label[row]);
      }
    }
    if (tables.nodes || tables.leaves || tables.edges) {
      this.structure++;
    }
    this.index(from);
  }

  private takeTasks(rows: NonNullable<Batch['tables']['tasks']>): void {
    for (let row = 0; row < rows.rows; row++) {
      const id = rows.task[row];
      const ended = rows.ended[row];
      const known = this.tasks.get(id);
      const missed = known?.missed ?? this.missed.get(id) ?? 0;
      this.missed.delete(id);
      if (ended === 0 || !known) {
        this.tasks.set(id, {
          task: id,
          t: rows.t[row],
          site: rows.site[row],
          total: rows.total[row],
          retain: rows.retain[row] !== 0,
          ended: ended === 0 ? 'no' : ended === 1 ? 'well' : 'in error',
          end: ended === 0 ? Infinity : rows.t[row],
          thread: rows.thread[row],
          root: rows.root[row],
          number: known?.number ?? (this.told += 1 + missed),
          missed
        });
      } else {
        known.ended = ended === 1 ? 'well' : 'in error';
        known.end = rows.t[row];
      }
      if (ended !== 0) this.ended.push(this.tasks.get(id) as Task);
    }
  }

  private index(from: { [name: string]: number }): void {
    const { nodes, leaves, edges, saved, runs, writes, hooks, breaks, freed } = this;
    const { calls, levels, scopes, odd, held } = this;
    for (let row = from.odd; row < odd.rows; row++) this.oddIn.add(odd.at.task[row], row);
    for (let row = from.held; row < held.rows; row++) this.heldIn.add(held.at.task[row], row);
    for (let row = from.nodes; row < nodes.rows; row++) this.nodeRow.set(nodes.at.seq[row], row);
    for (let row = from.leaves; row < leaves.rows; row++) {
      this.leafRow.set(leaves.at.seq[row], row);
      this.leavesOn.add(leaves.at.storage[row], row);
    }
    for (let row = from.edges; row < edges.rows; row++) this.edgesOf.add(edges.at.src[row], row);
    for (let row = from.saved; row < saved.rows; row++) this.savedOf.add(saved.at.node[row], row);
    for (let row = from.runs; row < runs.rows; row++) {
      this.runsOf.add(runs.at.seq[row], row);
      this.runsIn.add(runs.at.task[row], row);
    }
    for (let row = from.writes; row < writes.rows; row++)
      this.writesTo.add(writes.at.storage[row], row);
    for (let row = from.hooks; row < hooks.rows; row++) this.hooksOf.add(hooks.at.seq[row], row);
    for (let row = from.breaks; row < breaks.rows; row++)
      this.breaksOf.add(breaks.at.seq[row], row);
    for (let row = from.freed; row < freed.rows; row++) this.freedRow.set(freed.at.seq[row], row);
    for (let row = from.calls; row < calls.rows; row++) this.callRow.set(calls.at.call[row], row);
    for (let row = from.levels; row < levels.rows; row++)
      this.levelRow.set(levels.at.call[row], row);
    for (let row = from.scopes; row < scopes.rows; row++)
      this.callOf.set(scopes.at.seq[row], scopes.at.call[row]);
    const { parameters, absent } = this;
    for (let row = from.parameters; row < parameters.rows; row++)
      this.parameterRow.set(parameters.at.parameter[row], row);
    for (let row = from.absent; row < absent.rows; row++)
      this.absentOf.add(absent.at.parameter[row], row);
  }

  private indexes(): { readonly bytes: number; clear(): void }[] {
    const { nodeRow, leafRow, freedRow, callOf, callRow, levelRow } = this;
    const { edgesOf, savedOf, runsOf, hooksOf, breaksOf, runsIn, writesTo, leavesOn } = this;
    const chains = [edgesOf, savedOf, runsOf, hooksOf, breaksOf, runsIn, writesTo, leavesOn];
    const { parameterRow, absentOf } = this;
    const maps = [nodeRow, leafRow, freedRow, callOf, callRow, levelRow, parameterRow];
    return [...maps, absentOf, this.oddIn, this.heldIn, ...chains];
  }

  private reindex(): void {
    for (const index of this.indexes()) {
      index.clear();
    }
    const start = {
      nodes: 0,
      leaves: 0,
      edges: 0,
      saved: 0,
      runs: 0,
      writes: 0,
      hooks: 0,
      breaks: 0,
      freed: 0,
      calls: 0,
      levels: 0,
      scopes: 0,
      parameters: 0,
      absent: 0,
      odd: 0,
      held: 0
    };
    this.index(start);
  }

  /**
   * Lets the oldest steps go until three quarters of the limit are left. The newest step stays
   * whole.
   */
  private forget(): void {
    const { nodes, leaves, edges, saved, runs, writes, hooks, breaks, freed } = this;
    const { calls, levels, scopes } = this;
    const target = Math.floor(this.limits.nodes * 0.75);
    const sizes = new Map<number, number>();
    for (let row = 0; row < nodes.rows; row++) {
      sizes.set(nodes.at.step[row], (sizes.get(nodes.at.step[row]) ?? 0) + 1);
    }
    const steps = [...sizes.keys()].sort((a, b) => b - a);
    let kept = 0;
    let oldest = steps[0] ?? 0;
    for (const step of steps) {
      kept += sizes.get(step) ?? 0;
      if (kept > target && step !== steps[0]) {
        break;
      }
      oldest = step;
    }
    const before = nodes.rows;
    nodes.filter(row => nodes.at.step[row] >= oldest);
    this.forgotten.nodes += before - nodes.rows;
    this.forgotten.steps += steps.filter(step => step < oldest).length;

    this.nodeRow.clear();
    for (let row = 0; row < nodes.rows; row++) this.nodeRow.set(nodes.at.seq[row], row);
    edges.filter(row => this.nodeRow.has(edges.at.src[row]));
    const held = new IntMap();
    for (let row = 0; row < edges.rows; row++) held.set(edges.at.dst[row], 1);
    leaves.filter(row => held.has(leaves.at.seq[row]));
    this.leafRow.clear();
    for (let row = 0; row < leaves.rows; row++) this.leafRow.set(leaves.at.seq[row], row);

    const present = (seq: number): boolean => this.nodeRow.has(seq) || this.leafRow.has(seq);
    saved.filter(row => this.nodeRow.has(saved.at.node[row]));
    // A retained graph may run any number of times: only its newest runs are kept.
    const firstRun = runs.rows - 2 * this.limits.nodes;
    const firstHook = hooks.rows - 2 * this.limits.nodes;
    runs.filter(row => row >= firstRun && present(runs.at.seq[row]));
    hooks.filter(row => row >= firstHook && present(hooks.at.seq[row]));
    breaks.filter(row => this.nodeRow.has(breaks.at.seq[row]));
    freed.filter(row => present(freed.at.seq[row]));
    scopes.filter(row => this.nodeRow.has(scopes.at.seq[row]));
    const used = new Set(scopes.at.call.subarray(0, scopes.rows));
    // A call begins before those inside it: from the last one on, each finds those around it.
    for (let row = calls.rows - 1; row >= 0; row--) {
      if (used.has(calls.at.call[row])) used.add(calls.at.parent[row]);
    }
    calls.filter(row => used.has(calls.at.call[row]));
    levels.filter(row => used.has(levels.at.call[row]));
    const firstWrite = writes.rows - this.limits.writes;
    writes.filter(row => row >= firstWrite);
    for (const seq of [...this.labels.keys()]) {
      if (!this.leafRow.has(seq)) this.labels.delete(seq);
    }
    for (const { task, root } of [...this.tasks.values()]) {
      if (root !== NONE && !present(root)) this.tasks.delete(task);
    }
    // They are told once: what the newest row of each says holds for all passes to come.
    const { parameters, absent } = this;
    const of = (row: number): number => parameters.at.parameter[row];
    parameters.filter(row => row === this.parameterRow.get(of(row)));
    const firstParameter = parameters.rows - this.limits.nodes;
    parameters.filter(row => row >= firstParameter);
    absent.filter(row => row === this.absentOf.newest(absent.at.parameter[row]));
    const firstAbsent = absent.rows - this.limits.nodes;
    absent.filter(row => row >= firstAbsent);
    for (const table of [this.pauses, this.odd, this.held]) {
      table.filter(row => this.tasks.has(table.at.task[row]));
    }
    this.structure++;
    this.reindex();
  }
}
