"""Reading and writing along a dimension: gather, scatter, scatter_add, take_along_dim."""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.kernels import scatter as kernels
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor, method
from ag_visual.dispatch.dims import broadcast, wrap
from ag_visual.dispatch.families import structural
from ag_visual.dispatch.record import ELEMENTWISE, ROWS, ErrorSample, Sample
from ag_visual.dispatch.table import composite, ops, traced
from ag_visual.dispatch.vmap import Batch, along
from ag_visual.ops.tensor.copy_fill import by_kind, number_for


def dim_and_index(name: str, self, dim, index) -> int:
    if index.size and (index.dtype.kind != "i" or index.dtype.itemsize < 4):
        raise RuntimeError(
            f"{name}(): Expected dtype int32/int64 for index, got {dtypes.of_array(index)}"
        )
    return wrap(dim, self.ndim)


def _normal_gather(self, dim, index, sparse_grad: bool = False):
    return dim_and_index("gather", self, dim, index), sparse_grad


def _gather_errors(make):
    x = make((2, 3))
    yield ErrorSample((x, 0, numpy.array([[2]])), RuntimeError, "index 2 is out of bounds for dim")
    yield ErrorSample((x, 0, numpy.array([0])), RuntimeError, "must have the same number of dim")
    yield ErrorSample((x, 0, numpy.array([[0.0]])), RuntimeError, "Expected dtype int32/int64")


def _gather(xp, self, dim: int, index, *, sparse_grad: bool = False):
    return kernels.gather(xp, self, dim, index)


def _gathered(batch: Batch) -> Any:
    """The result has the shape of the index, also where self has no dimensions."""
    result = along(batch)
    short = not batch.rank("self") and batch.rank("index") == 1
    return batch.F.unsqueeze(result, 1) if short else result


structural(
    "gather",
    _gather,
    vjp={
        "self": lambda F, g, self_shape, dim, index: F.scatter_add(
            F.zeros_of(g, self_shape), dim, index, g
        )
    },
    inputs=("self", "index"),
    layout=ROWS,
    normalize=_normal_gather,
    also_saves=("self", "sparse_grad"),
    batch=_gathered,
    samples=lambda make: [
        Sample((make((3, 4)), 1, numpy.array([[0, 3, 0], [2, 2, 1]]))),
        Sample((make((3, 4)), -2, numpy.array([[0, 2, 1, 0]]))),
        Sample((make((3,)), 0, numpy.array([2, 2]))),
    ],
    errors=_gather_errors,
    doc="out[i, j] = self[index[i, j], j] for dim 0, and so on: the shape of `index`.",
    out="no_overlap",
)


def grown(F, g, shape: tuple[int, ...]):
    """g with zeros behind it in every dimension that falls short of `shape`."""
    for dim, n in enumerate(shape):
        if g.shape[dim] != n:
            wide = (*g.shape[:dim], n, *g.shape[dim + 1 :])
            g = F.slice_backward(g, tuple(wide), dim, 0, g.shape[dim], 1)
    return g


def scatter_dim(name: str, self, dim, index, src) -> int:
    if src.dtype != self.dtype:
        raise RuntimeError(
            "scatter(): Expected self.dtype to be equal to src.dtype, got "
            f"{dtypes.of_array(self)} and {dtypes.of_array(src)}"
        )
    return dim_and_index(name, self, dim, index)


def _scatter_samples(make):
    index = numpy.array([[0, 3, 1], [2, 0, 1]])
    yield Sample((make((3, 4)), 1, index, make((2, 3))))
    yield Sample((make((3, 4)), 1, index, make((3, 5))), oracle=False)
    yield Sample((make((5,)), 0, numpy.array([4, 1]), make((2,))))


def _scatter_errors(make):
    x = make((2, 3))
    yield ErrorSample(
        (x, 0, numpy.array([[2]]), make((1, 1))), RuntimeError, "index 2 is out of bounds"
    )


structural(
    "scatter_src",
    kernels.scatter,
    vjp={
        "self": lambda F, g, dim, index: F.scatter_value(g, dim, index, 0),
        "src": lambda F, g, src_shape, dim, index: grown(F, F.gather(g, dim, index), src_shape),
    },
    inputs=("self", "index", "src"),
    normalize=lambda *given: (scatter_dim("scatter", *given),),
    inplace=True,
    no_overlap=True,
    public=False,
    public_name="scatter",
    node="ScatterBackward0",
    samples=_scatter_samples,
    errors=_scatter_errors,
)


