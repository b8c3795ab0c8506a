// Gradients that fade or grow from layer to layer, by the weights of one pass. Pure.

import { countText, numberText } from '../format';
import type { Advice, Found, Line } from './finding';
import type { Pass, Weight } from './pass';
import { EXPLODING_TIMES, LEAST_LAYERS, VANISHING_SHARE } from './thresholds';

/** Activations whose derivative is below 1 almost everywhere. */
const SATURATING: Readonly<Record<string, string>> = {
  SigmoidBackward0: 'sigmoid',
  TanhBackward0: 'tanh',
  HardsigmoidBackward0: 'hardsigmoid',
  SoftmaxBackward0: 'softmax'
};

interface Ends {
  near: Weight;
  far: Weight;
  /** gradient per element, far by near */
  share: number;
}

/** The strongest of the third next to the loss, and of the third farthest from it. */
function ends(weights: readonly Weight[]): Ends | null {
  if (weights.length < LEAST_LAYERS) {
    return null;
  }
  const third = Math.max(1, Math.floor(weights.length / 3));
  const most = (some: readonly Weight[]): Weight =>
    some.reduce((best, one) => (one.rms > best.rms ? one : best));
  const near = most(weights.slice(0, third));
  const far = most(weights.slice(-third));
  return near.rms > 0 ? { near, far, share: far.rms / near.rms } : null;
}

/** The factor from one layer to the next, by the middle one of all. */
function perLayer(weights: readonly Weight[]): number {
  const factors: number[] = [];
  for (let i = 1; i < weights.length; i++) {
    const [a, b] = [weights[i - 1].rms, weights[i].rms];
    if (a > 0 && b > 0) factors.push(b / a);
  }
  factors.sort((a, b) => a - b);
  return factors.length === 0 ? 0 : factors[factors.length >> 1];
}

/** The saturating activation that the pass ran most often: its word and one of its nodes. */
function saturating(pass: Pass): { word: string; seq: number; times: number } | null {
  const found = new Map<string, { word: string; seq: number; times: number }>();
  for (const seq of pass.orderOf.keys()) {
    const word = SATURATING[pass.store.nameOf(seq)];
    if (!word) continue;
    const known = found.get(word);
    if (known) known.times++;
    else found.set(word, { word, seq, times: 1 });
  }
  return [...found.values()].sort((a, b) => b.times - a.times)[0] ?? null;
}

const gradient = (pass: Pass, { seq, norm }: Weight): string =>
  `|grad| is ${numberText(norm)} at \`${pass.nameOf(seq)}\``;

function lines(pass: Pass, culprit: number | null, says: string, victim: Weight): Line[] {
  const found: Line[] = [];
  const site = culprit === null ? null : pass.lineOf(culprit);
  if (site) found.push({ site, says });
  const where = pass.lineOf(victim.seq);
  const same = site && where && site.where === where.where && site.text === where.text;
  if (where && !same) found.push({ site: where, says: `uses \`${pass.nameOf(victim.seq)}\`` });
  return found;
}

export function vanishing(pass: Pass): Found[] {
  const { weights } = pass;
  const found = ends(weights);
  if (!found || found.share >= VANISHING_SHARE) {
    return [];
  }
  const last = weights[weights.length - 1];
  const lost = weights.filter(({ rms }) => rms < VANISHING_SHARE * found.near.rms);
  // Zeros that nothing led down to are another matter: dead units, or something multiplied by 0.
  const faded = lost.some(({ rms }) => rms > 0);
  if (!faded) {
    return [];
  }
  const factor = perLayer(weights);
  const cause = saturating(pass);
  const many = cause !== null && cause.times >= LEAST_LAYERS - 1;
  const advice: Advice = {
    text: many
      ? `ReLU in place of ${cause.word}, a normalization between the layers (\`nn.LayerNorm\`, ` +
        '`nn.BatchNorm1d`), or connections that skip layers'
      : 'An initialization that keeps the size of what goes through ' +
        '(`nn.init.kaiming_normal_`), a normalization between the layers, or connections that ' +
        'skip layers',
    code: null
  };
  return [
    {
      kind: 'vanishing',
      key: `vanishing ${pass.site?.cell_id ?? pass.site?.file ?? ''}`,
      matters: true,
      title: `The gradient vanishes on its way to \`${pass.nameOf(last.seq)}\``,
      detail:
        `${gradient(pass, last)}, ${numberText(weights[0].norm)} at ` +
        `\`${pass.nameOf(weights[0].seq)}\`: a factor of ${numberText(factor)} per layer over ` +
        `${countText(weights.length)} layers. ${countText(lost.length)} of them hardly learn.`,
      lines: lines(
        pass,
        many ? cause.seq : null,
        `\`${cause?.word}\` makes the gradient smaller, ${countText(cause?.times ?? 0)} times`,
        last
      ),
      module: pass.moduleOf(last.seq),
      advice,
      seq: last.seq,
      order: last.order
    }
  ];
}

export function exploding(pass: Pass): Found[] {
  const { weights } = pass;
  if (weights.length < LEAST_LAYERS) {
    return [];
  }
  const third = Math.max(1, Math.floor(weights.length / 3));
  const least = (some: readonly Weight[]): Weight =>
    some.reduce((best, one) => (one.rms < best.rms ? one : best));
  const found = ends(weights);
  if (!found || least(weights.slice(-third)).rms <= EXPLODING_TIMES * found.near.rms) {
    return [];
  }
  const last = weights[weights.length - 1];
  const factor = perLayer(weights);
  return [
    {
      kind: 'exploding',
      key: `exploding ${pass.site?.cell_id ?? pass.site?.file ?? ''}`,
      matters: true,
      title: `The gradient explodes on its way to \`${pass.nameOf(last.seq)}\``,
      detail:
        `${gradient(pass, last)}, ${numberText(weights[0].norm)} at ` +
        `\`${pass.nameOf(weights[0].seq)}\`: a factor of ${numberText(factor)} per layer over ` +
        `${countText(weights.length)} layers.`,
      lines: lines(pass, null, '', last),
      module: pass.moduleOf(last.seq),
      advice: {
        text:
          'A smaller initialization (`nn.init.kaiming_normal_`), a normalization between the ' +
          'layers; `nn.utils.clip_grad_norm_` bounds what is left',
        code: null
      },
      seq: last.seq,
      order: last.order
    }
  ];
}
