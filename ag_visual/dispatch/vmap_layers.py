"""Batching rules of layers and losses of classes: the batch becomes channels, rows or samples.

Rules as in dispatch/vmap; used by the op files of such ops alone.
"""

from __future__ import annotations

from typing import Any

from ag_visual.dispatch.vmap import Batch, each, no_rule
from ag_visual.dispatch.vmap_indexing import batch_numbers

NONE, MEAN = 0, 1


# Channels ---------------------------------------------------------------------------------------


def as_channels(batch: Batch, x: Any) -> Any:
    """(B, N, C, ...) as (N, B C, ...): samples with the channels of all slices side by side."""
    x = batch.F.movedim(x, 0, 1)
    return batch.F.reshape(x, (x.shape[0], batch.size * x.shape[2], *x.shape[3:]))


def from_channels(batch: Batch, x: Any) -> Any:
    """(N, B C, ...) as (B, N, C, ...)."""
    count = x.shape[1] // batch.size
    x = batch.F.reshape(x, (x.shape[0], batch.size, count, *x.shape[2:]))
    return batch.F.movedim(x, 1, 0)


def as_rows(batch: Batch, x: Any) -> Any:
    """(B, N, ...) as (B N, ...)."""
    return batch.F.reshape(x, (batch.size * x.shape[1], *x.shape[2:]))


def convolved(batch: Batch) -> Any:
    """Slices of the input are more samples; slices of the weight are more groups."""
    F = batch.F
    bias, apart = batch["bias"], "bias" in batch or "weight" in batch
    changed = {"bias": None} if apart else {}
    if "weight" in batch:
        result = batch.run(
            **changed,
            input=as_channels(batch, batch.full("input")),
            weight=as_rows(batch, batch["weight"]),
            groups=batch["groups"] * batch.size,
        )
        result = from_channels(batch, result)
    elif "input" in batch:
        result = batch.run(**changed, input=as_rows(batch, batch["input"]))
        result = F.reshape(result, (batch.size, -1, *result.shape[1:]))
    else:
        result = F.unsqueeze(batch.run(bias=None), 0)
    if bias is not None and apart:
        spatial = (1,) * (result.ndim - 3)
        lead = (batch.size, 1) if "bias" in batch else ()
        result = result + F.reshape(bias, (*lead, bias.shape[-1], *spatial))
    return result


def convolved_for_input(batch: Batch) -> Any:
    samples, channels, *spatial = batch["size"]
    size, g = batch.size, batch.full("grad_output")
    if "weight" not in batch:
        result = batch.run(grad_output=as_rows(batch, g), size=(size * samples, channels, *spatial))
        return batch.F.reshape(result, (size, samples, channels, *spatial))
    result = batch.run(
        grad_output=as_channels(batch, g),
        weight=as_rows(batch, batch["weight"]),
        size=(samples, size * channels, *spatial),
        groups=batch["groups"] * size,
    )
    return from_channels(batch, result)


def convolved_for_weight(batch: Batch) -> Any:
    count, *rest = batch["size"]
    result = batch.run(
        grad_output=as_channels(batch, batch.full("grad_output")),
        input=as_channels(batch, batch.full("input")),
        size=(batch.size * count, *rest),
        groups=batch["groups"] * batch.size,
    )
    return batch.F.reshape(result, (batch.size, count, *rest))


