// What a tensor's values are, in one line.

import { describe, expect, it } from 'vitest';
import { summaryText } from '../../src/panels/value_picture';
import type { Values } from '../../src/protocol/schema';

function between(min: number, max: number): Values {
  const values = { numel: 8, sampled: 8, zero: 0, nan: 0, inf: 0, min, max, mean: (min + max) / 2 };
  return values as unknown as Values;
}

describe('a summary of values', () => {
  it('says no number twice', () => {
    expect(summaryText(between(0.5, 0.5))).toBe('all 0.5');
    expect(summaryText(between(0.31, 0.31000003))).toBe('all about 0.31');
    expect(summaryText(between(-1, 3))).toBe('from −1 to 3, mean 1');
  });
});
