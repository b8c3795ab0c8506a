// The first NaN or infinity of a pass: the op to blame, then where it shows, which may be the loss
// alone. Pure.

import type { Site } from '../../protocol/schema';
import { NONE } from '../../protocol/schema';
import { countText, numberText, placeText, plural } from '../format';
import type { Counts } from './edges_of_ops';
import { EDGES, argumentOf } from './edges_of_ops';
import type { Advice, Found, Line } from './finding';
import type { Before } from './finders';
import type { Pass } from './pass';
import { GROWN } from './thresholds';

interface Odd extends Counts {
  seq: number;
}

/** The name of what is no saved tensor: the values of a leaf, or what the pass was called of. */
const VALUE = '';

/** What is to blame: `title` names it. */
interface Culprit {
  seq: number;
  title: string;
  advice: Advice | null;
  site: Site | null;
  says: string;
}

function oddOf({ store, task }: Pass): Odd[] {
  const { at } = store.odd;
  const rows = store.oddIn.rows(task.task);
  return rows
    .map(row => ({
      seq: at.seq[row],
      name: store.string(at.name[row]),
      own: (at.flags[row] & 1) !== 0,
      data: (at.flags[row] & 2) !== 0,
      elements: at.elements[row],
      nan: at.nan[row],
      inf: at.inf[row],
      zero: at.zero[row],
      negative: at.negative[row],
      beyond: at.beyond[row]
    }))
    .sort((a, b) => a.seq - b.seq);
}

/** Edges at which the result itself is not finite, and not the derivative alone. */
const IN_FORWARD = /^(gave|divided)/;

const share = (count: number, elements: number): string =>
  `${countText(count)} of ${countText(elements)}`;

/** The op that made what goes into a node. */
function before(pass: Pass, seq: number): string {
  const { store } = pass;
  for (const row of store.edgesOf.rows(seq)) {
    const below = store.edges.at.dst[row];
    if (below !== NONE) return store.nameOf(below);
  }
  return '';
}

/** A number at which the op has no finite result or derivative. */
function atEdge(pass: Pass, odd: Odd): Culprit | null {
  const edge = odd.name === VALUE ? undefined : EDGES[pass.store.nameOf(odd.seq)];
  const found = edge?.at(odd);
  if (!edge || !found) {
    return null;
  }
  const text = pass.textOf(odd.seq);
  const argument = argumentOf(text);
  const what = odd.own ? 'its result' : argument ? `\`${argument}\`` : `\`${odd.name}\``;
  const count = share(found.count, odd.elements);
  const why = odd.name === 'other' ? '' : `: ${what} is ${found.what}`;
  const title = `\`${text}\` ${found.says}${why} in ${count}`;
  const advice = edge.advice(text, argument, before(pass, odd.seq));
  return { seq: odd.seq, title, advice, site: pass.lineOf(odd.seq), says: found.says };
}

/** What helps where finite numbers became an infinity that no edge of an op explains. */
function tooLarge(norms: readonly number[]): Advice {
  const [first, last] = [norms[0], norms[norms.length - 1]];
  const grew = norms.length > 1 && last > GROWN * first;
  return {
    text: grew
      ? 'What went in had grown too large: in the passes before |grad| grew from ' +
        `${numberText(first)} to ${numberText(last)}. A smaller learning rate, or ` +
        '`nn.utils.clip_grad_norm_` before the step; look at the sign of the loss, too'
      : 'What went in was too large for its dtype: a smaller initialization or learning rate, ' +
        'a normalization between the layers, or inputs of about 1',
    code: null
  };
}

/** The first tensor of the forward that was not finite, and what made it. */
function inForward(pass: Pass, odds: Odd[], norms: readonly number[]): Culprit | null {
  const { store } = pass;
  const isLeaf = ({ seq }: Odd): boolean => store.leafRow.has(seq);
  const ofLeaf = odds.find(one => isLeaf(one) && one.nan > 0);
  // A −∞ may be meant so, as in masks: NaN first.
  const odd = ofLeaf ?? odds.find(({ nan }) => nan > 0) ?? odds.find(({ inf }) => inf > 0);
  if (!odd) {
    return null;
  }
  const gave = odd.nan > 0 ? 'NaN' : '∞';
  const count = share(odd.nan + odd.inf, odd.elements);
  const text = pass.textOf(odd.seq);
  const site = pass.lineOf(odd.seq);
  if (isLeaf(odd)) {
    return {
      seq: odd.seq,
      title: `\`${pass.nameOf(odd.seq)}\` itself holds ${gave}, in ${count}`,
      advice: {
        text:
          'It was there before this pass. If an update made it: a smaller learning rate, or ' +
          '`nn.utils.clip_grad_norm_` before the step',
        code: null
      },
      site,
      says: 'uses it'
    };
  }
  const large = odd.nan > 0 ? null : tooLarge(norms);
  if (odd.own) {
    const title = `\`${text}\` gave ${gave} in ${count}`;
    return { seq: odd.seq, title, advice: large, site, says: `gave ${gave}` };
  }
  const { name } = store.saved.at;
  const saved = store.savedOf.rows(odd.seq).find(row => store.string(name[row]) === odd.name);
  const below = store.edgesOf.rows(odd.seq).map(row => store.edges.at.dst[row]);
  const shape = saved === undefined ? -1 : store.saved.at.shape[saved];
  const makers = below.filter(seq => {
    const row = store.nodeRow.get(seq);
    return !odd.data && row >= 0 && store.nodes.at.shape[row] === shape;
  });
  if (makers.length === 1) {
    const made = pass.textOf(makers[0]);
    return {
      seq: makers[0],
      title: `\`${made}\` gave ${gave} in ${count}`,
      advice: large,
      site: pass.lineOf(makers[0]),
      says: `gave ${gave}`
    };
  }
  return {
    seq: odd.seq,
    title: `\`${text}\` was given ${gave}: \`${odd.name}\`, in ${count}`,
    advice:
      makers.length > 0
        ? null
        : {
            text: 'Nothing in the graph made it: look at the data, `torch.isfinite(x).all()`',
            code: null
          },
    site,
    says: `was given ${gave}`
  };
}

