"""Searching, counting and distinct values: searchsorted, isin, unique, bincount, nonzero_static.

None of these has a derivative; `unique` gives a tensor whose backward says so, as torch's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from operator import index as as_index
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.arrays.kernels import search
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch import vmap
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.dtype_errors import not_implemented
from ag_visual.dispatch.families import not_differentiable
from ag_visual.dispatch.record import UNSEEN, ErrorSample, Sample
from ag_visual.dispatch.table import composite, function, op
from ag_visual.ops.reduction.along_dim import all_dims
from ag_visual.ops.tensor.creation import scalar_tensor
from ag_visual.ops.tensor.from_data import tensor

# In sorted sequences ----------------------------------------------------------------------------


def _insertions(
    xp, sorted_sequence, input, out_int32: bool = False, right: bool = False, sorter=None
):
    n = sorted_sequence.shape[-1]
    if sorter is not None and sorter.size and not 0 <= int(sorter.min()) <= int(sorter.max()) < n:
        raise RuntimeError("torch.searchsorted(): sorter index out of range")
    found = search.positions(xp, sorted_sequence, input, right, sorter)
    return found.astype(xp.int32) if out_int32 else found


def _check_search(sorted_sequence, input, out_int32, right, sorter) -> tuple[bool, bool]:
    rows, values = sorted_sequence, input
    if rows.ndim == 0:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 "
            "dimension"
        )
    if values.ndim == 0 and rows.ndim != 1:
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
            f"dimension is 1, but we got boundaries tensor dim({rows.ndim}) and input value's "
            f"dim({values.ndim}) numel({values.size})"
        )
    if rows.ndim != 1 and (rows.ndim != values.ndim or rows.shape[:-1] != values.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            "dimensions of boundaries tensor and input value tensor must match, but we got "
            f"boundaries tensor {list(rows.shape)} and input value tensor {list(values.shape)}"
        )
    if rows.dtype.kind == "c" or values.dtype.kind == "c":
        raise NotImplementedError(
            '"searchsorted_out_cpu" not implemented for complex numbers, which have no order'
        )
    if sorter is not None:
        if sorter.dtype != numpy.int64:
            label = dtypes.of_array(sorter).scalar_name
            raise RuntimeError(
                f"torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {label}"
            )
        if sorter.shape != rows.shape:
            raise RuntimeError(
                "torch.searchsorted(): boundary and sorter must have the same size, but got "
                f"boundary tensor {list(rows.shape)}and got sorter tensor {list(sorter.shape)}"
            )
    return bool(out_int32), bool(right)


def _search_batch(batch: vmap.Batch):
    """Every slice searches its own row (or rows)."""
    F, rank = batch.F, batch.rank("sorted_sequence")
    if "sorted_sequence" not in batch and rank == 1 and "sorter" not in batch:
        return batch.run()
    changed = {n: batch.full(n) for n in ("sorted_sequence", "input")}
    if batch["sorter"] is not None:
        changed["sorter"] = batch.full("sorter")
    if rank > 1:
        return batch.run(**changed)
    shape = batch.shape("input")
    changed["input"] = F.reshape(changed["input"], (batch.size, math.prod(shape)))
    return F.reshape(batch.run(**changed), (batch.size, *shape))


def _search_samples(make):
    row = numpy.sort(make((6,)))
    yield Sample((row, make((3, 4))))
    yield Sample((numpy.array([1.0, 2, 2, 5]), numpy.array([2.0, 0, 9, numpy.nan])), smooth=False)
    yield Sample((numpy.sort(make((2, 5)), -1), make((2, 3)), True, True))
    shuffled = make((5,))
    yield Sample((shuffled, make(()), False, False, shuffled.argsort()))
    yield Sample((make((0,)), make((2,))))


_REAL: dict[str, Any] = {"public": False, "holomorphic": False, "real_only": True}
op(
    "insertions",
    _insertions,
    inputs=("sorted_sequence", "input", "sorter"),
    normalize=_check_search,
    public_name="searchsorted",
    batch=_search_batch,
    oracle=lambda torch, rows, values, out_int32, right, sorter: torch.searchsorted(
        rows, values, out_int32=out_int32, right=right, sorter=sorter
    ),
    samples=_search_samples,
    errors=lambda make: [
        ErrorSample((make(()), make(())), RuntimeError, "should have positive dimension"),
        ErrorSample((make((2, 3)), make((3, 2))), RuntimeError, "first N-1 dimensions"),
        ErrorSample(
            (make((2,)), make((3,)), False, False, numpy.array([0, 7])),
            RuntimeError,
            "sorter index out of range",
        ),
    ],
    **_REAL,
)


def _as_value(value, like):
    """A number as a tensor that a tensor is compared with."""
    if isinstance(value, Tensor):
        return value
    return scalar_tensor(value, dtype=like.dtype, device=like.device)


@composite("searchsorted", method=False, out=True)
def _searchsorted(
    F,
    sorted_sequence,
    input,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter=None,
):
    """Where each value would be inserted into its sorted row so that the row stays sorted.

    The first place with row[i-1] < value <= row[i]; with right=True (side='right') row[i-1] <=
    value < row[i]. A row for all values, or one for each leading place of both tensors; sorter:
    the indices that sort the rows. int64, or int32 when asked for.
    """
    if side not in (None, "left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True"
        )
    values = _as_value(input, sorted_sequence)
    return F.insertions(sorted_sequence, values, out_int32, right or side == "right", sorter)


@composite("bucketize", method=False, out=True)
def _bucketize(F, input, boundaries, *, out_int32: bool = False, right: bool = False):
    """The bucket of each value between sorted boundaries: the first i with value <= boundaries[i].

    right=True: with value < boundaries[i]; len(boundaries) behind the last one.
    """
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return F.insertions(boundaries, _as_value(input, boundaries), out_int32, right)


def _isin(xp, elements, test_elements, assume_unique: bool = False, invert: bool = False):
    wide = numpy.promote_types(elements.dtype, test_elements.dtype)
    wanted = test_elements.astype(wide).reshape(-1)
    wanted = xp.sort(wanted[wanted == wanted])  # NaN equals nothing
    values = elements.astype(wide)
    if wanted.size == 0:
        return xp.full(values.shape, invert)
    at = xp.minimum(search.positions(xp, wanted, values, False, None), wanted.size - 1)
    found = wanted[at] == values
    return ~found if invert else found


def _check_members(*given) -> tuple[Any, ...]:
    for array in given[:2]:
        if array.dtype.kind in "bc":
            label = dtypes.of_array(array).scalar_name
            raise RuntimeError(f"Unsupported input type encountered for isin(): {label}")
    return given[2:]


def _isin_batch(batch: vmap.Batch):
    if "test_elements" not in batch:
        return batch.run()
    F = batch.F
    shape = batch.shape("elements")
    values = F.reshape(batch.full("elements"), (batch.size, math.prod(shape), 1))
    wanted = F.reshape(batch.full("test_elements"), (batch.size, 1, -1))
    found = F.reshape((values == wanted).any(-1), (batch.size, *shape))
    return ~found if batch["invert"] else found


op(
    "is_in",
    _isin,
    inputs=("elements", "test_elements"),
    normalize=_check_members,
    public_name="isin",
    batch=_isin_batch,
    oracle=lambda torch, x, y, unique, invert: torch.isin(
        x, y, assume_unique=unique, invert=invert
    ),
    samples=lambda make: [
        Sample((numpy.array([[1, 2], [3, 4]]), numpy.array([4, 1, 9]))),
        Sample((numpy.array([1.0, numpy.nan]), numpy.array([numpy.nan, 1])), smooth=False),
        Sample((numpy.array([1, 2]), numpy.array([[2.0], [5]]), False, True)),
        Sample((numpy.array([1, 2]), numpy.array([], dtype=numpy.int64))),
    ],
    errors=lambda make: [
        ErrorSample(
            (numpy.array([True]), numpy.array([True])), RuntimeError, "Unsupported input type"
        )
    ],
    **_REAL,
)


@composite("isin", method=False, out=True)
def _is_in(F, elements, test_elements, *, assume_unique: bool = False, invert: bool = False):
    """Which of the elements are among the test elements (invert: which are not)."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin(): one of elements and test_elements must be a Tensor")
    like = elements if isinstance(elements, Tensor) else test_elements
    elements, test_elements = (
        x if isinstance(x, Tensor) else scalar_tensor(x, dtype=_number_type(x), device=like.device)
        for x in (elements, test_elements)
    )
    return F.is_in(elements, test_elements, assume_unique, invert)


