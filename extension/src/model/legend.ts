// What the legend counts: nodes by state and by what is remarkable about their gradient, and the
// next one of a kind. Pure.

import type { GradientKind } from './gradient_kind';
import { REMARKABLE, gradientKind } from './gradient_kind';
import type { InspectorModel } from './inspector';
import { State } from './states';

export type LegendKind =
  'done' | 'next' | 'waiting' | 'problem' | 'parameter' | Exclude<GradientKind, 'plain'>;

const STATES: Partial<Record<LegendKind, readonly number[]>> = {
  done: [State.done],
  next: [State.next, State.running],
  waiting: [State.waiting],
  problem: [State.problem]
};

type Shown = Pick<InspectorModel, 'graph' | 'states' | 'selected' | 'group'>;

/** How many nodes or leaves of each kind there are; those in closed groups count. */
export function legendCounts({ graph, states }: Shown): Map<LegendKind, number> {
  const byState = new Uint32Array(8);
  const byKind = new Map<GradientKind, number>();
  for (let i = 0; i < graph.seqs.length; i++) {
    byState[states.node[i]]++;
    const kind = gradientKind(states, i);
    if (kind !== 'plain') byKind.set(kind, (byKind.get(kind) ?? 0) + 1);
  }
  const counts = new Map<LegendKind, number>();
  for (const [kind, shown] of Object.entries(STATES))
    counts.set(
      kind as LegendKind,
      shown.reduce((sum, state) => sum + byState[state], 0)
    );
  if (states.nextLeaf >= 0) counts.set('next', (counts.get('next') ?? 0) + 1);
  counts.set('parameter', graph.leaves.length);
  for (const kind of REMARKABLE) {
    const count = byKind.get(kind);
    if (count) counts.set(kind, count);
  }
  return counts;
}

/** The next one of a kind after what is selected, in the order of a backward pass; or null. */
export function nextOfKind(
  { graph, states, selected, group }: Shown,
  kind: LegendKind
): number | null {
  if (kind === 'parameter') {
    const at = selected === null ? -1 : graph.leaves.indexOf(selected);
    return graph.leaves[(at + 1) % graph.leaves.length] ?? null;
  }
  const wanted = STATES[kind];
  const is = (i: number): boolean =>
    wanted ? wanted.includes(states.node[i]) : gradientKind(states, i) === kind;
  const count = graph.seqs.length;
  const own = selected === null ? -1 : graph.indexOf.get(selected);
  const from = group ? group.first - 1 : own;
  for (let step = 1; step <= count; step++) {
    const i = (from + step + count) % count;
    if (is(i)) return graph.seqs[i];
  }
  return kind === 'next' && states.nextLeaf >= 0 ? states.nextLeaf : null;
}
