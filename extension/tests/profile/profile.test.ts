import { expect, test } from 'vitest';
import { advice } from '../../src/model/profile/advice';
import { readColumns } from '../../src/model/profile/columns_file';
import { compareProfiles } from '../../src/model/profile/differences';
import type { Profile } from '../../src/model/profile/profile';
import { Hue } from '../../src/model/profile/profile';
import { keysOf, sortRows, summarize } from '../../src/model/profile/summary';
import { firstAfter, levelFor, placeLanes } from '../../src/layout/profile/lanes';
import { columnsFile, readTrace, slice, traceText, training } from '../synthetic/profiles';

const ZERO = 5_000_000_000_123;

/** An op, inside of it another; later the backward of the inner one; a free in another thread. */
function ours(): Uint8Array {
  const i8 = (...values: number[]) => ({ type: '<i8' as const, values });
  const i4 = (...values: number[]) => ({ type: '<i4' as const, values });
  return columnsFile(
    {
      start: ZERO,
      names: ['aten::linear', 'aten::mm', 'MmBackward0'],
      threads: [[140, 'MainThread']],
      stacks: ['In[3] line 2'],
      inputs: ['float32 [2,3]'],
      overhead: 400
    },
    {
      start: i8(ZERO + 10, ZERO + 20, ZERO + 100),
      end: i8(ZERO + 60, ZERO + 50, ZERO + 130),
      name: i4(0, 1, 2),
      kind: { type: 'u1', values: [0, 0, 2] },
      thread: i4(0, 0, 0),
      seq: i8(-1, 7, 7),
      forward: i4(-1, -1, 1),
      inputs: i4(-1, 0, -1),
      stack: i4(0, -1, -1)
    },
    { time: i8(ZERO + 30, ZERO + 70), total: i8(4096, 0) }
  );
}

test('our own columns are read to the nanosecond', () => {
  const profile = readColumns(ours());
  expect([...profile.start]).toEqual([10, 20, 100]);
  expect([...profile.own]).toEqual([20, 30, 30]);
  expect([...profile.seq]).toEqual([-1, 7, 7]);
  expect([...profile.forward]).toEqual([-1, -1, 1]);
  expect([...profile.hue]).toEqual([Hue.forward, Hue.forward, Hue.backward]);
  expect(profile.texts[profile.line[0]]).toBe('In[3] line 2');
  expect(profile.texts[profile.note[1]]).toBe('float32 [2,3]');
  expect(profile.memory[0]).toMatchObject({ name: 'CPU', peak: 4096 });
  expect([profile.from, profile.to, profile.overhead]).toEqual([10, 130, 400]);
});

test('a profile that is cut or damaged never fails but with a sentence', () => {
  const whole = ours();
  const cut = readColumns(whole.slice(0, whole.length - 40));
  expect(cut.notices[0]).toMatch(/cut short/);
  for (const spoil of [0, 5, 18, 25, 40, 200]) {
    expect(() => readColumns(whole.slice(0, spoil))).toThrow(/profile/);
  }
  // Any bytes in the columns: rows may be left out, nothing else.
  const header = whole.length - 3 * 45 - 32;
  for (let seed = 1; seed < 40; seed++) {
    const bytes = whole.slice();
    for (let i = header; i < bytes.length; i += 1 + (seed % 7)) bytes[i] = (i * seed * 31) & 255;
    const { count, last, parent } = readColumns(bytes);
    for (let i = 0; i < count; i++) {
      expect(parent[i]).toBeLessThan(i);
      expect(last[i]).toBeGreaterThan(i);
    }
  }
});

test('a span is summed by name; what calls itself counts once', () => {
  const profile = readTrace(
    traceText([slice('f', 0, 100), slice('f', 10, 50), slice('g', 20, 10), slice('g', 80, 10)])
  );
  const row = (from: number, to: number, name: string) => {
    const found = summarize(profile, { from: from * 1000, to: to * 1000 }).rows.find(
      one => profile.names[one.name] === name
    );
    return found && [found.total / 1000, found.self / 1000, found.count];
  };
  expect(row(0, 100, 'f')).toEqual([100, 80, 2]);
  expect(row(0, 100, 'g')).toEqual([20, 20, 2]);
  expect(row(15, 40, 'f')).toEqual([25, 15, 2]);
  expect(row(15, 40, 'g')).toEqual([10, 10, 1]);
  expect(row(95, 200, 'g')).toBeUndefined();
  const { root, rows } = summarize(profile, { from: 0, to: 100_000 });
  expect(root.inner[0].inner.map(({ name, total }) => [profile.names[name], total])).toEqual([
    ['f', 50_000],
    ['g', 10_000]
  ]);
  expect(rows.reduce((sum, one) => sum + one.self, 0)).toBe(root.total);
  const slowest = sortRows(keysOf(profile, 'thread'), rows, 'average', true);
  expect(slowest.map(one => profile.names[one.name])).toEqual([
    'f',
    'g'
  ]);
});

