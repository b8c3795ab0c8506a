// A failure whose backward was not recorded: the graph on screen is of an earlier one, and says so.

import type { Site } from '../protocol/schema';
import { placeText } from './format';
import type { InspectorModel } from './inspector';

/** How often cells had been run when that cell was; null outside of cells. */
function count(site: Site | null): number | null {
  return site?.kind === 'cell' ? site.execution_count : null;
}

/** A sentence where the newest graph is older than the newest problem; '' where they agree. */
export function earlierText(model: InspectorModel): string {
  const { store, target } = model;
  const problem = store.problems[store.problems.length - 1];
  const task = model.shownTask();
  if (!problem || !task || target.kind !== 'latest') {
    return '';
  }
  const graph = store.site(task.site);
  const [before, after] = [count(graph), count(problem.where)];
  if (!graph || !problem.where || before === null || after === null || before >= after) {
    return '';
  }
  const { node_seq: seq } = problem;
  if (seq !== null && store.nodeRow.has(seq)) {
    return '';
  }
  const record = store.state.recording
    ? ''
    : ' What failed was not recorded: record, then run the cell again.';
  const [here, failed] = [placeText(graph), placeText(problem.where)];
  return `This graph is an earlier one, of ${here}, not what failed at ${failed}.${record}`;
}