def _normal_value(self, dim, index, value) -> tuple[Any, ...]:
    return dim_and_index("scatter", self, dim, index), number_for(value, self).item()


structural(
    "scatter_value",
    lambda xp, self, dim, index, value: kernels.scatter(xp, self, dim, index, value),
    vjp={"self": lambda F, g, dim, index: F.scatter_value(g, dim, index, 0)},
    jvp=ELEMENTWISE,
    inputs=("self", "index"),
    normalize=_normal_value,
    inplace=True,
    no_overlap=True,
    public=False,
    public_name="scatter",
    node="ScatterBackward1",
    samples=lambda make: [Sample((make((2, 3)), 1, numpy.array([[0], [2]]), 1.5))],
)


_REDUCED = {"add": "sum", "multiply": "prod"}
"""What scatter(reduce=), which torch keeps for old programs, is in scatter_reduce."""


@composite("scatter", out="check_overlap")
def _scatter(F, self, dim: int, index, src=None, *, value=None, reduce: str | None = None):
    """`self` with src[i, j] (or one number) written at [index[i, j], j] for dim 0, and so on.

    reduce: "add" or "multiply" what stands there instead; `scatter_reduce` does the same and more.
    """
    given = value if src is None else src
    if reduce is not None:
        given = _reduced_source(F, self, index, given, reduce)
        return F.scatter_reduce(self, dim, index, given, _REDUCED[reduce])
    return getattr(F, by_kind(given, "scatter_src", "scatter_value"))(self, dim, index, given)


def _reduced_source(F, self, index, given, reduce):
    """What scatter(reduce=) adds or multiplies, as a tensor like the index."""
    if reduce not in _REDUCED:
        raise RuntimeError("reduce argument must be either add or multiply.")
    if not isinstance(given, Tensor):
        number = number_for(given, self._array).item()
        return F.expand(F.zeros_of(self, ()) + number, tuple(index.shape))
    warn(
        "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in "
        "a future PyTorch release. Use torch.scatter_reduce instead for more reduction options."
    )
    return given


@method("scatter_")
def _scatter_(
    self: Tensor, dim: int, index: Tensor, src=None, *, value=None, reduce: str | None = None
) -> Tensor:
    """`scatter`, written into this tensor."""
    given = value if src is None else src
    if reduce is not None:
        given = _reduced_source(traced, self, index, given, reduce)
        return self.scatter_reduce_(dim, index, given, _REDUCED[reduce])  # type: ignore[attr-defined,no-any-return]
    record = ops[by_kind(given, "scatter_src", "scatter_value")]
    return record.write(self, dim, index, given)  # type: ignore[no-any-return]


def _scatter_add_samples(make):
    index = numpy.array([[0, 0, 1], [2, 0, 2]])
    yield Sample((make((3, 4)), 1, index, make((2, 3))))
    yield Sample((make((3, 4)), 0, index, make((2, 4))), oracle=False)


structural(
    "scatter_add",
    kernels.scatter_add,
    vjp={
        "self": lambda g: g,
        "src": lambda F, g, src_shape, dim, index: grown(F, F.gather(g, dim, index), src_shape),
    },
    inputs=("self", "index", "src"),
    normalize=lambda *given: (scatter_dim("scatter_add", *given),),
    inplace=True,
    vmap_inplace="scatter_add_",
    no_overlap=True,
    samples=_scatter_add_samples,
    errors=_scatter_errors,
    doc="`self` with src[i, j] added at [index[i, j], j] for dim 0, and so on.",
    out="check_overlap",
    autocast="cuda widest",
)


@composite("take_along_dim", out="no_overlap")
def _take_along_dim(F, self, indices, dim: int | None = None):
    """`gather` where the index broadcasts against `self`; without dim, on the flattened tensor."""
    if dim is None:
        return F.gather(F.reshape(self, (-1,)), 0, F.reshape(indices, (-1,)))
    if self.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {self.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    dim = wrap(dim, self.ndim)
    shape, wanted = list(self.shape), list(indices.shape)
    sizes = broadcast((*shape[:dim], 1, *shape[dim + 1 :]), tuple(wanted))
    index = F.expand(F.where(indices < 0, indices + shape[dim], indices), sizes)
    source = F.expand(self, (*sizes[:dim], shape[dim], *sizes[dim + 1 :]))
    return F.gather(source, dim, index)
