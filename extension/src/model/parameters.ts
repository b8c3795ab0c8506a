// The parameters of a pass: those of the modules that took part, with or without a gradient, and
// leaves that no module has. Norms over passes, and why there is none. Pure; linear in the
// parameters and the runs of their leaves.

import type { Site, Weights } from '../protocol/schema';
import { NONE } from '../protocol/schema';
import { BREAK_WORDS, breaksAmong } from './graph_breaks';
import type { InspectorModel } from './inspector';
import type { Store, Task } from './store';
import { UNWATCHED } from './store';

/** Why a parameter got no gradient. */
export interface Why {
  kind: string;
  /** 'detached' */
  words: string;
  /** the same in a sentence, '' where the words are all that is known */
  text: string;
  repair: string;
  site: Site | null;
}

export interface Parameter {
  key: string;
  /** its name, '' where no variable of the user's had it */
  name: string;
  shape: string;
  dtype: string;
  /** the number of a module's parameter; null of another leaf */
  number: number | null;
  storage: number;
  /** its leaf in the graph of the pass; null: it has none there */
  seq: number | null;
  /** 2-norm of the gradient that arrived; null where none did (yet) */
  norm: number | null;
  state: 'got' | 'waits' | 'unwatched' | 'none';
  why: Why | null;
  /** the norm in the last pass before that gave it one */
  before: number | null;
  /** 2-norm of its values, null where it is not known */
  weight: number | null;
}

export interface Point {
  task: number;
  norm: number;
}

export type SortKey = 'order' | 'name' | 'shape' | 'norm' | 'ratio' | 'change';

const WORDS: Record<string, string> = {
  ...BREAK_WORDS,
  frozen: 'requires_grad is False',
  unused: 'not used in this pass',
  other: 'not in the graph',
  given: 'a backward gave None'
};

const NOTHING: Why = {
  kind: '',
  words: 'no gradient in this pass',
  text: '',
  repair: '',
  site: null
};

const NOT_ASKED: Why = {
  ...NOTHING,
  kind: 'left out',
  words: 'none arrived',
  text: 'no gradient was handed on to it, or inputs= and autograd.grad left it out'
};

/** |grad| / |w|; null where one of them is not known, or the weight is 0. */
export function ratioOf({ norm, weight }: Parameter): number | null {
  return norm === null || weight === null || weight === 0 ? null : norm / weight;
}

/** How many times the norm of the pass before; null where there is none to compare with. */
export function changeOf({ norm, before }: Parameter): number | null {
  return norm === null || before === null || before === 0 ? null : norm / before;
}

/** '×1.25', '÷2.00', '=' where nothing changed. */
export function changeText(change: number | null): string {
  if (change === null) {
    return '';
  }
  if (!Number.isFinite(change)) {
    return Number.isNaN(change) ? 'NaN' : '×∞';
  }
  if (Math.abs(change - 1) < 0.0005) {
    return '=';
  }
  if (change === 0) {
    return 'to 0';
  }
  const size = change >= 1 ? change : 1 / change;
  const text = size >= 1000 ? size.toExponential(0).replace('e+', 'e') : size.toPrecision(3);
  return change >= 1 ? `×${text}` : `÷${text}`;
}

/** The newest pass that has ended; -1: there is none. */
export function newestPass(store: Store): number {
  let newest = -1;
  for (const { task, ended } of store.tasks.values())
    if (ended !== 'no' && task > newest) newest = task;
  return newest;
}

/** Rows of module parameters that may be a leaf's, by its storage. */
function byStorage(store: Store): Map<number, number[]> {
  const { parameters } = store;
  const found = new Map<number, number[]>();
  for (let row = 0; row < parameters.rows; row++) {
    if (store.parameterRow.get(parameters.at.parameter[row]) !== row) continue;
    const storage = parameters.at.storage[row];
    const known = found.get(storage);
    if (known) known.push(row);
    else found.set(storage, [row]);
  }
  return found;
}

/** Finds the row of the module parameter that a leaf is; -1 for another leaf. */
class Owners {
  private readonly storages: Map<number, number[]>;
  private names: Map<number, number> | null = null;

  constructor(private readonly store: Store) {
    this.storages = byStorage(store);
  }