def normed_by_channel(batch: Batch) -> Any:
    """Statistics per channel: the slices are more channels."""
    F = batch.F
    changed = {"input": as_channels(batch, batch.full("input"))}
    for name in batch.tensors[1:]:
        changed[name] = F.reshape(batch.full(name), (-1,))
    result, mean, rstd = batch.run(**changed)
    return (
        from_channels(batch, result),
        F.reshape(mean, (batch.size, mean.shape[0] // batch.size)),
        F.reshape(rstd, (batch.size, rstd.shape[0] // batch.size)),
    )


def normed_by_layer(batch: Batch) -> Any:
    """Statistics over the last dimensions; a batch of weights is applied afterwards."""
    x = batch.full("input")
    apart = any(n in batch for n in batch.tensors[1:])
    if not apart:
        return batch.run(input=x)
    result, mean, rstd = batch.run(input=x, weight=None, bias=None)
    if batch["weight"] is not None:
        result = result * batch.padded("weight", x.ndim - 1)
    if batch["bias"] is not None:
        result = result + batch.padded("bias", x.ndim - 1)
    return result, mean, rstd


# Classes ----------------------------------------------------------------------------------------


def _class_weights(batch: Batch, x: Any, target: Any) -> Any:
    """The weight of each target's class, 0 where it is ignored; target is (B, ...)."""
    F, weight = batch.F, batch["weight"]
    ignored = target == batch["ignore_index"]
    if weight is None:
        return F.where(ignored, 0.0, F.zeros_of(x, tuple(target.shape)) + 1)
    known = F.reshape(F.where(ignored, 0, target), (batch.size, -1))
    used = F.gather(batch.full("weight"), 1, known)
    return F.where(ignored, 0.0, F.reshape(used, tuple(target.shape)))


def _rows_of(batch: Batch) -> tuple[Any, Any]:
    """Input (B, N, C, ...) and target (B, N, ...); one row where a slice is (C)."""
    x, target = batch.full("self"), batch.full("target")
    if batch.rank("self") == 1:
        x, target = batch.F.unsqueeze(x, 1), batch.F.unsqueeze(target, 1)
    return x, target


def picked_classes(batch: Batch) -> Any:
    """nll_loss: losses of all rows of all slices, then weights and the reduction of each slice."""
    F, reduction = batch.F, batch["reduction"]
    x, target = _rows_of(batch)
    rows, spots = as_rows(batch, x), as_rows(batch, target)
    losses, _ = batch.run(self=rows, target=spots, weight=None, reduction=NONE)
    losses = F.reshape(losses, tuple(target.shape))
    used = _class_weights(batch, x, target)
    losses = losses if batch["weight"] is None else losses * used
    dims = tuple(range(1, target.ndim))
    if reduction == NONE:
        one = batch.rank("self") == 1
        return F.squeeze(losses, 1) if one else losses, F.sum(used, dims) * 0
    total = F.sum(used, dims)
    loss = F.sum(losses, dims)
    return (loss / total if reduction == MEAN else loss), total


def picked_classes_back(batch: Batch) -> Any:
    F, reduction = batch.F, batch["reduction"]
    x, target = _rows_of(batch)
    g = batch.full("grad_output")
    if reduction == MEAN:
        g = g / batch.full("total_weight")
    g = F.reshape(g, tuple(target.shape) if reduction == NONE else _ones(batch, target))
    g = F.expand(g, tuple(target.shape)) * _class_weights(batch, x, target)
    result = batch.run(
        grad_output=as_rows(batch, g),
        self=as_rows(batch, x),
        target=as_rows(batch, target),
        weight=None,
        reduction=NONE,
        total_weight=F.zeros_of(x, ()),
    )
    result = F.reshape(result, tuple(x.shape))
    return F.squeeze(result, 1) if batch.rank("self") == 1 else result


def _ones(batch: Batch, like: Any) -> tuple[int, ...]:
    return (batch.size, *(1,) * (like.ndim - 1))


# Rows of a table --------------------------------------------------------------------------------


def looked_up(batch: Batch) -> Any:
    """Rows of a table: slices of the table are more columns, or with their indices more rows."""
    F, size = batch.F, batch.size
    if "indices" in batch and batch["scale_grad_by_freq"]:
        raise no_rule(batch.op, "with scale_grad_by_freq and a batch of indices")
    if "weight" not in batch:
        return batch.run()
    table = batch["weight"]
    rows, width = table.shape[1:]
    if "indices" not in batch:
        wide = F.reshape(F.movedim(table, 0, 1), (rows, size * width))
        found = batch.run(weight=wide)
        return F.movedim(F.reshape(found, (*found.shape[:-1], size, width)), -2, 0)
    if batch["padding_idx"] >= 0:
        raise no_rule(batch.op, "with padding_idx and a batch of both tables and indices")
    indices = (
        batch["indices"] + batch_numbers(batch, batch["indices"], batch["indices"].ndim) * rows
    )
    return batch.run(weight=F.reshape(table, (size * rows, width)), indices=indices)


def looked_up_back(batch: Batch) -> Any:
    F, size, rows = batch.F, batch.size, batch["num_weights"]
    g, indices = batch.full("grad_output"), batch["indices"]
    width = g.shape[-1]
    if "indices" not in batch:
        wide = F.movedim(g, 0, -2)
        found = batch.run(grad_output=F.reshape(wide, (*wide.shape[:-2], size * width)))
        return F.movedim(F.reshape(found, (rows, size, width)), 1, 0)
    if batch["scale_grad_by_freq"]:
        raise no_rule(batch.op, "with scale_grad_by_freq and a batch of indices")
    padding = batch["padding_idx"]
    if padding >= 0:
        g = F.where(F.unsqueeze(indices == padding, -1), 0.0, g)
    places = indices + batch_numbers(batch, indices, indices.ndim) * rows
    found = batch.run(grad_output=g, indices=places, num_weights=size * rows, padding_idx=-1)
    return F.reshape(found, (size, rows, width))


# Sequences --------------------------------------------------------------------------------------


def aligned(batch: Batch) -> Any:
    """ctc_loss: the sequences of all slices are the samples of one call."""
    F, size = batch.F, batch.size
    columns = {"log_probs": 1, "grad": 1}
    changed: dict[str, Any] = {}
    for name in batch.tensors:
        x = batch.full(name)
        at = columns.get(name, 0)
        if name == "log_probs" and batch.rank(name) == 2:
            raise no_rule(batch.op, "of a single sequence")
        x = F.movedim(x, 0, at)
        changed[name] = F.reshape(
            x, (*x.shape[:at], x.shape[at] * x.shape[at + 1], *x.shape[at + 2 :])
        )
    for name in ("input_lengths", "target_lengths"):
        changed[name] = tuple(batch[name]) * size
    result = batch.run(**changed)
    at = 1 if len(batch.op.outputs) == 1 else 0

    def parted(x: Any) -> Any:
        x = F.reshape(x, (*x.shape[:at], size, x.shape[at] // size, *x.shape[at + 1 :]))
        return F.movedim(x, at, 0)

    return each(parted, result)
