// What can be compared: the backward passes of a store, and those of a recording that was opened
// beside it. Pure.

import type { OpenRecording } from '../../protocol/recording';
import { ProtocolError } from '../../protocol/decode';
import { NONE } from '../../protocol/schema';
import { oneLine } from '../../protocol/text';
import { countText, placeText } from '../format';
import { Store } from '../store';
import type { Source } from './side';

/** The passes of a store that have a graph, oldest first; its newest nodes where none ran. */
export function sourcesOf(
  store: Store,
  name = '',
  tell: Pick<Source, 'details' | 'values'> = {}
): Source[] {
  const called = oneLine(name, 120);
  const before = called && `${called}: `;
  const tasks = [...store.tasks.values()].sort((p, q) => p.task - q.task);
  const found: Source[] = [];
  tasks.forEach(({ task, root, site }, at) => {
    if (root === NONE) return;
    const place = store.site(site);
    const where = place ? `, ${placeText(place)}` : '';
    const title =
      called && tasks.length === 1
        ? called
        : `${before}backward ${countText(at + 1)} of ${countText(tasks.length)}${where}`;
    found.push({ title, store, task, ...tell });
  });
  if (found.length === 0 && store.nodes.rows > 0) {
    found.push({ title: called || 'the newest nodes', store, task: null, ...tell });
  }
  return found;
}

/** The passes of a recording file; throws ProtocolError where it holds no graph. */
export function sourcesOfRecording(recording: OpenRecording, name: string): Source[] {
  const store = new Store({ nodes: Infinity, writes: Infinity, problems: 1000 });
  for (const batch of recording.batches) {
    if (store.apply(batch) === 'gap') {
      throw new ProtocolError('A part of the recording is missing. Save or copy it again.');
    }
  }
  const found = sourcesOf(store, name, {
    details: seq => recording.details.get(seq),
    values: (seq, which) => recording.values.get(`${seq} ${which}`)
  });
  if (found.length === 0) {
    throw new ProtocolError(`${oneLine(name, 60)} holds no graph.`);
  }
  return found;
}
