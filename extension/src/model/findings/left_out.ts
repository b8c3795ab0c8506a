// What a pass gives no gradient: parameters that it left out, with the line that cut them off, and
// other inputs that had left the graph. Pure; linear in the parameters of its modules.

import type { Site } from '../../protocol/schema';
import { plural } from '../format';
import type { Missing } from '../parameters';
import { everGot, missingBeside } from '../parameters';
import { cuts } from './cuts';
import type { Found } from './finding';
import type { Pass } from './pass';
import { moduleOfLabel } from './pass';

/** Findings that are told of one pass, and parameters that are named in one. */
const MOST = 8;
const NAMED = 5;

const lineKey = (site: Site): string => `${site.cell_id ?? site.file} ${site.line}`;

function said(pass: Pass, group: readonly Missing[], cut: Found | undefined): Found {
  const [{ name, why }] = group;
  const others = group.length - 1;
  const more = group.slice(1, NAMED + 1).map(one => `\`${one.name}\``);
  const rest = others - more.length;
  const used = why.kind === 'unused';
  const { site } = why;
  return {
    kind: 'none',
    key: `none ${why.kind} ${site ? lineKey(site) : name} ${used ? why.repair : ''}`,
    // One that other passes give a gradient is left out on purpose: a step of another loss.
    matters: group.some(({ storage }) => !everGot(pass.store, storage)),
    title:
      `\`${name}.grad\` stays None${others > 0 ? `, and ${plural(others, 'other')}` : ''}: ` +
      why.words,
    detail:
      more.length > 0
        ? `So ${others > 1 ? 'do' : 'does'} ${more.join(', ')}` +
          `${rest > 0 ? ` and ${plural(rest, 'other')}` : ''}.`
        : '',
    lines: site ? [{ site, says: used ? 'takes no part of it' : why.words }] : [],
    module: moduleOfLabel(name),
    advice: why.repair ? { text: why.repair, code: null } : null,
    seq: cut?.seq ?? null,
    order: -1
  };
}

/** Those without a gradient, one finding for each reason; what of `cuts` they do not say. */
export function leftOut(pass: Pass): Found[] {
  const { store, task } = pass;
  const cut = cuts(pass);
  if (store.absent.rows === 0 || task.ended !== 'well') {
    return cut;
  }
  const groups = new Map<string, Missing[]>();
  for (const one of missingBeside(store, pass.orderOf.keys(), task.task)) {
    const { kind, site, repair } = one.why;
    if (kind === '') continue;
    const key = `${kind} ${site ? lineKey(site) : ''} ${kind === 'unused' ? repair : ''}`;
    const known = groups.get(key);
    if (known) known.push(one);
    else groups.set(key, [one]);
  }
  const at = (found: Found): string => (found.lines[0] ? lineKey(found.lines[0].site) : '');
  const told = [...groups.values()].map(group => {
    const { site, kind } = group[0].why;
    const same = site && kind !== 'unused' ? lineKey(site) : null;
    return said(pass, group, cut.find(one => at(one) === same));
  });
  // The line that cut them off is told with their names.
  const lines = new Set(told.filter(({ key }) => !key.startsWith('none unused')).map(at));
  return [...told.slice(0, MOST), ...cut.filter(one => !lines.has(at(one)))];
}