  of(leaf: number, seq: number): number {
    const { store } = this;
    const { at } = store.leaves;
    const { parameters } = store;
    const label = store.label(seq);
    const fits = (row: number): boolean => parameters.at.shape[row] === at.shape[leaf];
    const near = (this.storages.get(at.storage[leaf]) ?? []).filter(fits);
    if (near.length === 1) {
      return near[0];
    }
    if (near.length > 1) {
      return near.find(row => store.string(parameters.at.name[row]) === label) ?? -1;
    }
    // Its memory is another one by now: moved to a device, or `.data` was set.
    const named = label ? this.byName(at.label[leaf]) : -1;
    return named >= 0 && fits(named) ? named : -1;
  }

  private byName(label: number): number {
    if (!this.names) {
      this.names = new Map();
      const { parameters } = this.store;
      for (let row = 0; row < parameters.rows; row++)
        this.names.set(parameters.at.name[row], row);
    }
    return this.names.get(label) ?? -1;
  }
}

/** The norm that arrived at a leaf in a pass by `t`; -1: none came, null: not run or watched. */
function normIn(store: Store, seq: number, task: number, t: number): number | null {
  const { at } = store.runs;
  for (let row = store.runsOf.newest(seq); row !== -1; row = store.runsOf.before(row))
    if (at.task[row] === task && at.t1[row] <= t)
      return at.norm[row] === UNWATCHED ? null : at.norm[row];
  return null;
}

/** Norms that arrived at the leaves of a parameter, the newest pass first. */
function* normsOf(store: Store, { storage, shape, seq: shown }: Parameter): Generator<Point> {
  const { leaves, runs, leavesOn } = store;
  const own = shown === null ? '' : store.label(shown);
  if (storage === 0) {
    return;
  }
  for (let leaf = leavesOn.newest(storage); leaf !== -1; leaf = leavesOn.before(leaf)) {
    const seq = leaves.at.seq[leaf];
    const label = store.label(seq);
    if (store.string(leaves.at.shape[leaf]) !== shape) continue;
    // Another view of the same memory.
    if (label && own && label !== own) continue;
    for (let row = store.runsOf.newest(seq); row !== -1; row = store.runsOf.before(row))
      if (!(runs.at.norm[row] < 0))
        yield { task: runs.at.task[row], norm: runs.at.norm[row] };
  }
}

/** The norms of the last passes that gave one, the oldest first. */
export function historyOf(store: Store, parameter: Parameter, most: number): Point[] {
  const found: Point[] = [];
  for (const point of normsOf(store, parameter)) {
    found.push(point);
    if (found.length === most) break;
  }
  return found.reverse();
}

/** What is known of a parameter that the pass left out. */
function reasonOf(store: Store, number: number, task: number): Why {
  const { absent } = store;
  const { at } = absent;
  const site = store.tasks.get(task)?.site;
  let chosen = -1;
  for (let row = store.absentOf.newest(number); row !== -1; row = store.absentOf.before(row)) {
    if (at.task[row] > task) continue;
    if (chosen < 0) chosen = row;
    // A pass that another line calls may leave it out for another reason.
    if (store.tasks.get(at.task[row])?.site === site) {
      chosen = row;
      break;
    }
  }
  if (chosen < 0) {
    return NOTHING;
  }
  const kind = store.string(at.kind[chosen]);
  return {
    kind,
    words: WORDS[kind] ?? kind,
    text: store.string(at.text[chosen]),
    repair: store.string(at.repair[chosen]),
    site: at.site[chosen] === NONE ? null : store.site(at.site[chosen])
  };
}

/** Which leaves get nothing because a backward gave None, and which one. */
function givenNone(model: InspectorModel): Map<string, Why> {
  const found = new Map<string, Why>();
  for (const { kind, seq, site, without } of breaksAmong(model.store, model.graph.seqs)) {
    if (kind !== 'none') continue;
    const text = `the backward of \`${model.titleOf(seq)}\` returned None for it`;
    for (const name of without)
      found.set(name, { ...NOTHING, kind: 'given', words: WORDS.given, text, site });
  }
  return found;
}

/** A module's parameter that a pass left out. */
export interface Missing {
  name: string;
  number: number;
  storage: number;
  why: Why;
}

/** What a pass gave no gradient, of the modules that its leaves belong to. */
export interface Beside {
  /** those that require grad */
  missing: Missing[];
  /** leaves of the pass that are no module's, as far as their memory is known */
  strangers: boolean;
}

/**
 * Modules of what a pass, or one of the same line before it, was told to leave out: those of its
 * optimizer that have no leaf in it belong to it, too.
 */
