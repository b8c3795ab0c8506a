// What a pass gives no gradient: parameters that it left out, with the line that detached them, and
// other inputs that had left the graph. Pure; linear in the parameters of its modules.

import type { Site } from '../../protocol/schema';
import { plural } from '../format';
import type { Missing } from '../parameters';
import { missingBeside, passesTo } from '../parameters';
import { detachedInputs } from './detached_inputs';
import type { Before } from './finders';
import type { Found } from './finding';
import type { Pass } from './pass';
import { moduleOfLabel } from '../modules';
import { placeOf } from './pass';

/** Findings that are told of one pass, and parameters that are named in one. */
const MOST = 8;
const NAMED = 5;

const lineKey = (site: Site): string => `${site.cell_id ?? site.file} ${site.line}`;

/** Whether a pass that another cell called gave it a gradient: a step of another loss. */
function gotElsewhere({ store, site }: Pass, storage: number): boolean {
  for (const task of passesTo(store, storage)) {
    const other = store.tasks.get(task);
    if (other && placeOf(store.site(other.site)) !== placeOf(site)) return true;
  }
  return false;
}

/** Those that are told together: of one line, or of one module that is not used. */
function groupOf({ name, why: { kind, site, repair } }: Missing): string {
  if (kind !== 'unused') return `${kind} ${site ? lineKey(site) : name}`;
  return site ? `${kind} ${lineKey(site)} ${repair}` : `${kind} ${moduleOfLabel(name)}`;
}

function said(pass: Pass, group: readonly Missing[], detached: Found | undefined): Found {
  const [{ name, why }] = group;
  const others = group.length - 1;
  const more = group.slice(1, NAMED + 1).map(one => `\`${one.name}\``);
  const rest = others - more.length;
  const used = why.kind === 'unused';
  const { site } = why;
  const repair = used && !site && others > 0 ? 'use them in the computation' : why.repair;
  return {
    kind: 'none',
    key: `none ${groupOf(group[0])}`,
    matters: group.some(({ storage }) => !gotElsewhere(pass, storage)),
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
    advice: repair ? { text: repair, code: null } : null,
    starving: group.map(({ storage }) => storage),
    how: why.kind,
    seq: detached?.seq ?? null,
    order: -1
  };
}

/**
 * Those without a gradient, one finding for each reason; what of `detachedInputs` they do not say.
 * What other passes of the run give a gradient is left out on purpose.
 */
export function leftOut(pass: Pass, { fed }: Before): Found[] {
  const { store, task } = pass;
  const detached = detachedInputs(pass);
  if (store.parameters.rows === 0 || task.ended !== 'well') {
    return detached;
  }
  const { missing, strangers } = missingBeside(store, pass.orderOf.keys(), task.task);
  const groups = new Map<string, Missing[]>();
  for (const one of missing) {
    if (one.why.kind === '' || fed.has(one.storage)) continue;
    const key = groupOf(one);
    const known = groups.get(key);
    if (known) known.push(one);
    else groups.set(key, [one]);
  }
  const at = (found: Found): string => (found.lines[0] ? lineKey(found.lines[0].site) : '');
  const told = [...groups.values()].map(group => {
    const { site, kind } = group[0].why;
    const same = site && kind !== 'unused' ? lineKey(site) : null;
    return said(pass, group, detached.find(one => at(one) === same));
  });
  // The line that detached them is told with their names.
  const lines = new Set(told.filter(({ how }) => how !== 'unused').map(at));
  const all = missing.every(({ why }) => why.kind === '') && !strangers;
  const isSaid = (one: Found): boolean =>
    lines.has(at(one)) ||
    (one.without?.length === 0 &&
      ((all && one.called === '') || told.some(({ how }) => how === one.how)));
  const rest = detached.filter(one => !isSaid(one));
  return [...told.slice(0, MOST), ...rest];
}
