// What the boxes of a graph are coloured by in place of their state: a number of each, and where
// it stands on a scale. Pure; linear in nodes, runs and saved tensors.

import type { Axis } from './axis';
import type { Container } from './container';
import { bytesText, durationText, numberText } from './format';
import type { Graph } from './graph';
import { runMs } from './passes';
import type { States } from './states';
import { State } from './states';
import type { Store } from './store';
import type { View } from './view';

export const COLOUR_BY = ['state', 'norm', 'bytes', 'time'] as const;

export type ColourBy = (typeof COLOUR_BY)[number];

/** What can be measured of a node. */
export type Measure = Exclude<ColourBy, 'state'>;

export const COLOUR_NAMES: Record<ColourBy, string> = {
  state: 'state',
  norm: 'gradient norm',
  bytes: 'bytes saved',
  time: 'time'
};

/** What a closed group shows of its nodes. */
export const TOGETHER: Record<Measure, 'the largest' | 'the sum'> = {
  norm: 'the largest',
  bytes: 'the sum',
  time: 'the sum'
};

/** A scale of gradients reaches at least so far down: what differs less looks alike. */
const NORM_SPAN = 1e3;
/** Other scales are logarithmic where their ends are so far apart. */
const WIDE_SPAN = 100;

interface Scale {
  low: number;
  high: number;
  log: boolean;
}

export interface Colouring extends Scale {
  by: Measure;
  /** by node of the graph; NaN: nothing to tell at the moment shown */
  nodes: Float64Array;
  /** the same by box */
  value: Float64Array;
  /** by box: 0 at the low end of the scale, 1 at its high end; -1: no place on it */
  level: Float32Array;
}

/** A value in the words of its measure. */
export function measureText(by: Measure, value: number): string {
  return by === 'norm'
    ? numberText(value)
    : by === 'bytes'
      ? bytesText(value)
      : durationText(value);
}

/** The same with what it is, for a box. */
export function valueText({ by, value }: Colouring, box: number): string {
  const text = Number.isNaN(value[box]) ? '' : measureText(by, value[box]);
  return text === '' || by === 'time' ? text : by === 'norm' ? `norm ${text}` : `${text} saved`;
}

/** By node; NaN where there is nothing to tell at the moment shown. */
function measured(
  store: Store,
  graph: Graph,
  axis: Axis,
  states: States,
  by: Measure
): Float64Array {
  const count = graph.seqs.length;
  if (by === 'norm') {
    return states.norm.map(norm => (norm >= 0 && norm < Infinity ? norm : NaN));
  }
  const value = new Float64Array(count).fill(NaN);
  if (by === 'time') {
    const took = runMs(store);
    for (let i = 0; i < states.done; i++) {
      const row = axis.runs[i];
      const index = graph.indexOf.get(store.runs.at.seq[row]);
      if (index >= 0) value[index] = (Number.isNaN(value[index]) ? 0 : value[index]) + took(row);
    }
    return value;
  }
  for (let i = 0; i < count; i++) {
    if (states.node[i] === State.future) continue;
    value[i] = 0;
    const seq = graph.seqs[i];
    for (let row = store.savedOf.newest(seq); row !== -1; row = store.savedOf.before(row))
      value[i] += store.saved.at.bytes[row];
  }
  return value;
}

/** The largest or the sum of what is known of nodes `from` to `to`. */
function together(nodes: Float64Array, by: Measure, from: number, to: number): number {
  let found = NaN;
  for (let i = from; i < to; i++) {
    if (Number.isNaN(nodes[i])) continue;
    if (Number.isNaN(found)) found = nodes[i];
    else found = by === 'norm' ? Math.max(found, nodes[i]) : found + nodes[i];
  }
  return found;
}

/** The same for a container, open or closed. */
export function valueOf({ nodes, by }: Colouring, { first, last }: Container): number {
  return together(nodes, by, first, last);
}

/** Where a value stands on the scale, 0 to 1; -1: nowhere. */
export function levelOf({ low, high, log }: Scale, value: number): number {
  if (Number.isNaN(value)) {
    return -1;
  }
  if (!(value > low) || !(high > low)) {
    return value >= high && high > 0 ? 1 : 0;
  }
  return Math.min(1, log ? Math.log(value / low) / Math.log(high / low) : value / high);
}

export function colouringOf(
  store: Store,
  graph: Graph,
  view: View,
  axis: Axis,
  states: States,
  by: Measure
): Colouring {
  const nodes = measured(store, graph, axis, states, by);
  // An open box has its own node's number, without that of a transpose drawn with it.
  const value = Float64Array.from(view.folds, (fold, box) => {
    const from = view.first[box];
    return together(nodes, by, from, fold ? view.first[box + 1] : from + 1);
  });
  let [least, high] = [Infinity, 0];
  // The largest are not those of all nodes: closing a group leaves the scale of norms as it is.
  for (const number of by === 'norm' ? nodes : value) {
    if (!(number > 0)) continue;
    least = Math.min(least, number);
    high = Math.max(high, number);
  }
  const log = high > 0 && (by === 'norm' || high > WIDE_SPAN * least);
  const low = !log ? 0 : by === 'norm' ? Math.min(least, high / NORM_SPAN) : least;
  const scale = { low, high, log };
  const level = Float32Array.from(value, number => levelOf(scale, number));
  return { by, nodes, value, level, ...scale };
}
