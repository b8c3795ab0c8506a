// Bookmarks hold after another run, a new layout and a reload, and foreign text is not believed.

import { describe, expect, it } from 'vitest';
import { bookmarkOf, readBookmarks, restore } from '../../src/model/bookmarks';
import { InspectorModel } from '../../src/model/inspector';
import { openRecording } from '../../src/protocol/recording';
import type { Recording } from '../../src/protocol/schema';
import { residual, rnn } from '../synthetic/recordings';

function modelOf(recording: Recording, session?: string): InspectorModel {
  const model = new InspectorModel();
  for (const batch of openRecording(recording).batches) {
    model.take(session ? { ...batch, session } : batch);
  }
  model.refresh();
  return model;
}

const VIEW = { dx: 10, dy: -20, k: 0.8 };

describe('bookmarks', () => {
  it('bring back selection, groups and the moment', () => {
    const model = modelOf(residual({ paused: false, problem: false }));
    const seq = model.graph.seqs[4];
    model.select(seq);
    model.foldAll(true);
    model.scrub(3);
    const made = bookmarkOf(model, 2, seq, VIEW);
    expect(made?.title).toBe('ReluBackward0');
    const [kept] = readBookmarks(JSON.stringify([made]));
    model.foldAll(false);
    model.scrub(null);
    model.select(null);
    expect(restore(model, kept)).toBe(seq);
    expect(model.cursor).toBe(3);
    expect(model.selected).toBe(seq);
    expect(kept.open.length).toBeGreaterThan(0);
    expect(kept.open.every(([, open]) => open)).toBe(true);
  });

  it('find the node again in another session, and say when it is gone', () => {
    const model = modelOf(rnn(10));
    const seq = model.graph.seqs[7];
    const made = bookmarkOf(model, 1, seq, VIEW);
    expect(made).not.toBeNull();
    if (!made) return;
    const again = modelOf(rnn(10), 'another session');
    expect(restore(again, made)).toBe(seq);
    expect(restore(modelOf(residual(), 'another session'), made)).toBeNull();
  });

  it('believe no foreign text', () => {
    expect(readBookmarks(null)).toEqual([]);
    expect(readBookmarks('{')).toEqual([]);
    expect(readBookmarks('7')).toEqual([]);
    expect(readBookmarks('[null, 3, {"digit": 0}, {"digit": 2, "anchor": {}}]')).toEqual([]);
    const anchor = { session: '', seq: 1, container: '', offset: 0, name: 'A' };
    const rest = { digit: 3, anchor, view: { dx: 1, dy: 2, k: 1 }, open: [['a', true], 'b'] };
    const bad = { ...rest, view: { dx: 1, dy: 2, k: -1 } };
    const [found] = readBookmarks(JSON.stringify([rest, bad]));
    expect(found).toMatchObject({ digit: 3, title: 'A', open: [['a', true]], cursor: null });
  });
});
