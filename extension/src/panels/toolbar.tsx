// The top row: what is going on, the commands that act on it, search, export.

import type { ReactElement } from 'react';
import { useEffect, useRef, useState } from 'react';
import { oneLine } from '../protocol/text';
import { plural } from '../model/format';
import type { Presenter } from './presenter';
import { useInspector } from './presenter';

interface Standing {
  kind: 'paused' | 'running' | 'recording' | 'past' | 'gone' | 'off';
  text: string;
}

/** The state of things in a few words. */
export function standing(presenter: Presenter): Standing {
  const { model } = presenter;
  const { state } = model.store;
  const { status, axis, cursor } = model;
  if (status.kind === 'failed') {
    return { kind: 'gone', text: 'Cannot be shown' };
  }
  if (status.kind === 'disconnected') {
    return { kind: 'gone', text: 'Kernel gone' };
  }
  if (status.kind === 'none') {
    return { kind: 'off', text: 'No notebook' };
  }
  if (status.kind === 'connecting') {
    return { kind: 'off', text: 'Connecting' };
  }
  if (cursor !== null && cursor < model.length) {
    const created = axis.forward.length;
    return cursor <= created && axis.slots === 0
      ? { kind: 'past', text: `After node ${cursor} of ${created}` }
      : cursor < created
        ? { kind: 'past', text: `Forward, node ${cursor} of ${created}` }
        : { kind: 'past', text: `Before step ${cursor - created + 1} of ${axis.slots}` };
  }
  if (state.paused) {
    return { kind: 'paused', text: `Paused before step ${state.paused.order + 1} of ${state.paused.total}` };
  }
  if (status.kind === 'offline') {
    return { kind: 'off', text: oneLine(status.subject, 60) || 'Recording' };
  }
  const task = model.shownTask();
  if (task && task.ended === 'no') {
    return { kind: 'running', text: `Backward, ${model.states.done} of ${task.total}` };
  }
  if (state.pause_next) {
    return { kind: 'paused', text: 'Pauses at the next backward' };
  }
  return state.recording ? { kind: 'recording', text: 'Recording' } : { kind: 'off', text: 'Not recording' };
}

export function Toolbar(): ReactElement {
  const presenter = useInspector();
  const now = standing(presenter);
  return (
    <div className="agv-bar" role="toolbar" aria-label="Inspector">
      <h2 className="agv-title">Inspector</h2>
      <span className="agv-pill" data-kind={now.kind} role="status" title={now.text}>
        <span>{now.text}</span>
      </span>
      {presenter.model.status.kind === 'offline' ? <ReplayButtons /> : <LiveButtons />}
      <div className="agv-bar-end">
        <Search />
        <ExportMenu />
      </div>
    </div>
  );
}

function LiveButtons(): ReactElement {
  const presenter = useInspector();
  const { model, paused, commandable } = presenter;
  const { recording } = model.store.state;
  const { selected } = model;
  const target = selected !== null && selected !== model.store.state.paused?.seq;
  const past = model.cursor !== null && model.cursor < model.length;
  return (
    <>
      {past ? (
        <button type="button" className="agv-btn" data-primary="yes" onClick={() => model.scrub(null)}>
          Back to now
        </button>
      ) : null}
      {paused ? (
        <button type="button" className="agv-btn" disabled={!commandable} onClick={() => presenter.continue()} title="Run on to the next breakpoint or the end (F9)">
          Continue <kbd>F9</kbd>
        </button>
      ) : (
        <>
          <button
            type="button"
            className="agv-btn"
            aria-pressed={recording}
            disabled={!commandable}
            onClick={() => void presenter.record(!recording)}
            title={recording ? 'Stop recording' : 'Record every backward pass from now on'}
          >
            <span className="agv-dot" aria-hidden="true" /> Record
          </button>
          <button
            type="button"
            className="agv-btn"
            disabled={!commandable || model.store.state.pause_next}
            onClick={() => presenter.pause()}
            title="Stop before the next node that runs (F8)"
          >
            Pause <kbd>F8</kbd>
          </button>
        </>
      )}
      {paused && (
        <>
          <button
            type="button"
            className="agv-btn"
            data-primary={past ? 'no' : 'yes'}
            disabled={!commandable}
            onClick={() => presenter.step()}
            title="Run this node and stop again (F10)"
          >
            Step <kbd>F10</kbd>
          </button>
          <button
            type="button"
            className="agv-btn"
            disabled={!commandable || !target}
            onClick={() => presenter.runToSelected()}
            title="Run on to the selected node (G)"
          >
            To node
          </button>
        </>
      )}
      <Breakpoints />
    </>
  );
}

