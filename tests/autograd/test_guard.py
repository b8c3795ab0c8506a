"""autograd.guard: writes that go around every counter are noticed, and nothing else is."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.core.diagnosis import checksum

AROUND = "modified by means that autograd cannot see"


def test_a_write_through_numpy_is_noticed() -> None:
    x = ag.ones(3, requires_grad=True)
    with ag.autograd.guard():
        y = (x * x).sum()
    x.detach().numpy()[0] = 5
    with pytest.raises(RuntimeError, match=AROUND) as caught:
        y.backward()
    fields = caught.value.fields  # type: ignore[attr-defined]
    assert fields["saved"]["site"].text == "x * x"
    assert fields["tensor"]["name"] == "x"
    assert "clone().numpy()" in str(caught.value)


def test_without_a_guard_it_is_not() -> None:
    x = ag.ones(3, requires_grad=True)
    y = (x * x).sum()
    x.detach().numpy()[0] = 5
    y.backward()
    assert x.grad.tolist() == [10.0, 2.0, 2.0]


def _inplace(x: Any) -> Any:
    return (x * 1).tanh_()


class Square(ag.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g * ctx.saved_tensors[0]


def test_own_outputs_in_place_outputs_and_custom_functions() -> None:
    for make in (ag.exp, _inplace):
        x = ag.ones(3, requires_grad=True)
        with ag.autograd.guard():
            y = make(x)
        y.detach().numpy()[0] = 7
        with pytest.raises(RuntimeError, match=AROUND):
            y.sum().backward()
    x = ag.ones(3, requires_grad=True)
    with ag.autograd.guard():
        y = Square.apply(x)
    x.detach().numpy()[0] = 7
    with pytest.raises(RuntimeError, match=AROUND):
        y.sum().backward()


def test_what_is_not_written_passes_and_versions_are_still_checked() -> None:
    x = ag.ones(3, requires_grad=True)
    with ag.autograd.guard():
        y = (x * 2).exp()
        z = (y * y).sum()
    z.backward(retain_graph=True)
    assert ag.allclose(x.grad, 4 * (y * y).detach())
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_large_arrays_are_sampled_unless_the_whole_is_asked_for() -> None:
    for whole in (False, True):
        x = ag.ones(500_000, requires_grad=True)
        with ag.autograd.guard(whole=whole):
            y = (x * x).sum()
        x.detach().numpy()[100_000] = 5  # between the samples
        if whole:
            with pytest.raises(RuntimeError, match=AROUND):
                y.backward()
        else:
            y.backward()
    x = ag.ones(500_000, requires_grad=True)
    with ag.autograd.guard():
        y = (x * x).sum()
    x.detach().numpy()[-1] = 5
    with pytest.raises(RuntimeError, match=AROUND):
        y.backward()


def test_nothing_is_kept_of_dead_graphs() -> None:
    gc.disable()
    try:
        x = ag.ones(3, requires_grad=True)
        before = len(checksum.kept)
        with ag.autograd.guard():
            y = x.exp()
        assert len(checksum.kept) == before + 1
        del y
        assert len(checksum.kept) == before
    finally:
        gc.enable()


def test_double_backward_and_views_under_a_guard() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    with ag.autograd.guard():
        y = x * x * x
        (g,) = ag.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = ag.autograd.grad(g.sum(), x)
    assert h.tolist() == [6.0, 12.0]


def test_an_operand_that_its_own_op_writes_is_still_an_error() -> None:
    x = ag.ones(3, requires_grad=True)
    with ag.autograd.guard():
        y = x * 1
        y.mul_(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
