"""segment_reduce and lobpcg beside torch's, on random programs: values, gradients, errors."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import ag_visual as ag

from ..oracle import torch


def program(rng: Any, reduce: str) -> tuple[Any, dict[str, Any]]:
    """Values and the arguments of segment_reduce; whole numbers have ties."""
    dims = int(rng.integers(1, 4))
    axis, parts = int(rng.integers(dims)), int(rng.integers(1, 4))
    shape = [int(n) for n in rng.integers(1, 6, dims)]
    lengths = numpy.zeros((*shape[:axis], parts), int)
    for at in numpy.ndindex(*shape[:axis]):
        cuts = numpy.sort(rng.integers(0, shape[axis] + 1, parts - 1))
        lengths[at] = numpy.diff([0, *cuts, shape[axis]])
    given: dict[str, Any] = {"reduce": reduce, "axis": axis, "lengths": lengths.tolist()}
    if rng.integers(2):
        zero = numpy.zeros((*shape[:axis], 1), int)
        given["offsets"] = numpy.concatenate([zero, lengths.cumsum(-1)], -1).tolist()
        del given["lengths"]
    if rng.integers(2):
        given["initial"] = float(rng.integers(-1, 2))
    return numpy.round(rng.normal(size=shape), 3 * int(rng.integers(2))), given


@pytest.mark.oracle
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments_are_reduced_as_torch_does(reduce: str) -> None:
    rng = numpy.random.default_rng(3)
    for _ in range(40):
        values, given = program(rng, reduce)
        found = []
        for t in (ag, torch):
            x = t.tensor(values.tolist(), dtype=t.float64, requires_grad=True)
            named = {k: t.tensor(v) if isinstance(v, list) else v for k, v in given.items()}
            out = t.segment_reduce(x, **named)
            out.nan_to_num(0, 0, 0).sum().backward()
            found.append((out.detach().numpy(), x.grad.numpy()))
        for ours, theirs in zip(*found, strict=True):
            numpy.testing.assert_allclose(ours, theirs, 1e-9, 1e-12, err_msg=str(given))


@pytest.mark.oracle
@pytest.mark.parametrize("size", [9, 12])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("general", [True, False])
def test_eigenpairs_are_torchs(size: int, largest: bool, general: bool) -> None:
    rng = numpy.random.default_rng(size)
    q = numpy.linalg.qr(rng.normal(size=(size, size)))[0]
    a = q @ numpy.diag(numpy.arange(1.0, size + 1)) @ q.T
    b = numpy.eye(size) + 0.1 * numpy.diag(numpy.arange(size)) if general else None
    found = []
    for t in (ag, torch):
        A = t.tensor(((a + a.T) / 2).tolist(), dtype=t.float64, requires_grad=not general)
        B = None if b is None else t.tensor(b.tolist(), dtype=t.float64)
        t.manual_seed(0)
        w, v = t.lobpcg(A, k=2, B=B, largest=largest)
        left, right = A @ v, (v if B is None else B @ v) * w
        assert t.allclose(left, right, atol=1e-2)
        found.append(w.detach().numpy())
        if not general:
            w.sum().backward()
            found[-1] = numpy.append(found[-1], A.grad.numpy().trace())
    numpy.testing.assert_allclose(*found, 1e-4)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "use",
    [
        lambda t: t.segment_reduce(t.ones(3), "sum"),
        lambda t: t.segment_reduce(t.ones(3), "most", lengths=t.tensor([3])),
        lambda t: t.segment_reduce(t.ones(3), "sum", lengths=t.tensor([2])),
        lambda t: t.segment_reduce(t.ones(3), "sum", lengths=t.tensor([-1, 4])),
        lambda t: t.segment_reduce(t.ones(3, 2), "sum", lengths=t.tensor([2]), axis=1),
        lambda t: t.segment_reduce(t.ones(3), "sum", indices=t.tensor([0])),
        lambda t: t.segment_reduce(t.ones(3, dtype=t.int64), "sum", lengths=t.tensor([3])),
        lambda t: t.lobpcg(t.ones(4, 4), k=2),
        lambda t: t.lobpcg(t.ones(4, 3), k=1),
    ],
)
def test_refusals_are_torchs(use: Any) -> None:
    told = []
    for t in (ag, torch):
        with pytest.raises((RuntimeError, ValueError, AssertionError)) as caught:
            use(t)
        told.append((caught.type, str(caught.value)))
    assert told[0] == told[1]
