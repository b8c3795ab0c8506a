"""Softmax, dropout, embedding, attention; the other neural ops are in files of their own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ag_visual import dtypes
from ag_visual.arrays import backend as backends
from ag_visual.arrays.kernels import scatter
from ag_visual.arrays.kernels import softmax as kernels
from ag_visual.core.tensor import from_array
from ag_visual.dispatch.arguments import DType, outside
from ag_visual.dispatch.dims import wrap
from ag_visual.dispatch.families import elementwise
from ag_visual.dispatch.record import EACH, FLOAT, LINEAR, ROWS, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import leading, random
from ag_visual.dispatch.vmap_layers import looked_up, looked_up_back
from ag_visual.ops.nn.embedding_bag import embedding_renorm_
from ag_visual.ops.reduction.along_dim import dim_errors, dim_samples
from ag_visual.ops.tensor.random import source_of

# Softmax ------------------------------------------------------------------------------------------


def _softmax(xp: Any, self: Any, dim: Any) -> Any:
    return kernels.softmax(xp, self, dim)


def _log_softmax(xp: Any, self: Any, dim: Any) -> Any:
    return kernels.log_softmax(xp, self, dim)


def _softmax_backward(xp: Any, grad_output: Any, output: Any, dim: int) -> Any:
    return kernels.softmax_backward(xp, grad_output, output, dim)


def _log_softmax_backward(xp: Any, grad_output: Any, output: Any, dim: int) -> Any:
    return kernels.log_softmax_backward(xp, grad_output, output, dim)


def _total(F: Any, x: Any, dim: int) -> Any:
    return F.sum(x, dim, True)


def _softmax_curve(F: Any, g: Any, grad_output: Any, output: Any, dim: int) -> Any:
    return (
        g * grad_output
        - _total(F, g * output, dim) * grad_output
        - g * _total(F, grad_output * output, dim)
    )


def _log_softmax_curve(F: Any, g: Any, grad_output: Any, output: Any, dim: int) -> Any:
    return -(_total(F, grad_output, dim) * F.exp(output)) * g


def _exps(np: Any, x: Any, dim: int) -> Any:
    """Softmax by its definition, for the tests."""
    if x.ndim == 0:
        return np.ones(())
    return np.exp(x) / np.sum(np.exp(x), axis=dim, keepdims=True)


def _back_samples(make: Any) -> Iterator[Sample]:
    yield Sample((make((3, 4)), make((3, 4), low=0.1, high=0.9), 1))
    yield Sample((make(()), make((), low=0.1, high=0.9), 0))


def _normal(self: Any, dim: Any) -> tuple[int]:
    return (wrap(dim, self.ndim),)


def _softmax_bend(F: Any, t_output: Any, grad_output: Any, output: Any, dim: int) -> Any:
    def total(x: Any) -> Any:
        return F.sum(x, dim, True)

    g = grad_output
    return t_output * (g - total(g * output)) - output * total(g * t_output)


op(
    "softmax_backward",
    _softmax_backward,
    vjp={
        "grad_output": lambda F, g, output, dim: F.softmax_backward(g, output, dim),
        "output": _softmax_curve,
    },
    jvp={"grad_output": LINEAR, "output": _softmax_bend},
    inputs=("grad_output", "output"),
    public=False,
    layout=ROWS,
    node="SoftmaxBackwardDataBackward0",
    samples=_back_samples,
    formula=lambda F, grad_output, output, dim: (
        output * (grad_output - F.sum(grad_output * output, dim, True))
    ),
)
op(
    "log_softmax_backward",
    _log_softmax_backward,
    vjp={
        "grad_output": lambda F, g, output, dim: g - _total(F, g * F.exp(output), dim),
        "output": _log_softmax_curve,
    },
    jvp={"grad_output": LINEAR, "output": EACH},
    inputs=("grad_output", "output"),
    public=False,
    layout=ROWS,
    node="LogSoftmaxBackwardDataBackward0",
    samples=_back_samples,
    formula=lambda F, grad_output, output, dim: (
        grad_output - F.exp(output) * F.sum(grad_output, dim, True)
    ),
)
op(
    "softmax_dim",
    _softmax,
    vjp={"self": lambda F, g, result, dim: F.softmax_backward(g, result, dim)},
    jvp={"self": lambda F, t_self, result, dim: F.softmax_backward(t_self, result, dim)},
    layout=ROWS,
    normalize=_normal,
    public=False,
    node="SoftmaxBackward0",
    called="softmax",
    samples=dim_samples(),
    errors=dim_errors,
    reference=lambda np, x, dim: _exps(np, x, dim),
    formula=lambda F, self, dim: F.exp(self) / F.sum(F.exp(self), dim, True),
)
op(
    "log_softmax_dim",
    _log_softmax,
    vjp={"self": lambda F, g, result, dim: F.log_softmax_backward(g, result, dim)},
    jvp={"self": lambda F, t_self, result, dim: t_self - F.sum(F.exp(result) * t_self, dim, True)},
    layout=ROWS,
    normalize=_normal,
    public=False,
    node="LogSoftmaxBackward0",
    called="log_softmax",
    samples=dim_samples(),
    errors=dim_errors,
    reference=lambda np, x, dim: np.log(_exps(np, x, dim)),
    formula=lambda F, self, dim: self - F.log(F.sum(F.exp(self), dim, True)),
)


def _chosen(name: str, input: Any, dim: Any) -> int:
    if dim is not None:
        return dim  # type: ignore[no-any-return]
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        UserWarning,
        stacklevel=outside(),
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def _floating(F: Any, name: str, input: Any, dtype: Any) -> Any:
    if dtype is not None:
        return input.to(dtype)
    if not (input.is_floating_point() or input.is_complex()):
        kind = dtypes.legacy_name(input.dtype).removesuffix("Tensor")
        raise NotImplementedError(
            f"\"{name}_lastdim_kernel_impl\" not implemented for '{kind}'; convert it with "
            ".float(), or pass dtype="
        )
    return input


def log_probabilities(F: Any, input: Any, dim: int) -> Any:
    """log_softmax for ops that are made of it."""
    return F.log_softmax_dim(_floating(F, "log_softmax", input, None), dim)


def _declare(name: str, what: str) -> Callable[..., Any]:
    """torch's function and method, which want a dim, and its layer function, which warns."""

    def body(F: Any, input: Any, dim: int, dtype: DType | None = None) -> Any:
        if F.xp is not None:
            return getattr(F, f"{name}_dim")(input, dim)
        return getattr(F, f"{name}_dim")(_floating(F, name, input, dtype), dim)

    def layer(
        F: Any, input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
    ) -> Any:
        return body(F, input, _chosen(name, input, dim), dtype)

    doc = f"{what} along `dim`; computed in `dtype` if given."
    composite(name, out=True, doc=doc)(body)
    function = composite(f"{name}_layer", public=False, doc=doc)(layer)
    function.__name__ = function.__qualname__ = name
    return function


