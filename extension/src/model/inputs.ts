// What the user calls the inputs of a node: from the expression that made it, and from what its
// edges lead to. Where neither says it for sure, an input has no name. Pure.

import type { OpCard, Site, Written } from '../protocol/schema';
import { NONE } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import type { Store } from './store';

export interface InputName {
  /** as the op calls it: self, other, weight */
  input: string;
  /** as the user wrote it; '' where only the node is known */
  text: string;
  /** the node or leaf that it comes from; null: none was recorded */
  seq: number | null;
}

/** Names that packages of functions go by: what stands before their dot is not a tensor. */
const PACKAGES = new Set(['torch', 'F', 'nn', 'ag', 'ag_visual', 'functional', 'np', 'math']);
/** Ops that an operator or a call of this name makes, where the name differs. */
const MADE_BY: Record<string, readonly string[]> = {
  matmul: ['mm', 'mv', 'dot'],
  sub: ['rsub'],
  getitem: ['select', 'slice', 'index'],
  T: ['t', 'permute', 'transpose'],
  mT: ['transpose']
};
const LONGEST = 60;

/** What an edge leads to, and what can be said of it. */
interface Source {
  seq: number | null;
  /** its variable's name, or the leaf's */
  name: string;
  /** the expression that made it, where that is another one than the node's own */
  text: string;
  /** made by the same expression: a step on the way, which the user has no name for */
  within: boolean;
}

const NOWHERE: Source = { seq: null, name: '', text: '', within: false };

function same(a: Site, b: Site): boolean {
  return (
    a.file === b.file &&
    a.cell_id === b.cell_id &&
    a.line === b.line &&
    a.col === b.col &&
    a.end_line === b.end_line &&
    a.end_col === b.end_col
  );
}

function sourceOf(store: Store, seq: number, own: Site | null): Source {
  if (seq === NONE) {
    return NOWHERE;
  }
  if (store.leafRow.has(seq)) {
    return { seq, name: store.label(seq), text: '', within: false };
  }
  if (!store.nodeRow.has(seq)) {
    return NOWHERE;
  }
  const site = store.siteOf(seq);
  if (!site || (own && same(site, own))) {
    const edges = store.edgesOf.rows(seq).map(row => store.edges.at.dst[row]);
    const leaf = edges.length === 1 ? store.label(edges[0]) : '';
    // A linear layer's weight comes transposed; the transposition is no line of the user's.
    const turned = leaf && /^(T|Transpose|Permute)Backward\d*$/.test(store.nameOf(seq));
    return { seq, name: turned ? `${leaf}.T` : '', text: '', within: true };
  }
  return { seq, name: site.written?.target ?? '', text: site.text, within: false };
}

const says = (text: string, { name, text: made }: Source): boolean =>
  text !== '' && (text === name || text === made);

/** Whether an expression that calls `call` made a node of this op. */
function makes(call: string, op: string): boolean {
  const own = op.replace(/^.*\./, '');
  return call.replace(/_$/, '') === own || (MADE_BY[call]?.includes(own) ?? false);
}

/** The arguments of a call by the op's parameters; empty where that is not sure. */
function argumentsOf(
  { how, call, on, args, named }: Written,
  op: string,
  params: readonly string[],
  sourceAt: (input: string) => Source
): Map<string, string> {
  const bind = (given: readonly string[]): Map<string, string> =>
    new Map([
      ...params.slice(0, given.length).map((name, i): [string, string] => [name, given[i]]),
      ...named.map(({ name, text }): [string, string] => [name, text])
    ]);
  if (how === 'attribute') {
    return bind([on]);
  }
  if (call === 'getitem') {
    return bind(args.slice(0, 1));
  }
  const [first, second] = params.map(sourceAt);
  if (how === 'operator') {
    const turned = [...args].reverse();
    if (op === 'rsub') return bind(turned);
    if (args.length < 2 || !['mul', 'add'].includes(call)) return bind(args);
    // `2 * x` is x.mul(2): of a number and a tensor, the tensor is self.
    if (/^[\d.]/.test(args[0])) return bind(turned);
    if (!first || first.seq === null || (second && second.seq !== null)) return bind(args);
    if (/^[-+]?[\d.]+$/.test(args[1]) || says(args[0], first)) return bind(args);
    return says(args[1], first) ? bind(turned) : new Map<string, string>();
  }
  const method = bind([on, ...args]);
  if (on === '' || PACKAGES.has(on.split('.')[0])) return bind(args);
  if (args.length === 0 || (first && says(on, first))) return method;
  return first && says(args[0], first) ? bind(args) : /^[\w.]+$/.test(on) ? new Map() : method;
}

/** The inputs of a node by its edges, of which there are `count`. */
export function edgeNames(edges: readonly string[], count: number): string[] {
  // A list of tensors has as many edges as are left over.
  const more = count - edges.length + 1;
  return edges.flatMap(name =>
    name.endsWith('[]')
      ? Array.from({ length: Math.max(0, more) }, (_, i) => `${name.slice(0, -2)}[${i}]`)
      : [name]
  );
}

/** The inputs of a node that something is known of, in the order of its edges. */
export function inputNames(
  store: Store,
  seq: number,
  { op, params = [], edges = [] }: Pick<OpCard, 'op' | 'params' | 'edges'>
): InputName[] {
  const own = store.siteOf(seq);
  const rows = store.edgesOf.rows(seq);
  const sources = new Map<number, Source>();
  for (const row of rows) {
    const { src_index, dst } = store.edges.at;
    sources.set(src_index[row], sourceOf(store, dst[row], own));
  }
  const inputs = edgeNames(edges, rows.length);
  const sourceAt = (input: string): Source => sources.get(inputs.indexOf(input)) ?? NOWHERE;
  const written = own?.written;
  const given =
    written && makes(written.call, op)
      ? argumentsOf(written, op, params, sourceAt)
      : new Map<string, string>();
  return inputs.flatMap(input => {
    const source = sourceAt(input);
    const known = source.within ? '' : (given.get(input) ?? '');
    const text = oneLine(known || source.name || source.text, LONGEST);
    return text || source.seq !== null ? [{ input, text, seq: source.seq }] : [];
  });
}

/** The variable that a node's result was given to; '' where there is none. */
export function resultName(store: Store, seq: number, { op }: Pick<OpCard, 'op'>): string {
  const written = store.siteOf(seq)?.written;
  return written && makes(written.call, op) ? oneLine(written.target, LONGEST) : '';
}
