// A table that grows: the columns of all batches joined. Pure data.

import type { ColumnType, Table, TableName } from '../protocol/schema';
import { ARRAYS, TABLES } from '../protocol/schema';

type AnyArray = Uint8Array | Int32Array | Uint32Array | Float64Array;

export class Columns<N extends TableName> {
  rows = 0;
  private capacity = 0;
  private readonly arrays: Record<string, AnyArray> = {};
  private readonly types: Record<string, ColumnType>;

  constructor(name: N) {
    this.types = TABLES[name];
    this.reserve(64);
  }

  /** The columns, longer than `rows`; read them again after `append`. */
  get at(): Omit<Table<N>, 'rows'> {
    return this.arrays as unknown as Omit<Table<N>, 'rows'>;
  }

  /** bytes of memory, room for more rows included */
  get bytes(): number {
    return Object.values(this.arrays).reduce((sum, array) => sum + array.byteLength, 0);
  }

  append(table: Table<N>): void {
    this.reserve(this.rows + table.rows);
    const columns = table as unknown as Record<string, AnyArray>;
    for (const column of Object.keys(this.types)) {
      this.arrays[column].set(columns[column], this.rows);
    }
    this.rows += table.rows;
  }

  /** Keeps only the rows that pass; their order stays. */
  filter(passes: (row: number) => boolean): void {
    let kept = 0;
    for (let row = 0; row < this.rows; row++) {
      if (passes(row)) {
        if (kept !== row) {
          for (const column in this.arrays) {
            this.arrays[column][kept] = this.arrays[column][row];
          }
        }
        kept++;
      }
    }
    this.rows = kept;
    if (this.capacity > 4 * Math.max(kept, 64)) {
      this.resize(2 * Math.max(kept, 64));
    }
  }

  clear(): void {
    this.rows = 0;
    this.resize(64);
  }

  private reserve(rows: number): void {
    if (rows > this.capacity) {
      this.resize(Math.max(rows, 2 * this.capacity));
    }
  }

  private resize(capacity: number): void {
    for (const [column, type] of Object.entries(this.types)) {
      const array = new ARRAYS[type](capacity);
      if (this.arrays[column]) {
        array.set(this.arrays[column].subarray(0, Math.min(this.rows, capacity)));
      }
      this.arrays[column] = array;
    }
    this.capacity = capacity;
  }
}
