"""Shapes, indexing and casting on a second array library, and tensors that move between two."""

from __future__ import annotations

import warnings
from typing import Any

import numpy
import pytest

import ag_visual as ag
from tests.arrays.strict import STRICT

from . import side_by_side
from .test_indexing import FUNCTIONS, READS, WRITES
from .test_shapes import COPIES, GEOMETRY, VIEWS

DEVICE = STRICT.device_type
# These name a NumPy array or the CPU on purpose.
STAYING = [
    e
    for e in VIEWS + COPIES + GEOMETRY + READS + WRITES + FUNCTIONS
    if "np." not in e and '"cpu"' not in e and "FloatTensor" not in e
]


class Elsewhere:
    """The package, with `tensor`, `ones` and `zeros` on the strict device."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(ag, name)
        if name in ("tensor", "ones", "zeros"):
            return lambda *args, **kwargs: found(*args, **kwargs).to(DEVICE)
        return found


def moved() -> dict[str, Any]:
    found = {name: tensor.detach().to(DEVICE) for name, tensor in side_by_side.tensors(ag).items()}
    for name in side_by_side.LEAVES:
        found[name].requires_grad_()
    return found | {"y": found["x"] * 1, "w": found["m"] * 1}


def host(tensor: Any) -> Any:
    return tensor.detach().cpu().numpy()


@pytest.mark.parametrize("expression", STAYING)
def test_the_same_on_another_array_library(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "numbers", host)
    scope, value = side_by_side.evaluate(expression, ag)
    value = side_by_side.listed(value)
    expected = side_by_side.gradients(scope, value, ag)
    elsewhere = Elsewhere()
    there = moved()
    monkeypatch.setattr(side_by_side, "tensors", lambda t: there)
    scope, found = side_by_side.evaluate(expression, elsewhere)
    for a, b in zip(side_by_side.listed(found), value, strict=True):
        numpy.testing.assert_allclose(host(a), host(b))
        assert a.device.type == DEVICE
    gradients = side_by_side.gradients(scope, side_by_side.listed(found), elsewhere)
    assert gradients.keys() == expected.keys()
    for name, g in expected.items():
        numpy.testing.assert_allclose(gradients[name], g, atol=1e-12)


def test_gradients_come_back_to_the_device_and_dtype_they_belong_to() -> None:
    x = ag.ones(3, requires_grad=True)
    there = x.to(DEVICE, ag.float64)
    assert there.grad_fn.name() == "ToCopyBackward0"
    assert (there.device.type, there.dtype) == (DEVICE, ag.float64)
    (there * there).sum().backward()
    assert (x.grad.device.type, x.grad.dtype, x.grad.tolist()) == ("cpu", ag.float32, [2.0] * 3)


def test_second_derivatives_cross_devices() -> None:
    x = ag.tensor([2.0], requires_grad=True)
    there = x.to(DEVICE)
    (g,) = ag.autograd.grad((there**3).sum().cpu(), x, create_graph=True)
    g.sum().backward()
    assert x.grad.tolist() == [12.0]


def test_copy_crosses_devices() -> None:
    x = ag.ones(2, requires_grad=True)
    y = ag.zeros(2, device=DEVICE)
    y.copy_(x * 3)
    y[0] = x[0] * 5
    assert y.cpu().tolist() == [5.0, 3.0]
    (y.cpu() * ag.tensor([1.0, 10.0])).sum().backward()
    assert x.grad.tolist() == [5.0, 30.0]


def test_new_tensors_on_a_device() -> None:
    made = {
        "zeros": ag.zeros(2, device=DEVICE),
        "full": ag.full((2,), 3.0, device=DEVICE),
        "arange": ag.arange(4, device=DEVICE),
        "linspace": ag.linspace(0, 1, 3, device=DEVICE),
        "eye": ag.eye(2, device=DEVICE),
        "tensor": ag.tensor([1, 2], device=DEVICE),
        "rand": ag.rand(2, device=DEVICE),
        "randint": ag.randint(3, (2,), device=DEVICE),
        "randperm": ag.randperm(3, device=DEVICE),
        "normal": ag.zeros(2, device=DEVICE).normal_(),
        "multinomial": ag.multinomial(ag.ones(3, device=DEVICE), 2),
    }
    made["like"] = ag.ones_like(made["zeros"])
    made["new"] = made["zeros"].new_tensor([1.0])
    for name, tensor in made.items():
        assert tensor.device.type == DEVICE, name
    assert repr(made["arange"]) == f"tensor([0, 1, 2, 3], device='{made['arange'].device}')"
    with pytest.raises(RuntimeError, match="Expected a 'strict' device type for generator but"):
        ag.rand(2, device=DEVICE, generator=ag.Generator())


def test_moving_without_a_change_keeps_the_tensor() -> None:
    x = ag.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x.to("cpu") is x
        assert x.to(ag.float32) is x
        assert x.cpu() is x
        assert x.float() is x
        assert x.to(x) is x
    assert x.to(ag.float32, copy=True) is not x
    assert x.to(DEVICE).to(DEVICE).device.type == DEVICE
