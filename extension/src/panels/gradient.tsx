// The gradient that arrives at a node.

import type { ReactElement } from 'react';
import type { Values } from '../protocol/schema';
import { numberText } from '../model/format';
import { State } from '../model/states';
import { UNWATCHED } from '../model/store';
import type { Answer } from './answers';
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
  if (presenter.teaching.predictor.hides(seq)) {
    return isLeaf ? (
      <p className="agv-line agv-quiet">Its gradient is hidden: it did not arrive yet.</p>
    ) : null;
  }
  if (!values && !arrived) {
    return norm === UNWATCHED ? (
      <p className="agv-line agv-quiet">
        Nobody watched this pass while it ran, so that its gradient is not known: press Record and
        run the cell again.
      </p>
    ) : null;
  }
  const waits = state === State.next && presenter.live && presenter.paused;
  const editable = waits && !presenter.hides('editing');
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
      {editable && <GradientEditor values={values} />}
      {values && (
        <HistogramView
          histogram={values.histogram}
          label={`Histogram of the gradient: ${summaryText(values)}`}
        />
      )}
    </>
  );
}
