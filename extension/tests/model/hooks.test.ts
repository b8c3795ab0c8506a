// Hooks in order: those that ran by the moment shown, then those that wait.

import { describe, expect, it } from 'vitest';
import type { HookRow } from '../../src/model/hooks';
import { effectText, givenText, hooksOfNode, hooksOfPass, madeNan } from '../../src/model/hooks';
import { InspectorModel } from '../../src/model/inspector';
import { openRecording } from '../../src/protocol/recording';
import { residual } from '../synthetic/recordings';

const GIVEN = { norm: 1, min: -1, max: 2, nan: 0, inf: 0 };

function row(effect: string, more: Partial<NonNullable<HookRow['run']>> = {}): HookRow {
  const run = { effect, factor: 0.5, error: 'E', before: GIVEN, after: GIVEN, ...more };
  return { seq: 1, kind: 'tensor', name: 'f', number: 0, hook: 1, site: null, run };
}

function opened(): { model: InspectorModel; seq: number } {
  const model = new InspectorModel();
  for (const batch of openRecording(residual()).batches) model.take(batch);
  model.refresh();
  return { model, seq: model.store.hooks.at.seq[0] };
}

describe('hooks', () => {
  it('say what they did', () => {
    expect(effectText({ ...row('none'), run: null })).toBe('has not run');
    expect(effectText(row('none'))).toBe('returned None: unchanged');
    expect(effectText(row('scaled'))).toBe('scaled by 0.5');
    expect(effectText(row('raised'))).toBe('raised E');
    expect(givenText(GIVEN)).toBe('norm 1, −1 to 2');
    expect(givenText({ ...GIVEN, norm: NaN, min: NaN, max: NaN, nan: 3 })).toBe('norm NaN, 3 NaN');
    expect(givenText({ ...GIVEN, norm: -1 })).toBe('none');
  });

  it('point at the one that made NaN, not at those that were given it', () => {
    const nan = { ...GIVEN, nan: 2 };
    expect(madeNan(row('replaced', { after: nan }))).toBe(true);
    expect(madeNan(row('replaced', { before: nan, after: nan }))).toBe(false);
    expect(madeNan({ ...row('none'), run: null })).toBe(false);
  });

  it('of a node that ran come before those that wait', () => {
    const { model, seq } = opened();
    const clip = { kind: 'tensor', name: 'clip', number: 0, hook: 1, site: null };
    const rows = hooksOfNode(model, seq, [clip, { ...clip, name: 'later', hook: 2 }]);
    expect(rows.map(({ name, run }) => [name, run !== null])).toEqual([
      ['clip', true],
      ['later', false]
    ]);
    // Before the pass began no hook had run.
    model.scrub(0);
    model.refresh();
    expect(hooksOfNode(model, seq, [clip])[0].run).toBeNull();
  });

  it('of a pass are those of its own nodes', () => {
    const { model, seq } = opened();
    const hooks = [{ kind: 'pre', name: 'look', number: 0, hook: 7, site: null }];
    const rows = hooksOfPass(model, [
      { seq, name: '', hooks },
      { seq: 999_999, name: '', hooks }
    ]);
    expect(rows.map(({ name }) => name)).toEqual(['clip', 'look']);
  });
});
