// What to do about a span of time: few sentences, each with the numbers that it rests on. Pure.

import { bytesText, countText, plural } from '../format';
import { aliveAt, highest } from './alive';
import { belonging } from './groups';
import type { Profile } from './profile';
import { Hue } from './profile';
import type { Span, Summary } from './summary';
import { within } from './summary';

/** Many short calls: so many, so short on average in ns, so much of the time. */
const MANY = 100;
const SHORT = 20_000;
const MUCH = 0.3;
/** Share of the time that waiting for data may take. */
const WAITING = 0.2;
/** Share of the calls that have something in common which is then said of all. */
const MOST = 0.8;
/** What is kept from step to step: over so many steps, so much of the peak, so many bytes. */
const STEPS = 3;
const KEPT = 0.2;
const KEPT_BYTES = 2 ** 16;

/** What one line keeps for the backward: so few tensors, so much of the peak, so many bytes. */
const FEW = 4;
const LARGE = 0.3;
const LARGE_BYTES = 2 ** 24;
/** A peak that comes again in the backward, and is a little higher there, began before it. */
const NEAR = 0.999;

const LOADER = /^enumerate\(DataLoader\)#/;
const OPTIMIZER = /^Optimizer\.step#/;
const SHAPE = /\[([\d,]*)\]/;

function share(part: number, whole: number): string {
  return `${Math.round((100 * part) / whole)} %`;
}

/** The one that most of the calls have; null where there is none. */
function common(counts: Map<number, number>, all: number): number | null {
  for (const [row, count] of counts) if (row >= 0 && count >= MOST * all) return row;
  return null;
}

/** 'float [2,3], 4' -> 6 elements; null where no shape is told. */
export function elements(note: string): number | null {
  const found = SHAPE.exec(note);
  const sizes = found?.[1] ? found[1].split(',').map(Number) : [];
  return found ? sizes.reduce((all, size) => all * size, 1) : null;
}

interface Lines {
  of: Int32Array;
  keys: string[];
}

/** Calls of an op that nothing which runs backward made, and what they cost with their backward. */
interface Calls {
  name: number;
  count: number;
  /** ns of the calls themselves, and with all that runs backward for them */
  self: number;
  whole: number;
  /** how many have each note, and each line */
  notes: Map<number, number>;
  lines: Map<number, number>;
}

function callsOf(profile: Profile, span: Span, lines: Lines): Calls[] {
  const { name, names, note, hue, parent, forward, own } = profile;
  const found = new Map<number, Calls>();
  const ops = Uint8Array.from(names, text => (text.startsWith('aten::') ? 1 : 0));
  /** by slice: row of the name of the op for which it runs backward, -1: it does not */
  const backwardOf = new Int32Array(profile.count).fill(-1);
  within(profile, span, row => {
    const around = parent[row] < 0 ? -1 : backwardOf[parent[row]];
    const runs = hue[row] === Hue.backward;
    if (runs) backwardOf[row] = forward[row] >= 0 ? name[forward[row]] : around;
    const of = runs ? backwardOf[row] : name[row];
    if (of < 0 || ops[of] === 0) return;
    let calls = found.get(of);
    if (!calls) {
      const counts = { notes: new Map<number, number>(), lines: new Map<number, number>() };
      found.set(of, (calls = { name: of, count: 0, self: 0, whole: 0, ...counts }));
    }
    calls.whole += own[row];
    if (runs) return;
    calls.count++;
    calls.self += own[row];
    calls.notes.set(note[row], (calls.notes.get(note[row]) ?? 0) + 1);
    const line = lines.of[row];
    calls.lines.set(line, (calls.lines.get(line) ?? 0) + 1);
  });
  return [...found.values()];
}

/** The ops whose calls are so short that what is around each costs more than they do. */
function shortCalls(profile: Profile, { busy }: Summary, span: Span, lines: Lines): string[] {
  return callsOf(profile, span, lines)
    .filter(
      ({ count, self, whole }) => count >= MANY && self / count < SHORT && whole >= MUCH * busy
    )
    .sort((a, b) => b.whole - a.whole)
    .map(calls => {
      const { count, self, whole } = calls;
      const what = common(calls.notes, count);
      const size = what === null ? null : elements(profile.texts[what] ?? '');
      const where = common(calls.lines, count);
      return (
        `${share(whole, busy)} of the time is ${countText(count)} calls of ` +
        (profile.names[calls.name] ?? '') +
        (size === null ? '' : ` on ${plural(size, 'element')}`) +
        (where === null ? '' : ` from ${lines.keys[where]}`) +
        (whole > self ? ' and their backward' : '') +
        `, ${(whole / count / 1000).toFixed(1)} µs each: ` +
        'do the work of many in one call, on larger tensors.'
      );
    });
}

function waiting(profile: Profile, { rows, busy }: Summary): string[] {
  const waited = rows
    .filter(row => LOADER.test(profile.names[row.name] ?? ''))
    .reduce((sum, row) => sum + row.total, 0);
  return busy > 0 && waited >= WAITING * busy
    ? [
        `${share(waited, busy)} of the time is spent waiting for the next batch of the ` +
          'DataLoader: load it in other processes (num_workers), or make one batch cheaper.'
      ]
    : [];
}

