// The selected node: where it comes from, what it saved, what arrives, what its hooks did, where gradient goes next.

import type { ReactElement } from 'react';
import { useState } from 'react';
import type { NodeDetails, Values } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { bytesText, numberText, plural, shapeText } from '../model/format';
import { State, STATE_NAMES } from '../model/states';
import type { Answer, Presenter } from './presenter';
import { useInspector } from './presenter';
import type { SavedRow } from './saved';
import { SavedTensors, savedRows } from './saved';
import { SourceLink, SourceText } from './source_link';
import { HeatMap, HistogramView, percent, summaryText } from './value_picture';

const MOST_USES = 12;

function answered<T>(answer: Answer<T>): T | null {
  return answer.kind === 'answer' ? answer.value : null;
}

export function Details(): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const seq = model.selected;
  if (seq === null) {
    return (
      <p className="agv-quiet" style={{ margin: 0 }}>
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
  const problem = model.problemsOf(seq)[0];
  const rows = savedRows(model, seq, details);
  const chosen = choice ?? (rows.find(row => row.stale) ?? rows.find(row => row.own) ?? rows[0])?.name ?? '';
  return (
    <div className="agv-det">
      <div className="agv-head">
        <h3 title={oneLine(isLeaf && label ? label : name)}>{oneLine(isLeaf && label ? label : name, 72)}</h3>
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
          <span className="agv-quiet">{known ? 'made outside the code that is followed' : 'not recorded'}</span>
        )}
        <Output seq={seq} details={details} />
      </p>
      {site && <SourceText site={site} />}
      {problem && (
        <button
          type="button"
          className="agv-warn"
          onClick={() => {
            presenter.tab = 'problems';
            presenter.show();
          }}
        >
          <b>Problem: </b>
          {oneLine(problem.title, 160)}
        </button>
      )}
      {details && !details.alive && <p className="agv-line agv-quiet">The node itself is gone; this is from the recording.</p>}
      <SavedTensors rows={rows} chosen={chosen} choose={setChoice} />
      <SavedValues details={details} />
      <ShownValues seq={seq} isLeaf={isLeaf} chosen={chosen} rows={rows} />
      <Gradient seq={seq} isLeaf={isLeaf} />
      <Hooks seq={seq} details={details} />
      <Next seq={seq} details={details} />
      <Uses seq={seq} />
      <Actions presenter={presenter} seq={seq} name={name} isLeaf={isLeaf} />
    </div>
  );
}

