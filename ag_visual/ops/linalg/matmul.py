"""Products of vectors, matrices and batches of matrices; `@`.

`matmul` and `linear` are composites of the same nodes that torch makes of them. Rules are written
without conjugation: the engine conjugates for complex results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.codegen.forward import forward
from ag_visual.dispatch.dims import broadcast
from ag_visual.dispatch.dtype_errors import in_macros
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.rules import inlined
from ag_visual.dispatch.table import composite, functions, op, ops
from ag_visual.dispatch.vmap import Batch
from ag_visual.errors import type_name


def _turned(F: Any, x: Any) -> Any:
    """A matrix, or each matrix of a batch, transposed."""
    if not F.traced:
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


def same_dtype(name: str, *arrays: Any) -> None:
    if arrays[0].dtype != arrays[1].dtype:
        kinds = [dtypes.of_array(a) for a in arrays]
        named = [in_macros(kind) if name == "mm" else kind.scalar_name for kind in kinds]
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
    return multiplied(batch, *batch.op.inputs)


def multiply_conjugated(batch: Batch) -> Any:
    batch = batch.changed(self=batch.F.conj(batch.full("self")))
    return multiplied(batch, *batch.op.inputs)


# Vectors and matrices -----------------------------------------------------------------------------


_BLAS = frozenset(numpy.dtype(c) for c in "fdFD")


def factors_fit(self: Any, mat2: Any) -> None:
    """Refuse what cannot be multiplied as matrices."""
    if not (hasattr(self, "ndim") and hasattr(mat2, "ndim")):
        return
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


# The method is 0.9 us faster on a small matrix than matmul, which is a ufunc.
@inlined
def _mm(xp: Any, self: Any, mat2: Any) -> Any:
    return (
        self.dot(mat2)
        if self.ndim == 2 == mat2.ndim and self.dtype is mat2.dtype and self.dtype in _BLAS
        else _other_mm(xp, self, mat2)
    )


def _other_mm(xp: Any, self: Any, mat2: Any) -> Any:
    factors_fit(self, mat2)
    if self.dtype != mat2.dtype:
        same_dtype("mm", self, mat2)
    return _product(xp, self, mat2)


# Shapes and dtypes of what a backward multiplies are known to fit: BLAS at once, without a call
# in between.


@inlined
def _left(F: Any, g: Any, mat2: Any) -> Any:
    """The gradient of the left factor."""
    return (
        F.mm(g, F.t(mat2))
        if F.xp is None
        else g.dot(mat2.T)
        if g.dtype in _BLAS
        else _product(F.xp, g, mat2.T)
    )


@inlined
def _right(F: Any, g: Any, self: Any, mat2_strides: Any) -> Any:
    """The gradient of the right factor, laid out in memory as that factor is."""
    return (
        self.T.dot(g)
        if F.xp is not None and mat2_strides[0] >= mat2_strides[1] and g.dtype in _BLAS
        else _other_right(F, g, self, mat2_strides)
    )


def _other_right(F: Any, g: Any, self: Any, mat2_strides: Any) -> Any:
    xp = F.xp
    if xp is None:
        if _by_columns(mat2_strides):
            return _turned(F, F.mm(_turned(F, g), self))
        return F.mm(_turned(F, self), g)
    if _by_columns(mat2_strides):
        return (g.T.dot(self) if g.dtype in _BLAS else _product(xp, g.T, self)).T
    return _product(xp, self.T, g)


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
    check=factors_fit,
    batch=multiply_slices,
    samples=_mm_samples,
    errors=_mm_errors,
    reference=lambda np, a, b: np.einsum("ij,jk->ik", a, b),
    doc="The product of two matrices.",
    formula=lambda self, mat2: self @ mat2,
    symbol="@",
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
        same_dtype("bmm", self, mat2)
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
    symbol="@",
)


def mv(xp: Any, self: Any, vec: Any) -> Any:
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
        same_dtype("mv", self, vec)
    return _product(xp, self, vec)


def outer_product(a: Any, b: Any) -> Any:
    return a.reshape((-1, 1)) * b


op(
    "mv",
    mv,
    vjp={
        "self": lambda g, vec: outer_product(g, vec),
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
    symbol="@",
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
        same_dtype(name, self, tensor)


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
    symbol="@",
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
    batch=multiply_conjugated,
    samples=_vector_samples,
    errors=_vector_errors,
    doc="The sum of conj(self_i) other_i of two vectors.",
)

# Products that are added --------------------------------------------------------------------------


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


@composite("matmul", out=True, symbol="@")
def _matmul(F: Any, self: Any, other: Any) -> Any:
    """The product of vectors, matrices or (broadcasting) batches of matrices.

    (n) x (n) is a number, (n, k) x (k) a vector, (n, k) x (k, m) a matrix, and
    (..., n, k) x (..., k, m) a batch; a vector on the left is a row.
    """
    if not F.traced:
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
Tensor.__matmul__ = forward(ops["mm"], reference=_matmul_operator)
Tensor.__rmatmul__ = _rmatmul_operator


@composite("linear", method=False, out=True, spaces="nn.functional")
def _linear(F: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias: (..., in) to (..., out) with weight (out, in), bias (out)."""
    if not F.traced:
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


@composite("outer", aliases=("ger",), out="casts check_overlap")
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


@composite("kron", out="casts check_overlap")
def _kron(F: Any, self: Any, other: Any) -> Any:
    """The Kronecker product."""
    ndim = max(self.ndim, other.ndim)
    a = (1,) * (ndim - self.ndim) + tuple(self.shape)
    b = (1,) * (ndim - other.ndim) + tuple(other.shape)
    left = F.reshape(self, tuple(n for size in a for n in (size, 1)))
    right = F.reshape(other, tuple(n for size in b for n in (1, size)))
    return F.unsafe_view(F.mul(left, right), tuple(m * n for m, n in zip(a, b, strict=True)))


# Einstein's sums ----------------------------------------------------------------------------------