softmax_layer = _declare("softmax", "exp(x) / sum(exp(x))")
log_softmax_layer = _declare("log_softmax", "log(softmax(x))")


@composite("softmin", method=False)
def _softmin(
    F: Any, input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Any:
    """softmax of -x."""
    return F.softmax(-input, _chosen("softmin", input, dim), dtype)


# Dropout ------------------------------------------------------------------------------------------


def _check_probability(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _dropped(F: Any, input: Any, p: float, shape: tuple[int, ...]) -> Any:
    """input * mask / (1 - p): the product is what torch's graph on the CPU shows."""
    if p == 0:
        return input
    array = input._array
    backend = backends.backend_of(array)
    if p == 1:
        return F.mul(input, from_array(backend.xp.zeros((), array.dtype)))
    mask = source_of(backend).bernoulli(1 - p, shape).astype(array.dtype)
    mask /= 1 - p
    return F.mul(input, from_array(mask))


def _noised(F: Any, input: Any, p: float, training: bool, inplace: bool, whole: int | None) -> Any:
    """Dropout of elements, or (whole = number of leading dimensions) of whole channels."""
    _check_probability(p)
    if not training:
        return input
    shape = tuple(input.shape)
    if whole is not None:
        shape = (*shape[:whole], *(1,) * (len(shape) - whole))
    result = _dropped(F, input, p, shape)
    return input.copy_(result) if inplace and result is not input else result


@composite("dropout", method=False)
def _dropout(
    F: Any, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Any:
    """Zero each element with probability p and multiply the others with 1 / (1 - p)."""
    return _noised(F, input, p, training, inplace, None)


def _declare_dropout(rank: int) -> None:
    def body(
        F: Any, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Any:
        return _noised(F, input, p, training, inplace, max(input.ndim - rank, 1))

    body.__doc__ = f"Dropout of whole channels: of (N, C, ...) with {rank} spatial dimension(s)."
    composite(f"dropout{rank}d", method=False)(body)


for _rank in (1, 2, 3):
    _declare_dropout(_rank)


def _native_dropout(xp: Any, input: Any, p: float, train: Any = True) -> tuple[Any, Any]:
    if not train or p == 0:
        return input.copy(), xp.ones(input.shape, bool)
    mask = source_of(backends.backend_of(input)).bernoulli(1 - p, input.shape)
    return input * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


def _native_rule(F: Any, g: Any, result1: Any, p: float, train: Any) -> Any:
    scale = 1.0 if not train or p == 0 else 0.0 if p == 1 else 1 / (1 - p)
    return F.native_dropout_backward(g, result1, scale)


def _native_backward(xp: Any, grad_output: Any, mask: Any, scale: float) -> Any:
    return grad_output * mask * scale


op(
    "native_dropout",
    _native_dropout,
    vjp={"input": _native_rule},
    outputs=("result0", "result1"),
    differentiable=(0,),
    method=False,
    jvp=EACH,
    batch=random(leading()),
    samples=lambda make: iter([Sample((make((3, 4)), 0.5, True), smooth=False)]),
    hidden=("train",),
    doc="`dropout` with the mask that it drew.",
)
elementwise(
    "native_dropout_backward",
    _native_backward,
    {"grad_output": lambda F, g, mask, scale: F.native_dropout_backward(g, mask, scale)},
    inputs=("grad_output", "mask"),
    policy=FLOAT,
    aside=("mask",),
    method=False,
    samples=lambda make: iter([Sample((make((3, 4)), make((3, 4)) > 0, 2.0))]),
    keeps=("grad_output",),
    doc="The gradient of `native_dropout`: grad_output where the mask is true, times scale.",
    formula=lambda grad_output, mask, scale: grad_output * mask * scale,
)

# Embedding ----------------------------------------------------------------------------------------


def _check_indices(name: str, indices: Any) -> None:
    if indices.dtype.kind not in "iu":
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {indices.dtype.name} instead (while checking arguments for {name})"
        )


def _embedding(
    xp: Any,
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    _check_indices("embedding", indices)
    return scatter.embedding(xp, weight, indices)


def _embedding_backward(
    xp: Any,
    grad_output: Any,
    indices: Any,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Any:
    return scatter.embedding_backward(
        xp, grad_output, indices, num_weights, padding_idx, scale_grad_by_freq
    )


def _embedding_rule(
    F: Any,
    g: Any,
    weight_shape: Any,
    indices: Any,
    padding_idx: int,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Any:
    return F.embedding_dense_backward(g, indices, weight_shape[0], padding_idx, scale_grad_by_freq)


def _embedding_again(F: Any, g: Any, indices: Any, padding_idx: int) -> Any:
    rows = F.embedding_of(g, indices)
    if padding_idx < 0:
        return rows
    return F.where(F.unsqueeze(indices == padding_idx, -1), 0.0, rows)


def _rows(make: Any, shape: tuple[int, ...], count: int) -> Any:
    return make(shape, low=0.0, high=count - 0.01).astype(int)


op(
    "embedding_of",
    _embedding,
    vjp={"weight": _embedding_rule},
    jvp=LINEAR,
    inputs=("weight", "indices"),
    public=False,
    node="EmbeddingBackward0",
    called="embedding",
    batch=looked_up,
    samples=lambda make: iter([Sample((make((5, 3)), _rows(make, (2, 4), 5)))]),
    errors=lambda make: iter(
        [ErrorSample((make((5, 3)), _rows(make, (2,), 5) + 5), IndexError, "index out of range")]
    ),
    formula="result[i, j] = weight[indices[i], j]",
)
op(
    "embedding_dense_backward",
    _embedding_backward,
    vjp={"grad_output": _embedding_again},
    inputs=("grad_output", "indices"),
    jvp=LINEAR,
    public=False,
    node="EmbeddingDenseBackwardBackward0",
    batch=looked_up_back,
    samples=lambda make: iter(
        [
            Sample((make((2, 4, 3)), _rows(make, (2, 4), 5), 5, -1, False)),
            Sample((make((4, 3)), _rows(make, (4,), 5), 5, 2, False)),
        ]
    ),
    formula="result[k, j] = Sum(i, grad_output[i, j] * (indices[i] == k))",
)


@composite("embedding", method=False)
def _embedding_of(
    F: Any,
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """weight[input]: the rows of a table; the row padding_idx gets no gradient."""
    if sparse:
        raise NotImplementedError("embedding: sparse gradients do not exist here; sparse=False")
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    at = -1
    if padding_idx is not None:
        if not -weight.shape[0] <= padding_idx < weight.shape[0]:
            raise AssertionError("Padding_idx must be within num_embeddings")
        at = padding_idx % weight.shape[0]
    return F.embedding_of(weight, input, at, scale_grad_by_freq, False)


@composite("one_hot", method=False)
def _one_hot(F: Any, tensor: Any, num_classes: int = -1) -> Any:
    """int64 rows that are 1 at the given class and 0 elsewhere."""
    array = tensor._array
    if array.dtype.kind not in "iu":
        raise RuntimeError(
            "one_hot is only applicable to index tensor of type LongTensor, but got "
            f"{tensor.dtype}: convert class indices with .long()"
        )
    if array.size and int(array.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes == -1:
        if not array.size:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(array.max()) + 1
    elif array.size and int(array.max()) >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    xp = backends.backend_of(array).xp
    return from_array((array[..., None] == xp.arange(num_classes)).astype(xp.int64))
