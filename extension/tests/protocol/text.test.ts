// Labels made of untrusted text.

import { describe, expect, it } from 'vitest';
import { block, cut, oneLine } from '../../src/protocol/text';

describe('oneLine', () => {
  it('keeps ordinary text as it is', () => {
    expect(oneLine('MulBackward0')).toBe('MulBackward0');
    expect(oneLine('x × 2 → ∂L/∂x')).toBe('x × 2 → ∂L/∂x');
  });

  it('takes out line ends, controls and marks that reorder text', () => {
    expect(oneLine('a\nb\tc\u0000d')).toBe('a b c d');
    expect(oneLine('exe.\u202Egnp')).not.toMatch(/[\u202a-\u202e]/);
  });

  it('cuts at a length, never inside a character', () => {
    expect(oneLine('abcdef', 4)).toBe('abc…');
    for (let length = 1; length < 12; length++) {
      expect(cut('🙂🙂🙂🙂🙂🙂', length)).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])/);
    }
  });

  it('takes no longer for 10 MB than for a line', () => {
    const large = 'x\n'.repeat(5_000_000);
    const start = performance.now();
    for (let i = 0; i < 1000; i++) oneLine(large, 80);
    expect(performance.now() - start).toBeLessThan(500);
    expect(oneLine(large, 80).length).toBeLessThanOrEqual(80);
  });
});

describe('block', () => {
  it('keeps lines and tabs', () => {
    expect(block('if x:\n\treturn\u0007 1')).toBe('if x:\n\treturn 1');
  });
});
