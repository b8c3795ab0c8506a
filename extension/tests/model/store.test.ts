// The store: batches in order, resets, bounded memory that counts what it let go.

import { describe, expect, it } from 'vitest';
import { decodeBatch } from '../../src/protocol/decode';
import { graphOfTask } from '../../src/model/graph';
import { LIMITS, Store } from '../../src/model/store';
import { training } from '../synthetic/recordings';
import type { Written } from '../synthetic/writer';
import { Writer } from '../synthetic/writer';

const decoded = ({ header, buffer }: Written): ReturnType<typeof decodeBatch> =>
  decodeBatch(header, buffer);

describe('Store', () => {
  it('takes batches in order, once', () => {
    const [one, two, three] = training(3).map(decoded);
    const store = new Store();
    expect(store.apply(one)).toBe('applied');
    const rows = store.nodes.rows;
    expect(store.apply(one)).toBe('repeated');
    expect(store.nodes.rows).toBe(rows);
    expect(store.apply(three)).toBe('gap');
    expect(store.nodes.rows).toBe(rows);
    expect(store.apply(two)).toBe('applied');
    expect(store.apply(three)).toBe('applied');
    expect(store.nodes.rows).toBe(3 * rows);
    expect(store.nameOf(store.nodes.at.seq[0])).toBe('MmBackward0');
  });

  it('does not begin in the middle', () => {
    const [, two] = training(2).map(decoded);
    expect(new Store().apply(two)).toBe('gap');
  });

  it('starts again with a new epoch or session', () => {
    const store = new Store();
    for (const batch of training(3).map(decoded)) store.apply(batch);
    const again = new Writer('synthetic', 2);
    again.row('nodes', { seq: 1, name: again.string('SinBackward0') });
    expect(store.apply(decoded(again.flush()))).toBe('applied');
    expect(store.nodes.rows).toBe(1);
    expect(store.nameOf(1)).toBe('SinBackward0');
    expect(store.tasks.size).toBe(0);
    const other = new Writer('after a restart', 1);
    expect(store.apply(decoded(other.flush()))).toBe('applied');
    expect(store.nodes.rows).toBe(0);
    // What was under way in the epoch before is not taken any more.
    expect(store.apply(decoded(new Writer('after a restart', 0).flush()))).toBe('repeated');
  });

  it('lets the oldest steps go, counts them, and keeps the rest whole', () => {
    const batches = training(200).map(decoded);
    const whole = new Store();
    const small = new Store({ ...LIMITS, nodes: 120 });
    for (const batch of batches) {
      whole.apply(batch);
      small.apply(batch);
      expect(small.nodes.rows).toBeLessThanOrEqual(120);
    }
    const perStep = 6;
    expect(small.forgotten.nodes).toBe(whole.nodes.rows - small.nodes.rows);
    expect(small.forgotten.steps).toBe(small.forgotten.nodes / perStep);
    expect(small.forgotten.steps).toBeGreaterThan(150);
    const kept = [...small.tasks.keys()].filter(task =>
      small.nodeRow.has(small.tasks.get(task)?.root ?? 0)
    );
    expect(kept.length).toBe(small.nodes.rows / perStep);
    for (const task of kept) {
      const [a, b] = [graphOfTask(whole, task), graphOfTask(small, task)];
      expect([...b.seqs]).toEqual([...a.seqs]);
      expect([...b.edgeTo]).toEqual([...a.edgeTo]);
      expect([...b.badgeSeq]).toEqual([...a.badgeSeq]);
      expect([...b.badgeKnown]).not.toContain(0);
      expect(small.runsIn.rows(task).length).toBe(whole.runsIn.rows(task).length);
      expect(small.label(b.badgeSeq[0])).toBe(whole.label(a.badgeSeq[0]));
    }
    for (const table of ['edges', 'saved', 'runs', 'leaves', 'freed'] as const) {
      expect(small[table].rows).toBeLessThan(whole[table].rows / 5);
    }
  });

  it('keeps the newest step whole, even beyond the limit', () => {
    const writer = new Writer();
    for (let i = 1; i <= 50; i++) writer.row('nodes', { seq: i, step: 1 });
    const store = new Store({ ...LIMITS, nodes: 10 });
    store.apply(decoded(writer.flush()));
    expect(store.nodes.rows).toBe(50);
  });

  it('takes labels that are found later', () => {
    const writer = new Writer();
    writer.row('leaves', { seq: 4, label: 0 });
    const store = new Store();
    store.apply(decoded(writer.flush()));
    expect(store.label(4)).toBe('');
    writer.row('labels', { seq: 4, label: writer.string('weight') });
    store.apply(decoded(writer.flush()));
    expect(store.label(4)).toBe('weight');
  });

  it('finds the newest write not later than a moment', () => {
    const writer = new Writer();
    [1, 5, 9].forEach((t, i) =>
      writer.row('writes', { storage: 3, version: i + 1, writes: i + 1, t })
    );
    const store = new Store();
    store.apply(decoded(writer.flush()));
    const version = (t: number): number => {
      const row = store.writeAt(3, t);
      return row < 0 ? 0 : store.writes.at.version[row];
    };
    expect([0, 1, 4, 5, 8, 9, Infinity].map(version)).toEqual([0, 1, 1, 2, 2, 3, 3]);
    expect(store.writeAt(8, Infinity)).toBe(-1);
  });
});