function Output({ seq, details }: { seq: number; details: NodeDetails | null }): ReactElement | null {
  const { store } = useInspector().model;
  const row = store.nodeRow.get(seq);
  const leaf = store.leafRow.get(seq);
  if (details && details.outputs.length > 1) {
    return <> · {plural(details.outputs.length, 'output')}: {details.outputs.slice(0, 4).map(o => shapeText(o.shape)).join(', ')}</>;
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
  if (!isLeaf && (!row || row.now === null)) {
    return null;
  }
  const answer = presenter.values(seq, isLeaf ? 'variable' : `saved:${chosen}`);
  if (answer.kind === 'none' && answer.why === '') {
    return null;
  }
  return (
    <>
      <div className="agv-sec">
        Values now {!isLeaf && rows.length > 1 && <small>of {oneLine(chosen, 40)}</small>}
      </div>
      <ValuesView answer={answer} />
    </>
  );
}

function ValuesView({ answer }: { answer: Answer<Values> }): ReactElement {
  if (answer.kind !== 'answer') {
    return <p className="agv-line agv-quiet">{answer.kind === 'none' ? oneLine(answer.why, 300) : 'Asking the kernel…'}</p>;
  }
  const values = answer.value;
  const text = summaryText(values);
  return (
    <>
      {values.picture && values.numel > 1 && (
        <HeatMap picture={values.picture} label={`Values of shape ${shapeText(values.shape)}: ${text}`} />
      )}
      <p className="agv-line">
        {text}
        {values.picture?.pooled && values.numel > 1 ? '. Each cell stands for several elements.' : ''}
      </p>
    </>
  );
}

function Gradient({ seq, isLeaf }: { seq: number; isLeaf: boolean }): ReactElement | null {
  const presenter = useInspector();
  const { model } = presenter;
  const { states, graph } = model;
  const index = graph.indexOf.get(seq);
  const state = model.stateOf(seq);
  const norm = index >= 0 ? states.norm[index] : (states.leafNorm.get(seq) ?? -1);
  const arrived = Number.isNaN(norm) || norm >= 0;
  // A gradient can be looked at where it waits: before the node that is next, and in a leaf's .grad.
  const wanted = state === State.next || isLeaf || (!presenter.live && arrived);
  const answer: Answer<Values> = wanted ? presenter.values(seq, 'grad') : { kind: 'none', why: '' };
  const values = answer.kind === 'answer' ? answer.value : null;
  if (!values && !arrived) {
    return null;
  }
  return (
    <>
      <div className="agv-sec">{isLeaf ? 'Gradient' : state === State.done ? 'Gradient that arrived' : 'Gradient arriving'}</div>
      <table className="agv-facts">
        <tbody>
          <tr>
            <td>norm</td>
            <td className={Number.isNaN(norm) ? 'agv-stale' : undefined}>{numberText(values ? values.norm : norm)}</td>
            {values && <td>min</td>}
            {values && <td>{numberText(values.min)}</td>}
          </tr>
          {values && (
            <tr>
              <td>zero</td>
              <td>{percent(values.zero / Math.max(1, values.sampled || values.numel))}</td>
              <td>max</td>
              <td>{numberText(values.max)}</td>
            </tr>
          )}
          {values && (values.nan > 0 || values.inf > 0) && (
            <tr>
              <td>NaN</td>
              <td className="agv-stale">{values.nan}</td>
              <td>infinite</td>
              <td className="agv-stale">{values.inf}</td>
            </tr>
          )}
        </tbody>
      </table>
      {values && <HistogramView histogram={values.histogram} label={`Histogram of the gradient: ${summaryText(values)}`} />}
    </>
  );
}

const HOOK_WORDS: Record<string, string> = {
  tensor: 'tensor hook',
  pre: 'pre-hook',
  post: 'post-hook',
  retain_grad: 'retain_grad',
  post_accumulate: 'post-accumulate hook'
};

/** Hooks in the order in which they run; what each changed once it ran. */
function Hooks({ seq, details }: { seq: number; details: NodeDetails | null }): ReactElement | null {
  const { model } = useInspector();
  const { store, graph, states } = model;
  const at = store.hooks.at;
  const ran = store.hooksOf
    .rows(seq)
    .filter(row => (graph.task === null || at.task[row] === graph.task) && at.t[row] <= states.t)
    .map(row => ({
      kind: store.string(at.kind[row]),
      name: store.string(at.name[row]),
      before: at.before[row],
      after: at.after[row]
    }));
  const rest = (details?.hooks ?? []).filter(
    hook => !ran.some(done => done.kind === hook.kind && done.name === hook.name)
  );
  const all = [...ran, ...rest.map(hook => ({ ...hook, before: NaN, after: NaN }))];
  if (all.length === 0) {
    return null;
  }
  return (
    <>
      <div className="agv-sec">Hooks, in order</div>
      <table>
        <tbody>
          {all.slice(0, 30).map((hook, i) => (
            <tr key={`${i} ${hook.name}`}>
              <td style={{ width: 16 }}>{i + 1}</td>
              <td>
                {HOOK_WORDS[hook.kind] ?? oneLine(hook.kind, 30)} {hook.name && <code>{oneLine(hook.name, 40)}</code>}
              </td>
              <td>{hookEffect(hook.before, hook.after)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function hookEffect(before: number, after: number): string {
  if (Number.isNaN(before) && Number.isNaN(after)) {
    return '';
  }
  if (before < 0 || after < 0) {
    return 'ran';
  }
  return before === after ? 'unchanged' : `norm ${numberText(before)} → ${numberText(after)}`;
}

function NodeLink({ seq }: { seq: number }): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  return (
    <button type="button" className="agv-link" onClick={() => presenter.goTo(seq)}>
      {oneLine(model.titleOf(seq), 80)}
    </button>
  );
}

function Next({ seq, details }: { seq: number; details: NodeDetails | null }): ReactElement | null {
  const { model } = useInspector();
  const { store } = model;
  const edges = store.edgesOf.rows(seq);
  edges.sort((a, b) => store.edges.at.src_index[a] - store.edges.at.src_index[b]);
  const targets = edges.map(row => store.edges.at.dst[row]);
  if (targets.length === 0) {
    return null;
  }
  return (
    <>
      <div className="agv-sec">Gradient goes on to</div>
      <ul className="agv-list">
        {targets.slice(0, 40).map((target, i) => {
          const known = store.nodeRow.has(target) || store.leafRow.has(target);
          const told = details?.next[i];
          return (
            <li key={i}>
              {known ? (
                <NodeLink seq={target} />
              ) : (
                <span className="agv-quiet">
                  {target === 0xffffffff ? 'nothing: this input needs no gradient' : oneLine(told?.name || 'a node that was not recorded', 80)}
                </span>
              )}
              <span className="agv-quiet">{shapeOf(model.store, target)}</span>
            </li>
          );
        })}
      </ul>
      {targets.length > 40 && <p className="agv-line">and {targets.length - 40} more</p>}
    </>
  );
}

function shapeOf(store: Presenter['model']['store'], seq: number): string {
  const row = store.nodeRow.get(seq);
  const leaf = store.leafRow.get(seq);
  if (row >= 0) return shapeText(store.string(store.nodes.at.shape[row]));
  return leaf >= 0 ? shapeText(store.string(store.leaves.at.shape[leaf])) : '';
}

/** All nodes that use a leaf: its stubs stand at each of them. */
function Uses({ seq }: { seq: number }): ReactElement | null {
  const { model } = useInspector();
  const [all, setAll] = useState(false);
  const uses = model.graph.leafUses.get(seq);
  if (!uses) {
    return null;
  }
  const shown = all ? uses.slice(0, 500) : uses.slice(0, MOST_USES);
  const leaf = model.store.leafRow.get(seq);
  const storage = leaf < 0 ? -1 : model.store.leaves.at.storage[leaf];
  const write = storage < 0 ? -1 : model.store.writesTo.newest(storage);
  return (
    <>
      {write >= 0 && (
        <p className="agv-line">
          Written {plural(model.store.writes.at.writes[write], 'time')}, last by{' '}
          <code>{oneLine(model.store.string(model.store.writes.at.op[write]), 40)}</code>.
        </p>
      )}
      <div className="agv-sec">All {plural(uses.length, 'use')}</div>
      <ul className="agv-list">
        {shown.map(index => (
          <li key={index}>
            <NodeLink seq={model.graph.seqs[index]} />
            <span className="agv-quiet agv-elide">{oneLine(model.siteOf(model.graph.seqs[index])?.source_line ?? '', 60)}</span>
          </li>
        ))}
      </ul>
      {uses.length > shown.length && (
        <p className="agv-line">
          <button type="button" className="agv-link" onClick={() => setAll(true)}>
            Show {plural(Math.min(500, uses.length) - shown.length, 'more use')}
          </button>
        </p>
      )}
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
  if (!presenter.live || !model.graph.indexOf.has(seq)) {
    return null;
  }
  const points = model.store.state.breakpoints;
  const here = points.some(point => point.kind === 'node' && point.seq === seq);
  const named = points.some(point => point.kind === 'name' && point.name === name);
  return (
    <div className="agv-row">
      <button type="button" className="agv-btn" disabled={!presenter.commandable} onClick={() => presenter.toggleBreakpoint(seq)}>
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

/** '32 kB in 2 saved tensors', for the graph as a whole. */
export function savedTotal(presenter: Presenter): string {
  const { store, graph } = presenter.model;
  let bytes = 0;
  let tensors = 0;
  const seen = new Set<number>();
  for (const seq of graph.seqs) {
    for (let row = store.savedOf.newest(seq); row !== -1; row = store.savedOf.before(row)) {
      tensors++;
      const storage = store.saved.at.storage[row];
      if (!seen.has(storage)) {
        seen.add(storage);
        bytes += store.saved.at.bytes[row];
      }
    }
  }
  return tensors === 0 ? '' : `${bytesText(bytes)} saved`;
}