/** Where the steps of a training end: those of a schedule, else those of an optimizer. */
function stepEnds(profile: Profile): number[] {
  const { count, hue, name, names, end } = profile;
  const optimizer = new Set(names.flatMap((text, row) => (OPTIMIZER.test(text) ? [row] : [])));
  const [steps, optimized]: number[][] = [[], []];
  for (let i = 0; i < count; i++) {
    if (hue[i] === Hue.step) steps.push(end[i]);
    else if (optimizer.has(name[i])) optimized.push(end[i]);
  }
  return (steps.length >= STEPS ? steps : optimized).sort((a, b) => a - b);
}

/** What a step saved for its backward and a later step still keeps, more of it with each step. */
function kept(profile: Profile, lines: Lines): string[] {
  const ends = stepEnds(profile);
  const blocks = profile.memory.find(curve => curve.blocks)?.blocks;
  const peak = profile.memory[0]?.peak ?? 0;
  if (!blocks || ends.length < STEPS) {
    return [];
  }
  const stepOf = (time: number): number => {
    let step = 0;
    while (step < ends.length && ends[step] < time) step++;
    return step;
  };
  const activation = blocks.kinds.indexOf('activation');
  const byLine = new Map<number, { bytes: number; steps: Set<number>; until: number }>();
  const { of } = lines;
  for (let i = 0; i < blocks.from.length; i++) {
    const [from, to] = [stepOf(blocks.from[i]), stepOf(blocks.to[i])];
    // What the last steps made had no time to stay.
    if (blocks.kind[i] !== activation || to < from + 2 || blocks.row[i] < 0) continue;
    const line = of[blocks.row[i]];
    const known = byLine.get(line) ?? { bytes: 0, steps: new Set<number>(), until: 0 };
    byLine.set(line, known);
    known.bytes += blocks.bytes[i];
    known.steps.add(from);
    known.until = Math.max(known.until, to);
  }
  const all = [...byLine.values()];
  const bytes = all.reduce((sum, one) => sum + one.bytes, 0);
  const steps = all.reduce((most, one) => Math.max(most, one.steps.size), 0);
  if (bytes < Math.max(KEPT_BYTES, KEPT * peak) || steps < ends.length - 2) {
    return [];
  }
  const [[line, largest]] = [...byLine].sort((a, b) => b[1].bytes - a[1].bytes);
  const where = line >= 0 ? `, most of it (${bytesText(largest.bytes)}) ${lines.keys[line]}` : '';
  const until = Math.max(...all.map(one => one.until));
  const last =
    until >= ends.length ? 'the end' : `step ${countText(until + 1)} of ${countText(ends.length)}`;
  return [
    `${bytesText(bytes)} that ${countText(steps)} steps saved for backward stay until ${last}` +
      `${where}: something holds their graphs, as a sum of losses does. Add up loss.item() or ` +
      'loss.detach() instead.'
  ];
}

/** The line a few of whose tensors, which wait for the backward, are much of the peak. */
function largest(profile: Profile, span: Span, lines: Lines): string[] {
  const curve = profile.memory.find(({ blocks }) => blocks);
  const blocks = curve?.blocks;
  if (!curve || !blocks) {
    return [];
  }
  const time = highest(curve, span.from, span.to, NEAR);
  const alive = aliveAt(blocks, time);
  const whole = alive.reduce((sum, i) => sum + blocks.bytes[i], 0);
  const activation = blocks.kinds.indexOf('activation');
  const byLine = new Map<number, number[]>();
  for (const i of alive) {
    const line = blocks.row[i] < 0 ? -1 : lines.of[blocks.row[i]];
    if (blocks.kind[i] !== activation || line < 0) continue;
    const pieces = byLine.get(line) ?? [];
    byLine.set(line, pieces);
    pieces.push(i);
  }
  let [most, at, few] = [0, -1, [] as number[]];
  for (const [line, pieces] of byLine) {
    const first = pieces.sort((a, b) => blocks.bytes[b] - blocks.bytes[a]).slice(0, FEW);
    const bytes = first.reduce((sum, i) => sum + blocks.bytes[i], 0);
    if (bytes > most) [most, at, few] = [bytes, line, first];
  }
  if (most < Math.max(LARGE_BYTES, LARGE * whole)) {
    return [];
  }
  // Of these only what counts: a number beside a matrix is none of the reason.
  few = few.filter(i => blocks.bytes[i] >= most / (2 * FEW));
  const ops = [...new Set(few.map(i => profile.names[profile.name[blocks.row[i]]] ?? ''))];
  return [
    `${lines.keys[at]} keeps ${bytesText(most)} for the backward, ${share(most, whole)} of the ` +
      `peak of memory, in ${plural(few.length, 'result')} of ${ops.join(', ')}: compute the part ` +
      'again in the backward (torch.utils.checkpoint), or in smaller pieces.'
  ];
}

/** Sentences, the most important one first; none where nothing stands out. */
export function advice(profile: Profile, summary: Summary, span: Span): string[] {
  const lines = belonging(profile, 'line');
  const held = kept(profile, lines);
  return [
    ...waiting(profile, summary),
    ...(held.length > 0 ? held : largest(profile, span, lines)),
    ...shortCalls(profile, summary, span, lines)
  ];
}
