// The times in a recording as a profile: when each node was made, how long each one ran backward.
// It links to the graph by itself; what a recording does not time, it does not show.

import { countText, placeText, plural } from '../format';
import type { Store } from '../store';
import { assemble } from './assemble';
import { Loose, Texts } from './loose';
import type { Pause } from './pauses';
import { pausesOf } from './pauses';
import type { LinePlace, MemoryCurve, Profile } from './profile';
import { Hue } from './profile';

const NS = 1e6;

/** Milliseconds of the session as ns: whatever is forgotten, moments keep their numbers. */
const ns = (ms: number): number => Math.round(ms * NS);

/** Null where nothing has run yet. most: slices; where there are more, the newest are shown. */
export function profileOfRecording(store: Store, most = Infinity): Profile | null {
  const { nodes, leaves, runs, tasks, pauses } = store;
  if (nodes.rows + runs.rows === 0) {
    return null;
  }
  const [firstNode, firstRun] = newest(store, most);
  const loose = new Loose();
  const names = new Texts(Infinity);
  const texts = new Texts(Infinity);
  const places = new Map<number, LinePlace>();
  const known = new Map<number, number>();
  const lineAt = (id: number): number => {
    let row = known.get(id);
    if (row === undefined) {
      const site = store.site(id);
      row = site ? texts.row(placeText(site)) : -1;
      known.set(id, row);
      if (site?.kind === 'cell' && site.cell_id !== null) {
        const { cell_id: cell, execution_count: execution, line, source_line: text } = site;
        places.set(row, { cell, execution, line, text });
      }
    }
    return row;
  };
  const lineOf = (seq: number): number => {
    const row = store.nodeRow.get(seq);
    if (row >= 0) return lineAt(nodes.at.site[row]);
    const leaf = store.leafRow.get(seq);
    return leaf < 0 ? -1 : lineAt(leaves.at.site[leaf]);
  };
  const trackOf = tracksOf(store, loose);
  for (let i = firstNode; i < nodes.rows; i++) {
    const seq = nodes.at.seq[i];
    const at = ns(nodes.at.t[i]);
    const name = names.row(store.nameOf(seq));
    const track = trackOf('made', nodes.at.thread[i]);
    const more = { seq, runsBackward: false, note: -1, line: lineAt(nodes.at.site[i]) };
    loose.add({ start: at, end: at, name, hue: Hue.made, track, ...more });
  }
  const ran = new Map<number, number>();
  const since = firstRun > 0 ? runs.at.t0[firstRun] : -Infinity;
  for (const { task, number, t, end, ended, thread } of tasks.values()) {
    if (end < since) continue;
    const last = ended === 'no' ? store.now : end;
    const more = { seq: -1, runsBackward: false, note: -1, line: -1 };
    const name = names.row(`backward ${number}`);
    const track = trackOf('ran', thread);
    ran.set(task, track);
    const [start, stop] = [ns(t), ns(Math.max(t, last))];
    loose.add({ start, end: stop, name, hue: Hue.user, track, ...more });
  }
  for (let i = firstRun; i < runs.rows; i++) {
    const seq = runs.at.seq[i];
    const more = { seq, runsBackward: true, note: -1, line: lineOf(seq) };
    const name = names.row(store.nameOf(seq));
    const track = ran.get(runs.at.task[i]) ?? trackOf('ran', 0);
    const [start, end] = [ns(runs.at.t0[i]), ns(runs.at.t1[i])];
    loose.add({ start, end: Math.max(start, end), name, hue: Hue.backward, track, ...more });
  }
  const stops: Pause[] = [];
  for (let i = 0; i < pauses.rows; i++) {
    const track = ran.get(pauses.at.task[i]);
    const [from, to] = [ns(pauses.at.since[i]), ns(pauses.at.t[i])];
    if (track !== undefined) stops.push({ from, to, track });
  }
  const { paused } = store.state;
  const stopped = paused ? ran.get(paused.task) : undefined;
  if (paused && stopped !== undefined) {
    stops.push({ from: ns(paused.since), to: ns(store.now), track: stopped });
  }
  const profile = assemble(loose, {
    names: names.all,
    texts: texts.all,
    memory: savedOver(store, firstNode, trackOf),
    pauses: pausesOf(stops),
    places,
    notices: [
      'From a recording: backward nodes with their lengths; of forward nodes only when each was ' +
        'made. A profile tells how long their ops took.',
      ...leftOut(store, firstNode + firstRun)
    ]
  });
  profile.modules = modulesOf(store, profile, texts);
  return profile;
}

/** Memory is bounded here and in the kernel: what went is said. */
function leftOut({ forgotten, droppedSteps, coalesced }: Store, earlier: number): string[] {
  const rows = Object.values(coalesced).reduce((sum, count) => sum + count, 0);
  const steps = droppedSteps + forgotten.steps;
  const told: string[] = [];
  if (steps > 0) told.push(`the oldest ${plural(steps, 'step')}`);
  if (rows > 0) told.push(`${countText(rows)} events for which the page was too slow`);
  const live = `${plural(earlier, 'earlier slice')} are kept and shown when the recording ends.`;
  return [
    ...(told.length > 0 ? [`Not here any more: ${told.join('; ')}.`] : []),
    ...(earlier > 0 ? [live] : [])
  ];
}

