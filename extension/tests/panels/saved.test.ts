// Rows of the table of saved tensors: what the recording knows joined with what the kernel tells.

import { describe, expect, it } from 'vitest';
import { InspectorModel } from '../../src/model/inspector';
import { savedRows } from '../../src/panels/saved';
import { openRecording } from '../../src/protocol/recording';
import type { NodeDetails } from '../../src/protocol/schema';
import { residual } from '../synthetic/recordings';

describe('savedRows', () => {
  it('begin with what the op was called on, and end with what it made', () => {
    const saved = (name: string): NodeDetails['saved'][number] => ({
      name,
      shape: [],
      dtype: '',
      bytes: 0,
      version_then: 0,
      version_now: 0,
      storage: 0,
      shared_with: [],
      freed: false,
      own_output: false
    });
    const details = { saved: ['result', 'other', 'self'].map(saved) } as unknown as NodeDetails;
    const rows = savedRows(new InspectorModel(), 1, details);
    expect(rows.map(({ name }) => name)).toEqual(['self', 'other', 'result']);
  });

  it('keep the size of a tensor that the kernel tells as freed', () => {
    const model = new InspectorModel();
    for (const batch of openRecording(residual({ paused: false, problem: false })).batches) {
      model.take(batch);
    }
    model.refresh();
    const seq = model.graph.seqs.find(one => savedRows(model, one, null).length === 1) ?? 0;
    const [before] = savedRows(model, seq, null);
    expect(before.bytes).toBeGreaterThan(0);
    const freed: NodeDetails = {
      seq,
      name: '',
      site: null,
      next: [],
      outputs: [],
      saved: [
        {
          name: before.name,
          shape: [],
          dtype: '',
          bytes: 0,
          version_then: 0,
          version_now: null,
          storage: 0,
          shared_with: ['view'],
          freed: true,
          own_output: false
        }
      ],
      values: [],
      hooks: [],
      alive: true,
      variable: null
    };
    expect(savedRows(model, seq, freed)).toEqual([{ ...before, now: null, shared: ['view'] }]);
    const slice = { ...freed.saved[0], bytes: 512, lanes: [64], tangent: true };
    const [row] = savedRows(model, seq, { ...freed, saved: [slice] });
    expect([row.lanes, row.bytes, row.tangent]).toEqual([[64], 512, true]);
  });
});
