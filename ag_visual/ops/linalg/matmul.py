"""Products of vectors, matrices and batches of matrices; `@`.

`matmul` and `linear` are composites of the same nodes that torch makes of them. Rules are written
without conjugation: the engine conjugates for complex results.
"""

from __future__ import annotations

import functools
import math
import re
import string
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from ag_visual import dtypes, promotion
from ag_visual.core.source import evaluated
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.codegen import build
from ag_visual.dispatch.dims import broadcast
from ag_visual.dispatch.dtype_errors import in_macros, told
from ag_visual.dispatch.families import number_in
from ag_visual.dispatch.record import ErrorSample, Sample, on_arrays
from ag_visual.dispatch.table import composite, functions, op, ops
from ag_visual.dispatch.vmap import Batch
from ag_visual.errors import type_name


def _turned(F: Any, x: Any) -> Any:
    """A matrix, or each matrix of a batch, transposed."""
    if F.xp is not None:
        return x.T if x.ndim == 2 else x.swapaxes(-1, -2)
    return F.t(x) if x.ndim == 2 else F.transpose(x, -2, -1)


def _by_columns(strides: Any) -> bool:
    """Whether a matrix lies in memory column by column, as a transposed weight does."""
    return bool(strides[0] < strides[1])


_DTYPES = {
    "mm": "expected m1 and m2 to have the same dtype, but got: {} != {}",
    "addmm": "mat1 and mat2 must have the same dtype, but got {} and {}",
    "bmm": "expected scalar type {} but found {}",
    "dot": "dot : expected both vectors to have same dtype, but found {} and {}",
    "vdot": "vdot : expected both vectors to have same dtype, but found {} and {}",
    "mv": "addmv input tensors must have the same dtype, but got {1}, {0}, and {1}",
    "self": "self and mat2 must have the same dtype, but got {} and {}",
}
"""What torch says of factors of different dtypes."""


def _same_dtype(name: str, *arrays: Any) -> None:
    if arrays[0].dtype != arrays[1].dtype:
        kinds = [dtypes.of_array(a) for a in arrays]
        named = [(in_macros if name == "mm" else told)(kind) for kind in kinds]
        raise RuntimeError(
            f"{_DTYPES[name].format(*named)}. Convert one of them, .to({kinds[0]}) or "
            f".to({kinds[1]})."
        )


def _product(xp: Any, a: Any, b: Any) -> Any:
    """xp.matmul in the dtype of its arguments: NumPy multiplies bfloat16 into float32."""
    result = xp.matmul(a, b)
    return result if result.dtype == a.dtype else result.astype(a.dtype)


def _scaled(x: Any, factor: Any) -> Any:
    """x * factor in the dtype of x: NumPy makes float32 of bfloat16 times a Python float."""
    result = x * factor
    return result.astype(x.dtype) if x.dtype.kind == "V" else result


def multiplied(batch: Batch, left: str, right: str) -> Any:
    """The matrix product of the slices of two inputs; vectors are rows on the left."""
    F = batch.F
    ranks = batch.rank(left), batch.rank(right)
    a, b = batch[left], batch[right]
    if batch.op.name == "addr":
        return F.mul(F.unsqueeze(a, -1), F.unsqueeze(b, -2))
    if ranks[0] == 1:
        a = F.unsqueeze(a, -2)
    if ranks[1] == 1:
        b = F.unsqueeze(b, -1)
    if max(ranks) == 3 and min(ranks) == 3:
        # Three dimensions are a batch already: what has no other is broadcast.
        a, b = (x if x.ndim == 4 else F.unsqueeze(x, 0) for x in (a, b))
    found = F.matmul(a, b)
    if ranks[1] == 1:
        found = F.squeeze(found, -1)
    return F.squeeze(found, -1) if ranks[0] == 1 else found


def multiply_slices(batch: Batch) -> Any:
    left, right = batch.op.inputs
    if batch.op.name == "vdot":
        batch = batch.changed(self=batch.F.conj(batch.full("self")))
    return multiplied(batch, left, right)


# Vectors and matrices -----------------------------------------------------------------------------


_BLAS = frozenset(numpy.dtype(c) for c in "fdFD")


# The method is 0.9 us faster on a small matrix than matmul, which is a ufunc.
@on_arrays(
    "self.dot(mat2) if self.ndim == 2 == mat2.ndim and self.dtype is mat2.dtype "
    "and self.dtype in _BLAS else call(xp, self, mat2)"
)
def _mm(xp: Any, self: Any, mat2: Any) -> Any:
    dtype = self.dtype
    if self.ndim == 2 == mat2.ndim and mat2.dtype is dtype and dtype in _BLAS:
        try:
            return self.dot(mat2)
        except ValueError:
            pass  # the shapes: said below
    if self.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(
            f"mm: {'self' if self.ndim != 2 else 'mat2'} must be a matrix, but the factors have "
            f"{self.ndim} and {mat2.ndim} dimensions; use matmul (@)"
        )
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            "mat1 and mat2 shapes cannot be multiplied "
            f"({self.shape[0]}x{self.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]}): the columns "
            f"of the first ({self.shape[1]}) must be as many as the rows of the second "
            f"({mat2.shape[0]}); .T transposes a matrix"
        )
    if self.dtype != mat2.dtype:
        _same_dtype("mm", self, mat2)
    return _product(xp, self, mat2)


