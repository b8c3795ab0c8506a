// The longest common subsequence of two rows of numbers: what stayed, in order. Myers' greedy walk
// ("An O(ND) Difference Algorithm and Its Variations", 1986) after all that one side lacks was left
// out; where the rows have too little in common for it, the longest run of k-th occurrences in
// order. Pure; close to linear.

/** Steps of the walk before the coarse way is taken: its square bounds time and memory. */
const MOST_STEPS = 1200;

/** Pairs (index in a, index in b), both rising, of equal numbers. */
export function align(a: ArrayLike<number>, b: ArrayLike<number>): [number, number][] {
  const pairs: [number, number][] = [];
  let from = 0;
  const most = Math.min(a.length, b.length);
  while (from < most && a[from] === b[from]) {
    pairs.push([from, from]);
    from++;
  }
  let [endA, endB] = [a.length, b.length];
  const tail: [number, number][] = [];
  while (endA > from && endB > from && a[endA - 1] === b[endB - 1]) {
    tail.push([--endA, --endB]);
  }
  const [placesA, placesB] = common(a, b, from, endA, endB);
  const middle = walk(
    placesA.map(i => a[i]),
    placesB.map(i => b[i])
  );
  for (const [i, j] of middle) pairs.push([placesA[i], placesB[j]]);
  for (let i = tail.length - 1; i >= 0; i--) pairs.push(tail[i]);
  return pairs;
}

/** Places between the equal ends whose number occurs on both sides. */
function common(
  a: ArrayLike<number>,
  b: ArrayLike<number>,
  from: number,
  endA: number,
  endB: number
): [number[], number[]] {
  const inA = new Set<number>();
  const inB = new Set<number>();
  for (let i = from; i < endA; i++) inA.add(a[i]);
  for (let i = from; i < endB; i++) inB.add(b[i]);
  const placesA: number[] = [];
  const placesB: number[] = [];
  for (let i = from; i < endA; i++) if (inB.has(a[i])) placesA.push(i);
  for (let i = from; i < endB; i++) if (inA.has(b[i])) placesB.push(i);
  return [placesA, placesB];
}

function walk(a: number[], b: number[]): [number, number][] {
  const [n, m] = [a.length, b.length];
  if (n === 0 || m === 0) {
    return [];
  }
  const limit = Math.min(n + m, MOST_STEPS);
  const trace: Int32Array[] = [];
  // furthest[k + limit + 1]: how far in `a` the walk came on the diagonal k
  const furthest = new Int32Array(2 * limit + 3);
  for (let d = 0; d <= limit; d++) {
    // Of the step before, step d reads the diagonals -d .. d.
    trace.push(furthest.slice(limit + 1 - d, limit + 2 + d));
    for (let k = -d; k <= d; k += 2) {
      const at = k + limit + 1;
      const down = k === -d || (k !== d && furthest[at - 1] < furthest[at + 1]);
      let x = down ? furthest[at + 1] : furthest[at - 1] + 1;
      while (x < n && x - k < m && a[x] === b[x - k]) x++;
      furthest[at] = x;
      if (x >= n && x - k >= m) {
        return backwards(trace, d, k, n);
      }
    }
  }
  return coarse(a, b);
}

/** The pairs of a finished walk, found from its end. */
function backwards(trace: Int32Array[], steps: number, end: number, n: number): [number, number][] {
  const pairs: [number, number][] = [];
  let [x, k] = [n, end];
  for (let d = steps; d > 0; d--) {
    const before = trace[d];
    const at = (diagonal: number): number => before[diagonal + d];
    const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const reached = down ? at(k + 1) : at(k - 1);
    const start = down ? reached : reached + 1;
    while (x > start) {
      x--;
      pairs.push([x, x - k]);
    }
    k = down ? k + 1 : k - 1;
    x = reached;
  }
  while (x > 0) {
    x--;
    pairs.push([x, x]);
  }
  return pairs.reverse();
}

/** The k-th of a number with the k-th of it on the other side, as many as keep their order. */
function coarse(a: number[], b: number[]): [number, number][] {
  const places = new Map<number, number[]>();
  b.forEach((value, j) => {
    const list = places.get(value);
    if (list) list.push(j);
    else places.set(value, [j]);
  });
  const used = new Map<number, number>();
  const candidates: [number, number][] = [];
  a.forEach((value, i) => {
    const k = used.get(value) ?? 0;
    used.set(value, k + 1);
    const j = places.get(value)?.[k];
    if (j !== undefined) candidates.push([i, j]);
  });
  return rising(candidates);
}

/** The longest part of these pairs whose second numbers rise. */
export function rising(pairs: readonly [number, number][]): [number, number][] {
  const ends: number[] = [];
  const before = new Int32Array(pairs.length).fill(-1);
  for (let i = 0; i < pairs.length; i++) {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[ends[middle]][1] < pairs[i][1]) low = middle + 1;
      else high = middle;
    }
    before[i] = low > 0 ? ends[low - 1] : -1;
    ends[low] = i;
  }
  const found: [number, number][] = [];
  for (let at = ends.length > 0 ? ends[ends.length - 1] : -1; at >= 0; at = before[at]) {
    found.push(pairs[at]);
  }
  return found.reverse();
}
