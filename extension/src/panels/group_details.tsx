// A chosen container: what it is, what is in it, how far its nodes are.

import type { ReactElement } from 'react';
import { oneLine } from '../protocol/text';
import type { Container } from '../model/container';
import { durationText, numberText, plural } from '../model/format';
import type { InspectorModel } from '../model/inspector';
import { runMs } from '../model/passes';
import { STATE_NAMES } from '../model/states';
import type { NodeState } from '../model/states';
import { useInspector } from './presenter';
import { SourceLink, SourceText } from './source_link';

const KINDS: Record<Container['kind'], string> = {
  root: 'graph',
  call: 'module',
  level: 'level of a transform',
  code: 'cell or file',
  function: 'function',
  line: 'line',
  repeat: 'repeated',
  turn: 'one turn',
  layers: 'layers',
  part: 'part',
  loose: 'nodes without a line'
};
const MOST = 12;

interface Sum {
  names: [string, number][];
  states: [string, number][];
  parameters: number;
  bytes: number;
  backward: number;
  norm: number;
}

function sumOf(model: InspectorModel, { first, last }: Container): Sum {
  const { store, graph, states } = model;
  const names = new Map<string, number>();
  const found = new Map<string, number>();
  const leaves = new Set<number>();
  const storages = new Map<number, number>();
  const took = runMs(store);
  let backward = 0;
  const count = (map: Map<string, number>, key: string): void =>
    void map.set(key, (map.get(key) ?? 0) + 1);
  for (let i = first; i < last; i++) {
    const seq = graph.seqs[i];
    count(names, store.nameOf(seq));
    count(found, STATE_NAMES[states.node[i] as NodeState]);
    for (let s = graph.badgeStart[i]; s < graph.badgeStart[i + 1]; s++)
      leaves.add(graph.badgeSeq[s]);
    for (let row = store.savedOf.newest(seq); row !== -1; row = store.savedOf.before(row)) {
      storages.set(store.saved.at.storage[row], store.saved.at.bytes[row]);
    }
    for (let row = store.runsOf.newest(seq); row !== -1; row = store.runsOf.before(row)) {
      if (store.runs.at.task[row] === graph.task) backward += took(row);
    }
  }
  const sorted = (map: Map<string, number>): [string, number][] =>
    [...map].sort((a, b) => b[1] - a[1]);
  return {
    names: sorted(names),
    states: sorted(found),
    parameters: leaves.size,
    bytes: [...storages.values()].reduce((sum, bytes) => sum + bytes, 0),
    backward,
    norm: states.norm[first]
  };
}

export function GroupDetails({ group }: { group: Container }): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const sum = sumOf(model, group);
  const open = model.folding.isOpen(group);
  return (
    <div className="agv-det">
      <div className="agv-head">
        <h3 title={oneLine(group.title)}>{oneLine(group.title, 90)}</h3>
        <span className="agv-tag">{KINDS[group.kind]}</span>
      </div>
      <p className="agv-sub">
        {group.site ? <SourceLink site={group.site} /> : oneLine(group.detail, 120)}
        {(group.site || group.detail) && ' · '}
        {plural(group.nodes, 'node')}
        {sum.parameters > 0 && `, ${plural(sum.parameters, 'parameter')}`}
      </p>
      {group.site && <SourceText site={group.site} />}
      <div className="agv-row">
        <button type="button" className="agv-btn" onClick={() => presenter.fold(group, !open)}>
          {open ? 'Close' : 'Open'} <kbd>{open ? 'C' : 'Enter'}</kbd>
        </button>
      </div>
      <table className="agv-facts">
        <tbody>
          <tr>
            <td>state</td>
            <td>{sum.states.map(([name, n]) => `${n} ${name}`).join(', ')}</td>
          </tr>
          {sum.norm >= 0 && (
            <tr>
              <td>gradient arriving</td>
              <td>norm {numberText(sum.norm)}</td>
            </tr>
          )}
          {sum.backward > 0 && (
            <tr>
              <td>backward took</td>
              <td>{durationText(sum.backward)}</td>
            </tr>
          )}
        </tbody>
      </table>
      <div className="agv-sec">Nodes in it</div>
      <ul className="agv-list">
        {sum.names.slice(0, MOST).map(([name, n]) => (
          <li key={name}>
            <span>{oneLine(name, 80)}</span>
            <span className="agv-quiet">{n}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
