// What is worth a look though nothing failed: where the first NaN came from, where the gradient
// became zero. Pure; linear in the runs and edges of the graph.

import type { Site } from '../protocol/schema';
import { breaksOfGraph } from './graph_breaks';
import { placeText, plural } from './format';
import type { InspectorModel } from './inspector';

export interface Hint {
  kind: 'nonfinite' | 'zero' | 'detached';
  title: string;
  detail: string;
  /** node or leaf to look at */
  seq: number;
  /** where in the code, if not where the node was made */
  site?: Site | null;
  /** position on the axis just after it happened */
  moment: number;
}

/** Places named where the gradient became zero. */
const MOST_ZEROS = 5;
/** Lines named where something left the graph. */
const MOST_BREAKS = 8;

/** Numbers of the nodes from which each node or leaf gets its gradient. */
function givers({ store, graph }: InspectorModel): Map<number, number[]> {
  const found = new Map<number, number[]>();
  const { dst } = store.edges.at;
  for (const seq of graph.seqs) {
    for (const row of store.edgesOf.rows(seq)) {
      const known = found.get(dst[row]);
      if (known) known.push(seq);
      else found.set(dst[row], [seq]);
    }
  }
  return found;
}

/** The first hook of the pass that was given no NaN and gave one back by then: its row, or -1. */
function hookThatMadeNan({ store, graph }: InspectorModel, until: number): number {
  const { task, t, before_nan: before, after_nan: after } = store.hooks.at;
  let first = -1;
  for (let row = 0; row < store.hooks.rows; row++) {
    const made = task[row] === graph.task && before[row] === 0 && after[row] > 0;
    if (made && t[row] <= until && (first < 0 || t[row] < t[first])) first = row;
  }
  return first;
}

function firstNan(model: InspectorModel, above: Map<number, number[]>): Hint | null {
  const { store, axis } = model;
  const { runs } = store;
  const bad = (row: number): boolean => (runs.at.flags[row] & 1) !== 0;
  const at = axis.runs.findIndex(bad);
  const seq = at < 0 ? -1 : runs.at.seq[axis.runs[at]];
  const until = at < 0 ? Infinity : runs.at.t1[axis.runs[at]];
  const hook = hookThatMadeNan(model, until);
  if (hook >= 0) {
    const { t, name, seq: of } = store.hooks.at;
    const ran = axis.runs.findIndex(row => runs.at.t1[row] >= t[hook]);
    return {
      kind: 'nonfinite',
      title: `The first NaN was made by the hook \`${store.string(name[hook])}\``,
      detail: `on \`${model.titleOf(of[hook])}\`: its gradient had none before.`,
      seq: of[hook],
      moment: axis.forward.length + (ran < 0 ? axis.runs.length : ran + 1)
    };
  }
  if (at < 0) {
    return null;
  }
  // Those that ran before and were given finite numbers: one of them made it.
  const before = new Set(Array.from(axis.runs.subarray(0, at), row => runs.at.seq[row]));
  const makers = (above.get(seq) ?? []).filter(maker => before.has(maker));
  const from = makers.slice(0, 2).map(maker => `\`${model.titleOf(maker)}\``);
  return {
    kind: 'nonfinite',
    title: `The first NaN or ∞ arrived at \`${model.titleOf(seq)}\` in step ${at + 1}`,
    detail:
      makers.length === 0
        ? 'The pass began with it.'
        : `computed by ${from.join(' and ')}, which had a finite gradient.`,
    seq,
    moment: axis.forward.length + at + 1
  };
}

function zeros(model: InspectorModel, above: Map<number, number[]>): Hint[] {
  const { store, axis } = model;
  const { runs } = store;
  const none = new Map<number, number>();
  axis.runs.forEach((row, at) => {
    if (runs.at.norm[row] === 0) none.set(runs.at.seq[row], at);
  });
  const found: Hint[] = [];
  for (const [seq, at] of none) {
    const makers = above.get(seq) ?? [];
    if (makers.length > 0 && makers.every(maker => none.has(maker))) {
      continue;
    }
    const names = makers
      .filter(maker => !none.has(maker))
      .slice(0, 2)
      .map(maker => `\`${model.titleOf(maker)}\``);
    found.push({
      kind: 'zero',
      title: `No gradient flows through \`${model.titleOf(seq)}\``,
      detail:
        makers.length === 0
          ? 'The pass began with a gradient that is zero everywhere.'
          : `since ${names.join(' and ')} gave it zeros.`,
      seq,
      moment: axis.forward.length + at + 1
    });
  }
  const rest = found.length - MOST_ZEROS;
  const shown = found.slice(0, MOST_ZEROS);
  if (rest > 0) shown[MOST_ZEROS - 1].detail += ` ${plural(rest, 'place')} more like it.`;
  return shown;
}

/** Whose gradient stays away because something was taken out of the graph: once for each line. */
function breaks(model: InspectorModel): Hint[] {
  const found = new Map<string, Hint>();
  for (const { seq, input, words, site, without } of breaksOfGraph(model)) {
    const [name] = without;
    const more = without.length > 1 ? ` (and ${plural(without.length - 1, 'other')})` : '';
    const title = name
      ? `\`${name}.grad\` stays None${more}: ${words}`
      : `No gradient flows to \`${input}\` of \`${model.titleOf(seq)}\`: ${words}`;
    const key = `${title} ${site ? placeText(site) : ''}`;
    if (!found.has(key) && found.size < MOST_BREAKS)
      found.set(key, { kind: 'detached', title, detail: '', seq, site, moment: model.length });
  }
  // Where a variable gets nothing at all, a person asks; the others may be meant so.
  return [...found.values()].sort(
    (a, b) => Number(b.title.includes('stays None')) - Number(a.title.includes('stays None'))
  );
}

/** What the backward pass on screen is remarkable for, the gravest first. */
export function hintsOf(model: InspectorModel): Hint[] {
  if (model.axis.runs.length === 0) {
    return breaks(model);
  }
  const above = givers(model);
  const nan = firstNan(model, above);
  return [...(nan ? [nan] : []), ...breaks(model), ...zeros(model, above)];
}
