// A gradient that is suddenly many times what it was in the passes before. Pure.

import { numberText } from '../format';
import type { Found, Line } from './finding';
import type { Pass } from './pass';
import { SPIKE_PASSES, SPIKE_TIMES } from './thresholds';

/** norms, peak: of passes of the same line before, those with a finite gradient. */
export function growth(pass: Pass, norms: readonly number[], peak: number): Found[] {
  const { norm } = pass;
  if (norms.length < SPIKE_PASSES || !Number.isFinite(norm)) {
    return [];
  }
  const usual = [...norms].sort((a, b) => a - b)[norms.length >> 1];
  if (usual === 0 || norm <= SPIKE_TIMES * usual || norm <= 10 * peak) {
    return [];
  }
  let most = -1;
  for (const [seq, order] of pass.orderOf) {
    const isLeaf = pass.store.leafRow.has(seq);
    if (isLeaf && (most < 0 || pass.normAt(order) > pass.normAt(most))) most = order;
  }
  const seq = most < 0 ? null : pass.seqAt(most);
  const { site } = pass;
  const lines: Line[] = site ? [{ site, says: 'this backward' }] : [];
  return [
    {
      kind: 'exploding',
      key: `growth ${site?.cell_id ?? site?.file ?? ''} ${site?.text ?? ''}`,
      matters: true,
      title: `The gradient grew to ${numberText(norm / usual)} times what it was`,
      detail:
        `|grad| of all parameters is ${numberText(norm)}; in the passes before it was ` +
        `${numberText(usual)}.` +
        (seq === null ? '' : ` Most of it is that of \`${pass.nameOf(seq)}\`.`),
      lines,
      module: seq === null ? '' : pass.moduleOf(seq),
      advice: {
        text:
          'A smaller learning rate, or `nn.utils.clip_grad_norm_(model.parameters(), 1.0)` ' +
          'before the step',
        code: null
      },
      seq,
      order: most
    }
  ];
}
