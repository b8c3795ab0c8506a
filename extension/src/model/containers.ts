// The groups of a graph, by themselves: modules that were called and levels of transforms, else
// cell > function, then lines; what repeats stands together. Pure; linear in nodes for graphs of
// bounded depth.

import { NONE } from '../protocol/schema';
import type { Site } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import type { ContainerKind } from './container';
import { Container, isNamed } from './container';
import { placeText } from './format';
import type { Graph } from './graph';
import { foldNodes, foldRepeats } from './repeats';
import { calledIn, moduleOfLabel, variableOf } from './modules';
import type { Store } from './store';

/** Nodes without a line that follow each other and are worth a container. */
const LOOSE = 64;
/** So many side by side are told apart in parts, and in so many parts. */
const MANY = 300;
const PARTS = 100;

/** One step of the way from the root to a node; the same object for nodes that share it. */
interface Step {
  kind: ContainerKind;
  base: string;
  title: string;
  detail: string;
  site: Site | null;
}

/** Ways by source line and call, each made once. */
class Ways {
  private readonly steps = new Map<string, Step>();
  private readonly ways = new Map<number, Map<number, Step[]>>();
  private readonly calls = new Map<number, Step[]>();

  constructor(private readonly store: Store) {}

  of(seq: number): Step[] {
    const { store } = this;
    const site = store.nodes.at.site[store.nodeRow.get(seq)];
    const call = store.callOf.get(seq);
    let bySite = this.ways.get(call);
    if (!bySite) this.ways.set(call, (bySite = new Map<number, Step[]>()));
    let way = bySite.get(site);
    if (!way) {
      const around = call < 0 ? [] : this.ofCall(call);
      const found = store.site(site);
      way = found ? [...around, ...this.ofSite(found, call)] : around;
      bySite.set(site, way);
    }
    return way;
  }

  private step(key: string, make: () => Step): Step {
    let found = this.steps.get(key);
    if (!found) this.steps.set(key, (found = make()));
    return found;
  }

  private ofCall(call: number): Step[] {
    const known = this.calls.get(call);
    if (known) {
      return known;
    }
    const { store } = this;
    const row = store.callRow.get(call);
    if (row < 0) {
      return [];
    }
    const { parent, name, kind } = store.calls.at;
    const around = parent[row] === NONE ? [] : this.ofCall(parent[row]);
    const [title, detail] = [store.string(name[row]), store.string(kind[row])];
    const level = store.levelRow.has(call);
    const own: Step = level
      ? { kind: 'level', base: title, title, detail: levelText(store, call), site: null }
      : { kind: 'call', base: title, title, detail, site: null };
    const way = [...around, own];
    this.calls.set(call, way);
    return way;
  }

  private ofSite(site: Site, call: number): Step[] {
    const place = `${site.cell_id ?? site.file}\n${site.execution_count ?? ''}`;
    const line = `${place}\n${site.line}`;
    const own = this.step(line, () => ({
      kind: 'line',
      base: `line ${site.line}`,
      title: placeText(site),
      detail: site.source_line,
      site
    }));
    if (call >= 0) {
      return [own];
    }
    const file = placeText(site).replace(/ line \d+$/, '');
    const code = this.step(place, () => ({
      kind: 'code',
      base: file,
      title: file,
      detail: '',
      site: null
    }));
    if (site.function === '' || site.function === '<module>') {
      return [code, own];
    }
    const inFunction = this.step(`${place}\n${site.function}`, () => ({
      kind: 'function',
      base: site.function,
      title: `${oneLine(site.function, 60)}()`,
      detail: '',
      site: null
    }));
    return [code, inFunction, own];
  }
}

/** Where a transform was called. */
function levelText(store: Store, call: number): string {
  const site = store.site(store.levels.at.site[store.levelRow.get(call)]);
  return site ? placeText(site) : '';
}

/** Runs of nodes without a line become containers where they are long. */
function gatherLoose(container: Container): void {
  if (container.framed || container.kind === 'loose') {
    return;
  }
  const all: Container[] = [];
  const fill = (from: number, to: number): void => {
    if (to - from >= LOOSE) {
      const detail = 'made outside the code that is followed';
      all.push(new Container('loose', 'loose', 'No line', detail, null, from, to, container));
    }
  };
  let at = container.first;
  for (const child of container.children) {
    fill(at, child.first);
    all.push(child);
    at = child.last;
  }
  fill(at, container.last);
  container.children = all;
}

const inputsOf = (store: Store, seq: number): number[] =>
  store.edgesOf.rows(seq).map(row => store.edges.at.dst[row]);

