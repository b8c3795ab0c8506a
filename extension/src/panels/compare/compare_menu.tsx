// 'Compare with…': which other backward pass, or which recording file.

import type { ReactElement } from 'react';
import { useRef, useState } from 'react';
import { openRecording } from '../../protocol/recording';
import { textOfFile } from '../../protocol/recording_file';
import { oneLine } from '../../protocol/text';
import type { Source } from '../../model/compare/side';
import { sourcesOf, sourcesOfRecording } from '../../model/compare/sources';
import { plural } from '../../model/format';
import { Menu } from '../menu';
import type { Presenter } from '../presenter';
import { useInspector } from '../presenter';
import { Comparing } from './comparing';

/** Passes that the list offers; the others are reached with the arrows before it. */
const OFFERED = 30;
/** What a file may be called. */
const ENDINGS = '.agv,.json,.gz,.html,.htm,application/json,text/html';

/** The passes that the Inspector itself holds. */
function ownSources({ model, controller }: Presenter): Source[] {
  const { kept } = controller;
  const after = kept?.beside?.recording ? 'after' : '';
  const name = kept?.name || model.store.state.name || after;
  return sourcesOf(model.store, name, controller.kept);
}

/** The pass that is on screen, as a source; null while there is none. */
export function shownSource(presenter: Presenter): Source | null {
  const task = presenter.model.shownTask();
  const all = ownSources(presenter);
  return all.find(source => source.task === (task?.task ?? null)) ?? all[all.length - 1] ?? null;
}

/** Shows two passes side by side: the earlier one, or that of the file, at the left. */
export function compareWith(presenter: Presenter, other: Source): void {
  const shown = shownSource(presenter);
  if (!shown) {
    presenter.notify('error', 'There is no backward pass here to compare with: record one first.');
    return;
  }
  const later = other.store === shown.store && (other.task ?? 0) > (shown.task ?? 0);
  const [a, b] = later ? [shown, other] : [other, shown];
  presenter.compare(new Comparing(presenter, a, b));
}

/** With the pass before the one on screen. */
export function compareWithBefore(presenter: Presenter): void {
  const shown = shownSource(presenter);
  const before = ownSources(presenter).filter(
    ({ task }) => task !== null && shown?.task !== null && task < (shown?.task ?? 0)
  );
  if (before.length === 0) {
    presenter.notify('error', 'There is no earlier backward pass to compare with: record two.');
    return;
  }
  compareWith(presenter, before[before.length - 1]);
}

/** Opens the comparison that a recording carries. */
export function openBeside(presenter: Presenter): void {
  const beside = presenter.controller.kept?.beside;
  if (!beside) {
    return;
  }
  const own = ownSources(presenter);
  const left = beside.recording
    ? sourcesOfRecording(beside.recording, beside.recording.name || 'before')
    : own;
  const chosen = (of: Source[], task: number | null | undefined): Source | undefined =>
    of.find(source => source.task === task) ?? of[of.length - 1];
  const a = chosen(left, beside.tasks[0]);
  const b = chosen(own, beside.tasks[1]);
  if (a && b) presenter.compare(new Comparing(presenter, a, b));
}

/** The passes of a file that was picked or dropped; null and a message where it cannot be read. */
export async function sourcesOfFile(presenter: Presenter, file: File): Promise<Source[] | null> {
  try {
    const text = await textOfFile(await file.arrayBuffer());
    return sourcesOfRecording(openRecording(text), file.name);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    presenter.notify('error', `${oneLine(file.name, 80)}: ${why}`);
    return null;
  }
}

export function CompareMenu(): ReactElement | null {
  const presenter = useInspector();
  const picker = useRef<HTMLInputElement>(null);
  const [opened, setOpened] = useState<Source[]>([]);
  const { model } = presenter;
  if (model.graph.seqs.length === 0) {
    return null;
  }
  const shown = model.shownTask()?.task ?? null;
  const others = ownSources(presenter).filter(({ task }) => task !== shown);
  const offered = [...others].reverse().slice(0, OFFERED);
  const pick = async (file: File): Promise<void> => {
    const found = await sourcesOfFile(presenter, file);
    if (!found) return;
    setOpened(found);
    compareWith(presenter, found[found.length - 1]);
  };
  const item = (source: Source, close: () => void): ReactElement => (
    <button
      key={source.title}
      type="button"
      onClick={() => {
        close();
        compareWith(presenter, source);
      }}
    >
      {source.title}
    </button>
  );
  return (
    <>
      <Menu
        label="Compare with…"
        title="Show what differs between this backward pass and another one"
        side="left"
      >
        {close => (
          <>
            {offered.map(source => item(source, close))}
            {others.length > offered.length && (
              <p>
                {`${plural(others.length - offered.length, 'older one')}: go there with ‹ first`}
              </p>
            )}
            {others.length === 0 && <p>No other backward pass is recorded here.</p>}
            {opened.length > 0 && <hr />}
            {opened.slice(-OFFERED).map(source => item(source, close))}
            <hr />
            <button
              type="button"
              onClick={() => {
                close();
                picker.current?.click();
              }}
            >
              A recording file… <small>as save_recording wrote it: a file or a page</small>
            </button>
          </>
        )}
      </Menu>
      <input
        ref={picker}
        type="file"
        hidden
        accept={ENDINGS}
        aria-label="Recording to compare with"
        onChange={event => {
          const file = event.target.files?.[0];
          event.target.value = '';
          if (file) void pick(file);
        }}
      />
    </>
  );
}
