// The table of saved tensors: memory counted once, who keeps it, and the versions of the moment.

import { describe, expect, it } from 'vitest';
import { InspectorModel } from '../../src/model/inspector';
import { sorted, tensorRows } from '../../src/model/tensors';
import { decodeBatch } from '../../src/protocol/decode';
import { openRecording } from '../../src/protocol/recording';
import { Program } from '../synthetic/program';
import { residual, training } from '../synthetic/recordings';

function paused(): InspectorModel {
  const model = new InspectorModel();
  for (const batch of openRecording(residual()).batches) model.take(batch);
  model.refresh();
  return model;
}

describe('tensorRows', () => {
  it('tells the version then and now, and who shares the memory', () => {
    const { rows } = tensorRows(paused());
    const stale = rows.find(({ node, own, then, now }) => own && then !== now && node[0] === 'R');
    expect([stale?.name, stale?.then, stale?.now]).toEqual(['result', 0, 1]);
    expect(stale?.shared).toEqual(['MmBackward0.self']);
    expect(stale?.keepers).toContain('ReluBackward0.result');
  });

  it('says which step gave a tensor back', () => {
    const { rows } = tensorRows(paused());
    const given = rows.filter(({ held }) => !held);
    expect(given.length).toBeGreaterThan(0);
    for (const row of given) {
      expect(row.now).toBeNull();
      expect(row.freed).toMatch(/^after step \d+$/);
    }
  });

  it('counts each storage once, those that are held apart', () => {
    const { rows, totals } = tensorRows(paused());
    const largest = new Map<number, number>();
    for (const { storage, bytes } of rows) {
      largest.set(storage, Math.max(bytes, largest.get(storage) ?? 0));
    }
    expect(totals.tensors).toBe(rows.length);
    expect(totals.storages).toBe(largest.size);
    expect(totals.bytes).toBe([...largest.values()].reduce((a, b) => a + b, 0));
    expect(totals.heldBytes).toBeLessThan(totals.bytes);
    expect(totals.heldTensors).toBe(rows.filter(({ held }) => held).length);
  });

  it('shows a moment of the past as it was', () => {
    const model = new InspectorModel();
    for (const { header, buffer } of training(1)) model.take(decodeBatch(header, buffer));
    model.refresh();
    expect(tensorRows(model).totals.heldTensors).toBe(0);
    model.scrub(model.axis.forward.length);
    model.refresh();
    expect(tensorRows(model).totals.heldTensors).toBe(1);
    model.scrub(1);
    model.refresh();
    expect(tensorRows(model).rows).toEqual([]);
  });

  it('keeps what a retained graph still has', () => {
    const program = new Program(['a']);
    const w = program.leaf('w', [2]);
    const node = program.op('ExpBackward0', 1, [w], [2], {
      saved: [{ name: 'result', storage: program.storage(), own: true }]
    });
    program.backward(node, 1, { retain: true });
    const model = new InspectorModel();
    const { header, buffer } = program.writer.flush();
    model.take(decodeBatch(header, buffer));
    model.refresh();
    expect(tensorRows(model).rows.map(({ held, now }) => [held, now])).toEqual([[true, 0]]);
  });
});

describe('sorted', () => {
  it('puts the largest, the overwritten and the held first', () => {
    const { rows } = tensorRows(paused());
    const bytes = sorted(rows, 'bytes', false).map(row => row.bytes);
    expect(bytes).toEqual([...bytes].sort((a, b) => b - a));
    expect(sorted(rows, 'bytes', true).map(row => row.bytes)).toEqual([...bytes].reverse());
    const [first] = sorted(rows, 'version', false);
    expect(first.now).not.toBe(first.then);
    expect(sorted(rows, 'freed', false)[0].held).toBe(true);
  });
});
