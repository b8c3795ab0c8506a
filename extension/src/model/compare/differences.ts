// What differs between two matched graphs, in words, the most telling first. Pure; linear.

import type { Site } from '../../protocol/schema';
import { oneLine } from '../../protocol/text';
import { bytesText, countText, numberText, placeText, plural, shapeText } from '../format';
import { UNWATCHED } from '../store';
import type { Facts } from './facts';
import { NO_INPUT, leafInput } from './facts';
import type { Matching } from './match';
import { match } from './match';

export const Kind = { equal: 0, changed: 1, added: 2, removed: 3 } as const;
export type Kind = (typeof Kind)[keyof typeof Kind];
export const KIND_NAMES: Record<Kind, string> = {
  0: 'equal',
  1: 'changed',
  2: 'added',
  3: 'removed'
};
/** The second sign beside the colour. */
export const KIND_MARKS: Record<Kind, string> = { 0: '=', 1: '≠', 2: '+', 3: '−' };

export type Aspect =
  'op' | 'name' | 'shape' | 'dtype' | 'source' | 'inputs' | 'attribute' | 'saved' | 'bytes';

export interface Change {
  what: Aspect;
  /** of what: an attribute's name, else '' */
  of: string;
  from: string;
  to: string;
}

/** Norms of the gradient that arrived, -1 where none did. */
export interface GradientChange {
  from: number;
  to: number;
}

/** One difference: a pair, or nodes that only one side has and that follow each other. */
export interface Difference {
  kind: Kind;
  leaf: boolean;
  /** node numbers; empty on the side that lacks them */
  a: number[];
  b: number[];
  title: string;
  site: Site | null;
  changes: Change[];
  gradient: GradientChange | null;
  relevance: number;
}

export interface Counts {
  added: number;
  removed: number;
  changed: number;
  equal: number;
}

export interface Comparison {
  a: Facts;
  b: Facts;
  matching: Matching;
  kindOfA: Uint8Array;
  kindOfB: Uint8Array;
  leafKindOfA: Uint8Array;
  leafKindOfB: Uint8Array;
  nodes: Counts;
  leaves: Counts;
  /** sorted: what says most comes first */
  differences: Difference[];
  /** the pair whose gradient changed most; null where none changed */
  loudest: { a: number; b: number; title: string; site: Site | null; ratio: number } | null;
  summary: string;
}

/** From this factor on, a gradient's change is a difference of its own. */
const LOUD = 2;
/** Below this, two norms are the same but for rounding. */
const ROUNDING = 5e-3;
const WEIGHTS: Record<Aspect, number> = {
  op: 800,
  inputs: 650,
  dtype: 600,
  name: 560,
  shape: 500,
  attribute: 450,
  source: 400,
  saved: 300,
  bytes: 200
};
const MISSING = 700;
const NOT_FINITE = 900;

/** to / from; 1 where both are zero or none came on either side; NaN where it cannot be told. */
export function ratioOf({ from, to }: GradientChange): number {
  if (from < 0 || to < 0) {
    return from < 0 && to < 0 ? 1 : NaN;
  }
  return from === to ? 1 : to / from;
}

const finite = (norm: number): boolean => Number.isFinite(norm);

/** 'norm 0.5 → 1.6, 3.2 times' */
export function gradientText(gradient: GradientChange): string {
  const { from, to } = gradient;
  const normText = (norm: number): string => 
    norm === UNWATCHED ? 'not watched' : norm < 0 ? 'no gradient' : numberText(norm);
  const ratio = ratioOf(gradient);
  const times =
    from > 0 && to > 0 && finite(ratio)
      ? Math.abs(ratio - 1) < ROUNDING
        ? ', the same'
        : `, ${factorText(ratio)}`
      : '';
  return `norm ${normText(from)} → ${normText(to)}${times}`;
}

