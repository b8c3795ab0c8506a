// What a span of time went into: by name, module or line in a table, and as a flame graph with the
// longest first.

import type { ReactElement } from 'react';
import { useEffect, useMemo, useState } from 'react';
import { bytesText, countText, plural } from '../../model/format';
import { advice } from '../../model/profile/advice';
import { pausedAnywhere } from '../../model/profile/pauses';
import type { Allocated, Keys, NameRow, SortKey, Summary } from '../../model/profile/summary';
import {
  allocatedIn,
  keyText,
  keysOf,
  rowsBy,
  sortRows,
  summarize
} from '../../model/profile/summary';
import { HUE_VARIABLES } from '../../draw/profile/colours';
import { lengthText } from '../../draw/profile/view';
import { useCell, useInspector } from '../presenter';
import { SortHead } from '../sort_head';
import { Flame } from './flame';
import { KEY_NAMES, KEY_TITLES, KeyButton } from './key_button';
import type { OpenProfile } from './timing';

const MOST_ROWS = 100;

const COLUMNS: { key: SortKey; title: string }[] = [
  { key: 'name', title: 'Name' },
  { key: 'total', title: 'Total' },
  { key: 'self', title: 'Self' },
  { key: 'count', title: 'Count' },
  { key: 'average', title: 'Average' },
  { key: 'allocated', title: 'Allocated' }
];

interface Summed {
  open: OpenProfile;
  summary: Summary;
  keys: Keys;
  rows: NameRow[];
  allocated: Allocated | null;
  told: string[];
}

export function Sums({ open }: { open: OpenProfile }): ReactElement {
  const { timing } = useInspector();
  const { profile } = open;
  const { kind } = open.lanes;
  const span = useCell(timing.span);
  const drawing = useCell(timing.drawing);
  /** of the profile that it was made of: while that grows, the sums before stay */
  const [summed, setSummed] = useState<Summed | null>(null);
  useEffect(() => {
    if (drawing) {
      return undefined;
    }
    const { from, to } = span ?? { from: profile.from, to: profile.to + 1 };
    // After the frame that shows the choice: a million slices take a moment to add up.
    const timer = setTimeout(() => {
      const summary = summarize(profile, { from, to });
      const keys = keysOf(profile, kind);
      const rows = kind === 'thread' ? summary.rows : rowsBy(profile, { from, to }, keys);
      const allocated = allocatedIn(profile, { from, to }, keys);
      const told = advice(profile, summary, { from, to });
      setSummed({ open, summary, keys, rows, allocated, told });
    });
    return () => clearTimeout(timer);
  }, [open, profile, kind, span, drawing]);
  const summary = summed?.summary;
  const told = summed?.told ?? [];
  const { from, to } = span ?? profile;
  const length = to - from - pausedAnywhere(profile.pauses, from, to);
  return (
    <section className="agv-timing-sums">
      <h2>
        {span ? 'In the selected span' : 'In the whole profile'}
        <span className="agv-quiet">
          {' '}
          {lengthText(length)}
          {summary && `, ${plural(summary.count, 'slice')}`}
          {summary &&
            profile.overhead > 0 &&
            `, about ${lengthText(summary.count * profile.overhead)} of it the profiler's own`}
          {summed?.allocated &&
            `, ${bytesText(summed.allocated.bytes)} allocated, ` +
              `${bytesText(summed.allocated.alive)} of it still held at the end`}
        </span>
        {span && (
          <button type="button" className="agv-link" onClick={() => timing.span.set(null)}>
            All of it
          </button>
        )}
      </h2>
      {told.length > 0 && (
        <ul className="agv-timing-advice">
          {told.map(text => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      )}
      {summed && (
        <div className="agv-timing-two">
          <Table {...summed} />
          <Flame open={summed.open} root={summed.summary.root} />
        </div>
      )}
    </section>
  );
}

function Table({ open: { lanes }, summary, keys, rows: sums, allocated }: Summed): ReactElement {
  const { kind } = lanes;
  const [sort, setSort] = useState<{ key: SortKey; falling: boolean }>({
    key: 'self',
    falling: true
  });
  const [all, setAll] = useState(false);
  const rows = useMemo(
    () => sortRows(keys, sums, sort.key, sort.falling, allocated),
    [keys, sums, sort, allocated]
  );
  const columns = COLUMNS.filter(({ key }) => key !== 'allocated' || allocated !== null);
  const shown = all ? rows : rows.slice(0, MOST_ROWS);
  return (
    <div className="agv-timing-table">
      <table>
        <caption className="agv-hidden">Time by {KEY_NAMES[kind]}</caption>
        <thead>
          <tr>
            {columns.map(({ key, title }) => (
              <SortHead
                key={key}
                title={key === 'name' ? KEY_TITLES[kind] : title}
                order={sort.key !== key ? undefined : sort.falling ? 'descending' : 'ascending'}
                sort={() =>
                  setSort({ key, falling: sort.key === key ? !sort.falling : key !== 'name' })
                }
              />
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map(row => {
            const name = keyText(keys, row.name);
            return (
              <tr key={row.name}>
                <th scope="row">
                  <KeyButton kind={kind} name={name} row={row.longest}>
                    <i style={{ background: `var(${HUE_VARIABLES[row.hue]})` }} />
                  </KeyButton>
                </th>
                <td>{lengthText(row.total)}</td>
                <td>
                  {lengthText(row.self)}
                  <small> {Math.round((100 * row.self) / Math.max(1, summary.busy))} %</small>
                </td>
                <td>{countText(row.count)}</td>
                <td>{row.count > 0 ? lengthText(row.total / row.count) : '–'}</td>
                {allocated && <td>{bytesText(allocated.by.get(row.name) ?? 0)}</td>}
              </tr>
            );
          })}
        </tbody>
      </table>
      {rows.length > shown.length && (
        <button type="button" className="agv-link" onClick={() => setAll(true)}>
          All {countText(rows.length)} {KEY_NAMES[kind]}s
        </button>
      )}
    </div>
  );
}