function ReplayButtons(): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const at = model.cursor ?? model.length;
  return (
    <>
      <button type="button" className="agv-btn" disabled={at === 0} onClick={() => presenter.scrubBy(-1)} title="One event back (,)">
        Back
      </button>
      <button
        type="button"
        className="agv-btn"
        data-primary={at < model.length ? 'yes' : 'no'}
        disabled={at >= model.length}
        onClick={() => presenter.scrubBy(1)}
        title="One event on (F10 or .)"
      >
        Step <kbd>F10</kbd>
      </button>
      <button
        type="button"
        className="agv-btn"
        disabled={model.length === 0}
        onClick={() => model.scrub(model.axis.slots > 0 ? model.axis.forward.length : 0)}
        title="To the moment before the backward pass"
      >
        To the start
      </button>
    </>
  );
}

/** A button with a sheet below it that closes by Escape, by a click elsewhere, or when the focus leaves. */
function Menu({
  label,
  title,
  side,
  children
}: {
  label: string;
  title: string;
  side: 'left' | 'right';
  children: (close: () => void) => React.ReactNode;
}): ReactElement {
  const [open, setOpen] = useState(false);
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) {
      return undefined;
    }
    const away = (event: Event): void => {
      if (!event.composedPath().includes(ref.current as EventTarget)) setOpen(false);
    };
    document.addEventListener('pointerdown', away, true);
    return () => document.removeEventListener('pointerdown', away, true);
  }, [open]);
  return (
    <div
      className="agv-menu"
      ref={ref}
      onBlur={event => {
        if (event.relatedTarget && !event.currentTarget.contains(event.relatedTarget)) setOpen(false);
      }}
      onKeyDown={event => {
        if (event.key === 'Escape' && open) {
          setOpen(false);
          event.stopPropagation();
          ref.current?.querySelector('button')?.focus();
        }
      }}
    >
      <button type="button" className="agv-btn" aria-haspopup="true" aria-expanded={open} title={title} onClick={() => setOpen(!open)}>
        {label}
      </button>
      {open && (
        <div className="agv-sheet" data-side={side}>
          {children(() => setOpen(false))}
        </div>
      )}
    </div>
  );
}

function Breakpoints(): ReactElement {
  const presenter = useInspector();
  const { model, commandable } = presenter;
  const points = model.store.state.breakpoints;
  const { selected } = model;
  const node = selected !== null && model.graph.indexOf.has(selected) ? selected : null;
  const here = points.some(point => point.kind === 'node' && point.seq === node);
  return (
    <Menu label={points.length > 0 ? `Breakpoints ${points.length}` : 'Breakpoints'} title="Where a backward pass stops" side="left">
      {() => (
        <>
          {points.length === 0 && <p>A backward pass stops before a node with a breakpoint.</p>}
          {points.map(point => (
            <div className="agv-sheet-row" key={point.id}>
              {point.kind === 'node' && point.seq !== undefined ? (
                <button type="button" className="agv-link agv-elide" onClick={() => presenter.goTo(point.seq ?? 0)}>
                  {oneLine(model.titleOf(point.seq), 60)} <span className="agv-quiet">#{point.seq}</span>
                </button>
              ) : (
                <span className="agv-elide">every {oneLine(point.name ?? '', 60)}</span>
              )}
              <button
                type="button"
                disabled={!commandable}
                aria-label="Remove this breakpoint"
                onClick={() =>
                  void presenter.command(
                    'breakpoint',
                    point.kind === 'node' ? { on: false, seq: point.seq } : { on: false, name: point.name }
                  )
                }
              >
                Remove
              </button>
            </div>
          ))}
          {node !== null && !here && (
            <>
              {points.length > 0 && <hr />}
              <button type="button" disabled={!commandable} onClick={() => presenter.toggleBreakpoint(node)}>
                Break before {oneLine(model.titleOf(node), 60)} <small>the selected node (B)</small>
              </button>
            </>
          )}
        </>
      )}
    </Menu>
  );
}

