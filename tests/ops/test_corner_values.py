"""Zeros, infinities, numbers and empty tensors, where an op has a corner: as torch has them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

from ..programs import agree, told

NARROW = ("float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize("dtype", NARROW)
def test_a_number_on_the_left_leaves_the_dtype(dtype: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor(2.0, dtype=getattr(t, dtype))
        results = 0.5 % x, 1 % x, 0.5 // x, 0.5**x, 0.5 - x, 0.5 / x
        return [(str(y.dtype)[-8:], y.item()) for y in results]

    agree(program)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_zero_remainder_has_the_sign_of_the_dividend(dtype: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, -1.0, 0.0, -0.0, 2.5, -math.inf], dtype=getattr(t, dtype))
        results = [x % y for y in (0.5, -0.5, math.inf, -math.inf, x[0])] + [1 % x, -1 % x]
        results += [x // 0.5, x // -0.5, x.fmod(-0.5)]
        return [t.copysign(t.ones(6, dtype=r.dtype), t.where(r == r, r, 1.0)) for r in results]

    agree(lambda t: [y.float() for y in program(t)])


def test_nothing_is_divided_by_zero() -> None:
    def program(t: Any) -> Any:
        empty = t.zeros((2, 0), dtype=t.int64)
        results = empty // 0, empty % 0, empty.fmod(0), empty.div(0, rounding_mode="trunc")
        results += empty // t.zeros((1, 1), dtype=t.int64), t.ones(1, dtype=t.int64) // empty
        return [list(y.shape) for y in results], told(lambda: t.ones(2, dtype=t.int64) // 0)[
            "error"
        ]

    agree(program)


def test_empty_vectors_are_joined_along_any_dimension() -> None:
    agree(lambda t: [list(t.cat([t.tensor([])] * n, d).shape) for n in (1, 2) for d in (-2, 0, 7)])


@pytest.mark.parametrize("shape", [(), (1,), (6,)])
def test_an_output_that_is_resized_may_not_overlap_as_it_was(shape: tuple[int, ...]) -> None:
    def program(t: Any) -> Any:
        x = t.ones(shape)
        outputs = [x.expand(n, *shape) for n in (1, 2)] + [x.view(-1)[:1], x.unfold(-1, 1, 1)]
        calls = [lambda o=o: t.mul(x, 1, out=o) for o in outputs]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [told(call)["error"] for call in calls]

    agree(program)


def test_an_empty_tensor_rolls_along_any_dimension() -> None:
    agree(
        lambda t: [
            list(t.zeros(0, 2).roll((1, 2), (0, 5)).shape),
            list(t.tensor([]).roll(0, 2).shape),
        ]
    )


@pytest.mark.parametrize("dtype", NARROW)
def test_nan_to_num_of_every_float(dtype: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([math.nan, math.inf, -math.inf, 1.5], dtype=getattr(t, dtype))
        return [y.double() for y in (x.nan_to_num(), x.nan_to_num(2, 3, 4), x[0].nan_to_num())]

    agree(program)


def test_nan_to_num_of_the_parts_of_complex_numbers() -> None:
    parts = [math.nan, math.inf, -math.inf, 1.5]

    def program(t: Any) -> Any:
        x = t.tensor([complex(a, b) for a in parts for b in parts], dtype=t.complex128)
        written = x.clone().nan_to_num_()
        return t.view_as_real(x.nan_to_num()), t.view_as_real(x.nan_to_num(1, 2)), written.abs()

    agree(program)


@pytest.mark.parametrize("value", [0.5, 2.5, True, -3])
def test_addcmul_of_integers_takes_its_number_as_one(value: float) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1, 2, 3], dtype=t.int16)
        return x.addcmul(x, x, value=value), x.clone().addcmul_(x, x, value=value)

    agree(program)


def test_a_complex_number_does_not_scale_real_tensors() -> None:
    agree(lambda t: told(lambda: t.ones(2).addcmul(t.ones(2), t.ones(2), value=1j))["error"])


def test_one_by_a_complex_zero_is_infinite() -> None:
    agree(lambda t: t.sigmoid(t.tensor(0j).reciprocal()).real)


def test_expanded_memory_may_be_written_where_nothing_changes() -> None:
    def program(t: Any) -> Any:
        x, i = t.ones(1).expand(3), t.ones(1, dtype=t.int64).expand(3)
        x.copy_(x)
        x.data.copy_(x)
        x[:].copy_(x)
        x.conj_physical_()
        i.nan_to_num_()
        refused = [told(lambda y=y: x.copy_(y))["error"] for y in (x.clone(), x[:1])]
        return x._version, i._version, refused

    agree(program)