# Shapes and dtypes of what a backward multiplies are known to fit: BLAS at once, without a call
# in between.


@on_arrays("g.dot(mat2.T) if g.dtype in _BLAS else call(F, g, mat2)")
def _left(F: Any, g: Any, mat2: Any) -> Any:
    """The gradient of the left factor."""
    xp = F.xp
    if xp is None:
        return F.mm(g, F.t(mat2))
    return g.dot(mat2.T) if g.dtype in _BLAS else _product(xp, g, mat2.T)


@on_arrays(
    "self.T.dot(g) if mat2_strides[0] >= mat2_strides[1] and g.dtype in _BLAS "
    "else call(F, g, self, mat2_strides)"
)
def _right(F: Any, g: Any, self: Any, mat2_strides: Any) -> Any:
    """The gradient of the right factor, laid out in memory as that factor is."""
    xp = F.xp
    if xp is None:
        if _by_columns(mat2_strides):
            return _turned(F, F.mm(_turned(F, g), self))
        return F.mm(_turned(F, self), g)
    if _by_columns(mat2_strides):
        return (g.T.dot(self) if g.dtype in _BLAS else _product(xp, g.T, self)).T
    return self.T.dot(g) if g.dtype in _BLAS else _product(xp, self.T, g)


def _mm_samples(make: Any) -> Iterator[Sample]:
    yield Sample((make((3, 4)), make((4, 2))))
    yield Sample((make((3, 4)), make((2, 4)).T))
    yield Sample((make((1, 3)), make((3, 1))))
    yield Sample((make((2, 0)), make((0, 3))))


def _mm_errors(make: Any) -> Iterator[ErrorSample]:
    yield ErrorSample((make((2, 3)), make((4, 5))), RuntimeError, "cannot be multiplied (2x3 and")
    yield ErrorSample((make((2, 3)), make((3,))), RuntimeError, "mat2 must be a matrix")


op(
    "mm",
    _mm,
    vjp={
        "self": _left,
        "mat2": _right,
    },
    jvp={
        "self": lambda F, t_self, mat2: F.mm(t_self, mat2),
        "mat2": lambda F, t_mat2, self: F.mm(self, t_mat2),
    },
    batch=multiply_slices,
    samples=_mm_samples,
    errors=_mm_errors,
    reference=lambda np, a, b: np.einsum("ij,jk->ik", a, b),
    doc="The product of two matrices.",
    formula=lambda self, mat2: self @ mat2,
)


def _bmm(xp: Any, self: Any, mat2: Any) -> Any:
    if self.ndim != 3 or mat2.ndim != 3:
        raise RuntimeError(
            f"batch{1 if self.ndim != 3 else 2} must be a 3D tensor: batch1 has {self.ndim} and "
            f"batch2 {mat2.ndim} dimensions"
        )
    if self.shape[0] != mat2.shape[0] or self.shape[2] != mat2.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{self.shape[0]}, "
            f"{self.shape[2]}] but got: [{mat2.shape[0]}, {mat2.shape[1]}]."
        )
    if self.dtype != mat2.dtype:
        _same_dtype("bmm", self, mat2)
    return _product(xp, self, mat2)


def _bmm_samples(make: Any) -> Iterator[Sample]:
    yield Sample((make((2, 3, 4)), make((2, 4, 2))))
    yield Sample((make((2, 3, 4)), make((2, 2, 4)).swapaxes(1, 2)))


op(
    "bmm",
    _bmm,
    vjp={
        "self": lambda F, g, mat2: F.bmm(g, _turned(F, mat2)),
        "mat2": lambda F, g, self: F.bmm(_turned(F, self), g),
    },
    jvp={
        "self": lambda F, t_self, mat2: F.bmm(t_self, mat2),
        "mat2": lambda F, t_mat2, self: F.bmm(self, t_mat2),
    },
    batch=multiply_slices,
    samples=_bmm_samples,
    errors=lambda make: iter(
        [ErrorSample((make((2, 3, 4)), make((2, 5, 4))), RuntimeError, "but got: [2, 5]")]
    ),
    reference=lambda np, a, b: np.einsum("bij,bjk->bik", a, b),
    doc="The products of matrices in two batches.",
    formula=lambda self, mat2: self @ mat2,
)


