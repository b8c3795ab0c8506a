"""dtypes, promotion, sizes and devices against torch's."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from ag_visual import devices, dtypes, promotion
from ag_visual.devices import device
from ag_visual.sizes import Size, size_of

from ..oracle import torch

NAMES = [t.name for t in dtypes.ALL]
RANKS = {promotion.SCALAR: "number", promotion.ZERO_DIM: "0-d", promotion.DIMENSIONED: "array"}
NUMBERS = {"bool": True, "int64": 1, "float32": 1.0, "complex64": 1j}


def theirs(name: str) -> Any:
    return getattr(torch, name)


def operand(name: str, rank: int) -> Any:
    """torch's operand of that dtype and rank; its Python numbers have four dtypes."""
    if rank == promotion.SCALAR:
        return NUMBERS[name]
    return torch.ones(() if rank == promotion.ZERO_DIM else (1,), dtype=theirs(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_dtype_has_the_properties_of_torchs(name: str) -> None:
    ours, other = dtypes.by_name(name), theirs(name)
    assert repr(ours) == repr(other)
    for attribute in ("itemsize", "is_floating_point", "is_complex", "is_signed", "abbr"):
        assert getattr(ours, attribute) == getattr(other, attribute), attribute
    assert repr(ours.to_real()) == repr(other.to_real())
    legacy = torch.ones(1, dtype=other).type()
    assert f"torch.{dtypes.legacy_name(ours)}" == legacy


@pytest.mark.parametrize("name", NAMES)
def test_a_dtype_is_one_object(name: str) -> None:
    ours = dtypes.by_name(name)
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert copy.deepcopy([ours])[0] is ours
    assert dtypes.of_array(numpy.zeros(2, ours.np)) is ours
    assert dtypes.of_numpy(ours.np) is ours


def test_aliases_are_torchs() -> None:
    for alias in ("half", "float", "double", "short", "int", "long", "cfloat", "cdouble"):
        assert repr(getattr(dtypes, alias)) == repr(theirs(alias))


def test_foreign_numpy_types_are_refused_with_advice() -> None:
    with pytest.raises(TypeError, match=r"bytes are swapped.*astype\('float32'\)"):
        dtypes.of_array(numpy.zeros(2, ">f4" if numpy.little_endian else "<f4"))
    with pytest.raises(TypeError, match="can't convert an array with NumPy dtype <U1"):
        dtypes.of_array(numpy.array(["a"]))


@pytest.mark.parametrize("name", NAMES)
def test_limits_are_torchs(name: str) -> None:
    ours = dtypes.by_name(name)
    if name == "bool":
        with pytest.raises(TypeError, match=r"torch\.bool is not supported by torch\.iinfo"):
            dtypes.iinfo(ours)
    elif ours.category == dtypes.INT:
        assert repr(dtypes.iinfo(ours)) == repr(torch.iinfo(theirs(name)))
        assert dtypes.iinfo(ours).max == torch.iinfo(theirs(name)).max
        with pytest.raises(TypeError, match="requires a floating point input type"):
            dtypes.finfo(ours)
    else:
        found, wanted = dtypes.finfo(ours), torch.finfo(theirs(name))
        assert repr(found) == repr(wanted)
        for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution"):
            assert getattr(found, field) == pytest.approx(getattr(wanted, field), rel=1e-7), field


@pytest.mark.parametrize("a", NAMES)
def test_promotion_of_two_types_is_torchs(a: str) -> None:
    for b in NAMES:
        found = outcome(promotion.promote_types, dtypes.by_name(a), dtypes.by_name(b))
        assert found == outcome(torch.promote_types, theirs(a), theirs(b)), b
        cast = promotion.can_cast(dtypes.by_name(a), dtypes.by_name(b))
        assert cast == torch.can_cast(theirs(a), theirs(b)), b


def outcome(function: Callable[..., Any], *args: Any) -> str:
    """The dtype that a function gives, or the words with which it refuses."""
    try:
        # There is no complex32 here: the complex counterpart of float16 is complex64.
        return repr(function(*args)).replace("complex32", "complex64")
    except RuntimeError as error:
        return str(error).partition(", attempted")[0]


def _operands(rank: int) -> list[str]:
    return list(NUMBERS) if rank == promotion.SCALAR else NAMES


@pytest.mark.parametrize("default", ["float32", "float64", "float16"])
@pytest.mark.parametrize(("rank_a", "rank_b"), list(itertools.product(RANKS, RANKS)))
def test_result_type_of_two_operands_is_torchs(rank_a: int, rank_b: int, default: str) -> None:
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(theirs(default))
        dtypes.set_default_dtype(dtypes.by_name(default))
        for a, b in itertools.product(_operands(rank_a), _operands(rank_b)):
            wanted = outcome(torch.result_type, operand(a, rank_a), operand(b, rank_b))
            pair = (dtypes.by_name(a), rank_a), (dtypes.by_name(b), rank_b)
            assert outcome(promotion.result_type, *pair) == wanted, (a, b)
    finally:
        torch.set_default_dtype(before)
        dtypes.set_default_dtype(dtypes.float32)


def test_result_type_of_three_ranks_goes_from_the_lowest_up() -> None:
    for a, b, number in itertools.product(NAMES, NAMES, NUMBERS):
        low = outcome(torch.result_type, operand(b, promotion.ZERO_DIM), NUMBERS[number])
        low = low.removeprefix("torch.")
        wanted = outcome(
            torch.result_type, operand(a, promotion.DIMENSIONED), operand(low, promotion.ZERO_DIM)
        )
        found = outcome(
            promotion.result_type,
            (dtypes.by_name(a), 2),
            (dtypes.by_name(b), 1),
            (dtypes.by_name(number), 0),
        )
        assert found == wanted, (a, b, number)


def test_scalars_enter_with_the_default_types() -> None:
    assert promotion.scalar_dtype(True) is dtypes.bool
    assert promotion.scalar_dtype(3) is dtypes.int64
    assert promotion.scalar_dtype(3.0) is dtypes.float32
    assert promotion.scalar_dtype(3j) is dtypes.complex64
    assert promotion.scalar_dtype(numpy.float64(3)) is dtypes.float32
    assert promotion.scalar_dtype(numpy.int8(3)) is dtypes.int64
    with pytest.raises(TypeError, match="expected a number, got str"):
        promotion.scalar_dtype("3")


def test_the_default_type_must_be_floating() -> None:
    with pytest.raises(TypeError, match="only floating-point types are supported as the default"):
        dtypes.set_default_dtype(dtypes.int32)
    dtypes.set_default_dtype(dtypes.float64)
    try:
        assert dtypes.get_default_complex_dtype() is dtypes.complex128
    finally:
        dtypes.set_default_dtype(dtypes.float32)


def test_a_size_behaves_as_torchs() -> None:
    ours, other = Size([2, 3, 4]), torch.Size([2, 3, 4])
    for found, wanted in (
        (ours, other),
        (ours[1:], other[1:]),
        (ours.__add__((5,)), other.__add__((5,))),
        (ours.__radd__((5,)), other.__radd__((5,))),
        (ours * 2, other * 2),
        (size_of((7,)), torch.Size([7])),
        (Size(), torch.Size()),
    ):
        assert type(found) is Size
        assert repr(found) == repr(wanted)
        assert found.numel() == wanted.numel()
        assert hash(found) == hash(tuple(wanted))
    assert ours[1] == 3
    assert pickle.loads(pickle.dumps(ours)) == ours
    with pytest.raises(TypeError, match=r"item 1 is 'float'"):
        Size([1, 2.5])


@pytest.mark.parametrize("text", ["cpu", "cuda", "cuda:1", "cpu:0"])
def test_a_device_behaves_as_torchs(text: str) -> None:
    ours, other = device(text), torch.device(text)
    assert (repr(ours), str(ours)) == (repr(other), str(other))
    assert (ours.type, ours.index) == (other.type, other.index)
    assert device(ours) is ours
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert copy.copy(ours) is ours
    assert {ours: 1}[device(text)] == 1


@pytest.mark.parametrize("text", ["", "cuda:-1", "cuda:x", "cuda:", "cuda:01", " cpu", "foo"])
def test_a_bad_device_string_fails_as_torchs(text: str) -> None:
    with pytest.raises(RuntimeError) as wanted:
        torch.device(text)
    with pytest.raises(RuntimeError) as found:
        device(text)
    beginning = str(wanted.value)[:22]
    assert str(found.value).startswith(beginning)


def test_a_device_is_made_from_type_and_index() -> None:
    assert device("cuda", 1) is device("cuda:1")
    assert device(1) is device("cuda:1")
    assert device("cuda") != device("cuda:0")
    assert device("cpu") is devices.CPU
    with pytest.raises(RuntimeError, match="must not include an index"):
        device("cuda:0", 0)
    with pytest.raises(RuntimeError, match="Device index must not be negative"):
        device("cuda", -1)
    with pytest.raises(TypeError, match="takes a string"):
        device(1.5)
    with pytest.raises(AttributeError, match="read-only"):
        device("cpu").type = "cuda"
