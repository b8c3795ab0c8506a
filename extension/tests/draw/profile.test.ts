import { PASSES_HEIGHT, barWidth, paintPasses, passAt } from '../../src/draw/passes_painter';
import type { Palette } from '../../src/draw/palette';
import { LABELS_WIDTH } from '../../src/draw/timeline_painter';
import { InspectorModel } from '../../src/model/inspector';
import type { Passes } from '../../src/model/passes';
import { bitOf } from '../../src/model/findings/finding';
import { heightsOf, passesOf } from '../../src/model/passes';
import { NONE } from '../../src/protocol/schema';
import { Program } from '../synthetic/program';
import { expect, test } from 'vitest';
import { flameBoxes } from '../../src/draw/profile/flame_painter';
import { paintTime } from '../../src/draw/profile/painter';
import type { TimeFrame } from '../../src/draw/profile/painter';
import { laneAt, placesOf, topOfLane } from '../../src/draw/profile/places';
import { Staircase } from '../../src/draw/profile/staircase';
import {
  around,
  held,
  lengthText,
  momentText,
  panned,
  roundStep,
  zoomed
} from '../../src/draw/profile/view';
import { placeLanes } from '../../src/layout/profile/lanes';
import { summarize } from '../../src/model/profile/summary';
import { readTrace, slice, traceText, training } from '../synthetic/profiles';
import { fakeContext } from './context';

const WHOLE = { from: 0, to: 1e9 };

test('what is under the pointer stays there, and the window keeps to the profile', () => {
  const near = zoomed({ from: 1e8, to: 3e8 }, WHOLE, 0.25, 8);
  expect(near.from + 0.25 * (near.to - near.from)).toBeCloseTo(1.5e8, 0);
  expect(near.to - near.from).toBeCloseTo(2e8 / 8, 0);
  for (const window of [{ from: -5e9, to: -4e9 }, { from: 9e9, to: 9.1e9 }]) {
    const { from, to } = held(window, WHOLE);
    expect(to > WHOLE.from && from < WHOLE.to).toBe(true);
  }
  expect(panned({ from: 0, to: 100 }, WHOLE, 0.5)).toEqual({ from: 50, to: 150 });
  expect(around({ from: 100, to: 200 }, WHOLE, 0.5)).toEqual({ from: 50, to: 250 });
});

test('times in words', () => {
  const lengths = [0, 999, 1000, 12_345, 999_600, 1.5e6, 2e9, -40];
  const words = ['0 ns', '999 ns', '1 µs', '12.3 µs', '1 ms', '1.5 ms', '2 s', '−40 ns'];
  expect(lengths.map(lengthText)).toEqual(words);
  expect([momentText(1_250_000, 50_000), momentText(3e9, 1e9)]).toEqual(['1.25 ms', '3 s']);
  expect([3, 20, 21, 0.2].map(roundStep)).toEqual([5, 20, 50, 1]);
});

test('the peak of a staircase is that of all its steps', () => {
  const time = Float64Array.from({ length: 500 }, (_, i) => i * 10);
  const total = Float64Array.from(time, (_, i) => (i * 7919) % 1013);
  const stairs = new Staircase({ name: 'CPU', time, total, peak: 1012, blocks: null });
  for (const [from, to] of [[0, 5000], [5, 15], [123, 4321], [640, 1290], [-20, -1]]) {
    const within = [...total].filter((_, i) => time[i] <= to && time[i] > from - 10);
    const peak = stairs.peak(stairs.after(from), stairs.after(to));
    expect(peak).toBe(Math.max(0, ...within));
  }
});

test('a lane is found where it stands', () => {
  const events = [...training(3), { ...slice('other', 0, 9), tid: 2 }];
  const profile = readTrace(traceText(events));
  const lanes = placeLanes(profile);
  const places = placesOf(profile, lanes);
  for (let lane = 0; lane < lanes.track.length; lane++) {
    expect(laneAt(places, lanes, topOfLane(places, lanes, lane) + 5)).toBe(lane);
  }
  expect(laneAt(places, lanes, 5)).toBe(-1);
});

test('a frame has few rectangles and names however many slices there are', () => {
  const colour = { fill: '#eee', strong: '#000' };
  const drawnAt = (steps: number, zoom: number): number => {
    const profile = readTrace(traceText(training(steps)), 2 ** 20);
    const lanes = placeLanes(profile);
    const { ctx, drawn } = fakeContext();
    const window = { from: profile.from, to: profile.from + (profile.to - profile.from) / zoom };
    paintTime(ctx, {
      ...{ profile, lanes, window, places: placesOf(profile, lanes), curves: [], marks: [] },
      colours: { hues: Array.from({ length: 8 }, () => colour) } as TimeFrame['colours'],
      ...{ scroll: 0, width: 1000, height: 500, ratio: 1, overview: null },
      ...{ selected: 4, span: null, sought: null, moment: null, widths: new Map() }
    });
    expect(drawn.texts).toContain('thread 1');
    if (zoom === steps) expect(drawn.texts).toContain('evaluate MulBackward0');
    return drawn.rects;
  };
  for (const zoom of [1, 10, 5000]) expect(drawnAt(5000, zoom)).toBeLessThan(4000);
});

