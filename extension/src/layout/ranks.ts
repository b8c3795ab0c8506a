// Layers of a directed graph: Kahn's algorithm with longest paths. Linear, no recursion, cycles
// tolerated.

/**
 * Lists of numbers by key, packed: those of key k are items[start[k]] .. items[start[k + 1] - 1].
 */
export interface Packed {
  start: Uint32Array;
  items: Uint32Array;
}

/** The positions 0 .. keys.length - 1, packed by their key; the order within a key is kept. */
export function packBy(keys: ArrayLike<number>, count: number): Packed {
  const start = new Uint32Array(count + 1);
  for (let i = 0; i < keys.length; i++) start[keys[i] + 1]++;
  for (let k = 0; k < count; k++) start[k + 1] += start[k];
  const at = start.slice(0, count);
  const items = new Uint32Array(keys.length);
  for (let i = 0; i < keys.length; i++) items[at[keys[i]]++] = i;
  return { start, items };
}

/**
 * Length of the longest path that ends in each vertex. A cycle is opened at its lowest vertex:
 * edges that then lead upward or stay level have rank[to] <= rank[from].
 */
export function ranks(count: number, from: ArrayLike<number>, to: ArrayLike<number>): Int32Array {
  const out = packBy(from, count);
  const open = new Int32Array(count);
  for (let e = 0; e < to.length; e++) open[to[e]]++;
  const rank = new Int32Array(count);
  const placed = new Uint8Array(count);
  const queue = new Uint32Array(count);
  let end = 0;
  for (let v = 0; v < count; v++) {
    if (open[v] === 0) {
      placed[v] = 1;
      queue[end++] = v;
    }
  }
  let lowest = 0;
  for (let head = 0; head < count; head++) {
    if (head === end) {
      while (placed[lowest]) lowest++;
      placed[lowest] = 1;
      queue[end++] = lowest;
    }
    const v = queue[head];
    for (let i = out.start[v]; i < out.start[v + 1]; i++) {
      const w = to[out.items[i]];
      if (placed[w]) {
        continue;
      }
      if (rank[w] <= rank[v]) rank[w] = rank[v] + 1;
      if (--open[w] === 0) {
        placed[w] = 1;
        queue[end++] = w;
      }
    }
  }
  return rank;
}
