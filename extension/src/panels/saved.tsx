// What a node saved: from the recording at once, with sharing and liveness as soon as the kernel
// answers.

import type { ReactElement } from 'react';
import type { NodeDetails } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { bytesText, shapeText } from '../model/format';
import type { InspectorModel } from '../model/inspector';
import { writtenSince } from '../model/states';
import { useInspector } from './presenter';
import { lanesOf, sliceText } from './tensor_values';

export interface SavedRow {
  name: string;
  shape: string;
  dtype: string;
  bytes: number;
  then: number;
  /** null: freed */
  now: number | null;
  /** overwritten since, and still needed */
  stale: boolean;
  silent: boolean;
  shared: string[];
  own: boolean;
  /** inside of vmap: of how many it is one slice */
  lanes: readonly number[];
  /** it has a tangent, or had one */
  tangent: boolean;
}

/** What the op was called on comes first, as in its formula; what it made, last. */
const PLACES: Record<string, number> = { self: 0, input: 0, result: 2 };

/** Saved tensors as they are at the moment shown. */
export function savedRows(
  model: InspectorModel,
  seq: number,
  details: NodeDetails | null
): SavedRow[] {
  const place = ({ name }: SavedRow): number => PLACES[name] ?? 1;
  return unordered(model, seq, details).sort((a, b) => place(a) - place(b));
}

function unordered(
  model: InspectorModel,
  seq: number,
  details: NodeDetails | null
): SavedRow[] {
  const { store, states } = model;
  const ran = model.stateOf(seq) === 4;
  const recorded = store.savedOf.rows(seq).map(row => {
    const written = writtenSince(store, row, states.t);
    const write = store.writeAt(store.saved.at.storage[row], states.t);
    const then = store.saved.at.version[row];
    return {
      name: store.string(store.saved.at.name[row]),
      shape: shapeText(store.string(store.saved.at.shape[row])),
      dtype: store.string(store.saved.at.dtype[row]),
      bytes: store.saved.at.bytes[row],
      then,
      now: written === 'version' ? store.writes.at.version[write] : then,
      stale: written !== 'no' && !ran,
      silent: written === 'silent',
      shared: [] as string[],
      own: (store.saved.at.flags[row] & 1) !== 0,
      lanes: [] as number[],
      tangent: false
    };
  });
  const now = (details?.saved ?? []).map(saved => ({
    name: saved.name,
    shape: shapeText(saved.shape),
    dtype: saved.dtype,
    bytes: saved.bytes,
    then: saved.version_then,
    now: saved.freed ? null : saved.version_now,
    stale: saved.version_now !== null && saved.version_now !== saved.version_then && !ran,
    silent: false,
    shared: saved.shared_with,
    own: saved.own_output,
    lanes: lanesOf(saved.lanes),
    tangent: saved.tangent === true
  }));
  if (now.length === 0) {
    return recorded;
  }
  // In the past the recording knows the version of that moment, and of what was freed its size; the
  // kernel knows what is there now and who shares it.
  return now.map(row => {
    const then = recorded.find(({ name }) => name === row.name);
    return then
      ? {
          ...then,
          now: model.cursor !== null ? then.now : row.now,
          shared: row.shared,
          bytes: row.lanes.length > 0 ? row.bytes : then.bytes,
          lanes: row.lanes,
          tangent: row.tangent
        }
      : row;
  });
}

function sharedText(names: readonly string[]): string {
  const shown = names.slice(0, 4).map(name => oneLine(name, 60));
  const rest = names.length - shown.length;
  return rest > 0
    ? `${shown.join(', ')} and ${rest} more`
    : shown.join(shown.length === 2 ? ' and ' : ', ');
}

export function SavedTensors({
  rows,
  chosen,
  choose
}: {
  rows: SavedRow[];
  chosen: string;
  choose: (name: string) => void;
}): ReactElement | null {
  useInspector();
  if (rows.length === 0) {
    return null;
  }
  return (
    <>
      <div className="agv-sec">Saved tensors</div>
      <table className="agv-saved">
        <thead>
          <tr>
            <th>name</th>
            <th>shape</th>
            <th>bytes</th>
            <th>saved</th>
            <th>now</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(row => (
            <tr key={row.name} aria-selected={rows.length > 1 && row.name === chosen}>
              <td>
                {rows.length > 1 ? (
                  <button type="button" onClick={() => choose(row.name)} title="Show its values">
                    {oneLine(row.name, 40)}
                  </button>
                ) : (
                  <code>{oneLine(row.name, 40)}</code>
                )}
              </td>
              <td title={oneLine(row.dtype)}>
                {row.shape}
                {row.lanes.length > 0 && (
                  <span className="agv-quiet agv-slice"> {sliceText(row.lanes)}</span>
                )}
              </td>
              <td>{bytesText(row.bytes)}</td>
              <td>v{row.then}</td>
              <NowCell row={row} />
            </tr>
          ))}
        </tbody>
      </table>
      {rows
        .filter(row => row.shared.length > 0)
        .map(row => (
          <p key={row.name} className="agv-line">
            {rows.length > 1 && <code>{oneLine(row.name, 40)}: </code>}
            Shares storage with {sharedText(row.shared)}.
          </p>
        ))}
    </>
  );
}

function NowCell({ row }: { row: SavedRow }): ReactElement {
  if (row.silent) {
    return (
      <td
        className="agv-stale"
        title="Written through .data: the version did not move, the values did."
      >
        v{row.now} changed
      </td>
    );
  }
  if (row.stale) {
    return <td className="agv-stale">v{row.now} stale</td>;
  }
  return row.now === null ? <td className="agv-quiet">freed</td> : <td>v{row.now}</td>;
}
