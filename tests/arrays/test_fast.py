"""The compiled kernels against NumPy's, and how they are switched, found and told of.

Where Numba is not installed, as where torch is not (`tests/oracle.py`), the comparison is not run.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.arrays import fast, kernels
from ag_visual.arrays.kernels import (
    activation,
    channel_norm,
    conv,
    lapack,
    loss,
    norm,
    pool,
    recurrent,
    scans,
    scatter,
    softmax,
)

from .test_pool import CASES as POOLINGS

INSTALLED = fast.is_available()
if not INSTALLED and os.environ.get("CI", "").lower() in ("1", "true"):
    raise RuntimeError("CI=true and Numba is not installed: pip install '.[oracle]'")
needs_numba = pytest.mark.skipif(not INSTALLED, reason="Numba is missing: pip install '.[fast]'")

pytestmark = pytest.mark.filterwarnings("error")


# What a letter of `TAKES` stands for: dimensions, and the type where it is not that computed in.
LETTERS: dict[str, tuple[int, str | None]] = {
    **{letter: (ndim, None) for ndim, letter in enumerate("zvmti")},
    "q": (1, "float64"),
    "w": (2, "float64"),
    "j": (1, "int32"),
    "k": (2, "int32"),
    "n": (1, "int64"),
    "p": (2, "int64"),
    "x": (3, "int64"),
}
NUMBERS: dict[str, Any] = {
    "d": (float, numpy.floating),
    "l": (int, numpy.integer),
    "b": (bool, numpy.bool_),
}


def fits(name: str, kind: Any, given: tuple[Any, ...]) -> bool:
    """Whether a kernel is given what it takes: it reads the memory of arrays without a look."""
    from ag_visual.arrays.kernels.compiled import _TAKES

    for letter, each in zip(_TAKES[name][1].split(), given, strict=True):
        if letter in NUMBERS:
            if not isinstance(each, NUMBERS[letter]):
                return False
            continue
        ndim, other = LETTERS[letter]
        if (each.ndim, each.dtype) != (ndim, numpy.dtype(other or kind)):
            return False
        if not (each.flags.c_contiguous and each.flags.aligned):
            return False
    return True


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Compiled kernels for arrays of any size; the names of those that were given.

    Each is looked at: whether its arguments are of the types that it was compiled for.
    """
    given: list[str] = []

    def looked_at(key: tuple[str, Any], run: Any) -> Any:
        if run is None:
            return None
        given.append(key[0])

        def checked(*args: Any) -> Any:
            assert fits(*key, args), key
            return run(*args)

        return checked

    class Known(dict[tuple[str, Any], Any]):
        def __getitem__(self, key: tuple[str, Any]) -> Any:
            return looked_at(key, super().__getitem__(key))

        def setdefault(self, key: tuple[str, Any], default: Any = None) -> Any:
            return looked_at(key, super().setdefault(key, default))

    monkeypatch.setattr(fast, "_known", Known(fast._known))
    monkeypatch.setattr(fast, "LEAST", 1)
    with fast.flags(enabled=True):
        yield given


@needs_numba
def test_what_a_kernel_is_given_is_looked_at() -> None:
    x, kind = numpy.ones((3, 3), "float32"), numpy.dtype("float32")
    assert fits("softmax", kind, (x, x, 1e-3, 1e30))
    for wrong in (x.T[:, :2], x.astype("float64"), x[0], x.view("int32")):
        assert not fits("softmax", kind, (wrong, x, 1e-3, 1e30))
    assert not fits("softmax", kind, (x, x, 1e-3, 1))


def both(function: Any, *args: Any) -> tuple[Any, Any]:
    """What the compiled kernels give, and what NumPy does."""
    with numpy.errstate(all="ignore"):
        mine = function(numpy, *args)
        with fast.flags(enabled=False):
            return mine, function(numpy, *args)


def agree(found: Any, wanted: Any, least: float = 1e-30) -> None:
    """As near as the type allows, with NaN and infinities where the other has them.

    least: the size of the numbers whose differences these are.
    """
    if isinstance(wanted, tuple):
        for each, other in zip(found, wanted, strict=True):
            agree(each, other, least)
    elif wanted is None:
        assert found is None
    else:
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        near = 3e-6 if found.dtype == numpy.float32 else 2e-14
        scale = numpy.abs(wanted[numpy.isfinite(wanted)]).max(initial=least)
        numpy.testing.assert_allclose(found, wanted, rtol=near, atol=near * scale)