function trainedBeside(store: Store, task: number): Set<number> {
  const { absent, parameters } = store;
  const site = store.tasks.get(task)?.site;
  const found = new Set<number>();
  for (let row = 0; row < absent.rows; row++) {
    const of = absent.at.task[row];
    if (of !== task && (of > task || store.tasks.get(of)?.site !== site)) continue;
    const parameter = store.parameterRow.get(absent.at.parameter[row]);
    if (parameter >= 0) found.add(parameters.at.module[parameter]);
  }
  return found;
}

/**
 * The rows of these modules' parameters as a pass found them. there: those that have a leaf in it.
 * Of several with one name in a module the others had left it, or came later: a part was replaced.
 */
function rowsOf(
  store: Store,
  modules: ReadonlySet<number>,
  there: { has(row: number): boolean },
  task: Task | undefined
): number[] {
  const { at } = store.parameters;
  const found = new Map<string, number>();
  for (let row = 0; row < store.parameters.rows; row++) {
    const newest = store.parameterRow.get(at.parameter[row]) === row;
    if (!newest || !modules.has(at.module[row])) continue;
    const key = `${at.module[row]} ${at.name[row]}`;
    const before = found.get(key);
    const late = task !== undefined && at.t[row] > task.end;
    if (before === undefined || there.has(row) || !(late || there.has(before)))
      found.set(key, row);
  }
  return [...found.values()];
}

export function missingBeside(store: Store, leaves: Iterable<number>, task: number): Beside {
  const { parameters } = store;
  const { at } = parameters;
  const owners = new Owners(store);
  const [there, modules] = [new Set<number>(), new Set<number>()];
  let strangers = false;
  for (const seq of leaves) {
    const leaf = store.leafRow.get(seq);
    const row = leaf < 0 ? -1 : owners.of(leaf, seq);
    strangers ||= leaf >= 0 && row < 0 && store.leaves.at.storage[leaf] !== 0;
    if (row < 0) continue;
    there.add(row);
    modules.add(at.module[row]);
  }
  for (const module of trainedBeside(store, task)) modules.add(module);
  const found: Missing[] = [];
  for (const row of rowsOf(store, modules, there, store.tasks.get(task))) {
    if (there.has(row) || (at.flags[row] & 1) === 0) continue;
    const [number, storage] = [at.parameter[row], at.storage[row]];
    const why = reasonOf(store, number, task);
    found.push({ name: store.string(at.name[row]), number, storage, why });
  }
  return { missing: found, strangers };
}

/** The passes that are kept and gave what lies on a storage a gradient, the newest first. */
export function* passesTo(store: Store, storage: number): Generator<number> {
  const { leavesOn, leaves, runsOf, runs } = store;
  for (let row = leavesOn.newest(storage); row !== -1; row = leavesOn.before(row)) {
    const seq = leaves.at.seq[row];
    for (let run = runsOf.newest(seq); run !== -1; run = runsOf.before(run))
      yield runs.at.task[run];
  }
}

function weightOf(weights: Weights | null, number: number | null, storage: number): number | null {
  const value =
    number === null ? weights?.storages[storage] : weights?.parameters[number];
  return value === undefined ? null : Number(value);
}

/**
 * All parameters of the pass on screen, in the order of their modules; then other leaves. weights:
 * of the moment of this pass, null where they are not known.
 */
export function parametersOf(model: InspectorModel, weights: Weights | null): Parameter[] {
  const { store, graph, states } = model;
  const { leaves, parameters } = store;
  const task = graph.task === null ? undefined : store.tasks.get(graph.task);
  const id = task?.task ?? -1;
  const ended = task !== undefined && task.ended !== 'no' && states.t >= task.end;
  const over = ended && store.watched(id);
  const owners = new Owners(store);
  const found = new Map<number, Parameter>();
  const others: Parameter[] = [];
  const modules = new Set<number>();
  let none: Map<string, Why> | null = null;
  for (const seq of graph.leaves) {
    const leaf = store.leafRow.get(seq);
    if (leaf < 0) continue;
    const row = owners.of(leaf, seq);
    const label = store.label(seq);
    const number = row < 0 ? null : parameters.at.parameter[row];
    const storage = leaves.at.storage[leaf];
    const arrived = task ? normIn(store, seq, id, states.t) : null;
    const got = arrived !== null && arrived !== -1;
    if (!got && over) none ??= givenNone(model);
    const parameter: Parameter = {
      key: number === null ? `leaf ${seq}` : `parameter ${number}`,
      name: row < 0 ? label : store.string(parameters.at.name[row]),
      shape: store.string(leaves.at.shape[leaf]),
      dtype: store.string(leaves.at.dtype[leaf]),
      number,
      storage,
      seq,
      norm: got ? arrived : null,
      state: got ? 'got' : over ? 'none' : ended ? 'unwatched' : 'waits',
      why: got || !over ? null : (none?.get(label) ?? NOT_ASKED),
      before: null,
      weight: weightOf(weights, number, storage)
    };
    if (got) {
      for (const point of normsOf(store, parameter)) {
        if (point.task < id) {
          parameter.before = point.norm;
          break;
        }
      }
    }
    if (row < 0) others.push(parameter);
    else {
      found.set(row, parameter);
      modules.add(parameters.at.module[row]);
    }
  }
  if (modules.size > 0) for (const one of trainedBeside(store, id)) modules.add(one);
  const rows = rowsOf(store, modules, found, task);
  const { module, order } = parameters.at;
  rows.sort((a, b) => module[a] - module[b] || order[a] - order[b]);
  const own = rows.map((row): Parameter => {
    const number = parameters.at.parameter[row];
    const storage = parameters.at.storage[row];
    return (
      found.get(row) ?? {
        key: `parameter ${number}`,
        name: store.string(parameters.at.name[row]),
        shape: store.string(parameters.at.shape[row]),
        dtype: store.string(parameters.at.dtype[row]),
        number,
        storage,
        seq: null,
        norm: null,
        state: 'none',
        why: reasonOf(store, number, id),
        before: null,
        weight: weightOf(weights, number, storage)
      }
    );
  });
  return [...own, ...others];
}

