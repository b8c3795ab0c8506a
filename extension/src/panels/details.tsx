// The selected node: where it comes from, what it saved, what arrives, what its hooks did, where
// gradient goes next.

import type { ReactElement } from 'react';
import { useState } from 'react';
import type { NodeDetails } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { plural, shapeText } from '../model/format';
import { STATE_NAMES } from '../model/states';
import { GraphBreaks } from './graph_breaks';
import { Gradient } from './gradient';
import { GroupDetails } from './group_details';
import { Hooks } from './hooks';
import { Next, Uses } from './node_links';
import type { Answer } from './answers';
import { OpCard } from './op_card';
import type { Presenter } from './presenter';
import { useInspector } from './presenter';
import { PredictionCard } from './prediction';
import type { SavedRow } from './saved';
import { SavedTensors, savedRows } from './saved';
import { SourceLink, SourceText } from './source_link';
import { TensorValues } from './tensor_values';

function answered<T>(answer: Answer<T>): T | null {
  return answer.kind === 'answer' ? answer.value : null;
}

export function Details(): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const seq = model.selected;
  if (model.group) {
    return <GroupDetails group={model.group} />;
  }
  if (seq === null) {
    return (
      <p className="agv-quiet" style={{ margin: 0 }}>
        {model.lost && `This pass has no ${oneLine(model.lost, 120)}. `}
        {model.graph.seqs.length > 0
          ? 'Select a node to see its source line, what it saved and the gradient that arrives.'
          : 'Nodes will be explained here.'}
      </p>
    );
  }
  return <NodeView key={`${model.store.session} ${seq}`} seq={seq} />;
}

function NodeView({ seq }: { seq: number }): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const { store } = model;
  const [choice, setChoice] = useState<string | null>(null);
  const details = answered(presenter.details(seq));
  const isLeaf = store.leafRow.has(seq);
  const known = isLeaf || store.nodeRow.has(seq);
  const site = details?.site ?? model.siteOf(seq);
  const name = store.nameOf(seq) || details?.name || `Node ${seq}`;
  const label = store.label(seq) || details?.variable || '';
  const state = STATE_NAMES[model.stateOf(seq)];
  const problem = model.problemsOf(seq).find(({ solved }) => !solved);
  const stopped = store.state.paused;
  const rows = savedRows(model, seq, details);
  const chosen =
    choice ?? (rows.find(row => row.stale) ?? rows.find(row => row.own) ?? rows[0])?.name ?? '';
  return (
    <div className="agv-det">
      <PredictionCard seq={seq} />
      <div className="agv-head">
        <h3 title={oneLine(isLeaf && label ? label : name)}>
          {oneLine(isLeaf && label ? label : name, 72)}
        </h3>
        {known && (
          <span className="agv-tag" data-state={state}>
            {state}
          </span>
        )}
      </div>
      <p className="agv-sub">
        {isLeaf && label ? 'leaf; its gradient is collected by AccumulateGrad ' : null}
        {site ? (
          <SourceLink site={site} />
        ) : isLeaf && label ? null : (
          <span className="agv-quiet">
            {known ? 'made outside the code that is followed' : 'not recorded'}
          </span>
        )}
        <Output seq={seq} details={details} />
      </p>
      {site && <SourceText site={site} />}
      {site?.cell_id && <LineNodes seq={seq} cell={site.cell_id} line={site.line} />}
      {stopped?.seq === seq && stopped.problem && (
        <p className="agv-warn" role="alert">
          {oneLine(stopped.problem, 300)}
        </p>
      )}
      {problem && (
        <button
          type="button"
          className="agv-warn"
          onClick={() => presenter.tab.set('problems')}
        >
          <b>Problem: </b>
          {oneLine(problem.title, 160)}
        </button>
      )}
      {details && !details.alive && (
        <p className="agv-line agv-quiet">The node itself is gone; this is from the recording.</p>
      )}
      <OpCard seq={seq} name={store.nameOf(seq) || details?.name || ''} details={details} />
      {!presenter.hides('saved') && <SavedTensors rows={rows} chosen={chosen} choose={setChoice} />}
      <SavedValues details={details} />
      {!presenter.hides('values') && (
        <ShownValues seq={seq} isLeaf={isLeaf} chosen={chosen} rows={rows} />
      )}
      {!presenter.hides('gradient') && <Gradient seq={seq} isLeaf={isLeaf} />}
      <Hooks seq={seq} details={details} />
      <Next seq={seq} details={details} />
      <GraphBreaks seq={seq} />
      <Uses seq={seq} />
      <Actions presenter={presenter} seq={seq} name={name} isLeaf={isLeaf} />
    </div>
  );
}

