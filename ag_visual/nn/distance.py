"""Similarities and distances between rows."""

from __future__ import annotations

from functools import partial

from ag_visual.nn.of_function import of_function

_distance = partial(of_function, __name__, shown=False)

CosineSimilarity = _distance(
    "CosineSimilarity",
    "cosine_similarity",
    "x1 . x2 / (|x1| |x2|) along a dimension.",
    "x1, x2",
    dim=1,
    eps=1e-8,
)
PairwiseDistance = _distance(
    "PairwiseDistance",
    "pairwise_distance",
    "The p-norm of x1 - x2 + eps over the last dimension.",
    "x1, x2",
    p=2.0,
    eps=1e-6,
    keepdim=False,
)
