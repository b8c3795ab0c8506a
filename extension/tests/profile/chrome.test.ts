import { expect, test } from 'vitest';
import { Hue, partners } from '../../src/model/profile/profile';
import { openProfile } from '../../src/layout/profile/open';
import { readTrace, slice, traceText, training } from '../synthetic/profiles';

test('slices nest, have self times and their op forward', () => {
  const profile = readTrace(traceText(training(3)));
  expect(profile.count).toBe(18);
  const named = [...profile.name.slice(6, 12)].map(row => profile.names[row]);
  expect(named).toEqual([
    'ProfilerStep#1',
    'aten::linear',
    'aten::mul',
    'autograd::engine::evaluate_function: MulBackward0',
    'MulBackward0',
    'aten::mul'
  ]);
  expect([...profile.depth.slice(6, 12)]).toEqual([0, 1, 2, 1, 2, 3]);
  expect([...profile.own.slice(6, 12)]).toEqual([19e3, 20e3, 20e3, 10e3, 20e3, 10e3]);
  expect(profile.own.reduce((sum, own) => sum + own)).toBe(3 * 99e3);
  expect(profile.hue[11]).toBe(Hue.backward);
  expect(profile.forward[10]).toBe(8);
  expect(partners(profile, 8)).toEqual([9, 10]);
  expect(profile.notices).toEqual([]);
});

test('a trace reads the same in pieces of any size', () => {
  const named = 'a "quoted\\" }]{ nameé';
  const text = traceText([
    ...training(4),
    slice(named, 500, 1, { 'Input Dims': [[2, 3], []], 'Input type': ['float'] })
  ]);
  const whole = readTrace(text, 1 << 20);
  expect(whole.names).toContain(named);
  expect(whole.texts).toEqual(['float [2,3], []']);
  for (const piece of [1, 7, 100]) expect(readTrace(text, piece)).toEqual(whole);
});

test('a list of events alone, begins and ends, memory and names of threads', () => {
  const events = [
    { ph: 'M', name: 'thread_name', pid: 1, tid: 9, args: { name: 'main\u202e' } },
    { ph: 'B', name: 'outer', pid: 1, tid: 9, ts: 1 },
    { ph: 'B', name: 'inner', pid: 1, tid: 9, ts: 2 },
    { ph: 'E', pid: 1, tid: 9, ts: 3 },
    { ph: 'E', pid: 1, tid: 9, ts: 5 },
    { ph: 'i', name: '[memory]', pid: 1, tid: 9, ts: 4, args: { 'Total Allocated': 64 } }
  ];
  const profile = readTrace(JSON.stringify(events));
  expect([...profile.end].map((end, i) => end - profile.start[i])).toEqual([4000, 1000]);
  expect(profile.tracks).toEqual([{ name: 'main ', process: '' }]);
  expect(profile.memory.map(({ name, peak }) => [name, peak])).toEqual([['CPU', 64]]);
  // The closing bracket may be missing there: the format says so.
  expect(readTrace(JSON.stringify(events).slice(0, -1)).notices).toEqual([]);
});

test('what stood still is no slice and counts nowhere', () => {
  const events = [
    slice('aten::mul', 0, 100),
    slice('evaluate', 10, 50),
    slice('[paused]', 20, 30, {}, 'pause'),
    { ...slice('aten::add', 0, 40), tid: 2 },
    { ph: 'M', name: 'thread_sort_index', pid: 1, tid: 1, args: { sort_index: 7 } }
  ];
  const profile = readTrace(traceText(events));
  const rows = [...profile.name].map((row, i) => [profile.names[row], profile.own[i]]);
  expect(rows).toEqual([['aten::add', 40e3], ['aten::mul', 50e3], ['evaluate', 20e3]]);
  expect([...profile.pauses.track]).toEqual([1]);
  expect([profile.pauses.from[0], profile.pauses.to[0]]).toEqual([20e3, 50e3]);
});

test.each([
  ['cut short', (text: string) => text.slice(0, -90), 17, /cut short: the 17 slices/],
  ['no JSON', (text: string) => text.replace('"dur":40', '"dur":,'), 17, /no JSON/],
  ['no length', (text: string) => text.replace('"dur":40', '"dur":-1'), 17, /usable/],
  [
    'deep',
    (text: string) => text.replace('{}', `{"a":${'['.repeat(99)}${']'.repeat(99)}}`),
    17,
    /nested more than 64 deep/
  ]
])('what is wrong with a trace is told, the rest is shown: %s', (_, spoil, count, says) => {
  const profile = readTrace(spoil(traceText(training(3))), 300);
  expect(profile.count).toBe(count);
  expect(profile.notices.join(' ')).toMatch(says);
});

