"""Nothing of torch changes while it is watched: values, gradients, versions, errors, memory."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import tracemalloc
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.events import live

from ..oracle import opinfos, torch


@pytest.fixture(autouse=True)
def nothing_missed(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An error of the watcher's own is logged: here it fails the test."""
    with caplog.at_level(logging.ERROR, "ag_visual"):
        yield
    assert not caplog.records


def _tensors(value: Any) -> list[Any]:
    flat, _ = torch.utils._pytree.tree_flatten(value)
    return [each for each in flat if isinstance(each, torch.Tensor)]


def _fresh(value: Any) -> Any:
    def copy(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        return each.detach().clone().requires_grad_(each.requires_grad)

    return torch.utils._pytree.tree_map(copy, value)


def _bits(tensor: Any) -> Any:
    if tensor is None:
        return None
    tensor = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    data = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    return str(tensor.dtype), tuple(tensor.shape), tensor.stride(), data.numpy().tobytes()


def _seen(op: Any, sample: Any) -> list[Any]:
    """All that a program can see of an operation and its backward."""
    first, args, kwargs = _fresh((sample.input, sample.args, sample.kwargs))
    inputs = [each for each in _tensors((first, args, kwargs)) if each.requires_grad]
    found: list[Any] = []
    torch.manual_seed(0)
    try:
        outputs = _tensors(op(first, *args, **kwargs))
        for output in outputs:
            found += [_bits(output), output._version, type(output.grad_fn).__name__]
        roots = [output for output in outputs if output.requires_grad]
        if roots:
            torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
        found += [(_bits(each.grad), each._version) for each in inputs]
    except Exception as error:
        found.append((type(error), str(error).partition("\n")[0]))
    return found


@pytest.mark.parametrize("problems_only", [False, True])
def test_samples_of_torchs_own_table(problems_only: bool) -> None:
    """One sample of every twelfth operation, to be quick.

    4,084 samples, at most eight of each operation, were compared once, without a difference.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compared = 0
        for op in opinfos()[int(problems_only) :: 12]:
            if torch.float64 not in op.dtypes:
                continue
            samples = op.sample_inputs("cpu", torch.float64, requires_grad=op.supports_autograd)
            sample = next(iter(samples))
            alone = _seen(op, sample)
            if alone != _seen(op, sample):
                continue  # it differs by itself: memory that nothing was written to
            with ag.watch(torch, problems_only=problems_only):
                watched = _seen(op, sample)
            assert watched == alone, op.name
            compared += 1
    assert compared > 30


def test_memory_is_flat() -> None:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x = torch.ones(2, 3)

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    with ag.watch(torch, problems_only=True):
        tracemalloc.start()
        steps(200)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        steps(300)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    assert grown < 60_000  # what is known of one step, kept, would be ten times as much


class Cube(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


def _custom(x: Any) -> Any:
    return Cube.apply(x).sum()


def _checkpointed(x: Any) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda h: h.exp() * h, x * 2, use_reentrant=False).sum()


def _penalty(x: Any) -> Any:
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return g.square().sum()


def _autocast(x: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x.reshape(2, 2) @ x.reshape(2, 2)).sum().float()


def _transformed(x: Any) -> Any:
    inner = torch.func.grad(lambda v: (v**3).sum())
    return (torch.func.vmap(lambda v: v.sin())(x) * inner(x)).sum()


def _threads(x: Any) -> Any:
    found: list[Any] = []
    workers = [threading.Thread(target=lambda: found.append(x.exp().sum())) for _ in range(3)]
    for worker in workers:
        worker.start()
        worker.join()
    return sum(found)


PROGRAMS = [_custom, _checkpointed, _penalty, _autocast, _transformed, _threads]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.strip("_"))
def test_programs_compute_the_same(program: Any) -> None:
    def run() -> Any:
        x = torch.arange(1.0, 5.0).requires_grad_()
        y = program(x)
        y.backward()
        return _bits(y), _bits(x.grad)

    alone = run()
    with ag.watch(torch) as watched:
        assert run() == alone
    assert watched.recording.rows("runs") > 2


def test_a_line_is_left_empty_rather_than_guessed() -> None:
    with ag.watch(torch):
        (engine,) = live.engines
        x = torch.ones(4, requires_grad=True)
        made = Cube.apply(x)
        assert engine.node_of(made).place[0] is sys._getframe().f_code
        elsewhere = _threads(x)
        node = engine.node_of(elsewhere)
        assert node.place is not None
        below = node.next_functions[0][0].next_functions[1][0]
        assert (below.name(), below.place) == ("SumBackward0", None)


def test_what_a_checkpoint_packed_is_named_and_not_unpacked() -> None:
    with ag.watch(torch):
        (engine,) = live.engines
        x = torch.ones(2, requires_grad=True)
        calls: list[int] = []

        def unpack(t: Any) -> Any:
            calls.append(1)
            return t

        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            y = x.exp()
        node = engine.node_of(y)
        assert [(field.name, field.kind) for field in node.saved_fields()] == [("result", "packed")]
        assert node.saved_array("result") is None
        assert not calls
        y.sum().backward()
        assert calls == [1]


def test_errors_of_the_program_pass() -> None:
    def raising(g: Any) -> None:
        raise ValueError("mine")

    with ag.watch(torch):
        x = torch.ones(2, requires_grad=True)
        y = x * 3
        y.register_hook(raising)
        with pytest.raises(ValueError, match="mine"):
            y.sum().backward()
        (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_stop_inside_of_a_backward() -> None:
    x = torch.ones(2, requires_grad=True)
    watched = ag.watch(torch)
    y = x * 3
    y.register_hook(lambda g: watched.stop())
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert not live.engines
    # The mode is out of reach while torch runs in it: it does nothing, and goes the next time.
    watched.stop()
    assert torch._C._len_torch_function_stack() == 0
