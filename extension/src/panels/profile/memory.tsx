// What held memory at a moment of the curve, by what made it: the pieces, their lines, and the way
// to the tensors.

import type { ReactElement } from 'react';
import { useMemo } from 'react';
import { bytesText, countText, plural } from '../../model/format';
import type { Held } from '../../model/profile/alive';
import { aliveIn, highest } from '../../model/profile/alive';
import { lengthText } from '../../draw/profile/view';
import { useCell, useInspector } from '../presenter';
import type { OpenProfile } from './timing';

const MOST_ROWS = 50;
const MOST_SHARES = 4;
const COLUMNS = ['Made by', 'Line', 'What', 'Bytes', 'Pieces', 'Given back'];

function shares(all: readonly [string, number][], bytes: number): string {
  const told = all
    .slice(0, MOST_SHARES)
    .map(([name, of]) => `${name} ${bytesText(of)} (${Math.round((100 * of) / bytes)} %)`);
  const rest = all.length - told.length;
  return told.join(', ') + (rest > 0 ? `, and ${countText(rest)} more` : '');
}

export function Memory({ open }: { open: OpenProfile }): ReactElement | null {
  const { timing } = useInspector();
  const moment = useCell(timing.moment);
  const { profile } = open;
  const curve = moment ? profile.memory[moment.curve] : undefined;
  const alive = useMemo(
    () => (moment && curve?.blocks ? aliveIn(profile, curve.blocks, moment.time) : null),
    [profile, curve, moment]
  );
  const linked = alive?.held.some(({ row }) => row >= 0 && timing.nodeOf(row) !== null) ?? false;
  const told = profile.memory.some(({ blocks }) => blocks !== null);
  if (!moment || !curve) {
    return told ? (
      <p className="agv-timing-peak">
        <button type="button" className="agv-link" onClick={() => timing.peak()}>
          What held memory at its peak?
        </button>
      </p>
    ) : null;
  }
  const peak = moment.time === highest(curve, profile.from, profile.to);
  const when = `${peak ? 'At the peak, ' : 'At '}${lengthText(moment.time - profile.from)}`;
  return (
    <section className="agv-timing-memory" aria-live="polite">
      <h2>
        {`${when}: ${bytesText(alive?.bytes ?? 0)} in ${plural(alive?.count ?? 0, 'piece')}`}
        <span className="agv-quiet"> {curve.name}</span>
        {!peak && (
          <button type="button" className="agv-link" onClick={() => timing.peak()}>
            Go to the peak
          </button>
        )}
        <button type="button" className="agv-link" onClick={() => timing.moment.set(null)}>
          Close
        </button>
      </h2>
      {!alive && <p className="agv-quiet">This file tells totals, and no single pieces.</p>}
      {alive && alive.kinds.length > 1 && (
        <p className="agv-timing-shares">By kind: {shares(alive.kinds, alive.bytes)}</p>
      )}
      {alive && alive.lines.length > 0 && (
        <p className="agv-timing-shares">By line: {shares(alive.lines, alive.bytes)}</p>
      )}
      {alive && alive.held.length > 0 && (
        <div className="agv-timing-table">
          <table>
            <caption className="agv-hidden">What held memory at this moment</caption>
            <thead>
              <tr>
                {[...COLUMNS, ...(linked ? ['Tensors'] : [])].map(title => (
                  <th key={title} scope="col">
                    {title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {alive.held.slice(0, MOST_ROWS).map((held, i) => (
                <Row
                  key={i}
                  {...{ open, held, linked }}
                  kinds={curve.blocks?.kinds ?? []}
                />
              ))}
            </tbody>
          </table>
          {alive.held.length > MOST_ROWS && (
            <p className="agv-quiet">
              and {countText(alive.held.length - MOST_ROWS)} more, smaller
            </p>
          )}
        </div>
      )}
    </section>
  );
}

interface RowProps {
  open: OpenProfile;
  held: Held;
  kinds: readonly string[];
  /** there is a column with links to tensors */
  linked: boolean;
}

function Row({ open: { profile }, held, kinds, linked }: RowProps): ReactElement {
  const { timing } = useInspector();
  const { row, line, kind, bytes, count, until } = held;
  const name = row < 0 ? '' : (profile.names[held.name] ?? '(no name)');
  const gone = until === Infinity ? 'later' : lengthText(until - profile.from);
  const node = row >= 0 && timing.nodeOf(row) !== null;
  return (
    <tr>
      <th scope="row">
        {name ? (
          <button
            type="button"
            className="agv-link"
            title={`Go to ${name}`}
            onClick={() => timing.select(row, true)}
          >
            {name}
          </button>
        ) : (
          <span className="agv-quiet">there before, or made outside</span>
        )}
      </th>
      <td className="agv-timing-text">{line}</td>
      <td className="agv-timing-text">{kinds[kind] ?? ''}</td>
      <td>{bytesText(bytes)}</td>
      <td>{countText(count)}</td>
      <td>{gone}</td>
      {linked && (
        <td>
          {node && (
            <button
              type="button"
              className="agv-link"
              title="What its node saved, in the table of tensors"
              onClick={() => timing.toTensors(row)}
            >
              show
            </button>
          )}
        </td>
      )}
    </tr>
  );
}
