// Batches off the wire: read exactly, or refused with a sentence. Nothing that arrives may crash
// the page.

import { describe, expect, it } from 'vitest';
import { ProtocolError, VersionError, decodeBatch, readState } from '../../src/protocol/decode';
import type { Header } from '../../src/protocol/schema';
import { NONE, TABLES } from '../../src/protocol/schema';
import { KEPT } from '../../src/protocol/text';
import { random } from '../synthetic/recordings';
import { Writer } from '../synthetic/writer';

function written(): { header: Header; buffer: ArrayBuffer } {
  const writer = new Writer();
  for (let i = 0; i < 5; i++) {
    writer.row('nodes', {
      seq: 100 + i,
      name: writer.string('MulBackward0'),
      site: NONE,
      t: i / 3,
      numel: 2 ** 40
    });
    writer.row('runs', {
      seq: 100 + i,
      task: 1,
      order: i,
      t0: i,
      t1: i + 0.5,
      norm: i === 2 ? NaN : i,
      flags: i === 2 ? 1 : 0
    });
    writer.row('saved', {
      node: 100 + i,
      name: writer.string('self'),
      storage: 7,
      version: i,
      bytes: 12,
      flags: i % 2
    });
  }
  return writer.flush();
}

describe('decodeBatch', () => {
  it('gives back what was written, column by column', () => {
    const { header, buffer } = written();
    const batch = decodeBatch(header, buffer);
    expect(batch.batch).toBe(1);
    expect(batch.strings).toEqual(['', 'MulBackward0', 'self']);
    expect([...(batch.tables.nodes?.seq ?? [])]).toEqual([100, 101, 102, 103, 104]);
    expect([...(batch.tables.nodes?.numel ?? [])]).toEqual(new Array(5).fill(2 ** 40));
    expect([...(batch.tables.runs?.norm ?? [])]).toEqual([0, 1, NaN, 3, 4]);
    expect([...(batch.tables.saved?.flags ?? [])]).toEqual([0, 1, 0, 1, 0]);
    expect(batch.tables.edges).toBeUndefined();
  });

  it('reads views at any offset, as comms deliver them', () => {
    const { header, buffer } = written();
    for (const offset of [0, 1, 3, 8]) {
      const larger = new Uint8Array(buffer.byteLength + 16);
      larger.set(new Uint8Array(buffer), offset);
      const view = new DataView(larger.buffer, offset, buffer.byteLength);
      expect([...(decodeBatch(header, view).tables.runs?.t1 ?? [])]).toEqual([
        0.5, 1.5, 2.5, 3.5, 4.5
      ]);
    }
  });

  it('refuses another version and says what to do', () => {
    const { header, buffer } = written();
    expect(() => decodeBatch({ ...header, v: 2 }, buffer)).toThrow(VersionError);
    expect(() => decodeBatch({ ...header, v: 2 }, buffer)).toThrow(
      /newer version of ag_visual \(format 2.*Update ag_visual/
    );
  });

  it('refuses a buffer that is cut short', () => {
    const { header, buffer } = written();
    for (const length of [0, 1, 40, buffer.byteLength - 4]) {
      expect(() => decodeBatch(header, buffer.slice(0, length))).toThrow(/cut short|do not fit/);
    }
  });

  it('refuses columns that lack, overlap their type or lie outside', () => {
    const { header, buffer } = written();
    const spoil = (change: (columns: Record<string, unknown>) => void): Header => {
      const copy = structuredClone(header);
      change(copy.tables.runs.columns as Record<string, unknown>);
      return copy;
    };
    expect(() =>
      decodeBatch(
        spoil(c => delete c.norm),
        buffer
      )
    ).toThrow(/lacks the column 'norm'/);
    expect(() =>
      decodeBatch(
        spoil(c => (c.norm = [4, 40])),
        buffer
      )
    ).toThrow(ProtocolError);
    expect(() =>
      decodeBatch(
        spoil(c => (c.norm = [0, 48])),
        buffer
      )
    ).toThrow(/do not fit/);
    expect(() =>
      decodeBatch(
        spoil(c => (c.norm = [-8, 40])),
        buffer
      )
    ).toThrow(/offset/);
    expect(() =>
      decodeBatch(
        spoil(c => (c.norm = [1e15, 40])),
        buffer
      )
    ).toThrow(/cut short/);
    expect(() =>
      decodeBatch(
        spoil(c => (c.norm = 'here')),
        buffer
      )
    ).toThrow(ProtocolError);
  });

  it('cuts strings that are longer than a page can use', () => {
    const writer = new Writer();
    writer.string('x'.repeat(10_000_000));
    const { header, buffer } = writer.flush();
    expect(decodeBatch(header, buffer).strings[1].length).toBe(KEPT);
  });

  it('reads or refuses whatever it gets, and never fails otherwise', () => {
    const { header, buffer } = written();
    const next = random(5);
    const junk: unknown[] = [null, -1, 1e308, 'x', [], {}, true, NaN, [[]], { rows: 1e9 }];
    const spoil = (value: unknown, depth: number): unknown => {
      if (next() < 0.06) return junk[Math.floor(next() * junk.length)];
      if (Array.isArray(value)) return value.map(item => spoil(item, depth + 1));
      if (typeof value === 'object' && value !== null) {
        return Object.fromEntries(
          Object.entries(value).map(([key, item]) => [key, spoil(item, depth + 1)])
        );
      }
      return value;
    };
    let read = 0;
    for (let i = 0; i < 2000; i++) {
      try {
        const batch = decodeBatch(spoil(header, 0), buffer);
        read++;
        for (const table of Object.values(batch.tables)) expect(table.rows).toBe(5);
      } catch (error) {
        expect(error).toBeInstanceOf(ProtocolError);
      }
    }
    expect(read).toBeGreaterThan(20);
  });

  it('knows every table of the schema', () => {
    const writer = new Writer();
    for (const name of Object.keys(TABLES) as (keyof typeof TABLES)[]) writer.row(name, {});
    const { header, buffer } = writer.flush();
    expect(Object.keys(decodeBatch(header, buffer).tables).sort()).toEqual(
      Object.keys(TABLES).sort()
    );
  });
});

describe('readState', () => {
  it('is whole whatever came', () => {
    const empty = readState(undefined);
    expect(empty).toMatchObject({
      recording: false,
      scope: 'off',
      paused: null,
      breakpoints: [],
      control: false
    });
    expect(
      readState({
        scope: 'sometimes',
        breakpoints: [1, { kind: 'x' }, { kind: 'name', name: 'Mul', id: 3 }]
      })
    ).toMatchObject({
      scope: 'off',
      breakpoints: [{ id: 3, kind: 'name', name: 'Mul' }]
    });
  });
});