def rows(dtype: str, width: int = 37) -> Any:
    """Rows of every kind: usual, far from 0, large, with NaN and infinities, and all of those."""
    rng = numpy.random.default_rng(0)
    x = rng.normal(size=(70, width)).astype(dtype)
    x[1] *= 90
    x[2] += 1000
    x[3, 5], x[4, 0], x[5, -1], x[6, 3] = numpy.nan, numpy.inf, -numpy.inf, -1e30
    x[7], x[8], x[9], x[10] = -numpy.inf, numpy.inf, numpy.nan, 0.0
    x[11, 2:4] = numpy.nan, numpy.inf
    x[12, 2:4] = -numpy.nan, -numpy.inf
    x[13], x[14] = -200.0, 60.0
    return x


WAYS = {
    "in rows": lambda x: x,
    "every second row": lambda x: x[::2],
    "every second column": lambda x: x[:, ::2],
    "by columns": lambda x: numpy.asfortranarray(x),
    "backwards": lambda x: x[::-1],
    "three dimensions": lambda x: x.reshape(7, 10, -1),
    "one column": lambda x: x[:, :1].copy(),
    "one row": lambda x: x[0],
    "a number": lambda x: x[0, 0],
    "no rows": lambda x: x[:0],
    "read only": lambda x: numpy.broadcast_to(x[:1], x.shape),
}
NUMPYS = {"every second row", "every second column", "by columns", "backwards", "read only"}
NUMPYS |= {"no rows"}
DTYPES = ["float32", "float64"]


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(used: list[str], name: str, dtype: str) -> None:
    forward, backward = getattr(softmax, name), getattr(softmax, f"{name}_backward")
    for way, given in WAYS.items():
        used.clear()
        x = numpy.asarray(given(rows(dtype)))
        found, wanted = both(forward, x, -1)
        agree(found, wanted)
        g = numpy.asarray(given(rows(dtype)[::-1].copy()))
        agree(*both(backward, g, wanted, -1))
        assert bool(used) == (way not in NUMPYS), way
    certain = numpy.array([[0.0, -1e4], [50.0, -50.0]], dtype)
    assert both(softmax.softmax, certain, -1)[0].tolist() == [[1, 0], [1, pytest.approx(0)]]
    assert both(softmax.softmax, numpy.full((2, 4), -numpy.inf, dtype), -1)[0].size == 8


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
def test_layer_norm(used: list[str], dtype: str) -> None:
    rng = numpy.random.default_rng(1)
    for way, given in WAYS.items():
        if way in ("a number", "no rows"):
            continue
        x = numpy.asarray(given(rows(dtype)))
        # A mean of 1000 is rounded to what is seen in the difference to it.
        x = numpy.where((x > 500) & (x < 2000), x.dtype.type(10), x)
        width = x.shape[-1]
        weight, bias = (rng.normal(size=width).astype(dtype) for _ in range(2))
        for w, b in ((weight, bias), (None, None)):
            found, wanted = both(norm.layer_norm, x, width, w, b, 1e-5)
            agree(found, wanted)
            if width == 1:  # whose gradients are the rounding of nothing
                continue
            g = rng.normal(size=x.shape).astype(dtype)
            for needs in ((True, True, True), (True, False, False)):
                back = both(norm.layer_norm_backward, g, x, *wanted[1:], w, needs)
                agree(*back, least=float(numpy.nanmax(wanted[2])))
    assert {"layer_norm", "layer_norm_backward"} <= set(used)