test('steps are bands, each depth a lane, and coarser levels keep every block covered', () => {
  const profile = readTrace(traceText(training(3000)));
  const lanes = placeLanes(profile);
  expect([lanes.steps.length, lanes.track.length, lanes.rows.length]).toEqual([3000, 3, 15_000]);
  expect(lanes.levels.length).toBeGreaterThan(3);
  for (const level of lanes.levels) {
    for (const row of [0, 1, 2, 3, 4, 5, 9000, 17_999]) {
      const lane = lanes.lane[row];
      if (lane < 0) continue;
      const [first, end] = [level.first[lane], level.first[lane + 1]];
      const at = firstAfter(level.end, first, end, profile.start[row]);
      expect(level.start[at]).toBeLessThanOrEqual(profile.start[row]);
      expect(level.end[at]).toBeGreaterThanOrEqual(profile.end[row]);
    }
  }
});

test('what a frame has to look at does not grow with the number of slices', () => {
  // Counted, not timed: blocks of the level that 1500 pixels ask for.
  for (const steps of [1000, 10_000]) {
    const profile = readTrace(traceText(training(steps)), 2 ** 20);
    const lanes = placeLanes(profile);
    for (const zoom of [1, 10, 1000]) {
      const perPixel = (profile.to - profile.from) / zoom / 1500;
      const level = levelFor(lanes, perPixel);
      const to = profile.from + perPixel * 1500;
      for (let lane = 0; lane < lanes.track.length; lane++) {
        const [first, end] = [level.first[lane], level.first[lane + 1]];
        const from = firstAfter(level.end, first, end, profile.from);
        expect(firstAfter(level.start, from, end, to) - from).toBeLessThan(4 * 1500);
      }
    }
  }
});

test('advice is given to a program with the fault, and not to one without', () => {
  const told = (events: ReturnType<typeof slice>[]): string[] => {
    const profile = readTrace(traceText(events));
    const span = { from: profile.from, to: profile.to + 1 };
    return advice(profile, summarize(profile, span), span);
  };
  const muls = (count: number, length: number) =>
    Array.from({ length: count }, (_, i) => slice('aten::mul', i * length * 2, length));
  expect(told(muls(400, 5))).toEqual([
    '100 % of the time is 400 calls of aten::mul, 5.0 µs each: ' +
      'do the work of many in one call, on larger tensors.'
  ]);
  const known = { 'Input Dims': [[2, 2], []], 'Input type': ['float', ''] };
  const placed = muls(400, 5).map((one, i) => ({
    ...one,
    args: { ...known, 'Call stack': i % 40 ? 'train.py(5): step' : 'train.py(9): step' }
  }));
  expect(told(placed)[0]).toMatch(/400 calls of aten::mul on 4 elements from train.py\(5\): s/);
  const back = 'autograd::engine::evaluate_function: MulBackward0';
  const numbered = (i: number, thread: number) => ({
    'Sequence number': i,
    'Fwd thread id': thread
  });
  const both = muls(400, 5).flatMap((one, i) => [
    { ...one, args: numbered(i, 0) },
    slice(back, 10_000 + i * 20, 15, numbered(i, 1)),
    slice('aten::mul', 10_000 + i * 20, 10)
  ]);
  expect(told(both)).toEqual([
    '100 % of the time is 400 calls of aten::mul and their backward, 20.0 µs each: ' +
      'do the work of many in one call, on larger tensors.'
  ]);
  const spread = placed.map((one, i) => ({
    ...one,
    args: { 'Input Dims': [[i]], 'Call stack': `train.py(${i % 3}): step` }
  }));
  expect(told(spread)[0]).toMatch(/400 calls of aten::mul, 5.0/);
  expect(told(muls(4, 500))).toEqual([]);
  expect(told([...muls(400, 5), slice('aten::mm', 9000, 90_000)])).toEqual([]);
  const loader = 'enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__';
  const step = slice('aten::mm', 0, 700);
  expect(told([step, slice(loader, 800, 300, {}, 'user_annotation')])[0]).toMatch(
    /^30 % of the time is spent waiting/
  );
  expect(told([step, slice(loader, 800, 30, {}, 'user_annotation')])).toEqual([]);
});