test('limits on slices, bytes and the length of events are kept and told', () => {
  const text = traceText(training(50));
  const few = readTrace(text, 999, { slices: 100 });
  expect(few.notices[0]).toMatch(/200 slices beyond the first 100/);
  const short = readTrace(text, 999, { bytes: 3000 });
  expect(short.notices[1]).toMatch(/Only the first/);
  const long = slice('long', 0, 1, { more: 'x'.repeat(5000) });
  const left = readTrace(traceText([long, ...training(1)]), 999, { event: 2000 });
  expect(left.count).toBe(6);
  expect(left.notices[0]).toMatch(/more than 2,000 bytes/);
});

test.each([
  ['', 'empty'],
  ['Dear reader', 'not a Chrome trace'],
  ['{"a": {"traceEvents": []}}', 'not a Chrome trace'],
  ['['.repeat(100_000), 'no slices'],
  ['{"traceEvents": [1, null, "x", {"ph": {}}]}', 'no slices']
])('what is no trace says so: %.30s', (text, says) => {
  expect(() => readTrace(text, 999)).toThrow(says);
});

/** A trace of these events and one slice of the usual kind. */
function beside(...events: unknown[]): string {
  return JSON.stringify([...events, slice('aten::mul', 10, 5)]);
}

// An object that cannot be made a text: String(it) throws.
const mute = { toString: 1, valueOf: 2 };

test.each([
  ['process', { ...slice('a', 1, 1), pid: mute }, 2],
  ['thread', { ...slice('a', 1, 1), tid: mute }, 2],
  ['thread name', { ph: 'M', name: 'thread_name', pid: 1, tid: 1, args: { name: mute } }, 1],
  ['process name', { ph: 'M', name: 'process_name', pid: 1, args: { name: mute } }, 1],
  ['order', { ph: 'M', name: 'thread_sort_index', args: { sort_index: mute } }, 1],
  [
    'device',
    {
      ph: 'i',
      name: '[memory]',
      ts: 1,
      args: { 'Total Allocated': 1, 'Device Type': 1, 'Device Id': mute }
    },
    1
  ],
  ['types', slice('a', 1, 1, { 'Input Dims': [[]], 'Input type': [mute] }), 2]
])('what is no text is none: %s', (_, event, count) => {
  expect(readTrace(beside(event)).count).toBe(count);
});

test('times are numbers, finite ones, and no empty text', () => {
  const odd = ['', ' ', 'x', null, [3], true, 1e300, -1e308].map(ts => ({
    ...slice('a', 0, 1),
    ts
  }));
  const profile = readTrace(beside({ ...slice('a', 0, 1), ts: '5' }, ...odd, slice('a', 1, 1e305)));
  expect([...profile.start]).toEqual([0, 5000]);
  expect(profile.notices).toEqual(['9 events without a usable time or length left out.']);
});

test('what is no slice is counted by what it is', () => {
  const of = (ph: string, more = {}): unknown => ({ ...slice('a', 1, 1), ph, ...more });
  const notices = (...events: unknown[]): string[] => readTrace(beside(...events)).notices;
  const kinds = [...'bneSTpF', 's', 't', 'f', 'C', 'N', 'P'].map(ph => of(ph));
  expect(notices(...kinds, of('i'), of('I', { s: 't' }))).toEqual([
    'Not shown: 7 asynchronous events, 1 arrow, 2 instant events, 3 counters and other events.'
  ]);
  expect(notices(of('C'))).toEqual(['Not shown: 1 counter or other event.']);
  // What every trace of torch's has is no news.
  expect(notices(of('s', { cat: 'fwdbwd' }), of('i', { s: 'g' }), of('i', { s: '' }))).toEqual([]);
  const memory = { ...slice('[memory]', 1, 0, { 'Total Allocated': 4 }), ph: 'i' };
  const few = readTrace(beside(memory, memory, memory), 999, { slices: 2 });
  expect(few.notices).toEqual(['1 change of memory beyond the first 2 left out.']);
});

test('what began and never ended is drawn to the last thing that is told', () => {
  const begun = [1, 2, 7].map(ts => ({ ...slice('a', ts, 0), ph: 'B' }));
  const profile = readTrace(JSON.stringify(begun));
  expect([...profile.end]).toEqual([6000, 6000, 6000]);
});

test('a file in UTF-16 is told as one', async () => {
  const file = new Blob([new Uint8Array([0xff, 0xfe, 91, 0])]);
  await expect(openProfile(file)).rejects.toThrow('UTF-16: save it as UTF-8');
});

test('a packed trace opens; one that is cut shows what came before', async () => {
  const stream = new Blob([traceText(training(2000))]).stream();
  const packed = await new Response(
    stream.pipeThrough(new CompressionStream('gzip'))
  ).arrayBuffer();
  const { profile, lanes } = await openProfile(new Blob([packed]));
  expect([profile.count, lanes.steps.length]).toEqual([12_000, 2000]);
  const half = new Blob([packed.slice(0, packed.byteLength / 2)]);
  const { profile: cut } = await openProfile(half);
  expect(cut.count).toBeGreaterThan(3000);
  expect(cut.notices[0]).toMatch(/damaged or cut short.*before that are shown/);
});