/** '3.2 times as large', '4 times smaller' */
export function factorText(ratio: number): string {
  return ratio >= 1
    ? `${numberText(ratio)} times larger`
    : `${numberText(1 / ratio)} times smaller`;
}

/** How far a gradient moved, in powers of two; Infinity where it became or ceased to be finite. */
function loudness(gradient: GradientChange): number {
  const { from, to } = gradient;
  if ((from < 0 && to < 0) || from === UNWATCHED || to === UNWATCHED) {
    return 0;
  }
  if ((from >= 0 || to >= 0) && finite(from) !== finite(to)) {
    return Infinity;
  }
  if (!finite(from) || from === to) {
    return 0;
  }
  if (from <= 0 || to <= 0) {
    return 64;
  }
  const ratio = ratioOf(gradient);
  return Math.abs(ratio - 1) < ROUNDING ? 0 : Math.abs(Math.log2(ratio));
}

function sourceOf(site: Site | null): string {
  return site ? site.source_line || site.text : '';
}

const anonymous = (text: string): string => text.replace(/ at 0x[0-9a-f]+/gi, '');

function changesOfPair(a: Facts, b: Facts, found: Matching, i: number, j: number): Change[] {
  const changes: Change[] = [];
  const note = (what: Aspect, from: string, to: string, of = ''): void => {
    if (from !== to) changes.push({ what, of, from, to });
  };
  note('op', a.name[i], b.name[j]);
  note('shape', shapeText(a.shape[i]), shapeText(b.shape[j]));
  note('dtype', a.dtype[i], b.dtype[j]);
  const [from, to] = [sourceOf(a.site[i]), sourceOf(b.site[j])];
  if (from !== '' && to !== '') note('source', from, to);
  const kept = a.attributes(a.seqs[i]);
  const now = b.attributes(b.seqs[j]);
  if (kept && now) {
    for (const name of new Set([...kept.keys(), ...now.keys()])) {
      note(
        'attribute',
        anonymous(kept.get(name) ?? 'none'),
        anonymous(now.get(name) ?? 'none'),
        name
      );
    }
  }
  note('saved', a.saved[i] || 'nothing', b.saved[j] || 'nothing');
  if (a.saved[i] === b.saved[j] && a.shape[i] === b.shape[j] && a.dtype[i] === b.dtype[j]) {
    note('bytes', bytesText(a.bytes[i]), bytesText(b.bytes[j]));
  }
  const wired = rewired(a, b, found, i, j);
  if (wired) changes.push(wired);
  return changes;
}

/** An input that comes from another node, though both are on both sides, or needs no gradient. */
function rewired(a: Facts, b: Facts, found: Matching, i: number, j: number): Change | null {
  const [startA, startB] = [a.inputStart[i], b.inputStart[j]];
  const [slotsA, slotsB] = [a.inputStart[i + 1] - startA, b.inputStart[j + 1] - startB];
  for (let s = 0; s < Math.max(slotsA, slotsB); s++) {
    const x = s < slotsA ? a.inputs[startA + s] : NO_INPUT;
    const y = s < slotsB ? b.inputs[startB + s] : NO_INPUT;
    const apart =
      x === NO_INPUT || y === NO_INPUT
        ? x !== y
        : x >= 0 && y >= 0
          ? found.ofA[x] >= 0 && found.ofB[y] >= 0 && found.ofA[x] !== y
          : x < 0 && y < 0 && leavesApart(found, leafInput(x), leafInput(y));
    if (apart) {
      const of = `input ${s + 1}`;
      return { what: 'inputs', of, from: inputName(a, x), to: inputName(b, y) };
    }
  }
  return null;
}

function leavesApart(found: Matching, x: number, y: number): boolean {
  return found.leafOfA[x] >= 0 && found.leafOfB[y] >= 0 && found.leafOfA[x] !== y;
}

