import { expect, test } from 'vitest';
import { InspectorModel } from '../../src/model/inspector';
import { readColumns } from '../../src/model/profile/columns_file';
import { aliveIn, highest } from '../../src/model/profile/alive';
import { heatMarks, lineCosts } from '../../src/model/profile/heat';
import { canGroup, groupsOf } from '../../src/model/profile/groups';
import type { Blocks, Profile } from '../../src/model/profile/profile';
import { Hue, lengthOf } from '../../src/model/profile/profile';
import { profileOfRecording } from '../../src/model/profile/recorded';
import { compareProfiles } from '../../src/model/profile/differences';
import { allocatedIn, keyText, keysOf, rowsBy, summarize } from '../../src/model/profile/summary';
import { placeLanes } from '../../src/layout/profile/lanes';
import { Program } from '../synthetic/program';
import { columnsFile, readTrace, slice, traceText } from '../synthetic/profiles';

const i8 = (...values: number[]) => ({ type: '<i8' as const, values });
const i4 = (...values: number[]) => ({ type: '<i4' as const, values });
const u1 = (...values: number[]) => ({ type: 'u1' as const, values });

const NAMES = ['aten::linear', 'aten::mm', 'evaluate MmBackward0', 'MmBackward0', 'loader'];

/** Two threads. The backward of the `mm` of line 1 has line 9 in the file, and stands still. */
function profile(execution = 3): Profile {
  return readColumns(
    columnsFile(
      {
        start: 1000,
        names: NAMES,
        threads: [[1, 'MainThread'], [2, 'Worker']],
        stacks: [`In[${execution}] line 1`, `In[${execution}] line 9`, 'data.py line 4'],
        places: [
          ['cell-3', execution, 1, 'y = model(x)'],
          ['cell-3', execution, 9, 'y.backward()'],
          null
        ],
        categories: ['other', 'activation'],
        pauses: [[1120, 1180, 0], [1170, 1190, 0], [0, 'x', 0], [1, 2, 7]]
      },
      {
        start: i8(1000, 1010, 1100, 1110, 1000),
        end: i8(1060, 1050, 1200, 1195, 1400),
        name: i4(0, 1, 2, 3, 4),
        kind: u1(0, 0, 1, 2, 0),
        thread: i4(0, 0, 0, 0, 1),
        seq: i8(-1, 7, 7, 7, -1),
        forward: i4(-1, -1, 1, 1, -1),
        inputs: i4(-1, -1, -1, -1, -1),
        stack: i4(0, -1, 1, -1, 2)
      },
      {
        time: i8(1050, 1060, 1190, 1195),
        thread: i4(0, 0, 0, 0),
        storage: i8(1, 2, 3, 1),
        bytes: i8(4096, 64, 32, -4096),
        total: i8(4096, 4160, 4192, 96),
        category: u1(1, 0, 0, 1)
      }
    )
  );
}

test('time in which a thread stood still is counted nowhere', () => {
  const found = profile();
  const rows = NAMES.map(name => found.name.indexOf(found.names.indexOf(name)));
  expect(rows.map(row => lengthOf(found, row))).toEqual([60, 40, 30, 15, 400]);
  expect(rows.map(row => found.own[row])).toEqual([20, 40, 15, 15, 400]);
  const { busy, rows: sums } = summarize(found, { from: 150, to: 201 });
  // Of the backward 10 ns are left, of the other thread all 51.
  expect(busy).toBe(61);
  expect(sums.reduce((sum, { self }) => sum + self, 0)).toBe(61);
});

test('lanes by line: what runs backward stands with the line that made it', () => {
  const found = profile();
  const { of, tracks } = groupsOf(found, 'line');
  const told = NAMES.map(name => tracks[of[found.name.indexOf(found.names.indexOf(name))]].name);
  const [one, file] = ['In[3] line 1', 'data.py line 4'];
  expect(told).toEqual([one, one, one, one, file]);
  expect(tracks.map(({ name }) => name)).toEqual([file, one]);
  expect(found.places.get(found.line[0])).toMatchObject({ cell: 'cell-3', line: 1 });
  expect(canGroup(found, 'module')).toBe(false);
});