/** The first node and the first run of the newest ones, by time. */
function newest({ nodes, runs }: Store, most: number): [node: number, run: number] {
  let [node, run] = [nodes.rows, runs.rows];
  for (let left = most; left > 0 && node + run > 0; left--) {
    const byNode = node > 0 ? nodes.at.t[node - 1] : -Infinity;
    const byRun = run > 0 ? runs.at.t0[run - 1] : -Infinity;
    if (byNode >= byRun) node--;
    else run--;
  }
  return [node, run];
}

/** The track of what a thread made or ran; a new one where it has none yet. */
function tracksOf(store: Store, loose: Loose): (what: 'made' | 'ran', thread: number) => number {
  const threads = new Set<number>();
  for (let i = 0; i < store.nodes.rows; i++) threads.add(store.nodes.at.thread[i]);
  for (const { thread } of store.tasks.values()) threads.add(thread);
  const order = [...threads].sort((a, b) => a - b);
  const known = new Map<string, number>();
  for (const thread of order) {
    const of = order.length > 1 ? `, thread ${thread}` : '';
    known.set(`made ${thread}`, loose.tracks.length);
    loose.tracks.push({ name: `forward${of}: when each node was made`, process: '' });
    known.set(`ran ${thread}`, loose.tracks.length);
    loose.tracks.push({ name: `backward${of}`, process: '' });
  }
  return (what, thread) => known.get(`${what} ${thread}`) ?? known.get(`${what} ${order[0]}`) ?? 0;
}

/** Milliseconds at which a node gave back what it had saved: it ran, or it went. */
function givenBack({ runs, runsOf, tasks, freed, freedRow }: Store, seq: number): number {
  const gone = freedRow.get(seq);
  let first = gone < 0 ? Infinity : freed.at.t[gone];
  for (let row = runsOf.newest(seq); row !== -1; row = runsOf.before(row)) {
    const task = tasks.get(runs.at.task[row]);
    if (task && !task.retain) first = Math.min(first, runs.at.t1[row]);
  }
  return first;
}

/**
 * Bytes of saved tensors over time, each storage once: from the node that saved it first until the
 * last node that did has given it back.
 */
function savedOver(
  store: Store,
  first: number,
  trackOf: (what: 'made', thread: number) => number
): MemoryCurve[] {
  const { nodes, saved, savedOf } = store;
  const known = new Map<number, number>();
  const [from, to, bytes, track]: number[][] = [[], [], [], []];
  for (let i = first; i < nodes.rows; i++) {
    const seq = nodes.at.seq[i];
    const until = ns(givenBack(store, seq));
    for (const row of savedOf.rows(seq)) {
      const at = known.get(saved.at.storage[row]);
      if (at !== undefined && to[at] >= ns(nodes.at.t[i])) {
        to[at] = Math.max(to[at], until);
        continue;
      }
      known.set(saved.at.storage[row], from.length);
      from.push(ns(nodes.at.t[i]));
      to.push(until);
      bytes.push(saved.at.bytes[row]);
      track.push(trackOf('made', nodes.at.thread[i]));
    }
  }
  if (from.length === 0) {
    return [];
  }
  const changes = from.flatMap((at, i): [number, number][] => [
    [at, bytes[i]],
    [to[i], -bytes[i]]
  ]);
  const steps = changes
    .filter(([at]) => at < Infinity)
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const total = new Float64Array(steps.length);
  let [now, peak] = [0, 0];
  steps.forEach(([, change], i) => {
    now += change;
    total[i] = now;
    peak = Math.max(peak, now);
  });
  const blocks = {
    from: Float64Array.from(from),
    to: Float64Array.from(to),
    bytes: Float64Array.from(bytes),
    kind: new Uint8Array(from.length),
    track: Int32Array.from(track),
    row: new Int32Array(from.length),
    kinds: ['saved for backward']
  };
  const time = Float64Array.from(steps, ([at]) => at);
  return [{ name: 'saved tensors', time, total, peak, blocks }];
}

/** By slice, the path of the modules in whose call its node was made: 'encoder.layers.0'. */
function modulesOf(store: Store, profile: Profile, texts: Texts): Int32Array | null {
  const { calls, callRow, callOf, levelRow } = store;
  if (callOf.size === 0) {
    return null;
  }
  const known = new Map<number, string>();
  const pathOf = (call: number): string => {
    const found = known.get(call);
    if (found !== undefined) return found;
    const row = callRow.get(call);
    let path = '';
    if (row >= 0) {
      known.set(call, '');
      path = pathOf(calls.at.parent[row]);
      const own = store.string(calls.at.name[row]) || store.string(calls.at.kind[row]);
      // A level of a transform stands among the calls and is not a module.
      if (levelRow.get(call) < 0) path = path ? `${path}.${own}` : own;
    }
    known.set(call, path);
    return path;
  };
  return profile.seq.reduce((rows, seq, i) => {
    const path = seq >= 0 ? pathOf(callOf.get(seq)) : '';
    rows[i] = path ? texts.row(path) : -1;
    return rows;
  }, new Int32Array(profile.count));
}
