"""Coo: what a sparse tensor holds in the place of an array, indices and the values there.

Positions may occur several times, their values add up; sorted and without duplicates it is called
coalesced. It has the facts of an array, adds and scales, and refuses everything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, NoReturn

import numpy

from ag_visual.arrays.backend import backend_of
from ag_visual.arrays.kernels import scatter

_NUMBERS = (int, float, complex, numpy.number, numpy.bool_)


def no_sparse_rule(name: str) -> NotImplementedError:
    """Of what has no rule for sparse tensors, in torch's words."""
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend: {name} has no "
        "rule for sparse tensors here. Call .to_dense() first, or work on .coalesce().values()."
    )


class Coo:
    """An array in coordinate form.

    indices: int64 of shape (sparse dimensions, nnz); values: an array (nnz, dense dimensions...);
    shape: of the whole, sparse dimensions first. csr: that a coalesced matrix is known to its user
    by compressed rows, the ends of which are counted when they are asked for.
    """

    __slots__ = ("coalesced_", "csr", "indices", "shape", "values")

    has_values = True

    def __init__(
        self,
        indices: Any,
        values: Any,
        shape: tuple[int, ...],
        coalesced: bool = False,
        csr: bool = False,
    ) -> None:
        self.indices = indices
        self.values = values
        self.shape = tuple(shape)
        self.coalesced_ = coalesced or self.nnz < 2
        self.csr = csr

    # What an array has -----------------------------------------------------------------------

    @property
    def nnz(self) -> int:
        """How many positions it names."""
        return int(self.values.shape[0])

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return int(self.values.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of what it holds."""
        return int(self.values.nbytes + self.indices.nbytes)

    @property
    def strides(self) -> tuple[int, ...]:
        return (0,) * self.ndim

    @property
    def sparse_dim(self) -> int:
        """How many dimensions the indices are of; the others are those of the values."""
        return int(self.indices.shape[0])

    @property
    def dense_shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions that the values have."""
        return self.shape[self.sparse_dim :]

    @property
    def flags(self) -> Any:
        return _FLAGS

    @property
    def base(self) -> Any:
        return self  # nobody takes it over as an array of its own

    @property
    def xp(self) -> Any:
        return backend_of(self.values).xp

    def unsupported(self) -> NotImplementedError:
        """Why no kernel may have it."""
        return NotImplementedError(
            "this function has no rule for sparse tensors (SparseCPU) here. Call .to_dense() "
            "first, or work on .coalesce().values()."
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        raise no_sparse_rule(func.__name__)

    def __getattr__(self, name: str) -> NoReturn:
        if name[:1] == "_" or name in _ASKED:
            raise AttributeError(name)
        raise no_sparse_rule(name)

    # Forms -----------------------------------------------------------------------------------

    def with_values(self, values: Any) -> Coo:
        """The same positions with other values."""
        return Coo(self.indices, values, self.shape, self.coalesced_, self.csr)

    def in_rows(self, csr: bool = True) -> Coo:
        """The same known by compressed rows, or no more."""
        own = self.coalesced() if csr else self
        return Coo(own.indices, own.values, own.shape, own.coalesced_, csr)

    def row_ends(self) -> Any:
        """At which of its positions each row of a coalesced matrix begins, and the last ends."""
        rows = self.xp.arange(self.shape[0] + 1)
        return self.xp.searchsorted(self.indices[0], rows).astype(self.xp.int64)

    def permuted(self, dims: tuple[int, ...]) -> Coo:
        """With its dimensions in another order, sparse ones among themselves."""
        count = self.sparse_dim
        shape = tuple(self.shape[d] for d in dims)
        values = self.values.transpose(0, *(d - count + 1 for d in dims[count:]))
        return Coo(self.indices[list(dims[:count])], values, shape)

    def nothing(self, dtype: Any = None) -> Coo:
        """None of its positions: zeros."""
        values = self.values[:0]
        values = values.copy() if dtype is None else values.astype(dtype)
        return Coo(self.indices[:, :0].copy(), values, self.shape, True, self.csr)

    def rows(self) -> Any:
        """The values as a matrix, one row a position."""
        return self.values.reshape(self.nnz, math.prod(self.dense_shape))

    def flat(self) -> Any:
        """Each position as one number."""
        result = self.indices[0] if self.sparse_dim else self.xp.zeros(self.nnz, self.xp.int64)
        for dim in range(1, self.sparse_dim):
            result = result * self.shape[dim] + self.indices[dim]
        return result

    def coalesced(self) -> Coo:
        """The same with sorted positions, each once."""
        if self.coalesced_:
            return self
        xp = self.xp
        places, group = xp.unique(self.flat(), return_inverse=True)
        count = places.shape[0]
        values = _summed(xp, self.rows(), group.reshape(-1), count)
        indices = xp.empty((self.sparse_dim, count), xp.int64)
        for dim in range(self.sparse_dim - 1, -1, -1):
            indices[dim] = places % self.shape[dim] if dim else places
            places = places // self.shape[dim] if dim else places
        values = values.reshape(count, *self.dense_shape)
        return Coo(indices, values, self.shape, True)

    def dense(self) -> Any:
        """All elements."""
        sizes = self.shape[: self.sparse_dim]
        return _summed(self.xp, self.rows(), self.flat(), math.prod(sizes)).reshape(self.shape)

    def picked(self, other: Coo) -> tuple[Any, Any]:
        """Where the positions of another stand in this one, which is coalesced, and whether."""
        mine, asked = self.flat(), other.flat()
        if not mine.size:
            return self.xp.zeros(asked.shape, self.xp.int64), self.xp.zeros(asked.shape, bool)
        at = self.xp.minimum(self.xp.searchsorted(mine, asked), mine.shape[0] - 1)
        return at, mine[at] == asked

    def values_at(self, other: Coo) -> Any:
        """The elements at the positions of another."""
        own = self.coalesced()
        at, found = own.picked(other)
        result = self.xp.zeros((other.nnz, *self.dense_shape), self.dtype)
        result[found] = own.values[at[found]]
        return result

    def copy(self, order: str = "C") -> Coo:
        indices, values = self.indices.copy(), self.values.copy()
        return Coo(indices, values, self.shape, self.coalesced_, self.csr)

    def astype(self, dtype: Any) -> Coo:
        return self.with_values(self.values.astype(dtype))

    def item(self) -> Any:
        return self.dense().item()

    # Arithmetic ------------------------------------------------------------------------------

    def add_to(self, target: Any) -> None:
        """Add it to an array of its shape, or to another `Coo`, in place."""
        own = self.coalesced()
        if type(target) is Coo:
            target._become(target.coalesced() + own)
        else:
            target[tuple(own.indices)] += own.values

    def _become(self, other: Coo) -> None:
        """Take the positions and values of another; a matrix of compressed rows remains one."""
        other = other.in_rows() if self.csr else other
        self.indices, self.values, self.coalesced_ = other.indices, other.values, other.coalesced_

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Coo):
            return self._added(other)
        xp = self.xp
        indices, mine, theirs = self.indices, self.values, other.values
        if indices.shape == other.indices.shape and bool((indices == other.indices).all()):
            both = self.coalesced_ or other.coalesced_
            return Coo(indices, mine + theirs, self.shape, both, self.csr and other.csr)
        indices = xp.concatenate((indices, other.indices), axis=1)
        result = Coo(indices, xp.concatenate((mine, theirs)), self.shape)
        result = result.coalesced() if self.coalesced_ and other.coalesced_ else result
        return result.in_rows() if self.csr and other.csr else result

    def __radd__(self, other: Any) -> Any:
        return self._added(other)

    def _added(self, dense: Any) -> Any:
        result = dense.astype(numpy.result_type(dense.dtype, self.dtype))
        self.add_to(result)
        return result

    def __mul__(self, other: Any) -> Coo:
        if isinstance(other, _NUMBERS):
            return self.with_values(self.values * other)
        if isinstance(other, Coo):
            own = self.coalesced()
            return own.with_values(own.values * other.values_at(own))
        if other.size == 1:
            return self.with_values(self.values * other.reshape(()))
        if other.shape != self.shape:
            other = self.xp.broadcast_to(other, self.shape)
        return self.with_values(self.values * other[tuple(self.indices)])

    __rmul__ = __mul__

    def __truediv__(self, number: Any) -> Coo:
        if not isinstance(number, _NUMBERS):
            raise no_sparse_rule("div")
        return self.with_values(self.values / number)

    def __iadd__(self, other: Any) -> Any:
        total = self + other
        if not isinstance(total, Coo):
            return total
        self._become(total)
        return self

    def __imul__(self, number: Any) -> Coo:
        self.values = (self * number).values
        return self

    def __neg__(self) -> Coo:
        return self.with_values(-self.values)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        name = ufunc.__name__
        out = kwargs.get("out", (None,))[0]
        if method != "__call__" or isinstance(out, Coo):
            raise no_sparse_rule(name)
        if out is not None and (name == "add" or (name == "subtract" and inputs[1] is self)):
            dense = inputs[1] if inputs[0] is self else inputs[0]
            if out is not dense:
                out[...] = dense
            (self if name == "add" else -self).add_to(out)
            return out
        rule = _UFUNCS.get(name)
        if rule is None or out is not None or (name == "divide" and inputs[0] is not self):
            raise no_sparse_rule(name)
        return rule(self, *(x for x in inputs if x is not self))


_UFUNCS: Final[dict[str, Callable[..., Any]]] = {
    "add": Coo._added,
    "multiply": Coo.__mul__,
    "divide": Coo.__truediv__,
    "negative": Coo.__neg__,
    "conjugate": lambda self: self.with_values(self.values.conj()),
}
"""What kernels of NumPy may do with it: the other argument comes second."""

_FLAGS: Final = SimpleNamespace(c_contiguous=False, f_contiguous=False, writeable=True)
_ASKED: Final = frozenset(("whole", "array", "device"))
"""What observers ask any array for, which may not have it."""


def _summed(xp: Any, rows: Any, group: Any, count: int) -> Any:
    """The sums of rows that have the same number, `count` of them."""
    if rows.dtype.kind in "fc":
        return scatter.embedding_backward(xp, rows, group, count, -1, False)
    result = xp.zeros((count, rows.shape[1]), rows.dtype)
    backend_of(result).add_at(result, group, rows)
    return result
