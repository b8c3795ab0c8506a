"""The strict library refuses what CuPy refuses, so that passing on it proves something."""

from __future__ import annotations

import ml_dtypes
import numpy
import pytest

from ag_visual.arrays import backend_of
from ag_visual.devices import device

from .strict import STRICT, NotInCuPy, StrictArray, to_host, to_strict

xp = STRICT.xp
HOST = numpy.arange(6.0).reshape(2, 3)


@pytest.fixture
def array() -> StrictArray:
    return to_strict(HOST)


def test_it_does_not_become_a_numpy_array(array: StrictArray) -> None:
    for attempt in (
        lambda: numpy.asarray(array),
        lambda: numpy.array([array]),
        lambda: numpy.exp(array),
        lambda: numpy.sum(array),
        lambda: numpy.concatenate([array, array]),
    ):
        with pytest.raises(TypeError):
            attempt()
    numpy.testing.assert_array_equal(array.get(), HOST)
    assert array.get() is not to_host(array)


def test_it_does_not_mix_with_numpy_arrays(array: StrictArray) -> None:
    for attempt in (
        lambda: array + HOST,
        lambda: HOST + array,
        lambda: xp.add(array, HOST),
        lambda: xp.concatenate([array, HOST]),
        lambda: array[numpy.array([0])],
        lambda: array.__setitem__(0, HOST[0]),
        lambda: array.__iadd__(HOST),
        lambda: array == HOST,
        lambda: array @ HOST.T,
        lambda: STRICT.add_at(array, 0, HOST[0]),
    ):
        with pytest.raises(TypeError):
            attempt()


def test_it_mixes_with_numbers(array: StrictArray) -> None:
    for result in (2 * array, numpy.float64(2) * array, array * numpy.float64(2)):
        assert type(result) is StrictArray
        numpy.testing.assert_array_equal(result.get(), 2 * HOST)
    numpy.testing.assert_array_equal((1 - array).get(), 1 - HOST)


def test_results_are_arrays_never_numbers(array: StrictArray) -> None:
    for result in (array.sum(), xp.max(array), array[0, 0], xp.sqrt(array[0, 0]), array.sum() * 2):
        assert type(result) is StrictArray
        assert result.shape == ()


def test_names_cupy_lacks_are_not_there(array: StrictArray) -> None:
    for attempt in (
        lambda: xp.matrix,
        lambda: xp.put_along_axis,
        lambda: xp.vecdot,
        lambda: xp.errstate,
        lambda: xp.linalg.eig,
        lambda: xp.nosuchname,
        lambda: array.flags.writeable,
        lambda: array.ctypes,
        lambda: array.newbyteorder,
        lambda: xp.add.resolve_dtypes,
    ):
        with pytest.raises(NotInCuPy):
            attempt()


def test_keywords_cupy_lacks_are_refused(array: StrictArray) -> None:
    for attempt in (
        lambda: xp.sum(array, where=array > 1),
        lambda: array.max(initial=0),
        lambda: array.sum(initial=0),
        lambda: xp.add(array, 1, where=array > 1),
        lambda: xp.std(array, correction=1),
        lambda: array.argsort(kind="stable"),
        lambda: xp.take_along_axis(array, array, 0, "extra"),
    ):
        with pytest.raises(TypeError, match="CuPy"):
            attempt()


def test_ufunc_methods_are_those_cupy_implements(array: StrictArray) -> None:
    numpy.testing.assert_array_equal(xp.add.reduce(array).get(), HOST.sum(0))
    with pytest.raises(NotImplementedError):
        xp.maximum.reduce(array)


def test_ufuncs_have_the_types_that_cupys_have(array: StrictArray) -> None:
    # CuPy 13 and NumPy 2.0 round integers as float64, CuPy 14 and NumPy 2.1 leave them what they
    # are: of the two versions of CuPy that one counts which NumPy is not like.
    found, numpys = xp.floor(xp.arange(3)).dtype, numpy.floor(numpy.arange(3)).dtype
    assert {str(found), str(numpys)} == {"float64", "int64"}
    # Of float16, CuPy 13 computes erf in float32, CuPy 14 and SciPy in float64.
    assert STRICT.special.erf(array.astype("float16")).dtype == "float32"
    assert xp.power(array > 1, array > 1).dtype == "int8"
    brain = array.astype(ml_dtypes.bfloat16)
    for result in (brain + brain, brain * 0.5, xp.exp(brain), -brain):
        assert result.dtype == ml_dtypes.bfloat16
    assert xp.logical_not(brain).dtype == bool
    # These have no loop for it.
    assert xp.where(array > 1, brain, brain).dtype == "float32"
    assert STRICT.special.gammaln(brain).dtype == "float32"
    assert (array.astype("float32") + 1).dtype == "float32"
    assert (xp.arange(3) / 2).dtype == "float64"
    for attempt in (
        lambda: xp.logical_not(array.astype("complex64")),
        lambda: array & 1,
        lambda: 1.5 << xp.arange(3),
        lambda: ~array,
    ):
        with pytest.raises(TypeError, match="Wrong type"):
            attempt()


def test_views_share_memory_and_in_place_writes_arrive(array: StrictArray) -> None:
    array[0] += 1
    array.T[0, 1] = 9
    xp.multiply(array[1:], 2, out=array[1:])
    wanted = HOST.copy()
    wanted[0] += 1
    wanted.T[0, 1] = 9
    wanted[1:] *= 2
    numpy.testing.assert_array_equal(array.get(), wanted)


def test_it_is_a_backend(array: StrictArray) -> None:
    assert backend_of(array) is STRICT
    assert STRICT.device(array) is device("strict:0")
    assert STRICT.asarray(array) is array
    numpy.testing.assert_array_equal(STRICT.asarray([1, 2]).get(), [1, 2])
    copied = STRICT.from_numpy(HOST)
    copied[...] = 0
    assert HOST.any()
