"""cross_entropy in one call: as log_softmax and nll_loss one by one, graph and all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.arrays import fast
from ag_visual.ops.nn.loss import nll

pytestmark = pytest.mark.filterwarnings("error")

CLASSES = (3, 0, 4, 4)


def scores(dtype: Any = ag.float32) -> ag.Tensor:
    values = numpy.random.default_rng(0).normal(size=(4, 5))
    return ag.tensor(values, dtype=dtype, requires_grad=True)


def view_of_written(x: ag.Tensor) -> ag.Tensor:
    """A view whose history is brought up to date, as its base was written."""
    base = x.clone()
    view = base[:]
    base.mul_(2)
    return view


INPUTS: dict[str, Callable[[ag.Tensor], ag.Tensor]] = {
    "leaf": lambda x: x,
    "result": lambda x: x * 2,
    "detached": lambda x: x.detach(),
    "view": view_of_written,
    "infinite": lambda x: x.masked_fill(x == x[0, 0], -numpy.inf),
    "nan": lambda x: x * numpy.nan,
    "transposed": lambda x: (x * 1).t().contiguous().t(),
    "no rows": lambda x: x[:0],
    "parameter": lambda x: ag.nn.Parameter(x.detach()),
}
GIVEN: dict[str, dict[str, Any]] = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "ignored": {"ignore_index": 4},
    "smoothed": {"label_smoothing": 0.1},
    "weights": {"weight": ag.arange(1.0, 6)},
}
BRIEFLY = {"mean": GIVEN["mean"], "ignored": GIVEN["ignored"]}
DTYPES = (ag.float32, ag.float64, ag.bfloat16)


def facts(loss: ag.Tensor) -> list[Any]:
    """All that the graph of a loss shows, but for the numbers of its nodes."""
    found: list[Any] = []
    waiting = [] if loss.grad_fn is None else [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        waiting += [each for each, _ in node.next_functions if each is not None]
        saved = {
            name: (value.tolist(), value._version, value.requires_grad)
            if isinstance(value := getattr(node, name), ag.Tensor)
            else value
            for name in dir(node)
            if name.startswith("_saved_")
        }
        order = sorted(each._sequence_nr() < node._sequence_nr() for each in waiting)
        metadata = [(tuple(each.shape), each.dtype) for each in node._input_metadata]
        line = (node.code, node.lasti) if "Loss" in node.name() or "Softmax" in node.name() else ()
        found.append((node.name(), saved, line, metadata, order))
    return found


def everything(make: Callable[[ag.Tensor], ag.Tensor], dtype: Any, named: dict[str, Any]) -> Any:
    x = scores(dtype)
    given = {n: v.to(dtype) if isinstance(v, ag.Tensor) else v for n, v in named.items()}
    target = ag.tensor(CLASSES)
    into = make(x)
    target = target[: into.shape[0]]
    loss = ag.nn.functional.cross_entropy(into, target, **given)
    found = [repr(loss), loss._version, loss.is_leaf, facts(loss)]
    if loss.requires_grad:
        end = into if into.is_leaf else x
        (first,) = ag.autograd.grad(loss.sum(), end, create_graph=True)
        found += [first.tolist(), first._version]
        (second,) = ag.autograd.grad((first * first).sum(), end, retain_graph=True)
        found.append(second.tolist())
        loss.sum().backward()
        assert end.grad is not None
        found.append(end.grad.tolist())
    return found


@pytest.mark.parametrize("enabled", [False, True], ids=["NumPy alone", "fast"])
def test_the_graph_is_that_of_two_calls(monkeypatch: pytest.MonkeyPatch, enabled: bool) -> None:
    monkeypatch.setattr(fast, "LEAST", 1)
    joined, taken = nll._of_rows, []
    kernel = joined.__globals__["kernel"]

    def counted(*given: Any) -> Any:
        found = kernel(*given)
        taken.append(found is not None)
        return found

    monkeypatch.setitem(joined.__globals__, "kernel", counted)

    with fast.flags(enabled=enabled), numpy.errstate(all="ignore"):
        for kind, make in INPUTS.items():
            # Of other inputs than a leaf two calls, for each is compared in all that it leaves.
            for way, named in GIVEN.items() if kind == "leaf" else BRIEFLY.items():
                for dtype in DTYPES if kind == "leaf" else DTYPES[:1]:
                    here = f"{kind}, {way}, {dtype}"
                    monkeypatch.setattr(nll, "_of_rows", lambda *given: None)
                    wanted = everything(make, dtype, named)
                    monkeypatch.setattr(nll, "_of_rows", joined)
                    taken.clear()
                    found = everything(make, dtype, named)
                    plain = way in ("mean", "sum", "ignored") and dtype is not ag.bfloat16
                    assert any(taken) == (plain and kind not in ("transposed", "no rows")), here
                    assert repr(found) == repr(wanted), here


def test_hooks_and_writes_are_seen() -> None:
    x, target = scores(), ag.tensor(CLASSES)
    packed: list[tuple[int, ...]] = []
    hooks = ag.autograd.graph.saved_tensors_hooks(
        lambda t: (packed.append(tuple(t.shape)), t)[1], lambda t: t
    )
    with hooks:
        ag.nn.functional.cross_entropy(x, target).backward()
    assert packed == [(4, 5), (4, 5), (4,), ()]
    loss = ag.nn.functional.cross_entropy(x, target)
    target.add_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with pytest.raises(IndexError, match="Target 5 is out of bounds"):
        ag.nn.functional.cross_entropy(x, ag.tensor([5, 0, 0, 0]))
    with ag.no_grad():
        loss = ag.nn.functional.cross_entropy(x, ag.tensor(CLASSES))
    assert loss.is_leaf
    assert not loss.requires_grad


def test_each_op_is_recorded_and_profiled() -> None:
    x, target = scores(), ag.tensor(CLASSES)
    with ag.profiler.profile() as profile:
        ag.nn.functional.cross_entropy(x, target).backward()
    names = [each.name for each in profile.events()]
    for name in ("aten::cross_entropy_loss", "aten::log_softmax", "aten::nll_loss_forward"):
        assert name in names
    for name in ("NllLossBackward0", "LogSoftmaxBackward0"):
        assert any(name in each for each in names)