/** Steps that each save 1 MB in line 4, which is given back so many steps later. */
function saving(steps: number, later: number): Profile {
  const each = Array.from({ length: steps }, (_, step) => step);
  const gives = each.filter(step => step + later < steps);
  const rows = [
    ...each.map(step => ({ time: step * 100 + 20, storage: step, bytes: 2 ** 20 })),
    ...gives.map(step => ({ time: (step + later) * 100 + 90, storage: step, bytes: -(2 ** 20) }))
  ].sort((a, b) => a.time - b.time);
  let alive = 0;
  const total = rows.map(({ bytes }) => (alive += bytes));
  const i8 = (values: number[]) => ({ type: '<i8' as const, values });
  const i4 = (values: number[]) => ({ type: '<i4' as const, values });
  const u1 = (values: number[]) => ({ type: 'u1' as const, values });
  return readColumns(
    columnsFile(
      {
        names: ['aten::exp', 'Optimizer.step#SGD.step'],
        threads: [[1, 'MainThread']],
        stacks: ['In[3] line 4'],
        categories: ['other', 'activation']
      },
      {
        start: i8(each.flatMap(step => [step * 100, step * 100 + 60])),
        end: i8(each.flatMap(step => [step * 100 + 50, step * 100 + 95])),
        name: i4(each.flatMap(() => [0, 1])),
        kind: u1(each.flatMap(() => [0, 3])),
        thread: i4(each.flatMap(() => [0, 0])),
        stack: i4(each.flatMap(() => [0, -1]))
      },
      {
        time: i8(rows.map(({ time }) => time)),
        thread: i4(rows.map(() => 0)),
        storage: i8(rows.map(({ storage }) => storage)),
        bytes: i8(rows.map(({ bytes }) => bytes)),
        total: i8(total),
        category: u1(rows.map(() => 1))
      }
    )
  );
}

test('graphs that are kept from step to step are told, and those of one step are not', () => {
  const said = (profile: Profile): string[] => {
    const span = { from: profile.from, to: profile.to + 1 };
    return advice(profile, summarize(profile, span), span);
  };
  expect(said(saving(8, 99))[0]).toBe(
    '7 MB that 7 steps saved for backward stay until the end, most of it (7 MB) In[3] line 4: ' +
      'something holds their graphs, as a sum of losses does. Add up loss.item() or ' +
      'loss.detach() instead.'
  );
  expect(said(saving(8, 0))).toEqual([]);
  // Of two steps at a time: a loss that is printed after the next step.
  expect(said(saving(8, 1))).toEqual([]);
});

/** A step: line 7 makes some tensors, line 8 many small ones; all go in a backward. */
function oneStep(sizes: number[], others: number, kind = 1): Profile {
  const pieces = [...sizes, ...Array.from({ length: 20 }, () => others)];
  const line = (i: number): number => (i < sizes.length ? 0 : 1);
  const times = pieces.map((_, i) => i * 10);
  let alive = 0;
  const i8 = (values: number[]) => ({ type: '<i8' as const, values });
  const i4 = (values: number[]) => ({ type: '<i4' as const, values });
  const u1 = (values: number[]) => ({ type: 'u1' as const, values });
  const went = pieces.map(bytes => -bytes);
  const all = [...pieces, ...went];
  return readColumns(
    columnsFile(
      {
        names: ['aten::sub', 'aten::relu'],
        threads: [[1, 'MainThread']],
        stacks: ['In[3] line 7', 'In[3] line 8'],
        categories: ['other', 'activation']
      },
      {
        start: i8(times),
        end: i8(times.map(time => time + 8)),
        name: i4(pieces.map((_, i) => line(i))),
        kind: u1(pieces.map(() => 0)),
        thread: i4(pieces.map(() => 0)),
        stack: i4(pieces.map((_, i) => line(i)))
      },
      {
        time: i8([...times.map(time => time + 5), ...went.map((_, i) => 1000 + i)]),
        thread: i4(all.map(() => 0)),
        storage: i8(all.map((_, i) => i % pieces.length)),
        bytes: i8(all),
        total: i8(all.map(bytes => (alive += bytes))),
        category: u1(all.map(() => kind))
      }
    )
  );
}

test('a line whose few results are much of the peak is told, of a single step', () => {
  const said = (profile: Profile): string[] => {
    const span = { from: profile.from, to: profile.to + 1 };
    return advice(profile, summarize(profile, span), span);
  };
  const MB = 2 ** 20;
  expect(said(oneStep([40 * MB, 8 * MB, 64], MB))).toEqual([
    'In[3] line 7 keeps 48 MB for the backward, 71 % of the peak of memory, in 2 results of ' +
      'aten::sub: compute the part again in the backward (torch.utils.checkpoint), or in ' +
      'smaller pieces.'
  ]);
  // Many layers alike, few bytes, and what no backward waits for.
  expect(said(oneStep([4 * MB, 4 * MB], 4 * MB))).toEqual([]);
  expect(said(oneStep([MB, MB], 64))).toEqual([]);
  expect(said(oneStep([40 * MB, 8 * MB], MB, 0))).toEqual([]);
});

test('two profiles: faster, slower, alike, new, gone, the largest difference first', () => {
  const before = readTrace(
    traceText([slice('a', 0, 90), slice('b', 100, 50), slice('c', 200, 20), slice('d', 300, 5)])
  );
  const after = readTrace(
    traceText([slice('a', 0, 10), slice('b', 100, 52), slice('c', 200, 60), slice('e', 300, 7)])
  );
  const { rows, ...all } = compareProfiles(before, after);
  expect(rows.map(({ name, change }) => [name, change])).toEqual([
    ['a', 'faster'],
    ['c', 'slower'],
    ['e', 'new'],
    ['d', 'gone'],
    ['b', 'alike']
  ]);
  expect(all).toEqual({ before: 165_000, after: 129_000 });
});
