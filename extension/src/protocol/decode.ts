// One batch off the wire: a checked header and typed columns. Never trusts a length or an offset.

import type {
  Breakpoint,
  Edit,
  Header,
  Problem,
  Run,
  Site,
  State,
  Table,
  TableName,
  Written
} from './schema';
import { ARRAYS, NONE, TABLES, VERSION } from './schema';
import type { ColumnType } from './schema';
import { readLesson } from './lesson';
import { KEPT, cut } from './text';

/** The data cannot be read; the message is for the reader. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

/** Another version of ag_visual wrote this; nothing about it should be guessed. */
export class VersionError extends ProtocolError {}

/** Why something of another version is not opened, and what to do. */
export function versionText(what: string, version: unknown): string {
  const newer = typeof version === 'number' && version > VERSION;
  const found = `format ${cut(String(version), 20)}; this Inspector reads format ${VERSION}`;
  return newer
    ? `${what} was made by a newer version of ag_visual (${found}). Update ag_visual to open it.`
    : `${what} is in ${found}. Open it with the ag_visual release that wrote it, or record again.`;
}

export interface Batch {
  session: string;
  epoch: number;
  batch: number;
  t: number;
  coalesced: Record<string, number>;
  droppedSteps: number;
  strings: string[];
  sites: Site[];
  tables: { [N in TableName]?: Table<N> };
  state: State;
  problems: Problem[];
}

type Json = Record<string, unknown>;

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function count(value: unknown, what: string): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) {
    throw new ProtocolError(
      `A batch has no usable ${what}: got ${cut(String(JSON.stringify(value)), 40)}.`
    );
  }
  return value;
}

function asText(value: unknown): string {
  return typeof value === 'string' ? cut(value, KEPT) : '';
}

function asNumber(value: unknown, otherwise: number): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : otherwise;
}

const HOW: readonly string[] = ['operator', 'call', 'attribute'];
const MOST_ARGUMENTS = 20;

/** How an expression reads; null for what says nothing that is understood. */
function readWritten(value: unknown): Written | null {
  if (!isObject(value) || !HOW.includes(String(value.how))) {
    return null;
  }
  const list = (found: unknown): unknown[] =>
    Array.isArray(found) ? found.slice(0, MOST_ARGUMENTS) : [];
  return {
    how: value.how as Written['how'],
    call: asText(value.call),
    on: asText(value.on),
    args: list(value.args).map(asText),
    named: list(value.named)
      .filter(isObject)
      .map(({ name, text }) => ({ name: asText(name), text: asText(text) })),
    target: asText(value.target)
  };
}

/** A source line, with every field present whatever came. */
export function readSite(value: unknown): Site {
  const site = isObject(value) ? value : {};
  return {
    file: asText(site.file),
    kind: site.kind === 'cell' ? 'cell' : 'file',
    cell_id: typeof site.cell_id === 'string' ? site.cell_id : null,
    execution_count: typeof site.execution_count === 'number' ? site.execution_count : null,
    line: asNumber(site.line, 0),
    col: asNumber(site.col, 0),
    end_line: asNumber(site.end_line, 0),
    end_col: asNumber(site.end_col, 0),
    function: asText(site.function),
    text: asText(site.text),
    where: asText(site.where),
    source_line: asText(site.source_line),
    written: readWritten(site.written)
  };
}

const SCOPES: readonly string[] = ['off', 'newest', 'block', 'once', 'every'];

const BREAKPOINTS: readonly string[] = ['node', 'name', 'line', 'condition'];