function inputName(facts: Facts, input: number): string {
  if (input === NO_INPUT) {
    return 'nothing';
  }
  return input >= 0 ? facts.name[input] : leafName(facts, leafInput(input));
}

export function leafName(facts: Facts, leaf: number): string {
  const { label, shape } = facts.leaves[leaf];
  return label || `a leaf of shape ${shapeText(shape)}`;
}

function weightOf(changes: readonly Change[], gradient: GradientChange | null): number {
  const parts = changes.map(({ what }) => WEIGHTS[what]);
  const most = parts.length > 0 ? Math.max(...parts) : 0;
  const moved = gradient ? loudness(gradient) : 0;
  return moved === Infinity ? NOT_FINITE + most / 100 : most + Math.min(moved, 90);
}

class Finder {
  readonly differences: Difference[] = [];
  readonly nodes: Counts = { added: 0, removed: 0, changed: 0, equal: 0 };
  readonly leaves: Counts = { added: 0, removed: 0, changed: 0, equal: 0 };
  readonly kindOfA: Uint8Array;
  readonly kindOfB: Uint8Array;
  readonly leafKindOfA: Uint8Array;
  readonly leafKindOfB: Uint8Array;
  loudest: Comparison['loudest'] = null;
  private most = 0;

  constructor(
    readonly a: Facts,
    readonly b: Facts,
    readonly found: Matching
  ) {
    this.kindOfA = new Uint8Array(a.seqs.length);
    this.kindOfB = new Uint8Array(b.seqs.length);
    this.leafKindOfA = new Uint8Array(a.leaves.length);
    this.leafKindOfB = new Uint8Array(b.leaves.length);
  }

  pairs(): void {
    const { a, b, found } = this;
    found.ofA.forEach((j, i) => {
      if (j < 0) return;
      const changes = changesOfPair(a, b, found, i, j);
      const kind = changes.length > 0 ? Kind.changed : Kind.equal;
      this.kindOfA[i] = this.kindOfB[j] = kind;
      this.nodes[kind === Kind.changed ? 'changed' : 'equal']++;
      const title = a.name[i] === b.name[j] ? b.name[j] : `${a.name[i]} → ${b.name[j]}`;
      const gradient = { from: a.norm[i], to: b.norm[j] };
      this.pair(kind, false, a.seqs[i], b.seqs[j], title, b.site[j], changes, gradient);
    });
    found.leafOfA.forEach((y, x) => {
      if (y < 0) return;
      const [one, other] = [a.leaves[x], b.leaves[y]];
      const changes: Change[] = [];
      const note = (what: Aspect, from: string, to: string): void => {
        if (from !== to) changes.push({ what, of: '', from, to });
      };
      if (one.label && other.label) note('name', one.label, other.label);
      note('shape', shapeText(one.shape), shapeText(other.shape));
      note('dtype', one.dtype, other.dtype);
      const kind = changes.length > 0 ? Kind.changed : Kind.equal;
      this.leafKindOfA[x] = this.leafKindOfB[y] = kind;
      this.leaves[kind === Kind.changed ? 'changed' : 'equal']++;
      const gradient = { from: one.norm, to: other.norm };
      this.pair(kind, true, one.seq, other.seq, leafName(b, y), null, changes, gradient);
    });
  }

  private pair(
    kind: Kind,
    leaf: boolean,
    a: number,
    b: number,
    title: string,
    site: Site | null,
    changes: Change[],
    gradient: GradientChange
  ): void {
    const loud = loudness(gradient);
    if (loud > this.most) {
      this.most = loud;
      this.loudest = { a, b, title, site, ratio: ratioOf(gradient) };
    }
    if (kind === Kind.changed || loud >= Math.log2(LOUD)) {
      const relevance = weightOf(changes, gradient);
      this.differences.push({
        kind,
        leaf,
        a: [a],
        b: [b],
        title,
        site,
        changes,
        gradient,
        relevance
      });
    }
  }