@needs_numba
def test_wide_and_many_rows_keep_their_digits(used: list[str]) -> None:
    x = numpy.random.default_rng(0).normal(5, 1, (2, 300_000)).astype(numpy.float32)
    found, mean, _ = norm.layer_norm(numpy, x, x.shape[1], None, None, 0.0)
    wide = x.astype(numpy.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / wide.std(1, keepdims=True)
    numpy.testing.assert_allclose(mean, wide.mean(1, keepdims=True), rtol=1e-7)
    numpy.testing.assert_allclose(found, wanted, rtol=3e-6, atol=3e-6)
    many = numpy.ones((100_000, 2), numpy.float32) * numpy.float32(1.1)
    zeros = numpy.zeros((len(many), 1), numpy.float32)
    needs = (False, False, True)
    total = norm.layer_norm_backward(numpy, many, many, zeros, zeros, None, needs)[2]
    numpy.testing.assert_allclose(total, 110_000, rtol=2e-7)
    assert used == ["layer_norm", "layer_norm_backward"]


@needs_numba
def test_gelu(used: list[str]) -> None:
    for given in WAYS.values():
        x = numpy.asarray(given(rows("float32")))
        agree(*both(activation.gelu, x))
        g = numpy.asarray(given(rows("float32")[::-1].copy()))
        agree(*both(activation.gelu_backward, g, x))
    small = numpy.array([[0.0, -0.0]], numpy.float32)
    assert numpy.signbit(both(activation.gelu, small)[0]).tolist() == [[False, True]]
    assert {"gelu", "gelu_backward"} <= set(used)


# (images, channels, ...), (outputs, channels of a group, kernel), stride, padding, dilation, groups
CONVOLUTIONS = [
    ((2, 5, 7, 9), (6, 5, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((2, 4, 9, 40), (4, 1, 3, 3), (2, 2), (0, 1), (1, 1), 4),
    ((3, 4, 7, 20), (10, 2, 2, 5), (2, 3), (2, 1), (2, 1), 2),
    ((1, 2, 6, 5), (1, 2, 1, 2), (3, 4), (0, 3), (1, 2), 1),
    ((2, 3, 2000), (2, 3, 4), (1,), (2,), (1,), 1),
]


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
def test_convolution(used: list[str], dtype: str) -> None:
    rng = numpy.random.default_rng(0)
    for shape, kernel, *limits, groups in CONVOLUTIONS:
        x, weight = (rng.normal(size=size).astype(dtype) for size in (shape, kernel))
        bias = rng.normal(size=kernel[0]).astype(dtype)
        spoiled = x.copy()
        line = spoiled.reshape(-1)
        line[[3, -4, -7]] = numpy.nan, numpy.inf, -numpy.inf
        infinite = weight.copy()
        infinite[0, 0, ..., 0] = numpy.inf
        for given, factors, summands in (
            (x, weight, bias),
            (numpy.asfortranarray(x), weight[::-1].copy()[::-1], None),
            (spoiled, weight, bias),
            (x, infinite, None),
            (x[:0], weight, bias),
        ):
            used.clear()
            found, wanted = both(conv.conv2d, given, factors, summands, *limits, groups)
            agree(found, wanted)
            assert bool(used) == bool(given.size)
            g = rng.normal(size=wanted.shape).astype(dtype)
            if given is spoiled:
                g.reshape(-1)[:1] = numpy.nan
            agree(*both(conv.conv2d_input, g, factors, given.shape, *limits, groups))
            agree(*both(conv.conv2d_weight, g, given, kernel, *limits, groups))


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
def test_group_norm(used: list[str], dtype: str) -> None:
    rng = numpy.random.default_rng(1)
    x = rng.normal(2, 1, (4, 6, 5, 25)).astype(dtype)
    for at, value in ((0, numpy.nan), (1, numpy.inf), (2, -numpy.inf)):
        x[at, 2 * at, 1, 3] = value
    weight, bias = (rng.normal(size=6).astype(dtype) for _ in range(2))
    g = rng.normal(size=x.shape).astype(dtype)
    g[1, 5, 0, 0] = numpy.nan
    needs = (True, True, True)
    for images in (x, x[3:], numpy.ascontiguousarray(x[3:, ::-1])):
        upper = g[: len(images)].copy()
        for groups in (1, 3):
            for w, b in ((weight, bias), (None, None)):
                given = (groups, 1e-5)
                found, wanted = both(channel_norm.group_norm, images, w, b, *given)
                agree(found, wanted)
                saved = (upper, images, *wanted[1:], w, groups, needs)
                with numpy.errstate(all="ignore"):
                    mine = channel_norm.group_norm_backward(numpy, *saved)
                    agree(mine, channel_norm.backward(numpy, *saved))
    assert set(used) == {"group_norm", "group_norm_backward"}
    before = len(used)
    channel_norm.group_norm(numpy, x[:, :, ::2], None, None, 2, 1e-5)
    assert len(used) == before


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
def test_small_systems(used: list[str], dtype: str) -> None:
    rng = numpy.random.default_rng(0)
    a = rng.normal(size=(40, 4, 4)).astype(dtype)
    a[1], a[2, :, 1], a[3, 2] = 0, 0, a[3, 0]
    a[4, 1, 2], a[5, 0, 0], a[6, 3, 1] = numpy.nan, numpy.inf, -numpy.inf
    for given in (a, a.swapaxes(1, 2), a[:, :3], a[:, :, :2], a[:0], a.reshape(4, 10, 4, 4)):
        used.clear()
        found, wanted = both(lapack.lu_factor, given)
        for each, other in zip(found[1:], wanted[1:], strict=True):
            numpy.testing.assert_array_equal(each, other)
        agree(found[0], wanted[0])
        assert used == ["lu_factor"] * bool(given.size)
    regular = a[8:] + 4 * numpy.eye(4, dtype=dtype)[::-1]
    regular[0, 0, 0] = numpy.nan
    lu, pivots, _ = lapack.lu_factor(numpy, regular)
    b = rng.normal(size=(32, 4, 3)).astype(dtype)
    b[2, 1, 0], b[3, 1, 0] = numpy.inf, -numpy.inf
    for right in (b, b[:, :, :1], b[0], b[:, :, ::-1]):
        for transpose in (0, 1, 2):
            used.clear()
            agree(*both(lapack.lu_solve, lu, pivots, right, transpose), least=10)
            assert used == ["lu_solve"] * (transpose < 2)


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
def test_indices(used: list[str], dtype: str) -> None:
    rng = numpy.random.default_rng(0)
    x = rows(dtype, 12)
    x[x == -1e30] = 0  # of which the order of sums decides what is left
    y = rng.normal(size=x.shape).astype(dtype)
    cells = rng.integers(0, 70, (50, 12))
    wide = rng.integers(0, 12, (70, 5))
    few = rng.integers(0, 70, 50)
    for given in (x, numpy.asfortranarray(x), x[::-1]):
        used.clear()
        agree(*both(scatter.gather, given, 0, cells))
        agree(*both(scatter.gather, given, -1, wide))
        agree(*both(scatter.gather, given, 0, cells[:, ::3]))
        assert used == ["gather"] * (2 if given is x else 0)
        used.clear()
        agree(*both(scatter.scatter_add, given, 0, cells, y[:50]))
        agree(*both(scatter.scatter_add, given, 1, wide, y[:, :5]))
        agree(*both(scatter.index_add, given, 0, few, y[:50]))
        agree(*both(scatter.index_add, given, 1, wide[0], y[:, :5]))
        agree(*both(scatter.index_add, given[:, 0], 0, few, y[:50, 0]))
        agree(*both(scatter.embedding_backward, given[:50], few, 70, 3))
        assert set(used) == {"scatter_add", "add_rows"}
    used.clear()
    agree(*both(scatter.gather, x, 0, cells[:0]))
    for wrong in (-1, 70):
        cells[7, 3] = wrong
        with pytest.raises(RuntimeError, match=f"index {wrong} is out of bounds"):
            scatter.gather(numpy, x, 0, cells)
    assert used == []


SIZES = {"alike": (5,) * 6, "packed": (5, 4, 4, 2, 1, 1), "one": (1,) * 6, "no rows": (0,) * 6}


def lstm(dtype: str, sizes: tuple[int, ...], hidden: int) -> dict[str, Any]:
    rng = numpy.random.default_rng(2)
    count, most = sum(sizes), max(sizes)
    shapes = {
        "data": (count, 3),
        "w_ih": (4 * hidden, 3),
        "w_hh": (4 * hidden, hidden),
        "b_ih": (4 * hidden,),
        "b_hh": (4 * hidden,),
        "h": (most, hidden),
        "c": (most, hidden),
    }
    return {
        name: (rng.normal(size=shape) / shape[-1] ** 0.5).astype(dtype)
        for name, shape in shapes.items()
    }


def passes(given: dict[str, Any], sizes: tuple[int, ...], reverse: bool, some: bool) -> Any:
    """Forward, and backward of its outputs, or of its last state alone."""
    x = given
    found = recurrent.forward(numpy, recurrent.LSTM, *x.values(), sizes, reverse)
    grads = tuple(numpy.cos(each) for each in found[:3])
    grads = (None, *grads[1:]) if some else (grads[0], None, None)
    kept = x["data"], x["w_ih"], x["w_hh"], x["h"], x["c"], found[0], found[3]
    with fast.flags(enabled=False):  # what was compiled goes back compiled
        back = recurrent.backward(numpy, recurrent.LSTM, grads, *kept, sizes, reverse, (True,) * 7)
    return (*found[:3], *back)


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
def test_lstm(used: list[str], dtype: str) -> None:
    for sizes in SIZES.values():
        for hidden in (4, 11, 100):
            for reverse, some in ((False, False), (True, False), (True, True)):
                used.clear()
                given = lstm(dtype, sizes, hidden)
                found, wanted = both(lambda _, *a: passes(*a), given, sizes, reverse, some)
                agree(found, wanted)
                assert used == (["lstm", "lstm_backward"] if any(sizes) else [])
    for bad in (numpy.nan, numpy.inf, -numpy.inf):
        given = lstm(dtype, SIZES["packed"], 4)
        given["data"][6] = bad
        agree(*both(lambda _, *a: passes(*a), given, SIZES["packed"], False, False))


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
def test_relus_gradient(used: list[str], dtype: str) -> None:
    g = rows(dtype)[::-1].copy()
    for way, given in WAYS.items():
        for threshold in (0, 0.1):
            used.clear()
            x, values = numpy.asarray(given(rows(dtype))), numpy.asarray(given(g))
            found, wanted = both(activation.where_above, x, threshold, values)
            numpy.testing.assert_array_equal(found, wanted)
            assert (found.dtype, bool(used)) == (dtype, way not in NUMPYS), way


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", [loss.MEAN, loss.SUM])
def test_nll_loss(used: list[str], dtype: str, reduction: int) -> None:
    x, g = rows(dtype), numpy.array(-3.0, dtype)
    labels = numpy.arange(len(x)) % 37
    for target in (labels, numpy.where(labels == 3, -100, labels), numpy.full(70, -100)):
        for ignored in (-100, 4):
            if ignored == 4 and target.min() < 0:
                continue
            used.clear()
            found, wanted = both(loss.nll_loss, x, target, None, reduction, ignored)
            agree(found, wanted)
            given = (g, x, target, None, reduction, ignored, wanted[1])
            agree(*both(loss.nll_loss_backward, *given))
            assert used == ["nll_loss", "nll_loss_backward"]
    for bad in (37, -1, -(1 << 62)):
        target = numpy.where(labels == 3, bad, labels)
        with pytest.raises(IndexError, match=f"Target {bad} is out of bounds"):
            loss.nll_loss(numpy, x, target, None, reduction)
        total = numpy.array(69, dtype)
        with pytest.raises(IndexError, match=f"Target {bad} is out of bounds"):
            loss.nll_loss_backward(numpy, g, x, target, None, reduction, -100, total)
    used.clear()
    both(loss.nll_loss, x, labels, numpy.ones(37, dtype), reduction)
    both(loss.nll_loss, x, labels, None, loss.NONE)
    both(loss.nll_loss, x[:, ::2], labels % 19, None, reduction)
    both(loss.nll_loss, x[:, 0], numpy.array(3), None, reduction)
    assert used == []


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", [loss.MEAN, loss.SUM])
def test_losses_of_scores(used: list[str], dtype: str, reduction: int) -> None:
    x = rows(dtype)
    labels = numpy.arange(len(x)) % 37
    for target in (labels, numpy.where(labels == 3, -100, labels), numpy.full(len(x), -100)):
        used.clear()
        agree(*both(loss.of_scores, x, target, reduction, -100))
        assert used == ["of_scores"]
    for bad in (37, -1, -(1 << 62)):
        target = numpy.where(labels == 3, bad, labels)
        assert loss.of_scores(numpy, x, target, reduction, -100) is None


IMAGES: dict[str, Any] = {
    "usual": lambda x: x,
    "ties": lambda x: numpy.trunc(x),
    "NaN": lambda x: numpy.where(abs(x) < 0.6, numpy.nan, x),
    "all NaN": lambda x: x * numpy.nan,
    "infinities": lambda x: numpy.where(abs(x) < 0.6, -numpy.inf, x * numpy.inf),
    "-inf": lambda x: numpy.full_like(x, -numpy.inf),
    "no images": lambda x: x[:0],
    "no batch": lambda x: x[0],
    "every second row": lambda x: x.repeat(2, 2)[:, :, ::2],
    "channels last": lambda x: numpy.ascontiguousarray(x.swapaxes(1, 3)).swapaxes(1, 3),
}


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", [c for c in POOLINGS if len(c[1]) == 2], ids=str)
def test_max_pool(used: list[str], case: tuple[Any, ...], dtype: str) -> None:
    x = numpy.random.default_rng(0).normal(size=(2, 3, 21, 22)).astype(dtype)
    kernel, stride, _, dilation, _ = limits = case[1:]
    disjoint = pool.windows_are_disjoint(kernel, stride, dilation)
    for way, made in IMAGES.items():
        used.clear()
        images = made(x)
        found, wanted = both(pool.max_pool2d, images, *limits)
        agree(found[0], wanted[0])
        numpy.testing.assert_array_equal(found[1], wanted[1])
        plain = images.size > 0 and images.flags.c_contiguous
        assert bool(used) == plain, way
        g = numpy.random.default_rng(1).normal(size=found[1].shape).astype(dtype)
        for given in (g, numpy.broadcast_to(numpy.ones((), dtype), g.shape)):
            used.clear()
            agree(*both(pool.max_pool2d_backward, given, found[1], images.shape, 2, disjoint))
            assert bool(used) == (g.size > 0)
    for bad in (21 * 22, -(1 << 62)):
        places = numpy.full((2, 3, 1, 1), bad)
        with pytest.raises(IndexError):
            pool.max_pool2d_backward(numpy, numpy.ones((2, 3, 1, 1), dtype), places, x.shape, 2)


@needs_numba
def test_what_compiled_kernels_do_not_take_is_numpys(used: list[str]) -> None:
    x = rows("float32")
    softmax.softmax(numpy, x, 0)
    softmax.softmax(numpy, x.astype(">f4"), -1)
    softmax.softmax(numpy, numpy.ones((3, 4), numpy.complex64), -1)
    norm.layer_norm(numpy, x, 37, numpy.ones(37), None, 1e-5)
    images = numpy.ones((1, 17, 7, 9), "f")
    conv.conv2d(numpy, images, images[:, :, :3, :3], None, (1, 1), (1, 1), (1, 1))
    assert used == []
    half = x[20:].astype(numpy.float16)
    agree(*(each.astype("f8").round(3) for each in both(softmax.softmax, half, -1)))
    assert used == ["softmax"]  # in float32, as NumPy does


def test_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ag.backends.fast is fast
    assert not fast.enabled  # as the suite begins
    assert not fast.wanted(numpy, 1 << 20)
    with fast.flags(enabled=True):
        assert fast.wanted(numpy, fast.LEAST)
        assert not fast.wanted(numpy, fast.LEAST - 1)
        assert not fast.wanted(object(), fast.LEAST)
    assert not fast.enabled


def test_without_numba_nothing_is_said_and_numpy_computes(
    used: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fast, "_known", {})
    monkeypatch.setitem(sys.modules, "numba", None)
    assert softmax.softmax(numpy, numpy.zeros((2, 4)), 1).tolist() == [[0.25] * 4] * 2
    assert (used, caplog.messages) == ([], [])


def test_a_numba_that_fails_is_told_of_once_and_numpy_computes(
    used: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "ag_visual.fast")  # which an example of the guide turns off
    monkeypatch.setattr(fast, "_known", {})
    monkeypatch.setattr(fast, "is_available", lambda: True)
    monkeypatch.delattr(kernels, "compiled", raising=False)
    monkeypatch.setitem(sys.modules, "ag_visual.arrays.kernels.compiled", None)
    for _ in range(2):
        assert softmax.softmax(numpy, numpy.zeros((2, 4)), 1).tolist() == [[0.25] * 4] * 2
    [text] = caplog.messages
    assert text.startswith("softmax of float64 is left to NumPy: Numba failed with ")
    assert text.endswith(". Without this line: AG_VISUAL_FAST=0, or uninstall numba.")
    assert used == []


def told(code: str, **environment: str) -> tuple[str, str]:
    """stdout and stderr of a program of its own, in which warnings are errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_numba_is_imported_by_no_import_no_small_array_and_not_where_it_is_switched_off() -> None:
    code = (
        "import sys, ag_visual as ag; ag.randn(64, 128).softmax(1)\n"
        "ag.backends.fast.enabled = True; ag.randn(4, 4).softmax(1); print('numba' in sys.modules)"
    )
    assert told(code, AG_VISUAL_FAST="0") == ("False\n", "")


@needs_numba
def test_a_kernel_is_told_of_when_it_is_compiled_and_kept(tmp_path: Path) -> None:
    code = (
        "import numpy; from ag_visual.arrays.kernels.softmax import softmax_backward\n"
        "x = numpy.ones((64, 128), 'f'); softmax_backward(numpy, x, x, 1)"
    )
    place = {"NUMBA_CACHE_DIR": str(tmp_path), "AG_VISUAL_FAST": "1"}
    _, first = told(code, **place)
    assert first.startswith(
        "Numba compiles softmax_backward of float32, which takes some seconds; kept in "
    )
    assert str(tmp_path) in first
    assert first.count("\n") == 1
    assert told(code, **place) == ("", "")


def one(x: float) -> float:
    return x + 1


@needs_numba
@pytest.mark.parametrize(
    ("suffix", "what"), [("nbi", b"no index\n"), ("nbi", b""), ("nbc", b"\x80")]
)
def test_a_damaged_file_of_a_kernel_is_made_anew(
    suffix: str, what: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numba import config

    from ag_visual.arrays.kernels.compiled import making

    def hits() -> int:
        """How many kernels a program would find on the disk."""
        kernel = making.exact(one)
        kernel.compile("float64(float64)")
        assert kernel(1.0) == 2.0
        return sum(kernel.stats.cache_hits.values())

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    assert (hits(), hits()) == (0, 1)
    [file] = tmp_path.rglob(f"*.{suffix}")
    file.write_bytes(what)
    assert (hits(), hits()) == (0, 1)


@needs_numba
def test_a_kernel_that_cannot_be_kept_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numba import config

    from ag_visual.arrays.kernels.compiled import making

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "taken"))
    kernel = making.exact(one)
    shutil.rmtree(tmp_path / "taken")
    (tmp_path / "taken").write_text("by a file")
    assert kernel(1.0) == 2.0


@needs_numba
def test_where_no_folder_may_be_written_each_program_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from numba.core import caching

    from ag_visual.arrays.kernels import compiled
    from ag_visual.arrays.kernels.compiled import rows as topic

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    spec = importlib.util.spec_from_file_location("read_only", topic.__file__)
    assert spec is not None
    assert spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    kernel = again.softmax_backward
    monkeypatch.setitem(compiled._TAKES, "softmax_backward", (kernel, again.TAKES[kernel]))
    folders: list[str | None] = []
    run = compiled.function("softmax_backward", numpy.dtype("f"), folders.append)
    x = numpy.ones((2, 4), "f")
    run(x, x, out := numpy.empty_like(x), False)
    assert (out.tolist(), folders) == ([[-3.0] * 4] * 2, [None])


@needs_numba
def test_a_kernel_is_compiled_again_when_a_function_has_changed_that_it_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ag_visual.arrays.kernels.compiled import making

    def kept() -> Any:
        return making.summing(making._stamp)._cache._cache_file._source_stamp

    before = kept()
    assert before == kept()
    monkeypatch.setattr(making, "_SHARED", making._SHARED[:1])
    assert before != kept()


ELEMENTARY = ["expm1", "log1p", "sinh", "cosh", "arctan", "arctanh", "arctan2"]


@needs_numba
@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions(used: list[str], name: str) -> None:
    of_numbers = getattr(activation, name)
    rng = numpy.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-40, 2, 4000)
    even = [rng.uniform(*ends, 4000) for ends in ((-1, 1), (-12, 12), (-104, 89))]
    given = numpy.concatenate([sizes, -sizes, *even])
    wild = [0.0, -0.0, numpy.inf, -numpy.inf, numpy.nan, -1.0, -2.0, 88.7, 88.8, -0.9999999, 3e38]
    x = numpy.concatenate([given, wild]).astype("float32")
    points = [x]
    if name == "arctan2":  # each of the wild ones with each
        few = numpy.array(wild, "float32")
        x = numpy.concatenate([x, few.repeat(few.size)])
        points = [x, numpy.concatenate([rng.permutation(x[: -(few.size**2)]), *[few] * few.size])]
    found, wanted = both(of_numbers, *points)
    assert used == [name]
    with numpy.errstate(all="ignore"):
        exact = getattr(numpy, name)(*(each.astype("float64") for each in points))
        off = numpy.abs(found - exact) / numpy.spacing(numpy.abs(wanted)).astype("float64")
    usual = numpy.isfinite(wanted)
    assert numpy.array_equal(usual, numpy.isfinite(found))
    assert off[usual].max() < 2.5
    # Infinities, NaN and the sign of zero are NumPy's.
    others = ~usual | (wanted == 0)
    assert numpy.array_equal(found[others], wanted[others], equal_nan=True)
    there = ~numpy.isnan(wanted)
    assert numpy.array_equal(numpy.signbit(found[there]), numpy.signbit(wanted[there]))
    used.clear()
    agree(*both(of_numbers, *(each.astype("float64") for each in points)))
    agree(*both(of_numbers, *(each[::2] for each in points)))
    assert not used


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
def test_scans(used: list[str], dtype: str) -> None:
    x = rows(dtype)
    tied = numpy.round(x[16:]) * numpy.array([1, -1, 0, -0.0] * 9 + [1], dtype)
    for given in (*(numpy.asarray(way(x)) for way in WAYS.values()), tied, tied.T):
        for dim in range(given.ndim):
            used.clear()
            for product in (False, True):
                for backwards in (False, True):
                    found = both(scans.cumulate, given, dim, product, backwards)
                    same(*found)
            for largest in (False, True):
                for found in zip(*both(scans.running_extreme, given, dim, largest), strict=True):
                    same(*found)
            wanted = ["cumulate"] * 4 + ["running_extreme"] * 2
            assert used == (wanted if given.size else [])
    used.clear()
    for other in (x.astype("float16"), x.astype(complex), numpy.arange(12).reshape(3, 4)):
        same(*both(scans.cumulate, other, 1))
    assert not used


def same(found: Any, wanted: Any) -> None:
    """Bit by bit, but for the kind of a NaN, and row by row in memory."""
    assert found.dtype == wanted.dtype
    assert found.flags.c_contiguous
    assert wanted.flags.c_contiguous
    numpy.testing.assert_array_equal(found, wanted)
    there = ~numpy.isnan(wanted)
    assert numpy.array_equal(numpy.signbit(found.real[there]), numpy.signbit(wanted.real[there]))


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [2, 3])
def test_grid_sample(used: list[str], rank: int, dtype: str) -> None:
    rng = numpy.random.default_rng(0)
    x = rng.normal(size=(2, 3, *(5, 1, 4)[-rank:])).astype(dtype)
    grid = rng.uniform(-1.4, 1.4, (2, *(15, 3, 4)[:rank], rank)).astype(dtype)
    grid[0, 1:4] = numpy.round(grid[0, 1:4] * 4) / 4  # on pixels, between two, on the borders
    grid[0, 0, 0], grid[0, 0, 1], grid[0, 0, 2] = numpy.nan, numpy.inf, -1e30
    g = rng.normal(size=(2, 3, *grid.shape[1:-1])).astype(dtype)
    spoiled = x.copy()
    spoiled.reshape(-1)[[2, 9]] = numpy.nan, numpy.inf
    tensors = ag.nn.functional.grid_sample
    for mode in ("bilinear", "nearest", "bicubic")[: 5 - rank]:
        for padding in ("zeros", "border", "reflection"):
            for align in (False, True):
                for images in (x, spoiled, x.swapaxes(0, 1).copy().swapaxes(0, 1)):
                    made = sampled(tensors, images, grid, g, mode, padding, align)
                    same(made[0][0], made[1][0])
                    agree(made[0][1:], made[1][1:])
    assert set(used) == {"grid_sample", "grid_sample_backward"}


def sampled(function: Any, x: Any, grid: Any, g: Any, *how: Any) -> list[tuple[Any, ...]]:
    """Values and gradients by the compiled kernels, and by NumPy."""
    found = []
    for enabled in (True, False):
        leaves = [ag.from_numpy(each).requires_grad_() for each in (x, grid)]
        with fast.flags(enabled=enabled):
            result = function(*leaves, *how)
            grads = ag.autograd.grad(result, leaves, ag.from_numpy(g))
        found.append(tuple(each.detach().numpy() for each in (result, *grads)))
    return found
