// The gradient that arrives at a node, and what its hooks did to it.

import type { ReactElement } from 'react';
import type { NodeDetails, Values } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { numberText } from '../model/format';
import { State } from '../model/states';
import type { Answer } from './presenter';
import { useInspector } from './presenter';
import { GradientEditor } from './gradient_editor';
import { HistogramView, percent, summaryText } from './value_picture';

export function Gradient({ seq, isLeaf }: { seq: number; isLeaf: boolean }): ReactElement | null {
  const presenter = useInspector();
  const { model } = presenter;
  const { states, graph } = model;
  const index = graph.indexOf.get(seq);
  const state = model.stateOf(seq);
  const norm = index >= 0 ? states.norm[index] : (states.leafNorm.get(seq) ?? -1);
  const arrived = Number.isNaN(norm) || norm >= 0;
  // A gradient can be looked at where it waits: before the node that is next, and in a leaf's
  // .grad.
  const wanted = state === State.next || isLeaf || (!presenter.live && arrived);
  const answer: Answer<Values> = wanted ? presenter.values(seq, 'grad') : { kind: 'none', why: '' };
  const values = answer.kind === 'answer' ? answer.value : null;
  if (!values && !arrived) {
    return null;
  }
  return (
    <>
      <div className="agv-sec">
        {isLeaf ? 'Gradient' : state === State.done ? 'Gradient that arrived' : 'Gradient arriving'}
      </div>
      <table className="agv-facts">
        <tbody>
          <tr>
            <td>norm</td>
            <td className={Number.isNaN(norm) ? 'agv-stale' : undefined}>
              {numberText(values ? values.norm : norm)}
            </td>
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
      {state === State.next && presenter.live && presenter.paused && (
        <GradientEditor values={values} />
      )}
      {values && (
        <HistogramView
          histogram={values.histogram}
          label={`Histogram of the gradient: ${summaryText(values)}`}
        />
      )}
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
export function Hooks({
  seq,
  details
}: {
  seq: number;
  details: NodeDetails | null;
}): ReactElement | null {
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
                {HOOK_WORDS[hook.kind] ?? oneLine(hook.kind, 30)}{' '}
                {hook.name && <code>{oneLine(hook.name, 40)}</code>}
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
