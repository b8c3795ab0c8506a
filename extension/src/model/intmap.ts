// Integer maps without boxed numbers: seq -> row, and key -> rows (newest first). Pure data.

const EMPTY = 0xffffffff;

/**
 * Slots next to a key's own that are tried before it jumps: numbers that are counted up lie side by
 * side in memory, and those that share their low bits still find a place soon.
 */
const NEIGHBOURS = 8;

/** From u32 keys (all but 0xffffffff) to i32 values; open addressing, no deletion. */
export class IntMap {
  private keys = new Uint32Array(16).fill(EMPTY);
  private values = new Int32Array(16);
  private mask = 15;
  size = 0;

  /** The value, or -1. */
  get(key: number): number {
    let slot = key & this.mask;
    for (let tried = 1; ; tried++) {
      const found = this.keys[slot];
      if (found === key) {
        return key === EMPTY ? -1 : this.values[slot];
      }
      if (found === EMPTY) {
        return -1;
      }
      slot = (slot + (tried < NEIGHBOURS ? 1 : jump(key))) & this.mask;
    }
  }

  has(key: number): boolean {
    return this.get(key) !== -1;
  }

  set(key: number, value: number): void {
    if (key === EMPTY) {
      return;
    }
    if (2 * (this.size + 1) > this.keys.length) {
      this.grow();
    }
    let slot = key & this.mask;
    for (let tried = 1; this.keys[slot] !== EMPTY && this.keys[slot] !== key; tried++) {
      slot = (slot + (tried < NEIGHBOURS ? 1 : jump(key))) & this.mask;
    }
    if (this.keys[slot] === EMPTY) {
      this.keys[slot] = key;
      this.size++;
    }
    this.values[slot] = value;
  }

  /** bytes of memory */
  get bytes(): number {
    return this.keys.byteLength + this.values.byteLength;
  }

  clear(): void {
    this.keys = new Uint32Array(16).fill(EMPTY);
    this.values = new Int32Array(16);
    this.mask = 15;
    this.size = 0;
  }

  private grow(): void {
    const { keys, values } = this;
    this.keys = new Uint32Array(keys.length * 2).fill(EMPTY);
    this.values = new Int32Array(keys.length * 2);
    this.mask = this.keys.length - 1;
    this.size = 0;
    for (let i = 0; i < keys.length; i++) {
      if (keys[i] !== EMPTY) {
        this.set(keys[i], values[i]);
      }
    }
  }
}

/** Odd, so that the jumps come to every slot. */
function jump(key: number): number {
  const mixed = Math.imul(key ^ (key >>> 16), 0x45d9f3b);
  return (mixed ^ (mixed >>> 15)) | 1;
}

/** The rows of each key as linked lists, the newest row first. */
export class Chain {
  private readonly heads = new IntMap();
  private older = new Int32Array(64).fill(-1);

  add(key: number, row: number): void {
    if (row >= this.older.length) {
      const longer = new Int32Array(Math.max(row + 1, this.older.length * 2)).fill(-1);
      longer.set(this.older);
      this.older = longer;
    }
    this.older[row] = this.heads.get(key);
    this.heads.set(key, row);
  }

  /** The newest row of a key, or -1. */
  newest(key: number): number {
    return this.heads.get(key);
  }

  /** The row before this one in its list, or -1. */
  before(row: number): number {
    return this.older[row];
  }

  /** All rows of a key, oldest first. */
  rows(key: number): number[] {
    const found: number[] = [];
    for (let row = this.heads.get(key); row !== -1; row = this.older[row]) {
      found.push(row);
    }
    return found.reverse();
  }

  /** bytes of memory */
  get bytes(): number {
    return this.heads.bytes + this.older.byteLength;
  }

  clear(): void {
    this.heads.clear();
    this.older = new Int32Array(64).fill(-1);
  }
}
