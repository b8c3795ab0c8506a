// Gradients that are never zeroed in a loop that updates its parameters, and parameters that get
// gradients while only others are updated. Pure.

import { countText, plural } from '../format';
import type { Found } from './finding';
import type { Pass } from './pass';
import { UPDATES } from './thresholds';

/** The newest row that tells of updates, or of none, in this pass; -1 without one. */
function rowOf({ store, task }: Pass, updated: boolean): number {
  const { updates } = store.held.at;
  return store.heldIn.rows(task.task).find(row => updates[row] > 0 === updated) ?? -1;
}

function keyOf(what: string, { site }: Pass): string {
  return `${what} ${site?.cell_id ?? site?.file ?? ''} ${site?.text ?? ''}`;
}

function never(pass: Pass, row: number): Found[] {
  const { site } = pass;
  const { seq, leaves } = pass.store.held.at;
  const others = leaves[row] - 1;
  const name = pass.nameOf(seq[row]);
  return [
    {
      kind: 'accumulating',
      key: keyOf('idle', pass),
      // Weights that are frozen by leaving them to no optimizer cost time alone.
      matters: false,
      title: `No update changes \`${name}\`${others > 0 ? `, nor ${plural(others, 'other')}` : ''}`,
      detail:
        `${others > 0 ? 'They get' : 'It gets'} a gradient in each pass, which nothing zeroes, ` +
        'while other parameters are updated.',
      lines: site ? [{ site, says: 'adds to the gradients of all steps before' }] : [],
      module: pass.moduleOf(seq[row]),
      advice: {
        text:
          'Give it to an optimizer that makes a `step()`, anew after a module was replaced; or ' +
          'freeze it with `requires_grad_(False)`',
        code: null
      },
      seq: seq[row],
      order: -1
    }
  ];
}

export function accumulation(pass: Pass): Found[] {
  const { store, site } = pass;
  const row = rowOf(pass, true);
  const idle = rowOf(pass, false);
  const found = idle < 0 ? [] : never(pass, idle);
  const updates = row < 0 ? 0 : store.held.at.updates[row];
  if (updates < UPDATES) {
    return found;
  }
  const seq = store.held.at.seq[row];
  const others = store.held.at.leaves[row] - 1;
  const name = pass.nameOf(seq);
  return [
    {
      kind: 'accumulating',
      key: keyOf('accumulating', pass),
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
    },
    ...found
  ];
}
