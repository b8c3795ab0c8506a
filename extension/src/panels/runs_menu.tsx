// The recordings of blocks that ended and that the kernel keeps: one is opened beside the panel,
// two are compared.

import type { ReactElement } from 'react';
import { useState } from 'react';
import type { Source } from '../model/compare/side';
import { sourcesOfRecording } from '../model/compare/sources';
import { plural } from '../model/format';
import { openRecording } from '../protocol/recording';
import type { Run } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { compareWith } from './compare/compare_menu';
import { Comparing } from './compare/comparing';
import { Menu } from './menu';
import type { Presenter } from './presenter';
import { useInspector } from './presenter';

/** 'run 3', or its name. */
export function runTitle({ name, number }: Run): string {
  return oneLine(name, 120) || `run ${number}`;
}

/** The recording of a run; null and a message where it is not kept any more. */
async function fetched(presenter: Presenter, run: Run): Promise<unknown> {
  try {
    return await presenter.controller.request('run', { number: run.number });
  } catch (error) {
    presenter.notify('error', error instanceof Error ? error.message : String(error));
    return null;
  }
}

/** Its newest pass, to be compared. */
async function sourceOf(presenter: Presenter, run: Run): Promise<Source | null> {
  const found = await fetched(presenter, run);
  if (found === null) {
    return null;
  }
  try {
    const passes = sourcesOfRecording(openRecording(found), runTitle(run));
    return passes[passes.length - 1];
  } catch (error) {
    presenter.notify('error', error instanceof Error ? error.message : String(error));
    return null;
  }
}

/** Shows the run beside what is on screen, or two runs beside each other, the earlier one left. */
async function compareRuns(presenter: Presenter, runs: readonly Run[]): Promise<void> {
  const [a, b] = await Promise.all(runs.map(run => sourceOf(presenter, run)));
  if (a && runs.length === 1) compareWith(presenter, a);
  else if (a && b) presenter.compare(new Comparing(presenter, a, b));
}

async function openRun(presenter: Presenter, run: Run): Promise<void> {
  const found = await fetched(presenter, run);
  if (found !== null) presenter.controller.openRun?.(found, runTitle(run));
}

export function RunsMenu({ runs }: { runs: readonly Run[] }): ReactElement {
  const presenter = useInspector();
  const [chosen, setChosen] = useState<readonly number[]>([]);
  const ticked = runs.filter(({ number }) => chosen.includes(number));
  const openable = presenter.controller.openRun !== undefined;
  return (
    <Menu
      label={`Runs ${runs.length}`}
      icon="runs"
      badge={String(runs.length)}
      title="Blocks that were recorded: open one, compare two"
      side="left"
    >
      {close => (
        <>
          {[...runs].reverse().map(run => (
            <div key={run.number} className="agv-sheet-row">
              <label className="agv-elide">
                <input
                  type="checkbox"
                  checked={chosen.includes(run.number)}
                  disabled={ticked.length === 2 && !chosen.includes(run.number)}
                  onChange={({ target }) =>
                    setChosen(
                      target.checked
                        ? [...ticked.map(({ number }) => number), run.number]
                        : chosen.filter(number => number !== run.number)
                    )
                  }
                />{' '}
                {runTitle(run)}{' '}
                <span className="agv-quiet">
                  · {plural(run.passes, 'pass', 'passes')}, {plural(run.nodes, 'node')}
                </span>
              </label>
              {openable && (
                <button
                  type="button"
                  aria-label={`Open ${runTitle(run)}`}
                  disabled={!presenter.reachable}
                  onClick={() => (close(), void openRun(presenter, run))}
                >
                  Open
                </button>
              )}
            </div>
          ))}
          <hr />
          <button
            type="button"
            disabled={ticked.length === 0 || !presenter.reachable}
            onClick={() => (close(), void compareRuns(presenter, ticked))}
          >
            {ticked.length === 2 ? 'Compare these two' : 'Compare with the pass on screen'}
            <small>
              {ticked.length === 0 ? 'tick one run, or two' : ticked.map(runTitle).join(' and ')}
            </small>
          </button>
        </>
      )}
    </Menu>
  );
}