def _number_type(value):
    return dtypes.int64 if isinstance(value, int) else None


# Distinct values --------------------------------------------------------------------------------


def _unique(xp, self):
    values, inverse, counts = search.distinct(xp, self.reshape(-1), False)
    return values, inverse.reshape(self.shape), counts


def _along_rows(xp, self, dim: int, ordered: bool):
    front = xp.moveaxis(self, dim, 0)
    shape = front.shape
    rows = xp.ascontiguousarray(front).reshape(shape[0], math.prod(shape[1:]))
    found, inverse, counts = search.distinct_rows(xp, rows, ordered)
    result = xp.moveaxis(found.reshape(-1, *shape[1:]) if shape[0] else front, 0, dim)
    return xp.ascontiguousarray(result), inverse, counts


def _unique_dim(xp, self, dim: int):
    return _along_rows(xp, self, dim, False)


def _unique_consecutive(xp, self, dim: int | None = None):
    if dim is not None:
        return _along_rows(xp, self, dim, True)
    values, inverse, counts = search.distinct(xp, self.reshape(-1), True)
    return values.copy(), inverse.reshape(self.shape), counts


def _one_of(self, dim) -> tuple[Any]:
    if dim is None:
        return (None,)
    if self.ndim == 0:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dim = wrap(dim, self.ndim)
    if any(n == 0 for i, n in enumerate(self.shape) if i != dim):
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )
    return (dim,)


