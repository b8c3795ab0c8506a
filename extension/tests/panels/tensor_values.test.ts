// Lanes and places of elements, as words.

import { describe, expect, it } from 'vitest';
import { lanesOf, placeOf, sliceText } from '../../src/panels/tensor_values';

describe('lanes', () => {
  it('are whole numbers, or there are none', () => {
    expect(lanesOf([8, 64])).toEqual([8, 64]);
    for (const junk of [null, undefined, '64', [1.5], ['64'], [-1], { length: 2 }]) {
      expect(lanesOf(junk)).toEqual([]);
    }
  });

  it('are told with what a slice is one of', () => {
    expect(sliceText([64])).toBe('slice of 64');
    expect(sliceText([8, 64])).toBe('slice of 8 × 64');
    expect(sliceText([])).toBe('');
  });

  it('have a place at each level', () => {
    expect(placeOf(5, [2, 3])).toEqual([1, 2]);
    expect(placeOf(0, [])).toEqual([]);
  });
});
