// All saved tensors of the graph as a table that can be sorted, with totals; the numbers of the
// chosen one on demand.

import type { ReactElement } from 'react';
import { Fragment, useEffect, useMemo, useRef, useState } from 'react';
import { oneLine } from '../protocol/text';
import { bytesText, countText, plural } from '../model/format';
import type { SortKey, TensorRow } from '../model/tensors';
import { sorted, tensorRows } from '../model/tensors';
import { useInspector } from './presenter';
import type { Order } from './sort_head';
import { SortHead } from './sort_head';
import { TensorValues } from './tensor_values';

/** Rows that are made; the totals count all. */
const MOST = 500;

const COLUMNS: { key: SortKey; label: string; says: string }[] = [
  { key: 'node', label: 'node', says: 'who saved it, the newest first' },
  { key: 'name', label: 'name', says: 'under which name' },
  { key: 'shape', label: 'shape', says: '' },
  { key: 'dtype', label: 'dtype', says: '' },
  { key: 'bytes', label: 'bytes', says: 'the largest first' },
  { key: 'version', label: 'version', says: 'when it was saved, and now; overwritten ones first' },
  {
    key: 'shared',
    label: 'shares with',
    says: 'what else lies on its memory; those with most company first'
  },
  { key: 'kept', label: 'kept by', says: 'what still holds the memory; most holders first' },
  { key: 'freed', label: 'freed', says: 'when its node gave it back; held ones first' }
];

/** A name that may be broken where its parts meet, not amid a word. */
function Parts({ text }: { text: string }): ReactElement {
  const parts = text.split(/(?=Backward|\.)/);
  return (
    <>
      {parts.map((part, i) => (
        <Fragment key={i}>
          {i > 0 && <wbr />}
          {part}
        </Fragment>
      ))}
    </>
  );
}

function few(names: readonly string[], most = 3): string {
  const rest = names.length - most;
  const shown = names.slice(0, most).map(name => oneLine(name, 48));
  return shown.join(', ') + (rest > 0 ? ` and ${countText(rest)} more` : '');
}

function Version({ row }: { row: TensorRow }): ReactElement {
  if (row.now === null) {
    return <>v{row.then}</>;
  }
  const stale = row.now !== row.then;
  return stale || row.silent ? (
    <span className="agv-stale">
      {stale ? `v${row.then}, now v${row.now}` : `v${row.then}, changed through .data`}
    </span>
  ) : (
    <>v{row.then}</>
  );
}

/** The numbers of a chosen tensor, below its row. */
function ValuesRow({ row }: { row: TensorRow }): ReactElement {
  return (
    <tr className="agv-numbers">
      <td colSpan={COLUMNS.length}>
        {row.held ? (
          <div>
            <TensorValues seq={row.seq} which={`saved:${row.name}`} />
          </div>
        ) : (
          <span className="agv-quiet">Given back {row.freed}: its values are gone.</span>
        )}
      </td>
    </tr>
  );
}

/** Words go up first; nodes and numbers down: the newest first, the largest. */
const WORDS: readonly SortKey[] = ['name', 'shape', 'dtype'];
const orderOf = (key: SortKey, reverse: boolean): Order =>
  WORDS.includes(key) === reverse ? 'descending' : 'ascending';

export function TensorTable(): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const { states, graph } = model;
  const { version } = model;
  const [key, setKey] = useState<SortKey>('bytes');
  const [reverse, setReverse] = useState(false);
  const [heldOnly, setHeldOnly] = useState(false);
  const [chosen, setChosen] = useState('');
  const { rows, totals } = useMemo(
    () => tensorRows(model),
    [model, states, graph, model.store.saved.rows]
  );
  const shown = useMemo(
    () =>
      sorted(
        rows.filter(row => row.held || !heldOnly),
        key,
        reverse
      ),
    [rows, heldOnly, key, reverse]
  );
  // Rows of the node that is selected elsewhere come into view.
  const marked = useRef<HTMLTableRowElement>(null);
  const own = shown.find(({ seq }) => seq === model.selected);
  useEffect(() => {
    marked.current?.scrollIntoView({ block: 'nearest' });
  }, [own?.seq, own?.name]);
  if (rows.length === 0) {
    return <p className="agv-quiet">The nodes of this graph saved no tensors.</p>;
  }
  return (
    <div data-version={version}>
      <p className="agv-line" style={{ marginTop: 0 }}>
        <b>{bytesText(totals.heldBytes)}</b> held now by{' '}
        {plural(totals.heldTensors, 'saved tensor')} on{' '}
        {plural(totals.heldStorages, 'storage')}; {bytesText(totals.bytes)} saved in all, on{' '}
        {plural(totals.storages, 'storage')}.
      </p>
      <label className="agv-check">
        <input
          type="checkbox"
          checked={heldOnly}
          onChange={event => setHeldOnly(event.target.checked)}
        />
        only those that are held
      </label>
      <div className="agv-wide">
        <table className="agv-tensors">
          <thead>
            <tr>
              {COLUMNS.map(column => (
                <SortHead
                  key={column.key}
                  title={column.label}
                  says={column.says}
                  order={column.key === key ? orderOf(key, reverse) : undefined}
                  sort={() => {
                    setReverse(column.key === key && !reverse);
                    setKey(column.key);
                  }}
                />
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.slice(0, MOST).map(row => {
              const name = `${row.seq} ${row.name}`;
              const choose = (): void => {
                setChosen(name);
                presenter.goTo(row.seq);
              };
              return (
                <Fragment key={name}>
                  <tr
                    ref={row === own ? marked : undefined}
                    aria-selected={name === chosen}
                    data-of-node={row.seq === model.selected ? 'yes' : 'no'}
                    onClick={choose}
                  >
                    <td>
                      <button type="button" className="agv-link" onClick={choose}>
                        <Parts text={oneLine(row.node, 60)} />
                      </button>
                    </td>
                    <td>
                      <code>{oneLine(row.name, 40)}</code>
                      {row.own && <span className="agv-quiet"> own output</span>}
                    </td>
                    <td className="agv-short">{row.shape}</td>
                    <td className="agv-short">{oneLine(row.dtype, 20)}</td>
                    <td className="agv-short agv-number">{bytesText(row.bytes)}</td>
                    <td>
                      <Version row={row} />
                    </td>
                    <td>
                      <Parts text={few(row.shared)} />
                    </td>
                    <td>
                      <Parts text={few(row.keepers)} />
                    </td>
                    <td className="agv-quiet">{row.freed}</td>
                  </tr>
                  {name === chosen && <ValuesRow row={row} />}
                </Fragment>
              );
            })}
          </tbody>
        </table>
      </div>
      {shown.length > MOST && (
        <p className="agv-line agv-quiet">
          {plural(shown.length - MOST, 'tensor')} more: sort by another column to see them first.
        </p>
      )}
    </div>
  );
}
