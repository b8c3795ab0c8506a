// What a newcomer reads while there is no graph: what is missing and what to do next.

import type { ReactElement } from 'react';
import { WATCH_TORCH } from '../protocol/controller';
import { oneLine } from '../protocol/text';
import { Course } from './course';
import { useInspector } from './presenter';

/** A first backward, in a notebook that calls the package so; null: it does not import it. */
export function exampleFor(name: string | null): string {
  const lines = [
    `x = ${name ?? 'ag'}.randn(4, requires_grad=True)`,
    'loss = (x * x).sum()',
    'loss.backward()'
  ];
  return (name === null ? ['import ag_visual as ag', '', ...lines] : lines).join('\n');
}

/** The lines, and a click that puts them into the notebook. */
function Example(): ReactElement {
  const presenter = useInspector();
  const { controller } = presenter;
  const source = exampleFor(controller.importedAs?.() ?? null);
  return (
    <div className="agv-example">
      <pre>{source}</pre>
      {controller.insertCell && (
        <button
          type="button"
          className="agv-btn"
          title="Puts these lines into a new cell below the active one"
          onClick={() => void presenter.insertCell(source)}
        >
          Insert as a cell
        </button>
      )}
    </div>
  );
}

/** One click: a cell with the line below it, which runs. */
function WatchTorch({ primary = false }: { primary?: boolean }): ReactElement {
  const presenter = useInspector();
  return (
    <button
      type="button"
      className="agv-btn"
      data-primary={primary ? 'yes' : undefined}
      title="Runs import ag_visual as ag, torch; ag.watch(torch) in a new cell"
      onClick={() => void presenter.watchTorch()}
    >
      Watch PyTorch
    </button>
  );
}

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
  const watchable = status.torch === true && presenter.controller.watchTorch !== undefined;
  if (status.kind === 'connecting' && watchable) {
    return (
      <div className="agv-empty">
        <h2>This notebook uses PyTorch</h2>
        <p>
          The Inspector can watch it: what runs from then on is recorded, with the same values,
          gradients and errors.
        </p>
        <WatchTorch primary />
        <pre>{WATCH_TORCH}</pre>
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
        <Example />
      </div>
    );
  }
  const watched = store.state.scope === 'newest';
  return (
    <div className="agv-empty">
      <h2>{watched ? 'No backward pass yet' : 'Nothing recorded yet'}</h2>
      <p>
        {watched
          ? 'Run a cell that calls backward(): its graph appears here. Record keeps every pass, ' +
            'with modules, writes and hooks.'
          : 'Press Record, then run a cell that calls backward(). Its graph appears here while ' +
            'it runs.'}
      </p>
      <button
        type="button"
        className="agv-btn"
        data-primary={watched ? undefined : 'yes'}
        disabled={!reachable}
        onClick={() => void presenter.record(true)}
      >
        Record
      </button>
      {watchable && <WatchTorch />}
      <Example />
      <button type="button" className="agv-link" onClick={() => presenter.timing.show(true)}>
        Look at a profile or trace
      </button>
      <Course />
    </div>
  );
}