def _repeating(*arguments):
    def samples(make):
        yield Sample((numpy.array([[2.0, 1, 1], [2, 1, 1], [0, 5, 5], [2, 1, 1]]), *arguments))
        yield Sample((numpy.array([3, 1, 3, 3]), *(0 for _ in arguments)))

    return samples


def _distinct(name: str, kernel, node: str, theirs: str, samples, **options) -> None:
    op(
        name,
        kernel,
        vjp={"self": not_differentiable(theirs, "Detach the input.")},
        aten=theirs,
        outputs=("output", "inverse_indices", "counts"),
        differentiable=(0,),
        node=node,
        public=False,
        public_name="unique",
        profiled=theirs,
        batch=vmap.data_dependent,
        real_only=True,
        out=False,
        samples=samples,
        **options,
    )


def _theirs(name: str):
    """How torch is asked for all three results."""

    def oracle(torch, self, dim=None):
        return getattr(torch, name)(self, return_inverse=True, return_counts=True, dim=dim)

    return oracle


_distinct(
    "unique_values", _unique, "Unique2Backward0", "_unique2", _repeating(), oracle=_theirs("unique")
)
_distinct(
    "unique_dim",
    _unique_dim,
    "UniqueDimBackward0",
    "unique_dim",
    _repeating(1),
    normalize=_one_of,
    oracle=_theirs("unique"),
    errors=lambda make: [
        ErrorSample((make((2, 0)), 0), RuntimeError, "There are 0 sized dimensions"),
        ErrorSample((make((2,)), 3), IndexError, "Dimension out of range"),
    ],
)
_distinct(
    "unique_in_row",
    _unique_consecutive,
    "UniqueConsecutiveBackward0",
    "unique_consecutive",
    lambda make: itertools.chain(_repeating()(make), _repeating(0)(make)),
    normalize=_one_of,
    oracle=_theirs("unique_consecutive"),
)


def _asked(found, return_inverse: bool, return_counts: bool):
    results = [found[0]]
    if return_inverse:
        results.append(found[1])
    if return_counts:
        results.append(found[2])
    return tuple(results) if len(results) > 1 else results[0]


@composite("unique", profiled=UNSEEN)
def _unique_of(
    F,
    self,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
):
    """The distinct elements (or slices of `dim`), in ascending order.

    Sorted whatever `sorted` says. On request also the place of each input element among them, and
    how often each occurs.
    """
    found = F.unique_values(self) if dim is None else F.unique_dim(self, dim)
    return _asked(found, return_inverse, return_counts)


@composite("unique_consecutive")
def _unique_consecutive_of(
    F, self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
):
    """The elements (or slices of `dim`) without those that equal the one before."""
    return _asked(F.unique_in_row(self, dim), return_inverse, return_counts)


# Counting and places ----------------------------------------------------------------------------


def _bincount(xp, self, weights=None, minlength: int = 0):
    if weights is not None and weights.dtype != numpy.float32:
        weights = weights.astype(xp.float64)
    if self.size == 0:
        return xp.zeros((minlength,), xp.int64 if weights is None else weights.dtype)
    if int(self.min()) < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    found = xp.bincount(self, weights, minlength)
    return found.astype(xp.int64 if weights is None else weights.dtype, copy=False)


def _check_counts(self, weights, minlength) -> tuple[int]:
    if self.dtype.kind not in "iu":
        raise not_implemented("bincount_cpu", dtypes.of_array(self))
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, got {minlength}")
    if self.ndim != 1:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is not None and weights.shape != self.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    return (as_index(minlength),)