export function readState(value: unknown): State {
  const state = isObject(value) ? value : {};
  const paused = isObject(state.paused) ? state.paused : null;
  const breakpoints: State['breakpoints'] = [];
  for (const item of Array.isArray(state.breakpoints) ? state.breakpoints : []) {
    if (isObject(item) && BREAKPOINTS.includes(String(item.kind))) {
      const number = (value: unknown): number | undefined =>
        typeof value === 'number' ? value : undefined;
      const text = (value: unknown): string | undefined =>
        typeof value === 'string' ? cut(value, KEPT) : undefined;
      breakpoints.push({
        id: asNumber(item.id, 0),
        kind: item.kind as Breakpoint['kind'],
        seq: number(item.seq),
        name: text(item.name),
        line: number(item.line),
        place: text(item.place),
        above: number(item.above),
        nonfinite: item.nonfinite === true ? true : undefined,
        shape: text(item.shape)
      });
    }
  }
  return {
    recording: state.recording === true,
    scope: SCOPES.includes(String(state.scope)) ? (state.scope as State['scope']) : 'off',
    every: asNumber(state.every, 1),
    paused: paused && {
      task: asNumber(paused.task, 0),
      seq: asNumber(paused.seq, NONE),
      order: asNumber(paused.order, 0),
      total: asNumber(paused.total, 0),
      thread: asNumber(paused.thread, 0),
      since: asNumber(paused.since, 0),
      edited: paused.edited === true,
      problem: asText(paused.problem),
      waiting: asNumber(paused.waiting, 0),
      breakpoint: asNumber(paused.breakpoint, 0)
    },
    breakpoints,
    pause_next: state.pause_next === true,
    control: state.control === true,
    kernel_busy: state.kernel_busy === true,
    missed: asNumber(state.missed, 0),
    jacobians: asNumber(state.jacobians, 0),
    message: asText(state.message),
    lesson: readLesson(state.lesson),
    profile: typeof state.profile === 'number' ? state.profile : null,
    name: asText(state.name),
    runs: Array.isArray(state.runs) ? readRuns(state.runs) : []
  };
}

const MOST_RUNS = 100;

function readRuns(runs: unknown[]): Run[] {
  return runs
    .slice(-MOST_RUNS)
    .filter(isObject)
    .map(run => ({
      number: asNumber(run.number, 0),
      name: asText(run.name),
      nodes: asNumber(run.nodes, 0),
      passes: asNumber(run.passes, 0)
    }));
}

const MOST_LINES = 200;
const MOST_NAMES = 20;

const KINDS: readonly string[] = [
  'modified-by-inplace',
  'leaf-inplace',
  'view-inplace',
  'second-backward',
  'silent'
];

/** Lines of an edit must be whole: a part of one must not replace it. */
function readEdit(value: unknown): Edit | null {
  if (!isObject(value) || !isObject(value.site) || typeof value.first !== 'number') {
    return null;
  }
  const { was, becomes, first } = value;
  const lines = (found: unknown): found is string[] =>
    Array.isArray(found) &&
    found.length <= MOST_LINES &&
    found.every(line => typeof line === 'string' && line.length <= KEPT);
  return lines(was) && lines(becomes) ? { site: readSite(value.site), first, was, becomes } : null;
}

function readProblem(value: unknown): Problem | null {
  if (!isObject(value) || typeof value.id !== 'number') {
    return null;
  }
  const tensor = isObject(value.tensor) ? value.tensor : {};
  const saved = isObject(value.saved) ? value.saved : null;
  const repair = isObject(value.repair) ? value.repair : null;
  const site = (found: unknown): Site | null => (isObject(found) ? readSite(found) : null);
  const integer = (found: unknown): number | null => (typeof found === 'number' ? found : null);
  return {
    id: value.id,
    kind: KINDS.includes(String(value.kind)) ? (value.kind as Problem['kind']) : 'other',
    title: asText(value.title),
    detail: asText(value.detail),
    node_seq: integer(value.node_seq),
    node_name: asText(value.node_name),
    saved_name: asText(value.saved_name),
    tensor: {
      name: typeof tensor.name === 'string' ? cut(tensor.name, KEPT) : null,
      shape: (Array.isArray(tensor.shape) ? tensor.shape : []).filter(n => typeof n === 'number'),
      dtype: asText(tensor.dtype)
    },
    saved: saved && { site: site(saved.site), version: asNumber(saved.version, 0) },
    writes: (Array.isArray(value.writes) ? value.writes : []).filter(isObject).map(write => ({
      site: site(write.site),
      version: asNumber(write.version, 0),
      op: asText(write.op)
    })),
    more_writes: asNumber(value.more_writes, 0),
    version_then: integer(value.version_then),
    version_now: integer(value.version_now),
    repair: repair && {
      text: asText(repair.text),
      code: typeof repair.code === 'string' ? cut(repair.code, KEPT) : null,
      edit: readEdit(repair.edit)
    },
    where: site(value.where),
    text: typeof value.text === 'string' ? cut(value.text, 4 * KEPT) : '',
    made: site(value.made),
    first: site(value.first),
    holders: (Array.isArray(value.holders) ? value.holders : []).slice(0, MOST_NAMES).map(asText),
    aliases: (Array.isArray(value.aliases) ? value.aliases : [])
      .filter(isObject)
      .slice(0, MOST_NAMES)
      .map(alias => ({ name: asText(alias.name), how: asText(alias.how) })),
    times: Math.max(1, asNumber(value.times, 1)),
    solved: value.solved === true
  };
}

