"""The longest common subsequence of two rows of numbers: what stayed, in order. Plain integers.

Myers' greedy walk ("An O(ND) Difference Algorithm and Its Variations", 1986) after what one side
lacks was left out; where the rows have too little in common for it, the longest run of k-th
occurrences in order. `extension/src/model/compare/align.ts` does the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

Pairs = list[tuple[int, int]]

MOST_STEPS: Final = 600
"""Steps of the walk before the coarse way is taken: its square bounds time and memory."""


def align(a: Sequence[int], b: Sequence[int]) -> Pairs:
    """Pairs (index in a, index in b), both rising, of equal numbers; as many as there can be.

    Where the rows differ in more than 600 places, many, not the most.
    """
    start, most = 0, min(len(a), len(b))
    while start < most and a[start] == b[start]:
        start += 1
    end_a, end_b = len(a), len(b)
    while end_a > start and end_b > start and a[end_a - 1] == b[end_b - 1]:
        end_a -= 1
        end_b -= 1
    in_a, in_b = set(a[start:end_a]), set(b[start:end_b])
    places_a = [i for i in range(start, end_a) if a[i] in in_b]
    places_b = [j for j in range(start, end_b) if b[j] in in_a]
    middle = _walk([a[i] for i in places_a], [b[j] for j in places_b])
    return (
        [(i, i) for i in range(start)]
        + [(places_a[i], places_b[j]) for i, j in middle]
        + [(i, i - end_a + end_b) for i in range(end_a, len(a))]
    )


def _walk(a: Sequence[int], b: Sequence[int]) -> Pairs:
    n, m = len(a), len(b)
    if not n or not m:
        return []
    limit = min(n + m, MOST_STEPS)
    furthest = [0] * (2 * limit + 3)  # by diagonal: how far in `a` the walk came
    trace: list[list[int]] = []
    for d in range(limit + 1):
        trace.append(furthest[limit + 1 - d : limit + 2 + d])
        for k in range(-d, d + 1, 2):
            at = k + limit + 1
            down = k == -d or (k != d and furthest[at - 1] < furthest[at + 1])
            x = furthest[at + 1] if down else furthest[at - 1] + 1
            while x < n and x - k < m and a[x] == b[x - k]:
                x += 1
            furthest[at] = x
            if x >= n and x - k >= m:
                return _backwards(trace, d, k, n)
    return _coarse(a, b)


def _backwards(trace: list[list[int]], steps: int, k: int, x: int) -> Pairs:
    """The pairs of a finished walk, found from its end."""
    pairs: Pairs = []
    for d in range(steps, 0, -1):
        before = trace[d]
        down = k == -d or (k != d and before[k - 1 + d] < before[k + 1 + d])
        reached = before[k + 1 + d] if down else before[k - 1 + d]
        start = reached if down else reached + 1
        pairs += [(i, i - k) for i in range(x - 1, start - 1, -1)]
        k, x = (k + 1 if down else k - 1), reached
    pairs += [(i, i) for i in range(x - 1, -1, -1)]
    return pairs[::-1]


def _coarse(a: Sequence[int], b: Sequence[int]) -> Pairs:
    """The k-th of a number with the k-th of it on the other side, as many as keep their order."""
    places: dict[int, list[int]] = defaultdict(list)
    for j, value in enumerate(b):
        places[value].append(j)
    used: Counter[int] = Counter()
    candidates: Pairs = []
    for i, value in enumerate(a):
        if used[value] < len(places[value]):
            candidates.append((i, places[value][used[value]]))
        used[value] += 1
    return rising(candidates)


def rising(pairs: Pairs) -> Pairs:
    """The longest part of these pairs whose second numbers rise."""
    ends: list[int] = []
    values: list[int] = []
    before: list[int] = []
    for i, (_, j) in enumerate(pairs):
        place = bisect_left(values, j)
        before.append(ends[place - 1] if place else -1)
        ends[place : place + 1] = [i]
        values[place : place + 1] = [j]
    found: Pairs = []
    at = ends[-1] if ends else -1
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]