op(
    "bincount",
    _bincount,
    aten="aten::bincount",
    inputs=("self", "weights"),
    normalize=_check_counts,
    batch=vmap.slice_by_slice,
    out=False,
    holomorphic=False,
    real_only=True,
    samples=lambda make: [
        Sample((numpy.array([1, 3, 1]),)),
        Sample((numpy.array([1, 3, 1]), make((3,)), 6)),
        Sample((numpy.array([], dtype=numpy.int64), None, 2)),
    ],
    errors=lambda make: [
        ErrorSample((numpy.array([-1]),), RuntimeError, "1-d non-negative integral"),
        ErrorSample((numpy.array([1]), make((2,))), RuntimeError, "weights should be 1-d"),
        ErrorSample((make((2,)),), NotImplementedError, "not implemented for 'Double'"),
    ],
    doc="How often each of the numbers 0, 1, ... occurs in a vector (or the sum of its weights), "
    "at least `minlength` of them.",
)


def _nonzero_static(xp, self, *, size: int, fill_value: int = -1):
    result = xp.full((size, self.ndim), fill_value, xp.int64)
    if self.ndim:
        found = xp.stack(xp.nonzero(self), axis=-1)[:size]
        result[: found.shape[0]] = found
    return result


def _fixed_size(self, size, fill_value) -> tuple[int, int]:
    if size < 0:
        raise RuntimeError(
            f"nonzero_static: 'size' must be an non-negative integer, but got {size}"
        )
    return as_index(size), as_index(fill_value)


op(
    "nonzero_static",
    _nonzero_static,
    aten="aten::nonzero_static",
    normalize=_fixed_size,
    batch=vmap.slice_by_slice,
    holomorphic=False,
    samples=lambda make: [
        Sample((numpy.array([[1, 0], [0, 3]]),), {"size": 3}),
        Sample((numpy.array([1.0, 0, 2]),), {"size": 1, "fill_value": 7}),
    ],
    errors=lambda make: [
        ErrorSample((make((2,)),), RuntimeError, "must be an non-negative", {"size": -1})
    ],
    doc="The places of the first `size` elements that are not zero, one row each; rows that are "
    "missing hold `fill_value`.",
)


@function()
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The coordinates, in an array of a shape, of row-major positions: one tensor per dimension."""
    if not isinstance(indices, Tensor) or indices.dtype.category != 1:
        kind = indices.dtype if isinstance(indices, Tensor) else type(indices).__name__
        raise TypeError(f"expected 'indices' to be integer dtype, but got {kind}")
    sizes = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    steps = [math.prod(sizes[at + 1 :]) for at in range(len(sizes))]
    places: Any = indices
    divisors = tensor(steps, dtype=dtypes.int64, device=indices.device)
    found = places.unsqueeze(-1) // divisors % tensor(sizes, device=indices.device)
    return tuple(found.unbind(-1))


# A number for a tensor --------------------------------------------------------------------------


def _bits(xp, array):
    """Each element as 64 bits: of its double precision number, or of its integer."""
    wide = array.astype(xp.float64 if array.dtype.kind in "fV" else xp.int64)
    return wide.view(xp.uint64)


def _hash(xp, self, dim=(), *, keepdim: bool = False, mode: int = 0):
    reduced = dim or tuple(range(self.ndim))
    kept = [i for i in range(self.ndim) if i not in reduced]
    bits = _bits(xp, self).transpose((*kept, *reduced))
    bits = bits.reshape((*(self.shape[i] for i in kept), -1))
    while bits.shape[-1] > 1:
        # CuPy cannot reduce by xor: halves onto each other.
        half = (bits.shape[-1] + 1) // 2
        folded = bits[..., :half].copy()
        rest = bits[..., half:]
        folded[..., : rest.shape[-1]] ^= rest
        bits = folded
    shape = tuple(1 if i in reduced else n for i, n in enumerate(self.shape))
    return bits.reshape(shape if keepdim else tuple(self.shape[i] for i in kept))


def _hashed(self, dim, keepdim, mode) -> tuple[Any, ...]:
    if self.dtype.kind == "c":
        raise not_implemented("xor_sum_cpu", dtypes.of_array(self))
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    dims = all_dims(self, dim)
    if self.size == 0:
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify "
            "the reduction dim with the 'dim' argument."
        )
    return dims, bool(keepdim), mode


op(
    "hash_tensor",
    _hash,
    normalize=_hashed,
    holomorphic=False,
    real_only=True,
    samples=lambda make: [
        Sample((make((3, 5)),)),
        Sample((make((2, 3, 4)), (0, -1)), {"keepdim": True}),
        Sample((numpy.array([1, 2, -7]), 0)),
        Sample((make(()),)),
    ],
    errors=lambda make: [
        ErrorSample((make((2,)),), RuntimeError, "Unknown hash_tensor mode", {"mode": 1}),
        ErrorSample((make((0,)),), RuntimeError, "Expected reduction dim to be specified"),
    ],
    doc="The exclusive or of all elements' bits (of their double precision numbers, or 64-bit "
    "integers), or over `dim`, as uint64.",
    out="casts",
)