def _mv(xp: Any, self: Any, vec: Any) -> Any:
    if self.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got {self.ndim}D tensor and {vec.ndim}D tensor"
        )
    if self.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({self.shape[0]}), mat ({self.shape[0]}x{self.shape[1]}), "
            f"vec ({vec.shape[0]})"
        )
    if self.dtype != vec.dtype:
        _same_dtype("mv", self, vec)
    return _product(xp, self, vec)


def _outer_product(a: Any, b: Any) -> Any:
    return a.reshape((-1, 1)) * b


op(
    "mv",
    _mv,
    vjp={
        "self": lambda g, vec: _outer_product(g, vec),
        "vec": lambda F, g, self: F.mv(_turned(F, self), g),
    },
    jvp={
        "self": lambda F, t_self, vec: F.mv(t_self, vec),
        "vec": lambda F, t_vec, self: F.mv(self, t_vec),
    },
    batch=multiply_slices,
    samples=lambda make: iter(
        [Sample((make((3, 4)), make((4,)))), Sample((make((4, 3)).T, make((4,))))]
    ),
    errors=lambda make: iter(
        [ErrorSample((make((2, 3)), make((4,))), RuntimeError, "size mismatch")]
    ),
    reference=lambda np, a, b: np.einsum("ij,j->i", a, b),
    doc="A matrix times a vector.",
    formula=lambda self, vec: self @ vec,
)


def _check_vectors(name: str, self: Any, tensor: Any) -> None:
    if self.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {self.ndim}D and {tensor.ndim}D tensors")
    if self.shape != tensor.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{self.size}] and src [{tensor.size}] to "
            "have the same number of elements, but got "
            f"{self.size} and {tensor.size} elements respectively"
        )
    if self.dtype != tensor.dtype:
        _same_dtype(name, self, tensor)


def _dot(xp: Any, self: Any, tensor: Any) -> Any:
    _check_vectors("dot", self, tensor)
    return xp.dot(self, tensor)


def _vector_samples(make: Any) -> Iterator[Sample]:
    yield Sample((make((4,)), make((4,))))
    yield Sample((make((0,)), make((0,))))


def _vector_errors(make: Any) -> Iterator[ErrorSample]:
    yield ErrorSample((make((3,)), make((4,))), RuntimeError, "inconsistent tensor size")
    yield ErrorSample((make((2, 3)), make((3,))), RuntimeError, "1D tensors expected")


op(
    "dot",
    _dot,
    vjp={"self": lambda g, tensor: g * tensor, "tensor": lambda g, self: g * self},
    jvp={
        "self": lambda F, t_self, tensor: F.dot(t_self, tensor),
        "tensor": lambda F, t_tensor, self: F.dot(self, t_tensor),
    },
    batch=multiply_slices,
    samples=_vector_samples,
    errors=_vector_errors,
    reference=lambda np, a, b: np.sum(a * b),
    doc="The sum of products of two vectors (nothing is conjugated).",
)


def _vdot(xp: Any, self: Any, other: Any) -> Any:
    _check_vectors("vdot", self, other)
    return xp.vdot(self, other)


op(
    "vdot",
    _vdot,
    vjp={"self": lambda F, g, other: F.conj(g) * other, "other": lambda g, self: g * self},
    holomorphic=False,
    jvp={
        "self": lambda F, t_self, other: F.vdot(t_self, other),
        "other": lambda F, t_other, self: F.vdot(self, t_other),
    },
    batch=multiply_slices,
    samples=_vector_samples,
    errors=_vector_errors,
    doc="The sum of conj(self_i) other_i of two vectors.",
)

# Products that are added --------------------------------------------------------------------------


