// Where a gradient became zero everywhere: units that are all dead, or something multiplied by 0.
// Pure.

import { plural } from '../format';
import { passesTo } from '../parameters';
import type { Before } from './finders';
import type { Found, Line } from './finding';
import { placeKey } from './nonfinite';
import type { Pass } from './pass';

/** Ops that hand on nothing where they are shut, with their words. */
const GATES: Readonly<Record<string, string>> = {
  ReluBackward0: 'relu',
  ThresholdBackward0: 'threshold',
  HardtanhBackward0: 'hardtanh',
  HardswishBackward0: 'hardswish',
  EluBackward0: 'elu',
  ClampBackward0: 'clamp',
  ClampBackward1: 'clamp',
  ClampMinBackward0: 'clamp_min',
  SigmoidBackward0: 'sigmoid',
  TanhBackward0: 'tanh'
};
/** Places that are told of one pass. */
const MOST = 5;

/**
 * Whether no earlier pass gave a leaf a gradient, or it was gone (without memory) when it was told:
 * in a loop it is data, and no parameter.
 */
function isFresh({ store, task }: Pass, leaf: number): boolean {
  const storage = store.leaves.at.storage[leaf];
  if (storage !== 0)
    for (const other of passesTo(store, storage)) if (other !== task.task) return false;
  return true;
}

/** Parameters below a node that got a zero gradient, the nearest first. */
function starved(pass: Pass, from: number, looping: boolean): string[] {
  const { store } = pass;
  const seen = new Set([from]);
  const names: string[] = [];
  for (const seq of seen) {
    const leaf = store.leafRow.get(seq);
    if (leaf >= 0 && !(looping && isFresh(pass, leaf))) names.push(pass.nameOf(seq));
    for (const row of store.edgesOf.rows(seq)) {
      const next = store.edges.at.dst[row];
      const order = pass.orderOf.get(next);
      if (order !== undefined && pass.normAt(order) === 0) seen.add(next);
    }
  }
  return names;
}

function listed(names: readonly string[]): string {
  const rest = names.length - 3;
  const shown = names.slice(0, 3).map(name => `\`${name}\``);
  return shown.join(', ') + (rest > 0 ? ` and ${plural(rest, 'other')}` : '');
}

export function zeros(pass: Pass, { norms }: Pick<Before, 'norms'>): Found[] {
  const { store } = pass;
  const zero = new Set<number>();
  for (const [seq, order] of pass.orderOf) if (pass.normAt(order) === 0) zero.add(seq);
  const gateOf = (maker: number): string | undefined => GATES[store.nameOf(maker)];
  const liveOf = (seq: number): number[] =>
    (pass.givers.get(seq) ?? []).filter(maker => !zero.has(maker));
  const dead = new Set([...zero].flatMap(liveOf).filter(gateOf));
  const found: Found[] = [];
  for (const seq of zero) {
    if (found.length === MOST) {
      break;
    }
    const makers = pass.givers.get(seq) ?? [];
    if (makers.length > 0 && makers.every(maker => zero.has(maker))) {
      continue;
    }
    const live = liveOf(seq);
    // Several that each gave something, which came to nothing: no gradient is held up anywhere.
    if (live.length > 1 && !live.every(gateOf)) continue;
    const [maker] = live as (number | undefined)[];
    const gate = maker === undefined ? undefined : gateOf(maker);
    // What is multiplied by the zeros of a dead unit has a zero gradient for that reason.
    const beside = maker === undefined ? [] : store.edgesOf.rows(maker);
    if (!gate && beside.some(row => dead.has(store.edges.at.dst[row]))) continue;
    const names = starved(pass, seq, !gate && norms.length > 0);
    // What reaches no parameter starves none, as the steps of a sequence that nobody reads.
    if (names.length === 0 && !gate) continue;
    const site = pass.lineOf(maker ?? seq);
    const lines: Line[] = site
      ? [{ site, says: maker === undefined ? 'was given zeros' : 'hands on zeros alone' }]
      : [];
    const text = pass.textOf(maker ?? seq);
    const module = pass.moduleOf(maker ?? seq);
    found.push({
      kind: gate ? 'dead' : 'zero',
      key: `${gate ? 'dead' : 'zero'} ${site ? placeKey(site) : text} ${module} ${names[0] ?? ''}`,
      // Zeros may be meant so, as those of a mask or of a gate that starts at 0.
      matters: gate !== undefined && names.length > 0,
      title:
        maker === undefined
          ? `The pass began with zeros at \`${text}\``
          : gate
            ? `All units of \`${text}\` are dead: no gradient goes through`
            : `No gradient goes through \`${text}\``,
      detail: names.length === 0 ? '' : `The gradient of ${listed(names)} is zero.`,
      lines,
      module,
      advice: gate
        ? {
            text:
              'A smaller learning rate, another initialization of what goes in, or ' +
              '`leaky_relu`, which always lets some gradient through',
            code: null
          }
        : null,
      seq,
      order: pass.orderOf.get(seq) ?? -1
    });
  }
  return found;
}