function Search(): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(model.query);
  useEffect(() => {
    presenter.focusSearch = () => {
      input.current?.focus();
      input.current?.select();
    };
  }, [presenter]);
  useEffect(() => {
    const timer = setTimeout(() => {
      if (text !== model.query) model.setQuery(text);
    }, 60);
    return () => clearTimeout(timer);
  }, [text, model]);
  const at = model.selected === null ? -1 : model.hits.indexOf(model.selected);
  return (
    <div className="agv-search" role="search">
      <input
        ref={input}
        type="text"
        value={text}
        placeholder="Find node, line, tensor"
        aria-label="Find node, line, tensor"
        spellCheck={false}
        onChange={event => setText(event.target.value)}
        onKeyDown={event => {
          if (event.key === 'Enter') {
            if (text !== model.query) model.setQuery(text);
            model.nextHit(event.shiftKey ? -1 : 1);
            if (model.selected !== null) presenter.canvas?.reveal(model.selected);
            event.preventDefault();
          } else if (event.key === 'Escape') {
            setText('');
            model.setQuery('');
            input.current?.blur();
          }
          event.stopPropagation();
        }}
      />
      {model.query && (
        <span className="agv-found" aria-live="polite">
          {model.hits.length === 0 ? 'none' : at >= 0 ? `${at + 1} of ${model.hits.length}` : model.hits.length}
        </span>
      )}
    </div>
  );
}

function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function ExportMenu(): ReactElement {
  const presenter = useInspector();
  const nothing = presenter.model.graph.seqs.length === 0;
  const png = async (): Promise<void> => {
    const blob = await presenter.canvas?.picture();
    if (blob) download(blob, 'backward-graph.png');
    else presenter.tell('error', 'The browser could not make the picture: the graph is too large for one image.');
  };
  const html = async (values: boolean, source: boolean): Promise<void> => {
    try {
      const written = await presenter.controller.request('export', { values, source });
      presenter.tell('info', `Saved as ${oneLine(written.html, 300)}`);
    } catch (error) {
      presenter.tell('error', error instanceof Error ? error.message : String(error));
    }
  };
  const parts = presenter.model.graph.seqs.length;
  return (
    <Menu label="Export" title="Save the graph, or look up the keys" side="right">
      {close => (
        <>
          <button type="button" disabled={nothing} onClick={() => (close(), void png())}>
            Picture (PNG) <small>the graph as it looks now</small>
          </button>
          {presenter.live && (
            <>
              <button type="button" disabled={!presenter.commandable || nothing} onClick={() => (close(), void html(true, true))}>
                Page that needs no kernel (HTML) <small>{plural(parts, 'node')}, with values and source lines</small>
              </button>
              <button type="button" disabled={!presenter.commandable || nothing} onClick={() => (close(), void html(false, false))}>
                The same without values and source <small>to share what must not be read</small>
              </button>
              <hr />
              <button type="button" disabled={!presenter.commandable || nothing} onClick={() => (close(), void presenter.command('clear', {}))}>
                Clear the recording
              </button>
            </>
          )}
          <hr />
          <button
            type="button"
            onClick={() => {
              close();
              presenter.helpOpen = true;
              presenter.show();
            }}
          >
            Keys <small>?</small>
          </button>
        </>
      )}
    </Menu>
  );
}