test('a span by line: times with the backward, and what came and is left', () => {
  const found = profile();
  const lines = keysOf(found, 'line');
  const told = (from: number, to: number): unknown[] =>
    rowsBy(found, { from, to }, lines).map(({ name, total, self, count, longest }) => [
      ...[keyText(lines, name), total, self, count],
      found.names[found.name[longest]]
    ]);
  const [one, file] = ['In[3] line 1', 'data.py line 4'];
  expect(told(0, 1000)).toEqual([
    [one, 90, 90, 4, 'aten::linear'],
    [file, 400, 400, 1, 'loader']
  ]);
  expect(told(0, 70)).toEqual([
    [one, 60, 60, 2, 'aten::linear'],
    [file, 70, 70, 1, 'loader']
  ]);
  const all = allocatedIn(found, { from: 0, to: 401 }, lines);
  expect(all).toEqual({ bytes: 4192, alive: 96, by: new Map([[0, 4192]]) });
  // Of the first 55 ns: 4096 bytes came in `mm`, and are there.
  const early = allocatedIn(found, { from: 0, to: 55 }, keysOf(found, 'thread'));
  expect([early?.bytes, early?.alive]).toEqual([4096, 4096]);
  expect([...(early?.by.keys() ?? [])].map(name => found.names[name])).toEqual(['aten::mm']);
  expect(allocatedIn(readTrace(traceText([slice('a', 0, 1)])), { from: 0, to: 9 }, lines)).toBe(
    null
  );
});

test('the peak, or the first moment that is as high but for little', () => {
  const curve = {
    ...{ name: 'CPU', peak: 10_001, blocks: null },
    time: Float64Array.of(0, 10, 20, 30, 40),
    total: Float64Array.of(5, 10_000, 20, 10_001, 0)
  };
  expect(highest(curve, 0, 50)).toBe(30);
  expect(highest(curve, 0, 50, 0.999)).toBe(10);
  expect(highest(curve, 22, 50, 0.999)).toBe(30);
});

test('two profiles by line: a cell that ran again has the same lines', () => {
  const { rows } = compareProfiles(profile(3), profile(5), 'line');
  expect(rows.map(({ name, change, calls }) => [name, change, calls])).toEqual([
    ['In[5] line 1', 'alike', [4, 4]],
    ['data.py line 4', 'alike', [1, 1]]
  ]);
});

test('lanes by module: no two slices of a lane overlap, whatever calls what', () => {
  const inModule = (name: string, ts: number, dur: number, tid: number) => ({
    ...slice(`nn.Module: ${name}`, ts, dur, {}, 'python_function'),
    tid
  });
  const events = [1, 2].flatMap(tid => [
    inModule('Net_0', 0, 100, tid),
    { ...slice('aten::add', 1, 3), tid },
    inModule('Linear_0', 10, 40, tid),
    { ...slice('aten::linear', 11, 30), tid },
    { ...slice('aten::mm', 12, 20), tid },
    { ...slice('aten::zeros', 200, 20), tid }
  ]);
  const found = readTrace(traceText(events));
  expect(canGroup(found, 'module')).toBe(true);
  const lanes = placeLanes(found, 'module');
  expect(lanes.tracks.map(({ name }) => name)).toEqual([
    'Net_0',
    'Net_0.Linear_0',
    'outside of modules'
  ]);
  expect([...lanes.ofTrack]).toEqual([0, 4, 10, 12]);
  for (const kind of ['thread', 'module', 'line'] as const) {
    const { first, rows } = placeLanes(found, kind);
    expect(rows.length).toBe(found.count);
    for (let lane = 0; lane + 1 < first.length; lane++) {
      for (let i = first[lane] + 1; i < first[lane + 1]; i++) {
        expect(found.start[rows[i]]).toBeGreaterThanOrEqual(found.end[rows[i - 1]]);
      }
    }
  }
});

test('pieces of memory: when each came and went, what it is, and what made it', () => {
  const [{ blocks }] = profile().memory;
  expect(blocks && [...blocks.from]).toEqual([50, 60, 190]);
  expect(blocks && [...blocks.to]).toEqual([195, Infinity, Infinity]);
  expect(blocks && [...blocks.kind].map(kind => blocks.kinds[kind])).toEqual([
    'activation',
    'other',
    'other'
  ]);
  const { name, names } = profile();
  expect(blocks && [...blocks.row].map(row => names[name[row]])).toEqual([
    'aten::mm',
    'aten::linear',
    'MmBackward0'
  ]);
  const memory = (ts: number, Addr: number, Bytes: number, total: number) => ({
    ...{ ph: 'i', name: '[memory]', cat: 'cpu_instant_event', pid: 1, tid: 1, ts },
    args: { Addr, Bytes, 'Total Allocated': total, 'Device Type': 0 }
  });
  const trace = readTrace(
    traceText([
      { ...slice('other', 0, 90), tid: 2 },
      slice('aten::mm', 0, 50),
      memory(10, 64, 100, 100),
      memory(60, 64, -100, 0),
      memory(70, 64, 8, 8)
    ])
  );
  const of = trace.memory[0].blocks;
  expect(of && [[...of.from], [...of.to], [...of.bytes]]).toEqual([
    [10_000, 70_000],
    [60_000, Infinity],
    [100, 8]
  ]);
  expect(of && [...of.row].map(row => trace.names[trace.name[row]])).toEqual([
    'aten::mm',
    undefined
  ]);
});

