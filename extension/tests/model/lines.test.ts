// Lines of cells and the nodes that they made, both ways.

import { describe, expect, it } from 'vitest';
import { InspectorModel } from '../../src/model/inspector';
import { openRecording } from '../../src/protocol/recording';
import { residual } from '../synthetic/recordings';

describe('lines', () => {
  it('hold each node of a cell once, and find it back', () => {
    const model = new InspectorModel();
    for (const batch of openRecording(residual()).batches) model.take(batch);
    model.refresh();
    const { all } = model.lines;
    expect(all.map(({ line, seqs }) => [line, seqs.length]).sort()).toEqual([
      [1, 3],
      [2, 2],
      [3, 1],
      [4, 3]
    ]);
    expect(all.flatMap(({ seqs }) => seqs).sort()).toEqual([...model.graph.seqs].sort());
    for (const { cell, line, seqs } of all) expect(model.lines.of(cell, line)).toEqual(seqs);
    expect(model.lines.of('elsewhere', 1)).toEqual([]);
    expect(model.lines).toBe(model.lines);
  });
});
