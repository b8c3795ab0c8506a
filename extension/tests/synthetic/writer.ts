// Writes batches in the wire format: the other side of decode.ts, for tests and for pages to look
// at.

import type { Header, Problem, Recording, Site, State, TableName } from '../../src/protocol/schema';
import { ALIGNMENT, ARRAYS, RECORDING_FORMAT, TABLES, VERSION } from '../../src/protocol/schema';
import type { ColumnType } from '../../src/protocol/schema';

export interface Written {
  header: Header;
  buffer: ArrayBuffer;
}

export const IDLE: State = {
  recording: true,
  scope: 'every',
  every: 1,
  paused: null,
  breakpoints: [],
  pause_next: false,
  control: true,
  message: ''
};

export class Writer {
  state: State = { ...IDLE };
  t = 0;
  private batch = 0;
  private readonly strings = new Map<string, number>();
  private newStrings: string[] = [];
  private readonly sites = new Map<string, number>();
  private newSites: Site[] = [];
  private tables: Record<string, Record<string, number>[]> = {};
  private problems: Problem[] = [];

  constructor(
    readonly session = 'synthetic',
    readonly epoch = 1
  ) {
    this.string('');
  }

  string(text: string): number {
    const known = this.strings.get(text);
    if (known !== undefined) {
      return known;
    }
    this.strings.set(text, this.strings.size);
    this.newStrings.push(text);
    return this.strings.size - 1;
  }

  site(site: Site): number {
    const key = JSON.stringify(site);
    const known = this.sites.get(key);
    if (known !== undefined) {
      return known;
    }
    this.sites.set(key, this.sites.size);
    this.newSites.push(site);
    return this.sites.size - 1;
  }

  row(table: TableName, values: Record<string, number>): void {
    (this.tables[table] ??= []).push(values);
  }

  problem(problem: Problem): void {
    this.problems.push(problem);
  }

  flush(): Written {
    const placed: { array: InstanceType<(typeof ARRAYS)[ColumnType]>; offset: number }[] = [];
    const tables: Header['tables'] = {};
    let size = 0;
    for (const [name, rows] of Object.entries(this.tables)) {
      const columns: Record<string, [number, number]> = {};
      for (const [column, type] of Object.entries(TABLES[name as TableName]) as [
        string,
        ColumnType
      ][]) {
        const array = new ARRAYS[type](rows.length);
        rows.forEach((row, i) => (array[i] = row[column] ?? 0));
        columns[column] = [size, array.byteLength];
        placed.push({ array, offset: size });
        size = Math.ceil((size + array.byteLength) / ALIGNMENT) * ALIGNMENT;
      }
      tables[name] = { rows: rows.length, columns };
    }
    const buffer = new ArrayBuffer(size);
    for (const { array, offset } of placed) {
      new Uint8Array(buffer).set(
        new Uint8Array(array.buffer, array.byteOffset, array.byteLength),
        offset
      );
    }
    const header: Header = {
      v: VERSION,
      session: this.session,
      epoch: this.epoch,
      batch: ++this.batch,
      t: this.t,
      coalesced: {},
      dropped_steps: 0,
      strings: this.newStrings,
      sites: this.newSites,
      tables,
      state: structuredClone(this.state),
      problems: this.problems
    };
    this.newStrings = [];
    this.newSites = [];
    this.tables = {};
    this.problems = [];
    return { header, buffer };
  }
}

function base64(buffer: ArrayBuffer): string {
  const bytes = new Uint8Array(buffer);
  let binary = '';
  for (let i = 0; i < bytes.length; i += 8192) {
    binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  }
  return btoa(binary);
}

/** A recording file of these batches. */
export function recordingOf(
  batches: Written[],
  details: Recording['details'] = {},
  values: Recording['values'] = {}
): Recording {
  return {
    format: RECORDING_FORMAT,
    v: VERSION,
    created: '2025-06-01T12:00:00Z',
    package_version: '0.1.0',
    batches: batches.map(({ header, buffer }) => ({ header, buffer: base64(buffer) })),
    details,
    values
  };
}
