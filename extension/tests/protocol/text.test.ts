// Labels made of untrusted text.

import { describe, expect, it, vi } from 'vitest';
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

  it('looks at no more of 10 MB than of a line', () => {
    const large = 'x\n'.repeat(5_000_000);
    const replace = vi.spyOn(String.prototype, 'replace');
    expect(oneLine(large, 80).length).toBeLessThanOrEqual(80);
    const scanned = replace.mock.contexts.map(text => String(text).length);
    replace.mockRestore();
    expect(scanned).toHaveLength(1);
    expect(scanned[0]).toBeLessThan(200);
  });
});

describe('block', () => {
  it('keeps lines and tabs', () => {
    expect(block('if x:\n\treturn\u0007 1')).toBe('if x:\n\treturn 1');
  });
});
