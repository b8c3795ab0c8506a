// What boxes are coloured by: the numbers of nodes and closed groups, and where they stand on the
// scale.

import { describe, expect, it } from 'vitest';
import type { Measure } from '../../src/model/colouring';
import { colouringOf, levelOf, measureText, valueOf } from '../../src/model/colouring';
import { PLAIN_DRAWING, readDrawing } from '../../src/model/drawing';
import { InspectorModel } from '../../src/model/inspector';
import { legendCounts, nextOfKind } from '../../src/model/legend';
import { openRecording } from '../../src/protocol/recording';
import { chain, layers } from '../synthetic/recordings';
import type { Recording } from '../../src/protocol/schema';

function modelOf(recording: Recording, open: boolean): InspectorModel {
  const model = new InspectorModel();
  for (const batch of openRecording(recording).batches) model.take(batch);
  model.refresh();
  model.foldAll(open);
  model.refresh();
  return model;
}

function coloured(model: InspectorModel, by: Measure): ReturnType<typeof colouringOf> {
  model.draw({ colourBy: by });
  model.refresh();
  const { colouring } = model;
  if (!colouring) throw new Error('nothing is coloured');
  return colouring;
}

describe('colouring', () => {
  it.each(['norm', 'bytes', 'time'] as const)('of open boxes by %s is that of their nodes', by => {
    const model = modelOf(layers(6, ['TBackward0'], 2), true);
    const { value, nodes, level, low, high } = coloured(model, by);
    expect(value.length).toBe(model.view.seqs.length);
    value.forEach((number, box) => expect(number).toBe(nodes[model.view.first[box]]));
    const known = Array.from(value).filter(number => !Number.isNaN(number));
    expect(known.length).toBeGreaterThan(0);
    expect(high).toBe(Math.max(...known));
    expect(low).toBeLessThanOrEqual(Math.min(...known));
    for (const one of level) expect(one === -1 || (one >= 0 && one <= 1)).toBe(true);
  });

  it('shows the largest norm of a closed group, and the sum of its bytes and times', () => {
    const model = modelOf(chain(300), false);
    expect(model.view.folds.some(fold => fold && fold.nodes > 1)).toBe(true);
    for (const by of ['norm', 'bytes', 'time'] as const) {
      const colouring = coloured(model, by);
      model.view.folds.forEach((fold, box) => {
        const own = colouring.nodes.subarray(model.view.first[box], model.view.first[box + 1]);
        const expected = by === 'norm' ? Math.max(...own) : own.reduce((sum, one) => sum + one, 0);
        expect(colouring.value[box]).toBeCloseTo(expected, 9);
        if (fold) expect(valueOf(colouring, fold)).toBeCloseTo(expected, 9);
      });
    }
  });

  it('tells nothing of what has not run at the moment shown', () => {
    const model = modelOf(chain(20), true);
    model.scrub(model.axis.forward.length + 3);
    const { value, level } = coloured(model, 'time');
    expect(value.filter(number => !Number.isNaN(number))).toHaveLength(3);
    expect(level.filter(one => one >= 0)).toHaveLength(3);
  });

  it('fades on a logarithmic scale, with the ends at 0 and 1', () => {
    const log = { low: 1e-6, high: 1, log: true };
    expect([1, 1e-3, 1e-6, 0, NaN].map(value => levelOf(log, value))).toEqual([
      1,
      expect.closeTo(0.5, 12),
      0,
      0,
      -1
    ]);
    const linear = { low: 0, high: 8, log: false };
    expect([8, 2, 0].map(value => levelOf(linear, value))).toEqual([1, 0.25, 0]);
    expect(levelOf({ low: 0, high: 0, log: false }, 0)).toBe(0);
  });

  it('names numbers with their units', () => {
    expect(measureText('norm', 0.5)).toBe('0.5');
    expect(measureText('bytes', 4096)).toBe('4 kB');
    expect(measureText('time', 2)).toBe('2.0 ms');
  });
});

describe('the legend', () => {
  it('counts nodes of closed groups, too, and goes round those of a kind', () => {
    const model = modelOf(layers(6, ['TBackward0'], 2), false);
    const counts = legendCounts(model);
    const done = counts.get('done') ?? 0;
    expect(done).toBe(model.graph.seqs.length);
    expect(counts.get('parameter')).toBe(model.graph.leaves.length);
    const seen: number[] = [];
    for (let i = 0; i <= done; i++) {
      const seq = nextOfKind(model, 'done');
      if (seq === null) throw new Error('none found');
      seen.push(seq);
      model.select(seq);
    }
    expect(seen.slice(0, done)).toEqual([...model.graph.seqs]);
    expect(seen[done]).toBe(seen[0]);
    expect(nextOfKind(model, 'problem')).toBeNull();
    model.select(null);
    expect(nextOfKind(model, 'parameter')).toBe(model.graph.leaves[0]);
  });
});

describe('readDrawing', () => {
  it('takes what was kept, and leaves out what is no choice', () => {
    const kept = { colourBy: 'bytes', direction: 'right', upward: true };
    expect(readDrawing(JSON.stringify(kept))).toEqual(kept);
    for (const text of [null, '', '{', '3', '[]', 'null', '{"colourBy":"red","direction":7}'])
      expect(readDrawing(text)).toEqual(PLAIN_DRAWING);
  });
});
