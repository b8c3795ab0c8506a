// The integer maps against JavaScript's own.

import { describe, expect, it } from 'vitest';
import { Chain, IntMap } from '../../src/model/intmap';
import { random } from '../synthetic/recordings';

describe('IntMap', () => {
  it('agrees with Map', () => {
    const next = random(3);
    const map = new Map<number, number>();
    const own = new IntMap();
    for (let i = 0; i < 20_000; i++) {
      // Numbers in a row, as seqs are, and far apart ones.
      const key = next() < 0.5 ? Math.floor(next() * 5000) : Math.floor(next() * 0xffffffff);
      own.set(key, i);
      if (key !== 0xffffffff) map.set(key, i);
    }
    expect(own.size).toBe(map.size);
    for (const [key, value] of map) expect(own.get(key)).toBe(value);
    for (let i = 0; i < 1000; i++) {
      const key = Math.floor(next() * 0xffffffff);
      expect(own.has(key)).toBe(map.has(key));
    }
  });

  it('takes keys that all share their low bits', () => {
    const own = new IntMap();
    for (let i = 0; i < 20_000; i++) own.set(i * 0x10000, i);
    expect(own.size).toBe(20_000);
    for (let i = 0; i < 20_000; i++) expect(own.get(i * 0x10000)).toBe(i);
    expect(own.get(20_000 * 0x10000)).toBe(-1);
  });

  it('holds nothing for "none"', () => {
    const own = new IntMap();
    own.set(0xffffffff, 1);
    expect(own.size).toBe(0);
    expect(own.get(0xffffffff)).toBe(-1);
    expect(own.get(0)).toBe(-1);
    own.set(0, 5);
    expect(own.get(0)).toBe(5);
  });
});

describe('Chain', () => {
  it('lists the rows of a key from the oldest to the newest', () => {
    const chain = new Chain();
    for (let row = 0; row < 1000; row++) chain.add(row % 7, row);
    expect(chain.rows(3)).toEqual(
      Array.from({ length: 143 }, (_, i) => 3 + 7 * i).filter(row => row < 1000)
    );
    expect(chain.newest(3)).toBe(997);
    expect(chain.before(997)).toBe(990);
    expect(chain.rows(8)).toEqual([]);
  });
});
