"""Sparse gradients under the recorder: nothing breaks, and they are told as sparse."""

from __future__ import annotations

import json
from typing import Any

import numpy

import ag_visual as ag
from ag_visual.observe.record.summaries import summarize


def _gradient(rows: int = 4) -> Any:
    w = ag.ones(rows, 3, requires_grad=True)
    at = ag.tensor([[1, 2], [1, 0]])
    (ag.nn.functional.embedding(at, w, sparse=True) ** 2).sum().backward()
    return w.grad


def test_a_summary_tells_shape_and_nnz() -> None:
    found = summarize(_gradient()._array)
    assert found["shape"] == [4, 3]
    assert found["text"].startswith("sparse, nnz=4 of shape [4, 3]: values ")
    assert (found["max"], found["zero"], found["numel"], found["sampled"]) == (4.0, 3, 12, 12)
    assert len(json.dumps(summarize(_gradient(100_000)._array, 2048))) <= 2048


def test_a_hook_that_scales_is_seen_to() -> None:
    from ag_visual.observe.record.hook_effect import _equal, _scaled

    g = _gradient()
    assert _scaled((g,), (g * 3,)) == 3.0
    assert _equal((g,), (g.coalesce(),))
    assert not _equal((g,), (g * 2,))


def test_the_picture_is_the_pattern() -> None:
    rows = ag.sparse_coo_tensor([[1, 3]], [[1.0, float("nan"), 0.0], [2.0, -3.0, 4.0]], (4, 3))
    found = summarize(rows._array)["picture"]
    assert (found["rows"], found["cols"], found["pooled"]) == (4, 3, False)
    assert found["values"] == [0, 0, 0, 1, None, 0, 0, 0, 0, 2, -3, 4]
    at = ag.arange(100_000)
    wide = ag.sparse_coo_tensor(ag.stack([at, at]), ag.full((100_000,), -2.0), (100_000, 100_000))
    found = summarize(wide.to_sparse_csr()._array, 2048)
    assert found["text"].startswith("sparse rows, nnz=100000")
    picture = found["picture"]
    assert picture["pooled"]
    drawn = numpy.array(picture["values"]).reshape(picture["rows"], picture["cols"])
    assert set(drawn.ravel().tolist()) == {0, -2}
    assert (drawn != 0).any(0).all()
    assert (drawn != 0).any(1).all()
    assert (drawn != 0).sum() <= drawn.shape[0] + drawn.shape[1]
