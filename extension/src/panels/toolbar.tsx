// The top row: what is going on, the commands that act on it, search, export.

import type { ReactElement } from 'react';
import { useEffect, useRef, useState } from 'react';
import { BookmarkMenu } from './bookmarks';
import { Breakpoints } from './breakpoints';
import { ExportMenu } from './export_menu';
import { Menu } from './menu';
import { PlayerControls } from './player_controls';
import { useCell, useInspector } from './presenter';
import { WatchMenu } from './watch_menu';
import { statusOf } from './status';

export function Toolbar(): ReactElement {
  const presenter = useInspector();
  const comparing = useCell(presenter.comparing);
  const timed = useCell(presenter.timing.shown);
  const now = statusOf(presenter);
  return (
    <div className="agv-bar" role="toolbar" aria-label="Inspector">
      <h2 className="agv-title">Inspector</h2>
      <span className="agv-pill" data-kind={now.kind} role="status" title={now.text}>
        <span>{now.text}</span>
      </span>
      {presenter.model.status.kind !== 'offline' ? (
        <LiveButtons />
      ) : comparing || timed ? null : (
        <ReplayButtons />
      )}
      {!comparing && !timed && (
        <>
          <PlayerControls />
          <div className="agv-bar-end">
            {!presenter.hides('search') && <Search />}
            <BookmarkMenu />
            {!presenter.hides('export') && <ExportMenu />}
          </div>
        </>
      )}
    </div>
  );
}

function LiveButtons(): ReactElement {
  const presenter = useInspector();
  const { model, paused, commandable, reachable } = presenter;
  const { recording } = model.store.state;
  const { selected } = model;
  const target = selected !== null && selected !== model.store.state.paused?.seq;
  const past = model.cursor !== null && model.cursor < model.length;
  return (
    <>
      {past ? (
        <button
          type="button"
          className="agv-btn"
          data-primary="yes"
          onClick={() => model.scrub(null)}
        >
          Back to now
        </button>
      ) : null}
      {paused ? (
        <button
          type="button"
          className="agv-btn"
          hidden={presenter.hides('continue')}
          disabled={!commandable}
          onClick={() => presenter.debugger.continue()}
          title="Run on to the next breakpoint or the end (F9)"
        >
          Continue <kbd>F9</kbd>
        </button>
      ) : (
        <>
          <button
            type="button"
            className="agv-btn"
            hidden={presenter.hides('record')}
            aria-pressed={recording}
            disabled={!reachable}
            onClick={() => void presenter.record(!recording)}
            title={recording ? 'Stop recording' : 'Record every backward pass from now on'}
          >
            <span className="agv-dot" aria-hidden="true" /> Record
          </button>
          {!presenter.hides('record') && <WatchMenu />}
          <button
            type="button"
            className="agv-btn"
            hidden={presenter.hides('pause')}
            disabled={!commandable || model.store.state.pause_next}
            onClick={() => presenter.debugger.pause()}
            title="Stop before the next node that runs (F8)"
          >
            Pause <kbd>F8</kbd>
          </button>
        </>
      )}
      {paused && !presenter.hides('step') && (
        <>
          <button
            type="button"
            className="agv-btn"
            data-primary={past ? 'no' : 'yes'}
            disabled={!commandable}
            onClick={() => presenter.debugger.step()}
            title="Run this node, or all of a closed group, and stop again (F10)"
          >
            Step <kbd>F10</kbd>
          </button>
          <button
            type="button"
            className="agv-btn"
            disabled={!commandable || !target}
            onClick={() => presenter.debugger.runToSelected()}
            title="Run on to the selected node (G)"
          >
            To node
          </button>
          <RunOn />
        </>
      )}
      {!presenter.hides('breakpoints') && <Breakpoints />}
    </>
  );
}

/** Further ways to run on. */
function RunOn(): ReactElement {
  const presenter = useInspector();
  const { debugger: run } = presenter;
  const item = (
    label: string,
    keys: string,
    choose: () => void,
    close: () => void
  ): ReactElement => (
    <button
      type="button"
      disabled={!presenter.commandable}
      onClick={() => {
        choose();
        close();
      }}
    >
      {label} <small>{keys}</small>
    </button>
  );
  return (
    <Menu label="Run on" title="Further ways to run on" side="left">
      {close => (
        <>
          {item('To the next problem', 'P', () => run.stepToProblem(), close)}
          {item('Out of this group', 'Shift F11', () => run.stepOut(), close)}
          {item('One node, also in a closed group', 'F11', () => run.stepInto(), close)}
        </>
      )}
    </Menu>
  );
}

function ReplayButtons(): ReactElement | null {
  const presenter = useInspector();
  const { model } = presenter;
  const at = model.cursor ?? model.length;
  if (presenter.hides('step')) {
    return null;
  }
  return (
    <>
      <button
        type="button"
        className="agv-btn"
        disabled={at === 0}
        onClick={() => presenter.debugger.scrubBy(-1)}
        title="One event back (,)"
      >
        Back
      </button>
      <button
        type="button"
        className="agv-btn"
        data-primary={at < model.length ? 'yes' : 'no'}
        disabled={at >= model.length}
        onClick={() => presenter.debugger.scrubBy(1)}
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
          {model.hits.length === 0
            ? 'none'
            : at >= 0
              ? `${at + 1} of ${model.hits.length}`
              : model.hits.length}
        </span>
      )}
    </div>
  );
}