test('the peak of memory: what was there, by kind and by line', () => {
  const found = profile();
  const [curve] = found.memory;
  const at = highest(curve, found.from, found.to);
  expect([at, highest(curve, 0, 55)]).toEqual([190, 50]);
  const alive = aliveIn(found, curve.blocks as Blocks, at);
  expect([alive.bytes, alive.count]).toEqual([4192, 3]);
  expect(alive.kinds).toEqual([['activation', 4096], ['other', 96]]);
  expect(alive.lines).toEqual([['In[3] line 1', 4192]]);
  expect(alive.held.map(({ name, bytes, until }) => [NAMES[name], bytes, until])).toEqual([
    ['aten::mm', 4096, 195],
    ['aten::linear', 64, Infinity],
    ['MmBackward0', 32, Infinity]
  ]);
});

test('the heat of a line is its time with its backward, and what it holds at the peak', () => {
  const found = profile();
  const costs = lineCosts(found);
  // All but the other thread's 400 ns, and no line for what stands in no notebook.
  expect([costs.ns, costs.lines.map(({ ns, bytes }) => [ns, bytes])]).toEqual([
    490,
    [
      [90, 4192],
      [0, 0]
    ]
  ]);
  const [first, second] = heatMarks(costs, { time: String, bytes: String });
  expect(first).toMatchObject({ cell: 'cell-3', execution: 3, line: 1, time: 1, memory: 1 });
  expect(first.says).toBe('90 of 490 (18 %) with its backward; 4192 of 4192 at the peak of memory');
  expect([second.line, second.time]).toEqual([9, 0]);
});

function recorded(steps: number, pause: boolean): InspectorModel {
  const program = new Program(['y = x.exp()', 'y.backward()']);
  const { writer } = program;
  for (let step = 0; step < steps; step++) {
    const saved = [{ name: 'result', storage: program.storage(), own: true }];
    const root = program.op('ExpBackward0', 1, [program.leaf('x', [4])], [4], { saved });
    const task = program.backward(root, 2);
    if (pause) writer.row('pauses', { task, since: writer.t - 0.02, thread: 0, t: writer.t });
  }
  const model = new InspectorModel();
  model.receive(writer.flush());
  return model;
}

test('when a node was made is a moment and no run of it', () => {
  const of = profileOfRecording(recorded(3, false).store) as Profile;
  const { rows, root } = summarize(of, { from: of.from, to: of.to + 1 });
  const node = rows.find(({ name }) => of.names[name] === 'ExpBackward0');
  expect(node).toMatchObject({ count: 3, hue: Hue.backward });
  expect(root.inner.map(({ name }) => of.names[name])).not.toContain('ExpBackward0');
  // Its run begins with the same number: an arrow leads there.
  expect(of.hue[of.forward[of.hue.indexOf(Hue.backward)]]).toBe(Hue.made);
});

test('a recording says what stood still, and what of it is not shown', () => {
  const plain = profileOfRecording(recorded(3, false).store) as Profile;
  const stopped = profileOfRecording(recorded(3, true).store) as Profile;
  const busy = (of: Profile): number => summarize(of, { from: of.from, to: of.to + 1 }).busy;
  expect(busy(plain) - busy(stopped)).toBeCloseTo(3 * 20_000, 0);
  expect(plain.notices).toHaveLength(1);
  const [{ peak, blocks }] = plain.memory;
  const ran = plain.names.indexOf('ExpBackward0');
  const ends = [...plain.end].filter((_, i) => plain.hue[i] === 1 && plain.name[i] === ran);
  // A node gives back what it saved when it has run.
  expect([peak, [...(blocks as Blocks).to]]).toEqual([16, ends]);
  const few = profileOfRecording(recorded(30, true).store, 20) as Profile;
  expect(few.count).toBeLessThan(40);
  expect(few.to).toBe((profileOfRecording(recorded(30, true).store) as Profile).to);
  expect(few.notices[1]).toMatch(/^\d+ earlier slices are kept and shown when the recording ends/);
});
