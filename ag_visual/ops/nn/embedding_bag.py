"""embedding_bag: sums, means and maxima of rows of a table; and the renormalisation of rows."""

from __future__ import annotations

from typing import Any

from ag_visual.arrays import backend as backends
from ag_visual.core.level import is_batchedtensor, not_batched
from ag_visual.core.tensor import before_write, wrote
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.table import composite, function, op
from ag_visual.dispatch.vmap import Batch

SUM, MEAN, MAX = 0, 1, 2
_MODES = {"sum": SUM, "mean": MEAN, "max": MAX}


def _check(weight, indices, offsets, per_sample_weights, last: bool, padding: int) -> None:
    for name, array in (("indices", indices), ("offsets", offsets)):
        if array.dtype.kind not in "iu":
            type_name = f"torch.{array.dtype.name.capitalize()}Tensor"
            type_name = type_name.replace("Float64", "Double").replace("Float32", "Float")
            raise RuntimeError(
                f"Expected tensor for argument #1 '{name}' to have one of the following scalar "
                f"types: Long, Int; but got {type_name} instead (while checking arguments for "
                "embedding_bag)"
            )
    count, rows = indices.shape[0], weight.shape[0]
    if offsets.shape[0] == 0 and last:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if offsets.shape[0]:
        if int(offsets[0]) != 0:
            raise RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
                f"from position 0. However, got {int(offsets[0])}"
            )
        if int(offsets[-1]) > count:
            raise RuntimeError(
                f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] "
                f"of {int(offsets[-1])}"
            )
    if not -1 <= padding < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, "
            f"but got {padding}"
        )
    outside = (indices < 0) | (indices >= rows)
    if count and bool(outside.any()):
        at = int(outside.argmax())
        raise RuntimeError(
            f"Index {at} of input takes value {int(indices[at])} which is not in the valid range "
            f"[0, {rows})"
        )
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        raise RuntimeError(
            "embedding_bag: per_sample_weights and weight must have the same dtype, got "
            f"{per_sample_weights.dtype.name} and {weight.dtype.name}"
        )


def _bag(
    xp,
    weight,
    indices,
    offsets,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights=None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Any, Any, Any, Any]:
    _check(weight, indices, offsets, per_sample_weights, include_last_offset, padding_idx)
    backend = backends.of_namespace(xp)
    count, size = indices.shape[0], weight.shape[1]
    starts = offsets[:-1] if include_last_offset else offsets
    bags = starts.shape[0]
    # A position belongs to the last bag that has begun before it.
    bag_of = xp.searchsorted(starts, xp.arange(count), side="right") - 1
    counted = indices != padding_idx
    sizes = xp.zeros((bags,), xp.int64)
    backend.add_at(sizes, bag_of, counted.astype(xp.int64))
    rows = xp.take(weight, indices, axis=0)
    wide = rows.astype(xp.float32) if rows.dtype.itemsize == 2 else rows
    if mode == MAX:
        result, chosen = _largest(xp, backend, wide, indices, bag_of, counted, (bags, size))
        return result.astype(weight.dtype, copy=False), bag_of, sizes, chosen
    factor = counted.astype(wide.dtype)
    if per_sample_weights is not None:
        factor = factor * per_sample_weights
    result = xp.zeros((bags, size), wide.dtype)
    backend.add_at(result, bag_of, wide * factor.reshape(-1, 1))
    if mode == MEAN:
        result /= xp.maximum(sizes, 1).reshape(-1, 1).astype(wide.dtype)
    return result.astype(weight.dtype, copy=False), bag_of, sizes, xp.zeros((0,), xp.int64)


def _largest(xp, backend, rows, indices, bag_of, counted, shape) -> tuple[Any, Any]:
    """The maxima of each bag's columns, and the table's row each came from (first of equals)."""
    best = xp.full(shape, -xp.inf, rows.dtype)
    backend.maximum_at(best, bag_of, xp.where(counted[:, None], rows, -xp.inf))
    count = rows.shape[0]
    hit = counted[:, None] & (rows == xp.take(best, bag_of, axis=0))
    place = xp.where(hit, xp.arange(count)[:, None], count)
    first = xp.full(shape, count, xp.int64)
    backend.minimum_at(first, bag_of, place)
    some = first < count
    where = xp.where(some, first, 0)
    chosen = xp.take(indices, where) if count else where
    return xp.where(some, best, 0), xp.where(some, chosen, 0).astype(xp.int64)


