// What a newcomer reads while there is no graph: what is missing and what to do next.

import type { ReactElement } from 'react';
import { oneLine } from '../protocol/text';
import { useInspector } from './presenter';

const EXAMPLE = 'x = ag.randn(4, requires_grad=True)\nloss = (x * x).sum()\nloss.backward()';

export function Empty(): ReactElement {
  const presenter = useInspector();
  const { model, reachable } = presenter;
  const { status, store, failure } = model;
  if (failure || status.kind === 'failed') {
    return (
      <div className="agv-empty" role="alert">
        <h2>This cannot be shown</h2>
        <p>{oneLine(failure || status.detail, 600)}</p>
      </div>
    );
  }
  if (status.kind === 'none' || status.kind === 'connecting') {
    return (
      <div className="agv-empty">
        <h2>{status.kind === 'none' ? 'No kernel to follow' : 'Not connected yet'}</h2>
        <p>
          {oneLine(status.detail, 400) || 'Open a notebook and run a cell that imports ag_visual.'}
        </p>
        {status.kind === 'connecting' && <pre>import ag_visual as ag</pre>}
      </div>
    );
  }
  if (status.kind === 'disconnected') {
    return (
      <div className="agv-empty">
        <h2>The kernel is gone</h2>
        <p>
          {oneLine(status.detail, 400) || 'Restart it: the Inspector connects again by itself.'}
        </p>
      </div>
    );
  }
  if (status.kind === 'offline') {
    return (
      <div className="agv-empty">
        <h2>Nothing in this recording</h2>
        <p>It holds no graph nodes. Record while a cell calls backward(), then save again.</p>
      </div>
    );
  }
  if (store.state.recording) {
    return (
      <div className="agv-empty">
        <h2>Recording</h2>
        <p>Run a cell that calls backward(): its graph appears here while it runs.</p>
        <pre>{EXAMPLE}</pre>
      </div>
    );
  }
  return (
    <div className="agv-empty">
      <h2>Nothing recorded yet</h2>
      <p>
        Press Record, then run a cell that calls backward(). Its graph appears here while it runs.
      </p>
      <button
        type="button"
        className="agv-btn"
        data-primary="yes"
        disabled={!reachable}
        onClick={() => void presenter.record(true)}
      >
        Record
      </button>
      <pre>{EXAMPLE}</pre>
      <button type="button" className="agv-link" onClick={() => presenter.timing.show(true)}>
        Look at a profile or trace
      </button>
    </div>
  );
}
