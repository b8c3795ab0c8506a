"""gather, scatter, index_* and embedding against torch's, on every array library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from ag_visual.arrays.kernels import scatter

from ..oracle import torch
from .compare import agree, random_array, theirs

# self, dim, index
CASES: list[tuple[Any, ...]] = [
    ((4, 5), 0, (3, 5)),
    ((4, 5), 1, (4, 7)),
    ((4, 5), -1, (2, 3)),
    ((3, 4, 2), 1, (2, 6, 2)),
    ((6,), 0, (9,)),
    ((), 0, ()),
    ((), 0, (1,)),
    ((1,), 0, ()),
    ((4, 5), 0, (0, 5)),
    ((3, 1), 1, (1, 1)),
]
DTYPES = ["float32", "float64", "int64", "complex64", "bool"]


def indices(shape: tuple[int, ...], size: int, seed: int = 0) -> Any:
    return numpy.asarray(numpy.random.default_rng(seed).integers(0, size, shape), "int64")


def size_of(shape: tuple[int, ...], dim: int) -> int:
    return shape[dim] if shape else 1


def data(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    if dtype == "bool":
        return numpy.asarray(random_array(shape, "float64", seed) > 0)
    return random_array(shape, dtype, seed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gather_is_torchs(run: Callable[..., Any], case: tuple[Any, ...], dtype: str) -> None:
    shape, dim, index_shape = case
    x, index = data(shape, dtype), indices(index_shape, size_of(shape, dim))
    agree(run(scatter.gather, x, dim, index), torch.gather(theirs(x), dim, theirs(index)))
    laid_out = numpy.array(x, order="F")
    agree(run(scatter.gather, laid_out, dim, index), torch.gather(theirs(x), dim, theirs(index)))


@pytest.mark.parametrize("dtype", DTYPES[:4])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_scatter_add_is_torchs(run: Callable[..., Any], case: tuple[Any, ...], dtype: str) -> None:
    shape, dim, index_shape = case
    x, index = data(shape, dtype), indices(index_shape, size_of(shape, dim))
    src = data(tuple(n + 1 for n in index_shape), dtype, seed=1)
    wanted = torch.scatter_add(theirs(x), dim, theirs(index), theirs(src))
    agree(run(scatter.scatter_add, numpy.array(x, order="F"), dim, index, src), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_scatter_is_torchs(run: Callable[..., Any], case: tuple[Any, ...], dtype: str) -> None:
    shape, dim, index_shape = case
    x = data(shape, dtype)
    # Without duplicates: which of several writes wins is undefined.
    index = numpy.zeros(index_shape, "int64")
    if index.ndim:
        size = size_of(shape, dim)
        index = index[
            tuple(
                slice(0, size) if a == dim % index.ndim else slice(None) for a in range(index.ndim)
            )
        ]
        line = numpy.arange(index.shape[dim]).reshape(
            [-1 if a == dim % index.ndim else 1 for a in range(index.ndim)]
        )
        index = index + line
    src = data(index.shape, dtype, seed=1)
    wanted = torch.scatter(theirs(x), dim, theirs(index), theirs(src))
    agree(run(scatter.scatter, x, dim, index, src), wanted)
    wanted = torch.scatter(theirs(x), dim, theirs(index), 3)
    agree(run(scatter.scatter, x, dim, index, 3), wanted)


@pytest.mark.parametrize("dtype", DTYPES[:4])
@pytest.mark.parametrize(
    ("shape", "dim", "count"),
    [((4, 5), 0, 6), ((4, 5), 1, 3), ((3, 4, 2), -2, 9), ((6,), 0, 4), ((), 0, 1), ((4, 5), 0, 0)],
    ids=str,
)
def test_whole_slices_are_torchs(
    run: Callable[..., Any], shape: tuple[int, ...], dim: int, count: int, dtype: str
) -> None:
    x, index = data(shape, dtype), indices((count,), size_of(shape, dim))
    wanted = torch.index_select(theirs(x), dim, theirs(index))
    agree(run(scatter.index_select, x, dim, index), wanted)
    full = list(shape)
    if full:
        full[dim] = count
    source = data(tuple(full), dtype, seed=1)
    if not shape:
        index = index.reshape(())
    args = theirs(x), dim, theirs(index), theirs(source)
    agree(run(scatter.index_add, x, dim, index, source), torch.index_add(*args))
    agree(run(scatter.index_add, x, dim, index, source, 3), torch.index_add(*args, alpha=3))
    once = numpy.arange(min(count, size_of(shape, dim)))
    if shape:
        source = source[
            tuple(slice(None) if a != dim % len(shape) else once for a in range(len(shape)))
        ]
        wanted = torch.index_copy(theirs(x), dim, theirs(once), theirs(source))
        agree(run(scatter.index_copy, x, dim, once, source), wanted)


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_is_torchs(run: Callable[..., Any], accumulate: bool) -> None:
    x = random_array((4, 5, 3))
    rows, columns = numpy.array([[0, 1], [3, 2]]), numpy.array([4, 1])
    values = random_array((2, 2, 3), seed=1)
    wanted = torch.index_put(theirs(x), (theirs(rows), theirs(columns)), theirs(values), accumulate)
    agree(run(scatter.index_put, x, (rows, columns), values, accumulate), wanted)
    if accumulate:
        again = numpy.zeros_like(rows)
        wanted = torch.index_put(theirs(x), (theirs(again), theirs(again)), theirs(values), True)
        agree(run(scatter.index_put, x, (again, again), values, True), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("padding_idx", [-1, 2])
@pytest.mark.parametrize("by_frequency", [False, True])
@pytest.mark.parametrize("shape", [(6,), (3, 4), (), (0,)], ids=str)
def test_embedding_is_torchs(
    run: Callable[..., Any],
    shape: tuple[int, ...],
    by_frequency: bool,
    padding_idx: int,
    dtype: str,
) -> None:
    table, index = random_array((5, 3), dtype), indices(shape, 5)
    leaf = theirs(table).requires_grad_()
    wanted = torch.ops.aten.embedding(leaf, theirs(index), padding_idx, by_frequency)
    agree(run(scatter.embedding, table, index), wanted)
    g = random_array((*shape, 3), dtype, seed=1)
    (grad,) = torch.autograd.grad(wanted, leaf, theirs(g))
    found = run(scatter.embedding_backward, g, index, 5, padding_idx, by_frequency)
    agree(found, grad)


ONE = numpy.zeros((1, 3), "int64")
WRONG: list[tuple[Any, ...]] = [
    ("gather", (0, ONE + 5)),
    ("gather", (0, ONE - 1)),
    ("gather", (0, numpy.zeros((1, 4), "int64"))),
    ("gather", (0, numpy.zeros(1, "int64"))),
    ("scatter_add", (0, ONE + 7, numpy.zeros((1, 3)))),
    ("scatter_add", (0, ONE, numpy.zeros((1, 2)))),
    ("scatter_add", (0, numpy.zeros((1, 4), "int64"), numpy.zeros((1, 4)))),
    ("index_add", (0, numpy.array([7, 0]), numpy.zeros((2, 3)))),
    ("index_add", (0, numpy.array([1, 0]), numpy.zeros((3, 3)))),
    ("index_add", (0, numpy.array([1, 0]), numpy.zeros((2, 2)))),
    ("index_add", (0, ONE, numpy.zeros((2, 3)))),
    ("index_select", (0, numpy.array([0, -1]))),
]


@pytest.mark.parametrize(("name", "args"), WRONG, ids=str)
def test_bad_indices_fail_as_torchs(
    run: Callable[..., Any], name: str, args: tuple[Any, ...]
) -> None:
    x = numpy.zeros((2, 3))
    moved = tuple(theirs(arg) if isinstance(arg, numpy.ndarray) else arg for arg in args)
    with pytest.raises((RuntimeError, IndexError)) as wanted:
        getattr(torch, name)(theirs(x), *moved)
    with pytest.raises(wanted.type) as found:
        run(getattr(scatter, name), x, *args)
    beginning = str(wanted.value)[:12]
    assert str(found.value).startswith(beginning)


def test_an_index_outside_the_table_is_said(run: Callable[..., Any]) -> None:
    with pytest.raises(IndexError, match="index out of range in self: index 7 is out of bounds"):
        run(scatter.embedding, numpy.zeros((2, 3)), numpy.array([0, 7]))