def _plus(xp: Any, self: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta * self + alpha * product; a zero beta ignores self, NaN included, as torch does."""
    if product.dtype.kind in "iub":
        alpha, beta = number_in(alpha, product.dtype), number_in(beta, product.dtype)
    if alpha != 1:
        product = _scaled(product, alpha)
    if beta == 0:
        return product
    if beta != 1:
        self = _scaled(self, beta)
    if product.ndim and numpy.broadcast_shapes(self.shape, product.shape) != product.shape:
        raise RuntimeError(
            f"The expanded size of the tensor must match: self {list(self.shape)} does not "
            f"broadcast to the product's shape {list(product.shape)}"
        )
    return self + product


def _plus_alike(xp: Any, self: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """`_plus` for all but addr."""
    if self.dtype != product.dtype:
        _same_dtype("self", self, product)
    return _plus(xp, self, product, beta, alpha)


def _plus_promoted(xp: Any, self: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """`_plus` of addr."""
    self, product = _in_common(self, product)
    for name, factor in (("alpha", alpha), ("beta", beta)):
        if product.dtype.kind in "iub" and isinstance(factor, (float, complex)):
            raise RuntimeError(
                f"For integral input tensors, argument {name} must not be a floating point number."
            )
    return _plus(xp, self, product, beta, alpha)


def _mm_added(xp: Any, mat1: Any, mat2: Any) -> Any:
    if mat1.dtype != mat2.dtype:
        _same_dtype("addmm", mat1, mat2)
    return _mm(xp, mat1, mat2)


def _times(x: Any, factor: Any) -> Any:
    return x if factor == 1 else x * factor


def _addition(
    name: str,
    left: str,
    right: str,
    product: Callable[..., Any],
    rules: tuple[Callable[..., Any], Callable[..., Any]],
    shapes: tuple[tuple[int, ...], ...],
    strides: bool = False,
    *,
    doc: str,
) -> None:
    """beta * self + alpha * (left x right), with the rules of the product."""
    fact = f", {right}_strides" if strides else ""
    plus = _plus_promoted if name == "addr" else _plus_alike
    scope: dict[str, Any] = {"product": product, "plus": plus, "times": _times}
    scope["rule_left"], scope["rule_right"] = rules
    kernel = (
        f"lambda xp, self, {left}, {right}, *, beta=1, alpha=1: "
        f"plus(xp, self, product(xp, {left}, {right}), beta, alpha)"
    )
    given = f", {right}_strides" if strides else ""
    vjp = {
        "self": lambda g, beta: _times(g, beta),
        left: evaluated(
            f"lambda F, g, {right}, alpha: times(rule_left(F, g, {right}), alpha)", scope
        ),
        right: evaluated(
            f"lambda F, g, {left}{fact}, alpha: times(rule_right(F, g, {left}{given}), alpha)",
            scope,
        ),
    }

    def samples(make: Any) -> Iterator[Sample]:
        for shape in shapes[:-2]:
            yield Sample((make(shape), make(shapes[-2]), make(shapes[-1])))
        yield Sample(
            (make(shapes[0]), make(shapes[-2]), make(shapes[-1])), {"beta": 0.5, "alpha": -2}
        )

    def slices(batch: Batch) -> Any:
        """The product of the slices, and what is added to it."""
        F = batch.F
        found = multiplied(batch, left, right)
        if left not in batch and right not in batch and name not in ("addbmm", "baddbmm"):
            found = F.unsqueeze(found, 0)
        rank = found.ndim - 1
        if name == "addbmm":
            found = F.sum(found, 1)
            rank -= 1
        scaled = found if batch["alpha"] == 1 else found * batch["alpha"]
        if batch["beta"] == 0:
            return scaled
        return scaled + batch.padded("self", rank) * batch["beta"]

    op(
        name,
        evaluated(kernel, scope),
        vjp=vjp,
        jvp={
            "self": lambda F, t_self, result, beta: F.expand(
                _times(t_self, beta), tuple(result.shape)
            ),
            left: evaluated(
                f"lambda F, self, t_{left}, {right}, alpha: "
                f"F.{name}(self, t_{left}, {right}, beta=0, alpha=alpha)",
                scope,
            ),
            right: evaluated(
                f"lambda F, self, {left}, t_{right}, alpha: "
                f"F.{name}(self, {left}, t_{right}, beta=0, alpha=alpha)",
                scope,
            ),
        },
        batch=slices,
        inputs=("self", left, right),
        inplace=True,
        # torch computes addr element by element, the others whole.
        free=() if name == "addr" else (left, right),
        samples=samples,
        doc=doc,
        formula=evaluated(
            f"lambda self, {left}, {right}, beta, alpha: beta * self + alpha * ({left} @ {right})",
            scope,
        )
        if name not in ("addbmm", "addr")
        else None,
    )


def _addbmm_left(F: Any, g: Any, batch2: Any) -> Any:
    return F.bmm(_repeated(F, g, batch2), _turned(F, batch2))


def _addbmm_right(F: Any, g: Any, batch1: Any) -> Any:
    return F.bmm(_turned(F, batch1), _repeated(F, g, batch1))


def _repeated(F: Any, g: Any, batch: Any) -> Any:
    return F.expand(g, (batch.shape[0], *g.shape))


def _in_common(*arrays: Any) -> tuple[Any, ...]:
    """Arrays in the dtype that torch gives them together, 0-d ones counting like others."""
    kinds = [dtypes.of_array(a) for a in arrays]
    common = functools.reduce(promotion.promote_types, kinds).np
    return tuple(a.astype(common, copy=False) for a in arrays)


def _bmm_added(xp: Any, batch1: Any, batch2: Any) -> Any:
    products = _bmm(xp, batch1, batch2)
    whole = products.dtype if products.dtype.kind in "iu" else None
    return products.sum(axis=0, dtype=whole)


def _outer_kernel(xp: Any, vec1: Any, vec2: Any) -> Any:
    vec1, vec2 = _in_common(vec1, vec2)
    return vec1.reshape(-1, 1) * vec2


_addition(
    "addmm",
    "mat1",
    "mat2",
    _mm_added,
    (_left, _right),
    ((3, 2), (2,), (3, 1), (3, 4), (4, 2)),
    strides=True,
    doc="beta * self + alpha * (mat1 @ mat2).",
)
_addition(
    "addmv",
    "mat",
    "vec",
    _mv,
    (lambda F, g, vec: _outer_product(g, vec), lambda F, g, mat: F.mv(_turned(F, mat), g)),
    ((3,), (), (3, 4), (4,)),
    doc="beta * self + alpha * (mat @ vec).",
)
_addition(
    "baddbmm",
    "batch1",
    "batch2",
    _bmm,
    (
        lambda F, g, batch2: F.bmm(g, _turned(F, batch2)),
        lambda F, g, batch1: F.bmm(_turned(F, batch1), g),
    ),
    ((2, 3, 2), (3, 1), (2, 3, 4), (2, 4, 2)),
    doc="beta * self + alpha * (batch1 @ batch2), batch by batch.",
)
_addition(
    "addbmm",
    "batch1",
    "batch2",
    _bmm_added,
    (_addbmm_left, _addbmm_right),
    ((3, 2), (2,), (2, 3, 4), (2, 4, 2)),
    doc="beta * self + alpha * the sum of the products of both batches.",
)
_addition(
    "addr",
    "vec1",
    "vec2",
    _outer_kernel,
    (lambda F, g, vec2: F.mv(g, vec2), lambda F, g, vec1: F.mv(_turned(F, g), vec1)),
    ((3, 4), (4,), (3,), (4,)),
    doc="beta * self + alpha * the outer product of two vectors.",
)

# Composites ---------------------------------------------------------------------------------------


def _folds(tensor1: Any, tensor2: Any) -> bool:
    """Whether the larger factor is folded into a matrix (torch's should_fold)."""
    larger, smaller = (tensor1, tensor2) if tensor1.ndim >= tensor2.ndim else (tensor2, tensor1)
    if not (larger.ndim >= 3 and smaller.ndim <= 2):
        return False
    if smaller.requires_grad:
        return True
    if tensor1.ndim == 2:
        return False
    array = larger._array if larger is tensor1 else larger._array.swapaxes(-1, -2)
    if array.size == 0:
        return True
    return all(
        array.strides[i] == array.strides[i + 1] * array.shape[i + 1] for i in range(array.ndim - 2)
    )


def _folded(F: Any, tensor1: Any, tensor2: Any) -> Any:
    turn = tensor2.ndim > tensor1.ndim
    many = F.transpose(tensor2, -2, -1) if turn else tensor1
    few = (F.t(tensor1) if tensor1.ndim == 2 else tensor1) if turn else tensor2
    shape = tuple(many.shape)
    matrix = F.reshape(many, (math.prod(shape[:-1]), shape[-1]))
    if few.ndim == 1:
        return F.unsafe_view(F.mv(matrix, few), shape[:-1])
    result = F.unsafe_view(F.mm(matrix, few), (*shape[:-1], few.shape[1]))
    return F.contiguous(F.transpose(result, -2, -1)) if turn else result


def _batched(F: Any, tensor1: Any, tensor2: Any) -> Any:
    shape1, shape2 = tuple(tensor1.shape), tuple(tensor2.shape)
    rows = shape1[-2] if len(shape1) > 1 else 1
    columns = shape2[-1] if len(shape2) > 1 else 1
    inner2 = shape2[-2] if len(shape2) > 1 else shape2[-1]
    batch = broadcast(shape1[:-2], shape2[:-2])
    left = F.expand(tensor1, (*batch, rows, shape1[-1]))
    left = F.reshape(left, (math.prod(batch), rows, shape1[-1]))
    if len(shape2) == 1:
        right = F.expand(tensor2, (*batch, inner2))
        right = F.unsqueeze(F.reshape(right, (math.prod(batch), inner2)), 2)
    else:
        right = F.expand(tensor2, (*batch, inner2, columns))
        right = F.reshape(right, (math.prod(batch), inner2, columns))
    shape = (
        *batch,
        *((rows,) if len(shape1) > 1 else ()),
        *((columns,) if len(shape2) > 1 else ()),
    )
    return F.unsafe_view(F.bmm(left, right), shape)


@composite("matmul", out=True)
def _matmul(F: Any, self: Any, other: Any) -> Any:
    """The product of vectors, matrices or (broadcasting) batches of matrices.

    (n) x (n) is a number, (n, k) x (k) a vector, (n, k) x (k, m) a matrix, and
    (..., n, k) x (..., k, m) a batch; a vector on the left is a row.
    """
    if F.xp is not None:
        return _product(F.xp, self, other)
    if not isinstance(self, Tensor) or not isinstance(other, Tensor):
        bad = other if isinstance(self, Tensor) else self
        raise TypeError(f"matmul(): argument must be Tensor, not {type_name(bad)}")
    one, two = self._array.ndim, other._array.ndim
    if one == 2 and two == 2:
        return F.mm(self, other)
    if one == 0 or two == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {one}D and {two}D"
        )
    if one == 1 and two == 1:
        return F.dot(self, other)
    if one == 2 and two == 1:
        return F.mv(self, other)
    if one == 1 and two == 2:
        return F.mm(F.unsqueeze(self, 0), other)._squeeze_dim_(0)
    if _folds(self, other):
        return _folded(F, self, other)
    return _batched(F, self, other)


def _matmul_operator(self: Tensor, other: Any) -> Any:
    if isinstance(other, numpy.ndarray):
        # As torch, where NumPy multiplies: it cannot where grad is required.
        return from_array(numpy.asarray(numpy.matmul(self.numpy(), other)))
    return functions["matmul"](self, other) if isinstance(other, Tensor) else NotImplemented


def _rmatmul_operator(self: Tensor, other: Any) -> Any:
    return functions["matmul"](other, self) if isinstance(other, Tensor) else NotImplemented


# Of the products, that of two matrices has the built wrapper at once; its kernel refuses others.
Tensor.__matmul__ = build.forward(ops["mm"], reference=_matmul_operator)
Tensor.__rmatmul__ = _rmatmul_operator


@composite("linear", method=False, out=True)
def _linear(F: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias: (..., in) to (..., out) with weight (out, in), bias (out)."""
    if F.xp is not None:
        product = _product(F.xp, input, weight.T)
        return product if bias is None else product + bias
    if bias is None:
        return F.matmul(input, F.t(weight))
    ndim = input._array.ndim
    if ndim == 2:
        return F.addmm(bias, input, F.t(weight))
    if ndim and weight.ndim == 2 and input._array.flags.c_contiguous:
        shape = tuple(input.shape)
        flat = F.view_size(input, (math.prod(shape[:-1]), shape[-1]))
        return F.view_size(F.addmm(bias, flat, F.t(weight)), (*shape[:-1], weight.shape[0]))
    return F.add(F.matmul(input, F.t(weight)), bias)


@composite("outer", aliases=("ger",), out=True)
def _outer(F: Any, self: Any, vec2: Any) -> Any:
    """The matrix of all products of elements of two vectors."""
    if self.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(
            f"outer: Expected 1-D arguments, but got {self.ndim}-D and {vec2.ndim}-D"
        )
    return F.mul(F.reshape(self, (self.shape[0], 1)), vec2)


@composite("inner", out=True)
def _inner(F: Any, self: Any, other: Any) -> Any:
    """Sums of products over the last dimensions of both."""
    if self.ndim == 0 or other.ndim == 0:
        return F.mul(self, other)
    return F.tensordot(self, other, ([-1], [-1]))


@composite("tensordot", method=False, out=True)
def _tensordot(F: Any, a: Any, b: Any, dims: Any = 2) -> Any:
    """Sums of products over `dims` dimensions (the last of a, the first of b), or two lists."""
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = (range(-dims, 0), range(dims))
    first = [d % a.ndim for d in dims[0]]
    second = [d % b.ndim for d in dims[1]]
    for at, (i, j) in enumerate(zip(first, second, strict=True)):
        if a.shape[i] == 1 != b.shape[j]:
            b = F.sum(b, j, True, dtype=b.dtype)
        elif b.shape[j] == 1 != a.shape[i]:
            a = F.sum(a, i, True, dtype=a.dtype)
        elif a.shape[i] != b.shape[j]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim "
                f"{dims[0][at]} and second has size {b.shape[j]} in dim {dims[1][at]}"
            )
    free1 = [i for i in range(a.ndim) if i not in first]
    free2 = [i for i in range(b.ndim) if i not in second]
    sizes1, sizes2 = [a.shape[i] for i in free1], [b.shape[i] for i in free2]
    inner = math.prod(a.shape[i] for i in first)
    left = F.reshape(F.permute(a, tuple(free1 + first)), (math.prod(sizes1), inner))
    right = F.reshape(F.permute(b, tuple(second + free2)), (inner, math.prod(sizes2)))
    return F.reshape(F.mm(left, right), (*sizes1, *sizes2))


@composite("kron", out=True)
def _kron(F: Any, self: Any, other: Any) -> Any:
    """The Kronecker product."""
    ndim = max(self.ndim, other.ndim)
    a = (1,) * (ndim - self.ndim) + tuple(self.shape)
    b = (1,) * (ndim - other.ndim) + tuple(other.shape)
    left = F.reshape(self, tuple(n for size in a for n in (size, 1)))
    right = F.reshape(other, tuple(n for size in b for n in (1, size)))
    return F.unsafe_view(F.mul(left, right), tuple(m * n for m, n in zip(a, b, strict=True)))


# Einstein's sums ----------------------------------------------------------------------------------


_WITHOUT_ELLIPSIS = re.compile("[a-zA-Z, ]*(->[a-zA-Z ]*)?")


def _check_equation(equation: str) -> None:
    """RuntimeError unless there are letters, commas, one arrow, one ellipsis for each term."""
    if _WITHOUT_ELLIPSIS.fullmatch(equation):
        return
    arrow = equation.find("->")
    left = len(equation) if arrow < 0 else arrow
    operand, at, dots = 0, 0, False
    while at < len(equation):
        what = f"operand {operand}" if at < left else "output"
        step = 1
        if at == arrow:
            step, dots = 2, False
        elif equation[at] == ".":
            if dots:
                but = "but" if at > left else "for which"
                raise RuntimeError(
                    f"einsum(): found '.' for {what} {but} an ellipsis (...) was already found: "
                    f"{equation!r}"
                )
            if not equation.startswith("...", at):
                raise RuntimeError(
                    f"einsum(): found '.' for {what} that is not part of any ellipsis (...): "
                    f"{equation!r}"
                )
            step, dots = 3, True
        elif equation[at] == "," and at < left:
            operand, dots = operand + 1, False
        elif equation[at] not in string.ascii_letters + " ":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {at} in the equation string, "
                f"subscripts must be in [a-zA-Z]: {equation!r}"
            )
        at += step


_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def _letters(subscripts: Any) -> str:
    """The part of an equation that a list of numbers and `...` stands for: [0, 27] is "Ab"."""
    if not isinstance(subscripts, (list, tuple)):
        raise TypeError(
            "einsum(): expected a list of subscripts after each operand, but got "
            f"{type(subscripts).__name__}"
        )
    for x in subscripts:
        if x is not Ellipsis and not isinstance(x, int):
            raise TypeError(
                f"einsum(): a subscript must be int or Ellipsis, not {type(x).__name__}"
            )
        if x is not Ellipsis and not 0 <= x < len(_LETTERS):
            raise ValueError(
                "einsum(): subscript in subscript list is not within the valid range "
                f"[0, {len(_LETTERS)}): {x}"
            )
    return "".join("..." if x is Ellipsis else _LETTERS[x] for x in subscripts)


def _equation_of(args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation and the operands of `einsum(x, [0, 1], y, [1, 2], [0, 2])`."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    pairs = len(args) // 2 * 2
    equation = ",".join(map(_letters, args[1:pairs:2]))
    if len(args) > pairs:
        equation += f"->{_letters(args[-1])}"
    return equation, args[0:pairs:2]


def _subscripts(equation: str, ndims: list[int]) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand and of the result; an ellipsis becomes labels of its own."""
    _check_equation(equation)
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        amount = "more" if len(terms) < len(ndims) else "fewer"
        raise RuntimeError(
            f"einsum(): {amount} operands were provided than specified in the equation: "
            f"{len(ndims)} for {equation!r}"
        )
    longest = 0
    for i, (term, ndim) in enumerate(zip(terms, ndims, strict=True)):
        named = len(term.replace("...", ""))
        if named > ndim or ("..." not in term and named != ndim):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) does not match the "
                f"number of dimensions ({ndim}) for operand {i}"
                f"{'' if '...' in term else ' and no ellipsis was given'}"
            )
        longest = max(longest, ndim - named if "..." in term else 0)
    extra = [f"...{i}" for i in range(longest)]

    def labels(term: str, ndim: int) -> list[str]:
        before, dots, after = term.partition("...")
        rest = extra[len(extra) - (ndim - len(before) - len(after)) :] if dots else []
        return [*before, *rest, *after]

    found = [labels(term, ndim) for term, ndim in zip(terms, ndims, strict=True)]
    if arrow:
        letters = right.replace("...", "")
        for x in letters:
            if letters.count(x) > 1:
                raise RuntimeError(
                    f"einsum(): output subscript {x} appears more than once in the output: "
                    f"{right!r}"
                )
        named = len(letters)
        return found, labels(right, named + longest if "..." in right else named)
    seen = [label for term in found for label in term]
    return found, [*extra, *sorted({x for x in seen if seen.count(x) == 1 and x not in extra})]