function readTable<N extends TableName>(name: N, value: unknown, buffer: ArrayBuffer): Table<N> {
  if (!isObject(value) || !isObject(value.columns)) {
    throw new ProtocolError(`The table '${name}' of a batch has no columns.`);
  }
  const rows = count(value.rows, `row count in '${name}'`);
  const table: Json = { rows };
  for (const [column, type] of Object.entries(TABLES[name]) as [string, ColumnType][]) {
    const place = value.columns[column];
    if (!Array.isArray(place)) {
      throw new ProtocolError(`The table '${name}' of a batch lacks the column '${column}'.`);
    }
    const array = ARRAYS[type];
    const offset = count(place[0], `offset of ${name}.${column}`);
    const length = count(place[1], `length of ${name}.${column}`);
    if (length !== rows * array.BYTES_PER_ELEMENT || offset % array.BYTES_PER_ELEMENT !== 0) {
      throw new ProtocolError(
        `The column ${name}.${column} is ${length} bytes at ${offset}; ` +
          `${rows} rows of ${type} do not fit.`
      );
    }
    if (offset + length > buffer.byteLength) {
      throw new ProtocolError(
        `A batch is cut short: ${name}.${column} ends at byte ${offset + length} ` +
          `of ${buffer.byteLength}.`
      );
    }
    table[column] = new array(buffer, offset, rows);
  }
  return table as Table<N>;
}

/** Comm buffers arrive as views at any offset; typed columns need their own alignment. */
function aligned(buffer: ArrayBuffer | ArrayBufferView): ArrayBuffer {
  if (buffer instanceof ArrayBuffer) {
    return buffer;
  }
  if (ArrayBuffer.isView(buffer)) {
    const { buffer: whole, byteOffset, byteLength } = buffer;
    if (whole instanceof ArrayBuffer && byteOffset === 0 && byteLength === whole.byteLength) {
      return whole;
    }
    const copy = new Uint8Array(byteLength);
    copy.set(new Uint8Array(whole, byteOffset, byteLength));
    return copy.buffer;
  }
  throw new ProtocolError('A batch came without its binary part.');
}

/**
 * Checks a batch and gives its columns as views of the buffer (a copy only where alignment asks for
 * it).
 */
export function decodeBatch(
  header: Header | unknown,
  buffer: ArrayBuffer | ArrayBufferView
): Batch {
  if (!isObject(header)) {
    throw new ProtocolError('A batch came without a header.');
  }
  if (header.v !== VERSION) {
    throw new VersionError(versionText('This', header.v));
  }
  const bytes = aligned(buffer);
  const tables: Record<string, unknown> = {};
  const found = isObject(header.tables) ? header.tables : {};
  for (const name of Object.keys(TABLES) as TableName[]) {
    if (found[name] !== undefined) {
      tables[name] = readTable(name, found[name], bytes);
    }
  }
  const coalesced: Record<string, number> = {};
  for (const [table, rows] of Object.entries(isObject(header.coalesced) ? header.coalesced : {})) {
    coalesced[table] = asNumber(rows, 0);
  }
  const problems = Array.isArray(header.problems) ? header.problems.map(readProblem) : [];
  return {
    session: asText(header.session),
    epoch: count(header.epoch, 'epoch'),
    batch: count(header.batch, 'number'),
    t: asNumber(header.t, 0),
    coalesced,
    droppedSteps: asNumber(header.dropped_steps, 0),
    strings: (Array.isArray(header.strings) ? header.strings : []).map(asText),
    sites: (Array.isArray(header.sites) ? header.sites : []).map(readSite),
    tables: tables as Batch['tables'],
    state: readState(header.state),
    problems: problems.filter((problem): problem is Problem => problem !== null)
  };
}
