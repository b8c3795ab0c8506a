// The words for numbers, shapes and places.

import { describe, expect, it } from 'vitest';
import {
  bytesText,
  countText,
  durationText,
  numberText,
  placeText,
  plural,
  shapeText,
  shortText
} from '../../src/model/format';
import { readSite } from '../../src/protocol/decode';

describe('format', () => {
  it('writes numbers with three digits and a real minus', () => {
    const cases: [number | null, string][] = [
      [0, '0'],
      [0.04123, '0.0412'],
      [-0.0031, '−0.0031'],
      [12, '12'],
      [123456, '1.23e5'],
      [1e-7, '1.00e−7'],
      [NaN, 'NaN'],
      [-Infinity, '−∞'],
      [null, 'none']
    ];
    for (const [value, text] of cases) expect(numberText(value)).toBe(text);
  });

  it('gives up digits where there is little room', () => {
    const cases: [number | null, string][] = [
      [0.0412, '0.0412'],
      [-0.000169, '−1.7e−4'],
      [-8.47e-5, '−8.5e−5'],
      [-9.15e-10, '−9e−10'],
      [-Infinity, '−∞'],
      [null, 'none']
    ];
    for (const [value, text] of cases) expect(shortText(value, 7)).toBe(text);
  });

  it('writes sizes, counts, times and shapes', () => {
    expect([0, 999, 1000, 32768, 1536, 5e9].map(bytesText)).toEqual([
      '0 B',
      '999 B',
      '1.0 kB',
      '32 kB',
      '1.5 kB',
      '4.7 GB'
    ]);
    expect([7, 1000, 1234567].map(countText)).toEqual(['7', '1,000', '1,234,567']);
    expect(plural(1, 'leaf', 'leaves')).toBe('1 leaf');
    expect([0.05, 3.25, 850, 2500].map(durationText)).toEqual([
      '50 µs',
      '3.3 ms',
      '850 ms',
      '2.5 s'
    ]);
    expect(shapeText('64×128')).toBe('[64, 128]');
    expect(shapeText([])).toBe('scalar');
  });

  it('names places as the reader knows them', () => {
    expect(placeText(readSite({ kind: 'cell', execution_count: 7, line: 3 }))).toBe('In[7] line 3');
    expect(placeText(readSite({ kind: 'file', file: '/home/me/train.py', line: 3 }))).toBe(
      'train.py line 3'
    );
    expect(placeText(readSite({ kind: 'file', file: 'C:\\work\\train.py', line: 3 }))).toBe(
      'train.py line 3'
    );
  });
});
