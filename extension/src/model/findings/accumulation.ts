// Gradients that are never zeroed in a loop that updates its parameters. Pure.

import { countText, plural } from '../format';
import type { Found } from './finding';
import type { Pass } from './pass';
import { UPDATES } from './thresholds';

export function accumulation(pass: Pass): Found[] {
  const { store, task, site } = pass;
  const row = store.heldIn.newest(task.task);
  const updates = row < 0 ? 0 : store.held.at.updates[row];
  if (updates < UPDATES) {
    return [];
  }
  const seq = store.held.at.seq[row];
  const others = store.held.at.leaves[row] - 1;
  const name = pass.nameOf(seq);
  return [
    {
      kind: 'accumulating',
      key: `accumulating ${site?.cell_id ?? site?.file ?? ''} ${site?.text ?? ''}`,
      matters: true,
      title: 'Gradients add up over the steps: nothing zeroes them',
      detail:
        `\`${name}.grad\`${others > 0 ? ` and ${plural(others, 'other')}` : ''} went through ` +
        `${countText(updates)} updates of the parameters and ${others > 0 ? 'were' : 'was'} ` +
        'added to again.',
      lines: site ? [{ site, says: 'adds to the gradients of all steps before' }] : [],
      module: pass.moduleOf(seq),
      advice: {
        text: 'Zero them once in each step, before this line',
        code: 'optimizer.zero_grad()'
      },
      seq,
      order: -1
    }
  ];
}