def _check_sizes(terms: list[list[str]], operands: Sequence[Any]) -> None:
    """One label, one size (or 1)."""
    seen: dict[str, int] = {}
    for i, (labels, x) in enumerate(zip(terms, operands, strict=True)):
        for label, size in zip(labels, x.shape, strict=True):
            known = seen.get(label, 1)
            if size != known and size != 1 and known != 1:
                raise RuntimeError(
                    f"einsum(): subscript {label} has size {size} for operand {i} which does not "
                    f"broadcast with previously seen size {known}"
                )
            seen[label] = size if known == 1 else known


def _diagonals(F: Any, x: Any, labels: list[str]) -> tuple[Any, list[str]]:
    """Labels that repeat within one operand, as diagonals."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = F.movedim(F.diagonal(x, 0, i, j), -1, i)
            labels = labels[:j] + labels[j + 1 :]
    return x, labels


def _aligned(F: Any, x: Any, labels: list[str], order: list[str]) -> Any:
    """An operand with one dimension for each label of `order`, of size 1 where it has none."""
    missing = [label for label in order if label not in labels]
    for _ in missing:
        x = F.unsqueeze(x, x.ndim)
    labels = labels + missing
    return F.permute(x, tuple(labels.index(label) for label in order))


def _sum_of_products(F: Any, left: Any, right: Any, summed: list[int]) -> Any:
    """Two aligned operands multiplied and summed over dimensions that both have: one bmm."""
    # Where nothing is summed torch multiplies, which promotes; a batched product does not.
    if not summed:
        return F.mul(left, right)
    both: list[int] = []
    ours: list[int] = []
    theirs: list[int] = []
    for i, (m, n) in enumerate(zip(left.shape, right.shape, strict=True)):
        if i not in summed:
            (both if m != 1 != n else ours if m != 1 else theirs).append(i)
    if ours and theirs and theirs[-1] < ours[0]:
        # The result is wanted the other way round: no need to transpose it.
        left, right, ours, theirs = right, left, theirs, ours

    def arranged(x: Any, *groups: list[int]) -> Any:
        rest = theirs if groups[1] is ours else ours
        x = F.permute(x, tuple(i for group in (*groups, rest) for i in group))
        count = len(x.shape) - len(rest)
        sizes = iter(tuple(x.shape)[:count])
        return F.reshape(x, tuple(math.prod(next(sizes) for _ in group) for group in groups))

    product = F.bmm(arranged(left, both, ours, summed), arranged(right, both, summed, theirs))
    order = both + ours + summed + theirs
    shape = [left.shape[i] for i in both + ours] + [1] * len(summed)
    shape += [right.shape[i] for i in theirs]
    places = tuple(order.index(i) for i in range(len(order)))
    return F.permute(F.view_size(product, tuple(shape)), places)


@composite("einsum", method=False)
def _einsum(F: Any, equation: str, *operands: Any) -> Any:
    """Products of operands, summed over the labels that the result does not name.

    `einsum("bij,bjk->bik", x, y)` is a batch of matrix products; so is the form with numbers,
    `einsum(x, [0, 1, 2], y, [0, 2, 3], [0, 1, 3])`.
    """
    if not isinstance(equation, str):
        if not hasattr(equation, "ndim"):
            raise TypeError(
                "einsum(): argument 'equation' (position 1) must be str, not "
                f"{type(equation).__name__}"
            )
        equation, operands = _equation_of((equation, *operands))
    if not operands:
        _equation_of(())
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    for i, x in enumerate(operands):
        if not isinstance(x, Tensor) and F.xp is None:
            raise TypeError(
                f"einsum(): expected Tensor as element {i} in argument 1, but got {type_name(x)}"
            )
    terms, output = _subscripts(equation, [x.ndim for x in operands])
    for label in output:
        if not any(label in term for term in terms):
            raise RuntimeError(
                f"einsum(): output subscript {label} does not appear in the equation for any "
                f"input operand: {equation}"
            )
    _check_sizes(terms, operands)
    names = {label for term in terms for label in term}
    order = [*output, *sorted(names - set(output))]
    pairs = (_diagonals(F, x, labels) for x, labels in zip(operands, terms, strict=True))
    aligned = [_aligned(F, x, labels, order) for x, labels in pairs]
    inner = range(len(output), len(order))
    if len(aligned) == 1:
        return F.sum(aligned[0], tuple(inner)) if inner else aligned[0]
    # How many operands still have a dimension that is to be summed.
    left = [sum(x.shape[i] != 1 for x in aligned) for i in range(len(order))]
    result = aligned[0]
    for x in aligned[1:]:
        summed: list[int] = []
        alone: tuple[list[int], list[int]] = ([], [])
        for i in inner:
            if result.shape[i] != 1 != x.shape[i]:
                left[i] -= 1
                if left[i] == 1:
                    summed.append(i)
                    left[i] = 0
            elif left[i] == 1 and (result.shape[i] != 1 or x.shape[i] != 1):
                alone[result.shape[i] == 1].append(i)
                left[i] = 0
        result = F.sum(result, tuple(alone[0]), True) if alone[0] else result
        x = F.sum(x, tuple(alone[1]), True) if alone[1] else x
        result = _sum_of_products(F, result, x, summed)
    return F.view_size(result, tuple(result.shape)[: len(output)]) if inner else result