  /** Nodes that one side lacks, those that follow each other together. */
  alone(side: 'a' | 'b'): void {
    const facts = this[side];
    const partner = side === 'a' ? this.found.ofA : this.found.ofB;
    const kinds = side === 'a' ? this.kindOfA : this.kindOfB;
    const kind = side === 'a' ? Kind.removed : Kind.added;
    for (let i = 0; i < partner.length; i++) {
      if (partner[i] >= 0) continue;
      const first = i;
      while (i < partner.length && partner[i] < 0) kinds[i++] = kind;
      this.nodes[side === 'a' ? 'removed' : 'added'] += i - first;
      const names = [...new Set(facts.name.slice(first, i))];
      const more = names.length > 3 ? ` and ${names.length - 3} more` : '';
      const seqs = [...facts.seqs.subarray(first, i)];
      this.push(kind, side, false, seqs, names.slice(0, 3).join(', ') + more, facts.site[first]);
    }
    const leaves = side === 'a' ? this.found.leafOfA : this.found.leafOfB;
    const leafKinds = side === 'a' ? this.leafKindOfA : this.leafKindOfB;
    leaves.forEach((other, x) => {
      if (other >= 0) return;
      leafKinds[x] = kind;
      this.leaves[side === 'a' ? 'removed' : 'added']++;
      this.push(kind, side, true, [facts.leaves[x].seq], leafName(facts, x), null);
    });
  }

  private push(
    kind: Kind,
    side: 'a' | 'b',
    leaf: boolean,
    seqs: number[],
    title: string,
    site: Site | null
  ): void {
    const [a, b] = side === 'a' ? [seqs, []] : [[], seqs];
    const relevance = MISSING - (leaf ? 50 : 0);
    const gradient = null;
    this.differences.push({ kind, leaf, a, b, title, site, changes: [], gradient, relevance });
  }
}

function countsText(nodes: Counts, leaves: Counts): string {
  const parts: string[] = [];
  for (const what of ['added', 'removed', 'changed'] as const) {
    if (nodes[what] > 0) parts.push(`${countText(nodes[what])} ${what}`);
  }
  const params: string[] = [];
  for (const what of ['added', 'removed', 'changed'] as const) {
    if (leaves[what] > 0) params.push(`${countText(leaves[what])} ${what}`);
  }
  if (parts.length + params.length === 0) {
    return `No difference in ${plural(nodes.equal, 'node')}`;
  }
  const nodeText = parts.length > 0 ? `Nodes: ${parts.join(', ')}` : 'Nodes: all equal';
  return params.length > 0 ? `${nodeText}; leaves: ${params.join(', ')}` : nodeText;
}

function loudestText(loudest: Comparison['loudest']): string {
  if (!loudest) {
    return 'gradients match';
  }
  const { title, site, ratio } = loudest;
  const place = site ? `, ${placeText(site)}` : '';
  const how =
    finite(ratio) && ratio > 0
      ? factorText(ratio)
      : ratio === 0
        ? 'it became zero'
        : 'from or to NaN, ∞ or nothing';
  return `largest gradient change at ${oneLine(title, 60)}${place}: ${how}`;
}

/** Compares two graphs: a is the one before, b the one after. */
export function compare(a: Facts, b: Facts): Comparison {
  const matching = match(a, b);
  const finder = new Finder(a, b, matching);
  finder.pairs();
  finder.alone('b');
  finder.alone('a');
  const { nodes, leaves, loudest, differences } = finder;
  differences.sort((p, q) => q.relevance - p.relevance);
  const { kindOfA, kindOfB, leafKindOfA, leafKindOfB } = finder;
  return {
    a,
    b,
    matching,
    kindOfA,
    kindOfB,
    leafKindOfA,
    leafKindOfB,
    nodes,
    leaves,
    differences,
    loudest,
    summary: `${countsText(nodes, leaves)}; ${loudestText(loudest)}.`
  };
}