def _weight_rule(
    F,
    g,
    weight_shape,
    indices,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights,
    padding_idx: int,
    result1,
    result2,
    result3,
):
    rows, size = weight_shape
    if sparse and scale_grad_by_freq:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    kind = getattr(g, "_array", g).dtype
    if mode == MAX:
        known = F.where(F.unsqueeze(result2 > 0, 1), g, 0.0)
        return F.scatter_add(F.zeros_of(g, (rows, size)), 0, result3, known)
    each = F.index_select(g, 0, result1)
    if mode == MEAN:
        sizes = F.index_select(F.clamp_min(result2, 1), 0, result1)
        each = each / F.unsqueeze(F.cast(sizes, kind), 1)
    if not sparse:
        each = F.where(F.unsqueeze(indices != padding_idx, 1), each, 0.0)
    if per_sample_weights is not None:
        each = each * F.unsqueeze(per_sample_weights, 1)
    if sparse:
        return F.embedding_sparse_backward(each, indices, rows, padding_idx, False)
    if scale_grad_by_freq:
        ones = F.zeros_of(indices, tuple(indices.shape)) + 1
        often = F.index_add(F.zeros_of(indices, (rows,)), 0, indices, ones)
        often = F.cast(F.index_select(often, 0, indices), kind)
        each = each / F.unsqueeze(often, 1)
    return F.index_add(F.zeros_of(g, (rows, size)), 0, indices, F.cast(each, kind))


def _samples_rule(F, g, weight, indices, padding_idx: int, result1):
    """Of a sum, which alone takes weights of its samples."""
    products = F.index_select(g, 0, result1) * F.index_select(weight, 0, indices)
    return F.sum(F.where(F.unsqueeze(indices != padding_idx, 1), products, 0.0), 1)


def _batched(batch: Batch):
    """All slices as one: tables below one another, with a row of zeros where padding points."""
    F, size = batch.F, batch.size
    weight, indices, offsets = (batch.full(n) for n in ("weight", "indices", "offsets"))
    rows, columns = weight.shape[1:]
    count = indices.shape[1]
    numbers = F.unsqueeze(F.index_of(indices, list(range(size))), 1)
    if batch["include_last_offset"]:
        offsets = offsets[:, :-1]
    bags = offsets.shape[1]
    moved = indices + numbers * rows
    padding = batch["padding_idx"]
    table = F.reshape(weight, (size * rows, columns))
    if padding >= 0:
        moved = F.where(indices == padding, size * rows, moved)
        table = F.cat((table, F.zeros_of(table, (1, columns))), 0)
    samples = batch["per_sample_weights"]
    if samples is not None:
        samples = F.reshape(batch.full("per_sample_weights"), (size * count,))
    found = batch.run(
        weight=table,
        indices=F.reshape(moved, (size * count,)),
        offsets=F.reshape(offsets + numbers * count, (size * bags,)),
        per_sample_weights=samples,
        include_last_offset=False,
        padding_idx=size * rows if padding >= 0 else -1,
    )
    result, bag_of, sizes, chosen = found
    inner = F.reshape(bag_of, (size, count)) - numbers * bags
    if batch["mode"] == MAX:
        chosen = F.reshape(chosen, (size, bags, columns)) % rows
    else:
        chosen = F.reshape(chosen, (size, 0))
    whole = (F.reshape(result, (size, bags, columns)), inner, F.reshape(sizes, (size, bags)))
    return (*whole, chosen)


def _drawn(make, shape: tuple[int, ...], count: int):
    return make(shape, low=0.0, high=count - 0.01).astype(int)


def _samples(make):
    import numpy

    # The batching tests turn offsets round; these stay offsets.
    offsets = numpy.array([0, 0])
    indices = numpy.array([1, 3, 0, 2])
    for mode in (SUM, MEAN, MAX):
        yield Sample((make((5, 3)), indices, offsets, False, mode))
        yield Sample((make((5, 3)), indices, offsets, False, mode, False, None, False, 2))
    yield Sample((make((5, 3)), indices, offsets, False, SUM, False, make((4,))))
    yield Sample((make((5, 3)), indices, offsets, True, MEAN, False, None, True))


