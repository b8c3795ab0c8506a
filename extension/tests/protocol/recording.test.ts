// Recording files: foreign, cut and damaged ones are told apart, each with a sentence for the
// reader.

import { describe, expect, it } from 'vitest';
import { openRecording } from '../../src/protocol/recording';
import { residual } from '../synthetic/recordings';

describe('openRecording', () => {
  it('opens a file as text or as the parsed object', () => {
    const file = residual();
    for (const source of [file, JSON.stringify(file)]) {
      const open = openRecording(source);
      expect(open.batches.length).toBe(2);
      expect(open.details.size).toBe(1);
      expect(open.values.size).toBe(3);
      expect(open.warning).toBe('');
    }
  });

  it('takes cards by number and by name, and leaves out what is none', () => {
    const math = { tag: 'mi', text: 'x' };
    const card = { op: 'sin', says: '', forward: math, text: 'x', given: [], note: '' };
    const one = { input: 'self', math, where: [math], says: '', text: 'x' };
    let deep: unknown = math;
    for (let i = 0; i < 5000; i++) deep = { tag: 'mrow', children: [deep] };
    const open = openRecording({
      ...residual(),
      cards: [
        { ...card, numbers: true, derivatives: [one] },
        { ...card, derivatives: [{ ...one, math: 'x' }] },
        { ...card, forward: deep, derivatives: [] },
        null
      ],
      card_of: { 7: 0, SinBackward0: 0, 8: 1, 9: 2, 10: 3, 11: 99, 12: 'x' },
      numbers: { 7: { math, input: 'self', text: '', source: 'ones' }, 8: 4 }
    });
    expect([...open.cards.keys()]).toEqual(['7', 'SinBackward0']);
    expect(open.numbers.size).toBe(0);
  });

  it('takes Jacobians, and leaves out what is none', () => {
    const end = { name: 'x', shape: [2], seq: null };
    const picture = { rows: 1, cols: 2, values: [0, null], pooled: false };
    const values = { shape: [1, 2], histogram: { edges: [], counts: [] }, picture };
    const block = { row: 0, column: 0, values };
    const good = { id: 1, kind: 'jacrev', function: 'f', site: null, rows: [end], columns: [end] };
    const bad = [
      { ...block, row: 1 },
      { ...block, column: 'length' },
      { ...block, values: 4 },
      { ...block, values: { ...values, picture: { ...picture, cols: 3 } } },
      { ...block, values: { ...values, picture: { ...picture, values: ['<b>', 0] } } }
    ];
    const { jacobians } = openRecording({
      ...residual(),
      jacobians: [
        { ...good, blocks: [block] },
        ...bad.map(one => ({ ...good, blocks: [one] })),
        { ...good, blocks: [block], rows: [{ ...end, shape: 'x' }] },
        { ...good, blocks: [], function: 7 },
        'x'
      ]
    });
    expect(jacobians.length).toBe(1);
  });

  it('says that a cut file is cut', () => {
    const text = JSON.stringify(residual());
    for (const part of [0.2, 0.5, 0.99]) {
      expect(() => openRecording(text.slice(0, text.length * part))).toThrow(/cut short/);
    }
  });

  it('says that a foreign file is foreign', () => {
    for (const source of ['PK\u0003\u0004', '{}', '[1,2]', '{"format":"trace"}', null, 7]) {
      expect(() => openRecording(source)).toThrow(/not an ag_visual recording/);
    }
    expect(() => openRecording('  ')).toThrow(/empty/);
    expect(() => openRecording({ ...residual(), v: 99 })).toThrow(/format 99/);
    expect(() => openRecording({ ...residual(), batches: 'none' })).toThrow(/no batches/);
  });

  it('shows what came before a damaged batch', () => {
    const file = residual();
    file.batches[1].buffer = file.batches[1].buffer.slice(0, 40);
    const open = openRecording(file);
    expect(open.batches.length).toBe(1);
    expect(open.warning).toMatch(/Batch 2 of 2 is damaged/);
    file.batches[0].buffer = '%%%';
    expect(() => openRecording(file)).toThrow(/base64/);
  });

  it('leaves out details that are not details', () => {
    const file = JSON.parse(JSON.stringify(residual())) as ReturnType<typeof residual>;
    (file.details as Record<string, unknown>)['99'] = { seq: 99, name: 'x' };
    (file.values as Record<string, unknown>)['99 grad'] = 'large';
    const open = openRecording(file);
    expect(open.details.has(99)).toBe(false);
    expect(open.values.has('99 grad')).toBe(false);
  });
});