/** Nodes of an outermost module that are looked through for one with a parameter of its own. */
const NAMING = 200;

/**
 * The user's variable for an outermost module, which a call does not know: `model` where a node of
 * its `head` takes `model.head.weight`; '' where no parameter tells.
 */
function heldBy(store: Store, graph: Graph, { first, last }: Container): string {
  for (let i = first; i < Math.min(last, first + NAMING); i++) {
    const seq = graph.seqs[i];
    const calls = calledIn(store, seq);
    // A weight may come transposed.
    const below = inputsOf(store, seq);
    const leaves = below.flatMap(one =>
      store.nameOf(one) === 'TBackward0' ? [one, ...inputsOf(store, one)] : [one]
    );
    for (const leaf of leaves) {
      const found = variableOf(moduleOfLabel(store.label(leaf)), calls);
      if (found !== '') return found;
    }
  }
  return '';
}

/** Outermost modules have their class's name until a parameter of theirs tells the variable. */
function nameModules(store: Store, graph: Graph, container: Container): void {
  for (const child of container.children) {
    if (child.kind !== 'call') nameModules(store, graph, child);
    else if (child.title === child.detail)
      child.title = heldBy(store, graph, child) || child.title;
  }
}

/** Containers around one other container say nothing: the inner one stands for both. */
function simplify(container: Container): Container {
  container.children = container.children.map(simplify);
  const only = container.children.length === 1 ? container.children[0] : null;
  if (!only || container.kind === 'root' || only.nodes !== container.nodes) {
    return container;
  }
  if (!isNamed(container)) {
    return only;
  }
  if (isNamed(only)) {
    const between = container.kind === 'call' && only.kind === 'call' ? '.' : ' › ';
    only.title = `${container.title}${between}${only.title}`;
    return only;
  }
  if (only.framed) {
    // A module that is one line of the reader's: its frame has both names.
    container.children = [];
    container.site = only.site;
  }
  return container;
}

/** Hundreds of neighbours are shown part by part, whatever they are. */
function makeParts(container: Container): void {
  const { children } = container;
  if (children.length <= MANY) {
    return;
  }
  const size = Math.ceil(children.length / PARTS);
  container.children = [];
  for (let at = 0; at < children.length; at += size) {
    const own = children.slice(at, at + size);
    const [head, tail] = [own[0], own[own.length - 1]];
    const title = `${oneLine(tail.title, 40)} to ${oneLine(head.title, 40)}`;
    const part = new Container(
      'part',
      'part',
      title,
      '',
      null,
      head.first,
      tail.last,
      container
    );
    part.children = own;
    container.children.push(part);
  }
}

function finish(store: Store, graph: Graph, root: Container): void {
  const stack = [root];
  for (let at = stack.pop(); at; at = stack.pop()) {
    gatherLoose(at);
    foldNodes(store, graph, at);
    foldRepeats(store, graph, at);
    makeParts(at);
    at.settle();
    stack.push(...at.children);
  }
}

/** The containers of a graph; the root holds all nodes and is never drawn. */
export function containersOf(store: Store, graph: Graph): Container {
  const count = graph.seqs.length;
  const root = new Container('root', '', '', '', null, 0, count, null);
  const ways = new Ways(store);
  const open: { step: Step; container: Container }[] = [];
  let before: Step[] | null = null;
  for (let i = 0; i < count; i++) {
    const way = ways.of(graph.seqs[i]);
    if (way === before && way.length > 0) {
      continue;
    }
    before = way;
    let common = 0;
    while (common < way.length && common < open.length && open[common].step === way[common])
      common++;
    for (const { container } of open.splice(common)) container.last = i;
    for (const step of way.slice(common)) {
      const parent = open.length > 0 ? open[open.length - 1].container : root;
      const { kind, base, title, detail, site } = step;
      const container = new Container(kind, base, title, detail, site, i, count, parent);
      parent.children.push(container);
      open.push({ step, container });
    }
  }
  for (const { container } of open) container.last = count;
  nameModules(store, graph, root);
  simplify(root);
  for (let only = root.children[0]; root.children.length === 1; only = root.children[0]) {
    // One cell or function around everything tells nothing apart.
    if (only.nodes !== count || isNamed(only) || only.children.length === 0) break;
    root.children = only.children;
  }
  finish(store, graph, root);
  return root;
}

/** The innermost container of a node. */
export function containerAt(root: Container, index: number): Container {
  let at = root;
  for (;;) {
    let [low, high] = [0, at.children.length - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (at.children[middle].last <= index) low = middle + 1;
      else high = middle - 1;
    }
    const found = at.children[low];
    if (!found || found.first > index) return at;
    at = found;
  }
}