op(
    "embedding_bag_of",
    _bag,
    vjp={"weight": _weight_rule, "per_sample_weights": _samples_rule},
    aten="_embedding_bag",
    inputs=("weight", "indices", "offsets", "per_sample_weights"),
    outputs=("result0", "result1", "result2", "result3"),
    differentiable=(0,),
    also_saves=("offsets",),
    not_exposed=("include_last_offset",),
    batch=_batched,
    public=False,
    node="EmbeddingBagBackward0",
    public_name="embedding_bag",
    # torch leaves out what its backward of a mode does not ask for; the bags are what counts.
    oracle=lambda torch, *args: torch._embedding_bag(*args)[0],
    samples=_samples,
    errors=lambda make: [
        ErrorSample(
            (make((5, 3)), _drawn(make, (2,), 5) + 9, _drawn(make, (1,), 1)),
            RuntimeError,
            "Index 0 of input takes value",
        ),
        ErrorSample(
            (make((5, 3)), _drawn(make, (2,), 5), _drawn(make, (1,), 1) + 1),
            RuntimeError,
            "offsets[0] has to be 0",
        ),
    ],
    real_only=True,
)


def _given(F, input, offsets, samples) -> tuple[Any, Any, Any]:
    """Bags of one length are rows of a matrix; others begin at the offsets."""
    if samples is not None and tuple(input.shape) != tuple(samples.shape):
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({samples.shape}) is not None, then it must "
            f"have the same shape as the input ({input.shape})"
        )
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                "of fixed length sequences. However, found offsets of type "
                f"{type(offsets)}"
            )
        bags, length = input.shape
        starts = F.index_of(input, list(range(0, bags * length, max(length, 1)))[:bags])
        flat = None if samples is None else F.reshape(samples, (-1,))
        return F.reshape(input, (-1,)), starts, flat
    if input.ndim == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.ndim != 1:
            raise ValueError("offsets has to be a 1D Tensor")
        return input, offsets, samples
    raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")


@composite("embedding_bag", method=False, spaces="torch nn.functional")
def _embedding_bag(
    F,
    input,
    weight,
    offsets=None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights=None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
):
    """The sum, mean or maximum of the table's rows in each bag of indices.

    input: (N, length), or all bags in one row which begin at `offsets`; weight: (rows, size).
    per_sample_weights multiply the rows of a sum; rows at padding_idx do not count.
    """
    if input.dtype.category > 1 and weight.dtype.category == 1:
        # The order of arguments of before 0.4.
        input, weight = weight, input
    indices, starts, samples = _given(F, input, offsets, per_sample_weights)
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if samples is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}'). Please open a feature request on GitHub."
        )
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, "
            f"but got {padding_idx}"
        )
    padding = -1 if padding_idx is None else padding_idx % rows
    if max_norm is not None:
        embedding_renorm_(weight, indices, max_norm, norm_type)
    options = (scale_grad_by_freq, _MODES[mode], sparse, samples, include_last_offset, padding)
    return F.embedding_bag_of(weight, indices, starts, *options)[0]


@function(name="embedding_renorm_")
def embedding_renorm_(weight, indices, max_norm: float, norm_type: float = 2.0):
    """Scale those rows of `weight` that `indices` names down to norm max_norm, in place.

    As in torch no gradient sees it; a saved `weight` does.
    """
    if is_batchedtensor(weight) or is_batchedtensor(indices):
        raise not_batched("embedding_renorm_")
    before_write(weight)
    array = weight._array
    xp = backends.backend_of(array).xp
    rows = xp.unique(indices._array.reshape(-1))
    chosen = xp.take(array, rows, axis=0)
    norms = (xp.abs(chosen) ** norm_type).sum(axis=1, keepdims=True) ** (1 / norm_type)
    factor = xp.where(norms > max_norm, max_norm / (norms + 1e-7), 1).astype(array.dtype)
    changed = chosen * factor
    wrote(weight, "embedding_renorm_")
    array[rows] = changed
    return weight