/** How large for sorting: NaN and ∞ above all numbers, what is not there below. */
function size(value: number | null): number {
  return value === null ? -1 : Number.isNaN(value) ? Infinity : value;
}

const SIZES: Partial<Record<SortKey, (one: Parameter) => number>> = {
  norm: one => size(one.norm),
  ratio: one => size(ratioOf(one)),
  change: one => size(changeOf(one)),
  shape: one => one.shape.split('×').reduce((a, n) => a * (Number(n) || 1), 1)
};

/** Sorted, the largest of numbers first; what has none is the last either way. */
export function sortedParameters(
  rows: readonly Parameter[],
  key: SortKey,
  reverse: boolean
): Parameter[] {
  if (key === 'order') {
    return reverse ? [...rows].reverse() : [...rows];
  }
  const sizeOf = SIZES[key];
  const sign = reverse ? -1 : 1;
  if (!sizeOf) {
    return [...rows].sort((a, b) => sign * a.name.localeCompare(b.name));
  }
  const sizes = new Map(rows.map(row => [row, sizeOf(row)]));
  const of = (row: Parameter): number => sizes.get(row) ?? -1;
  return [...rows].sort((a, b) => {
    const [one, other] = [of(a), of(b)];
    if (one === other) return 0;
    if (one < 0 || other < 0) return one < 0 ? 1 : -1;
    return sign * (one > other ? -1 : 1);
  });
}

/** Those whose name, shape or reason has all words of the text. */
export function filtered(rows: readonly Parameter[], text: string): Parameter[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return words.length === 0
    ? [...rows]
    : rows.filter(({ name, shape, why }) => {
        const all = `${name} ${shape} ${why ? `none ${why.words}` : ''}`.toLowerCase();
        return words.every(word => all.includes(word));
      });
}

export interface Line {
  /** of an SVG; '' where no norm is finite and above 0 */
  path: string;
  /** where each point is, NaN for one that is not finite */
  ys: number[];
}

/** A line of norms, log scale; zero lies below all other numbers. */
export function lineOf(points: readonly Point[], width: number, height: number): Line {
  const logs = points.map(({ norm }) => (norm > 0 && norm < Infinity ? Math.log10(norm) : NaN));
  const known = logs.filter(log => !Number.isNaN(log));
  const low = known.reduce((a, b) => Math.min(a, b), Infinity);
  const high = known.reduce((a, b) => Math.max(a, b), -Infinity);
  const partOf = (log: number): number => (high - low < 1e-9 ? 0.5 : (log - low) / (high - low));
  const ys = points.map(({ norm }, i) => {
    const part = norm === 0 ? 0 : partOf(logs[i]);
    return height - 1 - part * (height - 2);
  });
  if (known.length === 0) {
    return { path: '', ys };
  }
  const step = points.length > 1 ? width / (points.length - 1) : 0;
  let path = '';
  ys.forEach((y, i) => {
    if (Number.isNaN(y)) return;
    const begins = i === 0 || Number.isNaN(ys[i - 1]);
    path += `${begins ? 'M' : 'L'}${(i * step).toFixed(1)} ${y.toFixed(1)}`;
  });
  return { path, ys };
}
