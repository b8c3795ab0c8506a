// The profile on screen beside an earlier one: by name, module or line, the largest first.

import type { ReactElement } from 'react';
import { useMemo } from 'react';
import { countText } from '../../model/format';
import type { Change } from '../../model/profile/differences';
import { compareProfiles } from '../../model/profile/differences';
import { lengthText } from '../../draw/profile/view';
import { useCell, useInspector } from '../presenter';
import { KEY_NAMES, KEY_TITLES, KeyButton } from './key_button';
import type { OpenProfile } from './timing';

const MOST_ROWS = 100;
const COLUMNS = ['Change', 'Self before', 'Self now', 'Difference', 'Calls'];
/** A sign beside the word: colour is never alone. */
const SIGNS: Record<Change, string> = { faster: '−', slower: '+', alike: '=', new: '+', gone: '−' };
const KINDS: Record<Change, string> = {
  faster: 'added',
  slower: 'removed',
  alike: 'equal',
  new: 'changed',
  gone: 'changed'
};

export function Beside({ open }: { open: OpenProfile }): ReactElement | null {
  const { timing } = useInspector();
  const other = useCell(timing.beside);
  const { kind } = open.lanes;
  const found = useMemo(
    () => (other ? compareProfiles(other.profile, open.profile, kind) : null),
    [other, open, kind]
  );
  if (!other || !found) {
    return null;
  }
  const by = found.after - found.before;
  return (
    <section className="agv-timing-beside">
      <h2>
        {`${lengthText(Math.abs(by))} ${by <= 0 ? 'less' : 'more'} than ${other.name}`}
        <span className="agv-quiet">
          {` ${lengthText(found.before)} before, ${lengthText(found.after)} now`}
        </span>
        <button type="button" className="agv-link" onClick={() => timing.beside.set(null)}>
          Compare no longer
        </button>
      </h2>
      <div className="agv-timing-table">
        <table>
          <caption className="agv-hidden">Differences by {KEY_NAMES[kind]}</caption>
          <thead>
            <tr>
              {[KEY_TITLES[kind], ...COLUMNS].map(title => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {found.rows.slice(0, MOST_ROWS).map(({ name, row, change, before, after, calls }) => (
              <tr key={name}>
                <th scope="row">
                  <KeyButton {...{ kind, name, row }} />
                </th>
                <td>
                  <span className="agv-kind" data-kind={KINDS[change]}>
                    <span aria-hidden="true">{SIGNS[change]}</span>
                    {change}
                  </span>
                </td>
                <td>{change === 'new' ? '' : lengthText(before)}</td>
                <td>{change === 'gone' ? '' : lengthText(after)}</td>
                <td>{lengthText(after - before)}</td>
                <td>
                  {calls[0] === calls[1]
                    ? countText(calls[0])
                    : `${countText(calls[0])} → ${countText(calls[1])}`}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