/** The first hook of the pass that was given no NaN and gave one back by then: its row, or -1. */
function hookThatMadeNan({ store, task }: Pass, until: number): number {
  const { task: of, t, before_nan, before_inf, after_nan, after_inf } = store.hooks.at;
  let first = -1;
  for (let row = 0; row < store.hooks.rows; row++) {
    const made = before_nan[row] + before_inf[row] === 0 && after_nan[row] + after_inf[row] > 0;
    const counts = of[row] === task.task && made && t[row] <= until;
    if (counts && (first < 0 || t[row] < t[first])) first = row;
  }
  return first;
}

function ofHook(pass: Pass, row: number): Culprit {
  const { store } = pass;
  const { name, seq, site } = store.hooks.at;
  return {
    seq: seq[row],
    title: `The hook \`${store.string(name[row])}\` made NaN or ∞ of a finite gradient`,
    advice: null,
    site: store.site(site[row]),
    says: `was added to \`${pass.nameOf(seq[row])}\``
  };
}

/** The node that was given finite gradients and handed on one that is not. */
function inBackward(pass: Pass, seq: number, makers: number[]): Culprit {
  const maker = makers[0];
  if (maker === undefined) {
    return {
      seq,
      title: `The pass began with NaN or ∞ at \`${pass.textOf(seq)}\``,
      advice: null,
      site: pass.lineOf(seq),
      says: 'was given it'
    };
  }
  const text = pass.textOf(maker);
  const edge = EDGES[pass.store.nameOf(maker)];
  // Of a power it is the exponent that says which numbers it takes.
  const told = pass.store.nameOf(maker) !== 'PowBackward0';
  const advice = told ? edge?.advice(text, argumentOf(text), before(pass, maker)) : null;
  return {
    seq: maker,
    title: `The derivative of \`${text}\` gave NaN or ∞`,
    advice: advice ?? null,
    site: pass.lineOf(maker),
    says: 'had a finite gradient, and handed on one that is not'
  };
}

export function nonfinite(pass: Pass, { norms }: Pick<Before, 'norms'>): Found[] {
  const { store, rows } = pass;
  const bad = rows.findIndex((_, i) => pass.isBad(i));
  const until = bad < 0 ? Infinity : store.runs.at.t1[rows[bad]];
  const hook = store.hooks.rows > 0 ? hookThatMadeNan(pass, until) : -1;
  const odds = oddOf(pass);
  const loss = odds.find(({ seq, name }) => name === VALUE && !store.leafRow.has(seq));
  if (bad < 0 && hook < 0 && !loss) {
    return [];
  }
  const ofLoss = bad < 0 && hook < 0 ? loss : undefined;
  const victim = ofLoss?.seq ?? (bad < 0 ? store.hooks.at.seq[hook] : pass.seqAt(bad));
  const makers = (pass.givers.get(victim) ?? []).filter(maker => {
    const order = pass.orderOf.get(maker) ?? Infinity;
    return order < bad && !pass.isBad(order);
  });
  const near = odds.filter(({ seq }) => makers.includes(seq));
  const edges = [...near, ...odds].map(odd => atEdge(pass, odd)).filter(found => found !== null);
  const forward = inForward(pass, odds, norms);
  const culprit =
    hook >= 0
      ? ofHook(pass, hook)
      : (edges.find(({ seq }) => makers.includes(seq)) ??
        (forward && edges.find(({ seq, says }) => seq <= forward.seq && IN_FORWARD.test(says))) ??
        forward ??
        inBackward(pass, victim, makers));
  const lines: Line[] = culprit.site ? [{ site: culprit.site, says: culprit.says }] : [];
  const where = pass.lineOf(victim);
  if (where && victim !== culprit.seq) {
    const arrives = `the first NaN or ∞ arrives at \`${pass.nameOf(victim)}\``;
    lines.push({ site: where, says: ofLoss ? 'the result is not finite' : arrives });
  }
  const step = bad < 0 ? '' : `In step ${countText(bad + 1)} of ${plural(rows.length, 'step')}.`;
  const finite = 'What `backward()` was called of is not finite; all gradients are.';
  return [
    {
      kind: 'nonfinite',
      key: `nonfinite ${culprit.site ? placeKey(culprit.site) : pass.nameOf(culprit.seq)}`,
      matters: true,
      title: culprit.title,
      detail: ofLoss ? finite : step,
      lines,
      module: pass.moduleOf(culprit.seq),
      advice: culprit.advice,
      seq: victim,
      order: ofLoss ? (pass.orderOf.get(victim) ?? -1) : bad
    }
  ];
}

/** The same for the same expression when its cell runs again. */
export function placeKey(site: Site): string {
  return `${site.cell_id ?? placeText(site)} ${site.function} ${site.text}`;
}
