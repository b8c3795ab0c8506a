// Hooks in the order in which the engine runs them, what each changed, and where it was added: of
// one node, and of a whole backward pass.

import type { ReactElement } from 'react';
import { useMemo } from 'react';
import type { NodeDetails } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { plural } from '../model/format';
import type { HookRow } from '../model/hooks';
import {
  HOOK_KINDS,
  effectText,
  givenText,
  hooksOfNode,
  hooksOfPass,
  madeNan
} from '../model/hooks';
import { useInspector } from './presenter';
import { SourceLink } from './source_link';

const MOST_OF_NODE = 30;
const MOST = 400;

function Item({ row, at }: { row: HookRow; at: number }): ReactElement {
  const { run } = row;
  const bad = madeNan(row) || run?.effect === 'raised';
  const changed = run !== null && !['none', 'same', 'equal', 'kept', 'raised'].includes(run.effect);
  return (
    <li className="agv-hook" data-bad={bad ? 'yes' : 'no'} data-ran={run ? 'yes' : 'no'}>
      <span className="agv-hook-at">{at}</span>
      <div>
        <div className="agv-hook-head">
          <span>
            {HOOK_KINDS[row.kind] ?? oneLine(row.kind, 30)}{' '}
            {row.kind !== 'retain_grad' && <code>{oneLine(row.name, 80)}</code>}
            {row.number > 0 && <span className="agv-quiet"> of output {row.number}</span>}
          </span>
          {row.site && <SourceLink site={row.site} />}
        </div>
        <span className={bad ? 'agv-stale' : 'agv-quiet'}>
          {madeNan(row) && '✕ '}
          {oneLine(effectText(row), 200)}
          {madeNan(row) && `: it made ${plural(run?.after.nan ?? 0, 'NaN', 'NaN')} of none`}
        </span>
        {run && (
          <span className="agv-hook-given">
            {givenText(run.before)}
            {changed && <> → {givenText(run.after)}</>}
          </span>
        )}
      </div>
    </li>
  );
}

/** The hooks of the selected node. */
export function Hooks({
  seq,
  details
}: {
  seq: number;
  details: NodeDetails | null;
}): ReactElement | null {
  const { model } = useInspector();
  const rows = hooksOfNode(model, seq, details?.hooks ?? []);
  if (rows.length === 0) {
    return null;
  }
  return (
    <>
      <div className="agv-sec">Hooks, in order</div>
      <ol className="agv-hooks">
        {rows.slice(0, MOST_OF_NODE).map((row, i) => (
          <Item key={i} row={row} at={i + 1} />
        ))}
      </ol>
      {rows.length > MOST_OF_NODE && (
        <p className="agv-line agv-quiet">{plural(rows.length - MOST_OF_NODE, 'hook')} more.</p>
      )}
    </>
  );
}

/** All hooks of the backward pass that is shown, in the order in which they ran. */
export function HookList(): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const { graph, states, store } = model;
  const answer = presenter.live ? presenter.hooks() : null;
  const known = answer?.kind === 'answer' ? answer.value : null;
  const rows = useMemo(
    () => hooksOfPass(model, known ?? []),
    [model, graph, states, store.hooks.rows, known]
  );
  if (rows.length === 0) {
    return (
      <p className="agv-quiet" style={{ margin: 0 }}>
        {presenter.live
          ? 'No hooks on this graph. Those that you register are listed here in the order in ' +
            'which they run, with what each changed.'
          : 'No hook ran in this backward pass. A recording knows those that ran; hooks that ' +
            'wait are known to a live kernel.'}
      </p>
    );
  }
  const ran = rows.filter(row => row.run).length;
  const culprit = rows.find(madeNan);
  return (
    <>
      <p className="agv-line" style={{ marginTop: 0 }}>
        <b>{plural(ran, 'hook')} ran</b>
        {rows.length > ran && `, ${rows.length - ran} wait`}
        {culprit && (
          <>
            . <span className="agv-stale">The first NaN comes from </span>
            <code>{oneLine(culprit.name, 60)}</code> on <Node seq={culprit.seq} />
          </>
        )}
        .
      </p>
      <ol className="agv-hooks">
        {rows.slice(0, MOST).map((row, i) => {
          const first = i === 0 || rows[i - 1].seq !== row.seq;
          const waits = row.run === null && (i === 0 || rows[i - 1].run !== null);
          return [
            waits ? (
              <li key="waiting" className="agv-sec">
                Not run yet
              </li>
            ) : null,
            first || waits ? (
              <li key={`of ${i}`} className="agv-hook-node">
                <Node seq={row.seq} />
              </li>
            ) : null,
            <Item key={i} row={row} at={i + 1} />
          ];
        })}
      </ol>
      {rows.length > MOST && (
        <p className="agv-line agv-quiet">{plural(rows.length - MOST, 'hook')} more.</p>
      )}
    </>
  );
}

function Node({ seq }: { seq: number }): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  return (
    <button
      type="button"
      className="agv-link"
      aria-pressed={model.selected === seq}
      onClick={() => presenter.goTo(seq)}
    >
      {oneLine(model.titleOf(seq), 80)}
    </button>
  );
}
