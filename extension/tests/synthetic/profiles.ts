// Profiles by the slice: a training loop of steps, ops, inner ops and a backward, and their traces.

import { ChromeTrace, TRACE_LIMITS } from '../../src/model/profile/chrome';
import type { TraceLimits } from '../../src/model/profile/chrome';
import type { Profile } from '../../src/model/profile/profile';
import type { ProfilePiece } from '../../src/protocol/schema';

export interface TraceEvent {
  ph: string;
  name: string;
  cat?: string;
  pid?: number;
  tid?: number;
  ts?: number;
  dur?: number;
  args?: Record<string, unknown>;
}

/** A slice of the usual thread, in microseconds. */
export function slice(
  name: string,
  ts: number,
  dur: number,
  args: Record<string, unknown> = {},
  cat = 'cpu_op'
): TraceEvent {
  return { ph: 'X', cat, name, pid: 1, tid: 1, ts, dur, args };
}

/** Steps of a step's slice, an op with an op inside, its backward and that one's op: 6 slices. */
export function* training(steps: number): Generator<TraceEvent> {
  for (let i = 0; i < steps; i++) {
    const t = i * 100;
    const name = `autograd::engine::evaluate_function: MulBackward0`;
    yield slice(`ProfilerStep#${i}`, t, 99, {}, 'user_annotation');
    yield slice('aten::linear', t + 1, 40, {});
    yield slice('aten::mul', t + 5, 20, { 'Sequence number': i, 'Fwd thread id': 0 });
    yield slice(name, t + 50, 40, { 'Sequence number': i, 'Fwd thread id': 1 });
    yield slice('MulBackward0', t + 52, 30, { 'Sequence number': i, 'Fwd thread id': 1 });
    yield slice('aten::mul', t + 55, 10, {});
  }
}

export function traceText(events: Iterable<TraceEvent>): string {
  const lines = [...events].map(event => JSON.stringify(event));
  return `{"schemaVersion": 1, "note": "[{", "traceEvents": [\n${lines.join(',\n')}\n]}`;
}

/** The profile of a trace that comes in pieces of so many bytes. */
export function readTrace(
  text: string | Uint8Array,
  piece = 2 ** 16,
  limits: Partial<TraceLimits> = {}
): Profile {
  const bytes = typeof text === 'string' ? new TextEncoder().encode(text) : text;
  const trace = new ChromeTrace({ ...TRACE_LIMITS, ...limits });
  for (let at = 0; at < bytes.length; at += piece) {
    if (!trace.push(bytes.subarray(at, at + piece))) break;
  }
  return trace.finish();
}

type ColumnType = '<i8' | '<i4' | 'u1';

/** A profile's file as Python writes it; rows of spans by the names of the columns. */
export function columnsFile(
  header: Record<string, unknown>,
  spans: Record<string, { type: ColumnType; values: number[] }>,
  memory: Record<string, { type: ColumnType; values: number[] }> = {}
): Uint8Array {
  const parts: Uint8Array[] = [];
  const table = (columns: typeof spans): unknown => {
    const told = Object.entries(columns).map(([name, { type, values }]) => {
      const array =
        type === 'u1'
          ? Uint8Array.from(values)
          : type === '<i4'
            ? Int32Array.from(values)
            : BigInt64Array.from(values, BigInt);
      parts.push(new Uint8Array(array.buffer));
      return [name, type];
    });
    return { count: Object.values(columns)[0]?.values.length ?? 0, columns: told };
  };
  const whole = { ...header, spans: table(spans), memory: table(memory) };
  const text = new TextEncoder().encode(JSON.stringify(whole));
  const line = new TextEncoder().encode(`ag_visual-profile 1 ${text.length}\n`);
  const all = [line, text, ...parts];
  const bytes = new Uint8Array(all.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of all) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** name, kind, start and end in ns, number of the node */
export type Row = [name: string, kind: number, start: number, end: number, seq: number];

/** A piece of a profile that runs, all of it in cell 'cell-1', line 2, as a kernel tells it. */
export function pieceOf(rows: readonly Row[], more: Partial<ProfilePiece> = {}): ProfilePiece {
  const names = [...new Set(rows.map(([name]) => name))];
  const floats = [2, 3, 4].flatMap(column => rows.map(row => row[column] as number));
  const ints = [
    ...rows.map(([name]) => names.indexOf(name)),
    ...rows.map(() => 0),
    ...rows.map(() => 5)
  ];
  const bytes = new Uint8Array(8 * floats.length + 4 * ints.length);
  bytes.set(new Uint8Array(Float64Array.from(floats).buffer));
  bytes.set(new Uint8Array(Int32Array.from(ints).buffer), 8 * floats.length);
  const kind = (name: string): number => rows.find(([other]) => other === name)?.[1] ?? 0;
  return {
    number: 1,
    done: false,
    next: rows.length,
    left_out: 0,
    now: 1e6,
    count: rows.length,
    open: 0,
    rows: btoa(String.fromCharCode(...bytes)),
    labels: Object.fromEntries(names.map((name, i) => [i, [name, kind(name)]])),
    facts: {
      5: { line: 'In[7] line 2', cell: 'cell-1', execution: 7, at: 2, source: 'z', inputs: 'f [3]' }
    },
    threads: ['MainThread'],
    pauses: [],
    ...more
  };
}