test('the longest calls stand at the left, each inside of its caller', () => {
  const profile = readTrace(
    traceText([slice('a', 0, 10), slice('b', 20, 60), slice('c', 25, 5), slice('a', 90, 10)])
  );
  const { root } = summarize(profile, { from: profile.from, to: profile.to });
  const boxes = flameBoxes(root, 800, 10).map(({ call, x, width, depth }) => [
    profile.names[call.name],
    ...[x, width, depth]
  ]);
  expect(boxes.sort((a, b) => Number(a[1]) - Number(b[1]) || Number(a[3]) - Number(b[3]))).toEqual([
    ['b', 0, 600, 0],
    ['c', 0, 50, 1],
    ['a', 600, 200, 0]
  ]);
});

test('a bar for each pass, of those that share a pixel the longest', () => {
  const few = passes([3, 9, 6]);
  expect(few.longest).toBe(9);
  expect([100, 106, 120, 134, 150].map(x => passAt(few, 800, x))).toEqual([-1, 0, 1, 2, -1]);
  const many = passes(Array.from({ length: 50_000 }, (_, i) => (i === 20_000 ? 50 : 1)));
  for (const all of [few, many]) {
    const { ctx, drawn } = fakeContext();
    paintPasses(ctx, all, 2, { done: 'done' } as Palette, 800);
    expect(drawn.rects).toBeLessThan(800);
    expect(drawn.texts).toEqual(['passes']);
  }
  // Signs: the gravest of those that share its room, and no more of them than there is room for.
  few.kinds[1] = bitOf('vanishing') | bitOf('nonfinite');
  many.kinds.fill(bitOf('dead'));
  for (const [all, signs] of [
    [few, 1],
    [many, 65]
  ] as const) {
    const { ctx, drawn } = fakeContext();
    paintPasses(ctx, all, 2, { bad: 'bad' } as Palette, 800, 'gradient');
    expect(drawn.texts.length - 1).toBeLessThanOrEqual(signs);
    expect(drawn.texts[1]).toBe(signs === 1 ? '✕' : '○');
  }
  few.kinds[1] = 0;
  many.kinds.fill(0);
  const wide = barWidth(50_000, 800);
  expect(passAt(many, 800, LABELS_WIDTH + Math.floor(20_000 * wide))).toBe(20_000);
});

test('bars of gradients are as high as the logarithm of their norm', () => {
  const all = passes([1, 1, 1, 1, 1]);
  all.norms.set([1e-4, 1e-2, 1, NaN, 0]);
  const [a, b, c, nan, zero] = heightsOf(all, 'gradient');
  expect([b - a, c, nan, zero]).toEqual([expect.closeTo(c - b), 1, 1, 0]);
});

test('bars of unwatched passes are hollow, however narrow', () => {
  const all = passes(Array.from({ length: 400 }, () => 1));
  all.unwatched.fill(1);
  const filled: number[] = [];
  const { ctx } = fakeContext();
  ctx.fillRect = (...box) => void filled.push(box[3]);
  paintPasses(ctx, all, null, { done: 'done' } as Palette, 800);
  const [ground, ...sides] = filled;
  expect(ground).toBe(PASSES_HEIGHT);
  expect(barWidth(400, 800)).toBeLessThan(3);
  expect(sides.length).toBe(800);
  expect(new Set(sides)).toEqual(new Set([1]));
});

function passes(ms: number[]): Passes {
  const program = new Program(['y = x.exp()', 'y.backward()']);
  const { writer } = program;
  const site = writer.site(program.site(2));
  ms.forEach((length, i) => {
    const about = { task: i + 1, site, total: 1, retain: 0, thread: 0, root: NONE };
    writer.row('tasks', { ...about, t: writer.t, ended: 0 });
    // As long again it is stopped: that is counted nowhere.
    writer.t += 2 * length;
    const stopped = { task: i + 1, thread: 0, since: writer.t - length, t: writer.t };
    if (ms.length < 10) writer.row('pauses', stopped);
    else writer.t -= length;
    writer.row('tasks', { ...about, t: writer.t, ended: 1 });
  });
  const model = new InspectorModel();
  model.receive(writer.flush());
  return passesOf(model.store);
}
