// The row of commands: recording, pausing, stepping, playing, search, export. What does not fit
// stands in a menu at its end.

import type { ReactElement } from 'react';
import { useEffect, useRef, useState } from 'react';
import { BookmarkMenu } from './bookmarks';
import { Breakpoints } from './breakpoints';
import { ExportMenu } from './export_menu';
import { Menu } from './menu';
import { playerItems } from './player_controls';
import type { Presenter } from './presenter';
import { useCell, useInspector } from './presenter';
import { RunsMenu } from './runs_menu';
import type { Item } from './tool_row';
import { Tool, ToolRow } from './tool_row';
import { WatchMenu } from './watch_menu';

/** Pixels to which the search shrinks. */
const LEAST_SEARCH = 92;

export function Toolbar(): ReactElement | null {
  const presenter = useInspector();
  const comparing = useCell(presenter.comparing);
  const timed = useCell(presenter.timing.shown);
  const plain = !comparing && !timed;
  const live = presenter.model.status.kind !== 'offline';
  const searching = plain && !presenter.hides('search');
  const items = [
    ...(live ? liveItems(presenter) : plain ? replayItems(presenter) : []),
    ...(plain ? playerItems(presenter) : []),
    ...(plain ? viewItems(presenter) : [])
  ];
  if (items.length === 0 && !searching) return null;
  return (
    <div className="agv-bar" role="toolbar" aria-label="Inspector">
      <ToolRow
        items={items}
        fixed={searching && <Search />}
        least={searching ? LEAST_SEARCH : 0}
      />
    </div>
  );
}

/** What is seldom needed stands in the menu of an output at once. */
function seldom({ compact }: Presenter, keep: number): Item['keep'] {
  return compact ? 'menu' : keep;
}

function viewItems(presenter: Presenter): Item[] {
  const { compact } = presenter;
  const items: Item[] = [
    { id: 'views', keep: seldom(presenter, 1), element: <BookmarkMenu /> }
  ];
  if (!presenter.hides('export')) {
    items.push({ id: 'export', keep: seldom(presenter, 2), element: <ExportMenu /> });
  }
  if (compact && !presenter.hides('side')) {
    const open = presenter.sideShown;
    items.push({
      id: 'side',
      keep: 'menu',
      element: (
        <Tool
          icon="side"
          label={open ? 'Hide the side' : 'Show the side'}
          title="Node, outline, tensors, hooks and problems"
          run={() => (open ? presenter.closeSide() : presenter.openSide())}
        />
      )
    });
  }
  return items;
}

function liveItems(presenter: Presenter): Item[] {
  const { model, paused, commandable, reachable, debugger: run } = presenter;
  const { recording, runs } = model.store.state;
  const { selected } = model;
  const target = selected !== null && selected !== model.store.state.paused?.seq;
  const past = model.cursor !== null && model.cursor < model.length;
  const items: Item[] = [];
  const add = (id: string, keep: number, element: ReactElement, there = true): void => {
    if (there) items.push({ id, keep, element });
  };
  add(
    'now',
    20,
    <Tool
      icon="now"
      label="Back to now"
      title="Back to now (Escape)"
      primary
      run={() => model.scrub(null)}
    />,
    past
  );
  if (paused) {
    add(
      'continue',
      18,
      <Tool
        icon="continue"
        label="Continue"
        keys="F9"
        title="Run on to the next breakpoint or the end (F9)"
        hidden={presenter.hides('continue')}
        disabled={!commandable}
        run={() => run.continue()}
      />
    );
    if (!presenter.hides('step')) {
      add(
        'step',
        19,
        <Tool
          icon="step"
          label="Step"
          keys="F10"
          title="Run this node, or all of a closed group, and stop again (F10)"
          primary={!past}
          always
          disabled={!commandable}
          run={() => run.step()}
        />
      );
      add(
        'target',
        12,
        <Tool
          icon="target"
          label="To node"
          title="Run on to the selected node (G)"
          disabled={!commandable || !target}
          run={() => run.runToSelected()}
        />
      );
      add('further', 11, <RunOn />);
    }
  } else {
    add(
      'record',
      19,
      <Tool
        icon={recording ? 'stop' : 'record'}
        label={recording ? 'Stop recording' : 'Record'}
        kind={recording ? 'recording' : undefined}
        title={recording ? 'Stop recording' : 'Record every backward pass from now on'}
        always
        hidden={presenter.hides('record')}
        disabled={!reachable}
        run={() => void presenter.record(!recording)}
      />
    );
    const choosing = presenter.controller.watching !== undefined;
    add('watch', 9, <WatchMenu />, choosing && !presenter.hides('record'));
    add(
      'pause',
      18,
      <Tool
        icon="pause"
        label="Pause"
        keys="F8"
        title="Stop before the next node that runs (F8)"
        hidden={presenter.hides('pause')}
        disabled={!commandable || model.store.state.pause_next}
        run={() => run.pause()}
      />
    );
  }
  add('breakpoints', 10, <Breakpoints />, !presenter.hides('breakpoints'));
  add('runs', 8, <RunsMenu runs={runs ?? []} />, (runs ?? []).length > 0);
  return items;
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
    <Menu label="Run on" icon="further" title="Further ways to run on" side="left">
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

function replayItems(presenter: Presenter): Item[] {
  const { model } = presenter;
  const at = model.cursor ?? model.length;
  if (presenter.hides('step') || !presenter.moments) {
    return [];
  }
  return [
    {
      id: 'back',
      keep: 15,
      element: (
        <Tool
          icon="back"
          label="Back"
          title="One event back (,)"
          disabled={at === 0}
          run={() => presenter.debugger.scrubBy(-1)}
        />
      )
    },
    {
      id: 'step',
      keep: 16,
      element: (
        <Tool
          icon="on"
          label="Step"
          keys="F10"
          title="One event on (F10 or .)"
          primary={at < model.length}
          disabled={at >= model.length}
          run={() => presenter.debugger.scrubBy(1)}
        />
      )
    },
    {
      id: 'start',
      keep: 14,
      element: (
        <Tool
          icon="start"
          label="To the start"
          title="To the moment before the backward pass"
          disabled={model.length === 0}
          run={() => model.scrub(model.axis.slots > 0 ? model.axis.forward.length : 0)}
        />
      )
    }
  ];
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
