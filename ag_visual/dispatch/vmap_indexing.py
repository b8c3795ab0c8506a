"""Batching rules of ops that read and write by index: the batch becomes a part of the indices.

Rules as in dispatch/vmap; used by the op files of such ops alone.
"""

from __future__ import annotations

import math
from typing import Any

from ag_visual.dispatch.vmap import Batch, boolean_mask, no_rule


def slices(batch: Batch) -> Any:
    """Ops that read or write whole slices of a dimension by a vector of indices."""
    if "value" in batch.tensors and "value" in batch:
        return _filled(batch)
    if "index" in batch or not batch.rank("self"):
        return _flat_slices(batch)
    names = [n for n in batch.tensors if n not in ("index", "value")]
    return batch.run(**{n: batch.full(n) for n in names}, dim=batch["dim"] + 1)


def _filled(batch: Batch) -> Any:
    """A value of its own for each slice, where a mask that is filled alike says so."""
    F, x = batch.F, batch.full("self")
    fill = batch.op.table.of("index_fill_number")
    blank = batch.changed(self=F.zeros_of(x, tuple(x.shape)), value=1)
    mask = slices(blank.of(fill))
    return F.where(mask != 0, batch.padded("value", batch.rank("self")), x)


def _flat_slices(batch: Batch) -> Any:
    """The batch and the dimension as one: index i of slice b is b * n + i."""
    F, dim, size = batch.F, batch["dim"], batch.size
    index = batch.full("index")
    count = math.prod(index.shape[1:])
    index = F.reshape(index, (size, count))
    changed: dict[str, Any] = {}
    for name in batch.tensors:
        if name in ("index", "value"):
            continue
        x = batch.full(name)
        x = F.movedim(x, dim + 1, 1) if x.ndim > 1 else F.unsqueeze(x, 1)
        changed[name] = F.reshape(x, (size * x.shape[1], *x.shape[2:]))
    n = changed["self"].shape[0] // size
    wrapped = F.where(index < 0, index + n, index)
    offsets = batch_numbers(batch, index, 2) * n
    result = batch.run(**changed, dim=0, index=F.reshape(wrapped + offsets, (size * count,)))
    result = F.reshape(result, (size, result.shape[0] // size, *result.shape[1:]))
    if not batch.rank("self"):
        return F.squeeze(result, 1)
    return F.movedim(result, 1, dim + 1)


def batch_numbers(batch: Batch, like: Any, rank: int) -> Any:
    """0 ... size - 1 as int64, with dimensions of size one behind, on the device of `like`."""
    F = batch.F
    ones = F.zeros_of(like, (batch.size, *(1,) * (rank - 1))) + 1
    return F.cumsum(ones, 0) - 1


def places(batch: Batch) -> Any:
    """Ops that read or write a tensor at places of its flattened elements."""
    F, size = batch.F, batch.size
    x, index = batch.full("self"), batch.full("index")
    n = math.prod(x.shape[1:])
    wrapped = F.where(index < 0, index + n, index)
    at = wrapped + batch_numbers(batch, index, index.ndim) * n
    changed = {"self": F.reshape(x, (size * n,)), "index": at}
    changed.update({m: batch.full(m) for m in batch.tensors if m not in changed})
    result = batch.run(**changed)
    return F.reshape(result, x.shape) if "source" in batch.op.params else result


# Tuples of indices ------------------------------------------------------------------------------


def indexed(batch: Batch) -> Any:
    """`self[indices]`, and `index_put`, where indices are tensors, or None for whole dimensions."""
    kinds = [_is_mask(x) for x in batch["indices"]]
    if any(has and mask for has, mask in zip(batch.batched("indices"), kinds, strict=True)):
        raise boolean_mask()
    if not any(batch.batched("indices")):
        return _whole_batch(batch)
    if any(kinds):
        raise no_rule(batch.op, "with a batch of indices beside a mask")
    return _numbered_batch(batch)


def _is_mask(x: Any) -> bool:
    return x is not None and getattr(x, "_array", x).dtype.kind == "b"


def _layout(batch: Batch) -> tuple[int, int, bool]:
    """Of one slice's result: how many dimensions the indices give, and where; are they together?"""
    ranks, at = [], []
    pairs = zip(batch["indices"], batch.batched("indices"), strict=True)
    for i, (x, has) in enumerate(pairs):
        if x is not None:
            at.append(i)
            ranks.append(1 if _is_mask(x) else x.ndim - has)
    together = at == list(range(at[0], at[0] + len(at)))
    return max(ranks), at[0] if together else 0, together


def _whole_batch(batch: Batch) -> Any:
    """The same indices for each slice: the batch is one more whole dimension in front."""
    count, _, together = _layout(batch)
    changed = {"self": batch.full("self"), "indices": (None, *batch["indices"])}
    if "values" in batch.op.params:
        if together:
            changed["values"] = batch.padded("values", _result_rank(batch))
        else:
            values = batch.F.unsqueeze(batch["values"], 0) if "values" not in batch else None
            values = batch.padded("values", _result_rank(batch)) if values is None else values
            missing = _result_rank(batch) - (values.ndim - 1)
            for _ in range(missing):
                values = batch.F.unsqueeze(values, 1)
            changed["values"] = batch.F.movedim(values, 0, count)
        return batch.run(**changed)
    result = batch.run(**changed)
    # Indices that are not together come first, also before the batch.
    return result if together else batch.F.movedim(result, count, 0)


def _result_rank(batch: Batch) -> int:
    count, _, _ = _layout(batch)
    taken = sum(x.ndim if _is_mask(x) else 1 for x in batch["indices"] if x is not None)
    return batch.rank("self") - taken + count


def _numbered_batch(batch: Batch) -> Any:
    """Other indices for each slice: the number of the slice is one more index."""
    F = batch.F
    count, start, _ = _layout(batch)
    found = []
    for x, has in zip(batch["indices"], batch.batched("indices"), strict=True):
        if has:
            for _ in range(count - (x.ndim - 1)):
                x = F.unsqueeze(x, 1)
        found.append(x)
    like = next(x for x in found if x is not None)
    numbers = batch_numbers(batch, like, count + 1)
    changed = {"self": batch.full("self"), "indices": (numbers, *found)}
    here, there = range(1, count + 1), range(start + 1, start + count + 1)
    if "values" in batch.op.params:
        values = batch.padded("values", _result_rank(batch))
        if start:
            rank = _result_rank(batch)
            values = batch.full("values")
            for _ in range(rank - (values.ndim - 1)):
                values = F.unsqueeze(values, 1)
            values = F.movedim(values, tuple(there), tuple(here))
        return batch.run(**changed, values=values)
    result = batch.run(**changed)
    return F.movedim(result, tuple(here), tuple(there)) if start else result