/** Where one line made several nodes: which of them this is, and the way to the others. */
function LineNodes({
  seq,
  cell,
  line
}: {
  seq: number;
  cell: string;
  line: number;
}): ReactElement | null {
  const presenter = useInspector();
  const seqs = presenter.model.lines.of(cell, line);
  const at = seqs.indexOf(seq);
  if (seqs.length < 2 || at < 0) {
    return null;
  }
  const go = (by: number): void =>
    presenter.goTo(seqs[(at + by + seqs.length) % seqs.length]);
  return (
    <p className="agv-line">
      <button
        type="button"
        className="agv-step"
        aria-label="Node of this line before it"
        onClick={() => go(-1)}
      >
        ‹
      </button>{' '}
      node {at + 1} of {seqs.length} that this line made{' '}
      <button
        type="button"
        className="agv-step"
        aria-label="Next node of this line"
        onClick={() => go(1)}
      >
        ›
      </button>
    </p>
  );
}

function Output({
  seq,
  details
}: {
  seq: number;
  details: NodeDetails | null;
}): ReactElement | null {
  const { store } = useInspector().model;
  const row = store.nodeRow.get(seq);
  const leaf = store.leafRow.get(seq);
  if (details && details.outputs.length > 1) {
    return (
      <>
        {' '}
        · {plural(details.outputs.length, 'output')}:{' '}
        {details.outputs
          .slice(0, 4)
          .map(o => shapeText(o.shape))
          .join(', ')}
      </>
    );
  }
  if (row < 0 && leaf < 0) {
    return null;
  }
  const table = row >= 0 ? store.nodes.at : store.leaves.at;
  const at = row >= 0 ? row : leaf;
  return (
    <>
      {' · '}
      <span style={{ whiteSpace: 'nowrap' }}>
        {shapeText(store.string(table.shape[at]))} {oneLine(store.string(table.dtype[at]), 20)}
      </span>
    </>
  );
}

function SavedValues({ details }: { details: NodeDetails | null }): ReactElement | null {
  if (!details || details.values.length === 0) {
    return null;
  }
  return (
    <table className="agv-facts" style={{ marginTop: 8 }}>
      <tbody>
        {details.values.slice(0, 20).map(({ name, text }) => (
          <tr key={name}>
            <td>{oneLine(name, 40)}</td>
            <td>
              <code>{oneLine(text, 80)}</code>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A small picture of the chosen saved tensor, or of the leaf itself. */
function ShownValues({
  seq,
  isLeaf,
  chosen,
  rows
}: {
  seq: number;
  isLeaf: boolean;
  chosen: string;
  rows: SavedRow[];
}): ReactElement | null {
  const presenter = useInspector();
  const row = rows.find(({ name }) => name === chosen);
  if (!isLeaf && (!row || (row.now === null && !row.tangent))) {
    return null;
  }
  const which = isLeaf ? 'variable' : `saved:${chosen}`;
  const answer = presenter.values(seq, which);
  if (answer.kind === 'none' && answer.why === '') {
    return null;
  }
  return (
    <>
      <div className="agv-sec">
        {row?.now === null ? 'Values then' : 'Values now'}{' '}
        {!isLeaf && rows.length > 1 && <small>of {oneLine(chosen, 40)}</small>}
      </div>
      <TensorValues key={which} seq={seq} which={which} />
    </>
  );
}

function Actions({
  presenter,
  seq,
  name,
  isLeaf
}: {
  presenter: Presenter;
  seq: number;
  name: string;
  isLeaf: boolean;
}): ReactElement | null {
  const { model } = presenter;
  if (!presenter.live || presenter.hides('breakpoints') || !model.graph.indexOf.has(seq)) {
    return null;
  }
  const points = model.store.state.breakpoints;
  const here = points.some(point => point.kind === 'node' && point.seq === seq);
  const named = points.some(point => point.kind === 'name' && point.name === name);
  return (
    <div className="agv-row">
      <button
        type="button"
        className="agv-btn"
        disabled={!presenter.commandable}
        onClick={() => presenter.debugger.toggleBreakpoint(seq)}
      >
        {here ? 'Remove breakpoint' : 'Break here'}
      </button>
      {!isLeaf && (
        <button
          type="button"
          className="agv-btn"
          disabled={!presenter.commandable}
          onClick={() => void presenter.command('breakpoint', { on: !named, name })}
        >
          {named ? `Don’t break on ${oneLine(name, 30)}` : `Break on every ${oneLine(name, 30)}`}
        </button>
      )}
    </div>
  );
}
