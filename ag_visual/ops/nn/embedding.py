"""Embedding and one_hot."""

from __future__ import annotations

import numpy

from ag_visual.arrays import backend as backends
from ag_visual.arrays.kernels import scatter
from ag_visual.core.level import all_values, is_batchedtensor
from ag_visual.core.tensor import from_array
from ag_visual.dispatch.record import LINEAR, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap_layers import looked_up, looked_up_back
from ag_visual.ops.nn.embedding_bag import embedding_renorm_


def _check_indices(name: str, indices) -> None:
    if indices.dtype.kind not in "iu":
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {indices.dtype.name} instead (while checking arguments for {name})"
        )


def _embedding(xp, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    _check_indices("embedding", indices)
    return scatter.embedding(xp, weight, indices)


def _embedding_backward(
    xp, grad_output, indices, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
):
    return scatter.embedding_backward(
        xp, grad_output, indices, num_weights, padding_idx, scale_grad_by_freq
    )


def _embedding_rule(
    F, g, weight_shape, indices, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
):
    make = F.embedding_sparse_backward if sparse else F.embedding_dense_backward
    return make(g, indices, weight_shape[0], padding_idx, scale_grad_by_freq)


def _embedding_again(F, g, indices, padding_idx: int):
    rows = F.embedding_of(g, indices)
    if padding_idx < 0:
        return rows
    return F.where(F.unsqueeze(indices == padding_idx, -1), 0.0, rows)


def _rows(make, shape: tuple[int, ...], count: int):
    return make(shape, low=0.0, high=count - 0.01).astype(int)


op(
    "embedding_of",
    _embedding,
    vjp={"weight": _embedding_rule},
    jvp=LINEAR,
    inputs=("weight", "indices"),
    public=False,
    node="EmbeddingBackward0",
    public_name="embedding",
    batch=looked_up,
    samples=lambda make: [Sample((make((5, 3)), _rows(make, (2, 4), 5)))],
    errors=lambda make: [
        ErrorSample((make((5, 3)), _rows(make, (2,), 5) + 5), IndexError, "index out of range")
    ],
    formula="result[i, j] = weight[indices[i], j]",
)
op(
    "embedding_dense_backward",
    _embedding_backward,
    vjp={"grad_output": _embedding_again},
    inputs=("grad_output", "indices"),
    jvp=LINEAR,
    public=False,
    batch=looked_up_back,
    samples=lambda make: [
        Sample((make((2, 4, 3)), _rows(make, (2, 4), 5), 5, -1, False)),
        Sample((make((4, 3)), _rows(make, (4,), 5), 5, 2, False)),
    ],
    formula="result[k, j] = Sum(i, grad_output[i, j] * (indices[i] == k))",
)


@composite("embedding", method=False, spaces="torch nn.functional")
def _embedding_of(
    F,
    input,
    weight,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
):
    """weight[input]: the rows of a table; the row padding_idx gets no gradient.

    sparse: the gradient of the table has the rows that were looked up, and no others.
    """
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    at = -1
    if padding_idx is not None:
        if not -weight.shape[0] <= padding_idx < weight.shape[0]:
            raise AssertionError("Padding_idx must be within num_embeddings")
        at = padding_idx % weight.shape[0]
    return F.embedding_of(weight, input, at, scale_grad_by_freq, sparse)


@composite("one_hot", method=False, spaces="nn.functional")
def _one_hot(F, tensor, num_classes: int = -1):
    """int64 rows that are 1 at the given class and 0 elsewhere."""
    array = tensor._array
    if array.dtype.kind not in "iu":
        raise RuntimeError(
            "one_hot is only applicable to index tensor of type LongTensor, but got "
            f"{tensor.dtype}: convert class indices with .long()"
        )
    if is_batchedtensor(tensor) and num_classes <= 0:
        raise RuntimeError(
            "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive "
            "num_classes argument."
        )
    array = all_values(tensor)
    if array.size and int(array.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        if not array.size:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(array.max()) + 1
    elif array.size and int(array.max()) >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    xp = backends.backend_of(array).xp
    classes = from_array(xp.arange(num_classes))
    return F.cast(F.eq(F.unsqueeze(tensor, -1), classes), numpy.dtype(numpy.int64))
