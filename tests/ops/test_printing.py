"""Tensors print as torch's do: the same text for the same values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import ag_visual as ag

from ..oracle import torch
from ..programs import agree

DTYPES = ("float32", "float64", "float16", "int64", "int32", "uint8", "bool", "complex64")
SHAPES = (
    (),
    (1,),
    (7,),
    (40,),
    (3, 4),
    (2, 0),
    (0,),
    (2, 3, 2),
    (1, 1),
    (30, 40),
    (1001,),
    (7, 8, 20),
)


@pytest.fixture(autouse=True)
def _default_options() -> Iterator[None]:
    yield
    ag.set_printoptions(profile="default")
    with contextlib.suppress(pytest.skip.Exception):
        torch.set_printoptions(profile="default")


def values(seed: int, shape: tuple[int, ...], dtype: str) -> numpy.ndarray[Any, Any]:
    """Random values of very different ranges, some of them whole, some not finite."""
    rng = numpy.random.default_rng(seed)
    kind = seed % 6
    scale = (1.0, 1e-3, 1e3, 1e6, 10.0, 1e-5)[kind]
    drawn = rng.standard_normal(shape) * scale
    if kind == 4:
        drawn = numpy.round(drawn)
    if dtype == "complex64":
        drawn = drawn + 1j * rng.standard_normal(shape)
    elif dtype.startswith("float") and seed % 5 == 3 and drawn.size:
        drawn = numpy.asarray(drawn)
        drawn.reshape(-1)[:: max(1, drawn.size // 3)] = (numpy.nan, numpy.inf, -numpy.inf)[seed % 3]
    if dtype == "bool":
        return numpy.asarray(drawn > 0)
    with numpy.errstate(all="ignore"):
        return numpy.asarray(numpy.asarray(drawn) * (1 if "i" not in dtype[:4] else 3)).astype(
            dtype
        )


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_random_tensors_print_as_in_torch(shape: tuple[int, ...], dtype: str) -> None:
    for seed in range(12):
        array = values(seed, shape, dtype)
        assert repr(ag.from_numpy(array.copy())) == repr(torch.from_numpy(array.copy()))


@pytest.mark.oracle
def test_graph_suffixes_print_as_in_torch() -> None:
    for lib in (ag, torch):
        x = lib.linspace(0, 1, 12).requires_grad_()
        yield_ = [repr(x), repr(x * 2), repr((x * 2)[0]), repr(x.detach()), repr(x.view(3, 4).t())]
        y = x * 1
        y[0] = 3.0
        yield_.append(repr(y))
        yield_.append(repr(lib.tensor([1.0], requires_grad=True)))
        if lib is ag:
            ours = yield_
    assert ours == yield_


@pytest.mark.oracle
@pytest.mark.parametrize(
    "changes",
    [
        {"precision": 2},
        {"sci_mode": True},
        {"sci_mode": False},
        {"linewidth": 30},
        {"threshold": 5, "edgeitems": 1},
        {"profile": "short"},
        {"profile": "full"},
    ],
    ids=str,
)
def test_options_act_as_in_torch(changes: dict[str, Any]) -> None:
    ag.set_printoptions(**changes)
    torch.set_printoptions(**changes)
    for seed in range(6):
        for shape in ((9,), (4, 5), (30, 40)):
            array = values(seed, shape, "float32")
            assert repr(ag.from_numpy(array)) == repr(torch.from_numpy(array))


@pytest.mark.oracle
def test_default_dtype_is_left_out() -> None:
    array = numpy.array([1.5, 2.5])
    try:
        for lib in (ag, torch):
            lib.set_default_dtype(lib.float64)
        assert (
            repr(ag.from_numpy(array))
            == repr(torch.from_numpy(array))
            == "tensor([1.5000, 2.5000])"
        )
        single = array.astype("float32")
        assert repr(ag.from_numpy(single)) == repr(torch.from_numpy(single))
    finally:
        for lib in (ag, torch):
            lib.set_default_dtype(lib.float32)


def test_bfloat16_prints() -> None:
    assert repr(ag.tensor([1.5, -2.0], dtype=ag.bfloat16)) == (
        "tensor([ 1.5000, -2.0000], dtype=torch.bfloat16)"
    )


def test_a_view_that_autograd_cannot_follow_prints() -> None:
    base = ag.tensor([1.0, 2.0], requires_grad=True) * 1
    with ag.no_grad():
        view = base[:1]
        view.mul_(2)
    assert "grad_fn=<Invalid>" in repr(view)


def test_options_can_be_read_and_set_for_a_block() -> None:
    before = ag.get_printoptions()
    with ag.printoptions(precision=1):
        assert repr(ag.tensor(1.25)) == "tensor(1.2)"
    assert ag.get_printoptions() == before
    with pytest.raises(ValueError, match="profile is one of default, short, full"):
        ag.set_printoptions(profile="tiny")


def test_results_without_names_are_a_plain_tuple() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0, 4.0])
        return [str(type(t.std_mean(x))), str(type(t.var_mean(x))), repr(t.aminmax(x))]

    agree(program)
