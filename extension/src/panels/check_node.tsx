// The button that checks a node's backward against finite differences, and what came of it. The
// verdict has a sign and words; colour comes on top.

import type { ReactElement } from 'react';
import { useState } from 'react';
import type { InputCheck, NodeCheck, NodeDetails } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { useInspector } from './presenter';

const VERDICTS: Record<NodeCheck['verdict'], { sign: string; says: string }> = {
  agrees: { sign: '✓', says: 'agrees with finite differences' },
  differs: { sign: '✗', says: 'differs from finite differences' },
  unknown: { sign: '?', says: 'cannot be checked' }
};

type Result =
  | { kind: 'none' }
  | { kind: 'busy' }
  | { kind: 'done'; check: NodeCheck }
  | { kind: 'failed'; why: string };

export function CheckNode({
  seq,
  details,
  explained
}: {
  seq: number;
  details: NodeDetails | null;
  /** that saved values are gone stands above already */
  explained: boolean;
}): ReactElement | null {
  const presenter = useInspector();
  const [result, setResult] = useState<Result>({ kind: 'none' });
  if (presenter.model.store.leafRow.has(seq) || details?.runs === false) {
    return null;
  }
  if (!presenter.live) {
    return (
      <p className="agv-line agv-quiet">
        A check by finite differences needs the kernel: this is a recording.
      </p>
    );
  }
  const gone = details !== null && (!details.alive || details.saved.some(one => one.freed));
  const check = (): void => {
    setResult({ kind: 'busy' });
    presenter.controller.request('check', { seq }).then(
      value => setResult({ kind: 'done', check: value }),
      (error: unknown) =>
        setResult({ kind: 'failed', why: error instanceof Error ? error.message : String(error) })
    );
  };
  return (
    <>
      <div className="agv-row agv-check-row">
        <button
          type="button"
          className="agv-btn"
          disabled={gone || result.kind === 'busy' || !presenter.reachable}
          onClick={check}
        >
          Check by finite differences
        </button>
        {gone && !explained && (
          <span className="agv-small">
            Its saved tensors were freed: pause before it, or keep the graph with retain_graph=True.
          </span>
        )}
      </div>
      <div role="status">
        {result.kind === 'busy' && <p className="agv-line agv-quiet">Running it again…</p>}
        {result.kind === 'failed' && (
          <p className="agv-line agv-quiet">{oneLine(result.why, 300)}</p>
        )}
        {result.kind === 'done' && <Outcome check={result.check} />}
      </div>
    </>
  );
}

function Outcome({ check }: { check: NodeCheck }): ReactElement {
  const { sign, says } = VERDICTS[check.verdict];
  return (
    <div className="agv-outcome" data-verdict={check.verdict}>
      <p>
        <b>
          <span aria-hidden="true">{sign}</span> {oneLine(check.name, 60)} {says}
        </b>
      </p>
      {check.why_not !== '' && <p className="agv-line">{oneLine(check.why_not, 400)}</p>}
      {check.inputs.slice(0, 12).map(one => (
        <OneInput key={one.name} one={one} />
      ))}
    </div>
  );
}

function OneInput({ one }: { one: InputCheck }): ReactElement {
  const count = one.shape.reduce((product, n) => product * n, 1);
  const { worst } = one;
  const place = worst && worst.index.length > 0 ? `[${worst.index.join(', ')}]` : '';
  return (
    <div>
      <p className="agv-line">
        <b>
          <span aria-hidden="true">{one.ok ? '✓' : '✗'}</span>{' '}
          <code>{oneLine(one.name, 40)}</code>
        </b>{' '}
        {one.ok ? 'agrees' : 'is wrong'}; {one.compared} of {count} compared
        {one.non_smooth > 0 ? `, ${one.non_smooth} at a non-smooth point left out` : ''}, step{' '}
        {oneLine(one.step, 20)}
        {one.made_up ? '; its values are unknown, and no gradient depends on them' : ''}
      </p>
      {worst && (
        <table className="agv-facts">
          <tbody>
            <tr>
              <td>at</td>
              <td>
                <code>
                  {oneLine(one.name, 40)}
                  {place}
                </code>
              </td>
            </tr>
            <tr>
              <td>backward</td>
              <td>{oneLine(worst.backward, 40)}</td>
            </tr>
            <tr>
              <td>differences</td>
              <td>{oneLine(worst.differences, 40)}</td>
            </tr>
            <tr>
              <td>apart</td>
              <td>
                {oneLine(one.absolute, 20)}, relative {oneLine(one.relative, 20)}
              </td>
            </tr>
          </tbody>
        </table>
      )}
    </div>
  );
}
