"""Products of two vectors, a matrix and a vector, two matrices, two batches of matrices: the nodes
that every other product is made of.

Rules are written without conjugation: the engine conjugates for complex results.
"""

from __future__ import annotations

from typing import Any

import numpy

from ag_visual import dtypes
from ag_visual.core.diagnosis.operands import as_written
from ag_visual.dispatch.dtype_errors import in_macros
from ag_visual.dispatch.record import ONCE, ErrorSample, Sample
from ag_visual.dispatch.rules import inlined, requesting
from ag_visual.dispatch.stated import Sliced
from ag_visual.dispatch.table import op
from ag_visual.dispatch.vmap import Batch


def _turned(F, x):
    """A matrix, or each matrix of a batch, transposed."""
    if not F.traced:
        return x.T if x.ndim == 2 else x.swapaxes(-1, -2)
    return F.t(x) if x.ndim == 2 else F.transpose(x, -2, -1)


def _by_columns(strides, rows: int) -> bool:
    """Whether a matrix lies in memory column by column, as a transposed weight does."""
    return bool(0 < strides[0] < strides[1] == strides[0] * rows)


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


def same_dtype(name: str, *arrays) -> None:
    if arrays[0].dtype != arrays[1].dtype:
        kinds = [dtypes.of_array(a) for a in arrays]
        named = [in_macros(kind) if name == "mm" else kind.scalar_name for kind in kinds]
        raise RuntimeError(
            f"{_DTYPES[name].format(*named)}. Convert one of them, .to({kinds[0]}) or "
            f".to({kinds[1]})."
        )


_IN_FLOAT32: Any = {"opmath": True, "rounding": ONCE}
"""16-bit floats are multiplied, and their products added, in float32."""


def product(xp, a, b):
    """xp.matmul in the dtype of its arguments: NumPy multiplies bfloat16 into float32."""
    result = xp.matmul(a, b)
    return result if result.dtype == a.dtype else result.astype(a.dtype)


def _scaled(x, factor):
    """x * factor in the dtype of x: NumPy makes float32 of bfloat16 times a Python float."""
    result = x * factor
    return result.astype(x.dtype) if x.dtype.kind == "V" else result


def _products(F, a, b, has_a: bool, has_b: bool):
    """The products of slices, of vectors and matrices; vectors are rows on the left."""
    left, right = a.ndim - has_a, b.ndim - has_b
    if has_a and not has_b:
        if left == 1:
            return F.mm(a, b) if right == 2 else F.mv(a, b)
        if left == right == 2:
            # All rows of all slices are the rows of one matrix.
            rows = F.reshape(a, (a.shape[0] * a.shape[1], a.shape[2]))
            return F.reshape(F.mm(rows, b), (*a.shape[:2], b.shape[1]))
    elif has_b and not has_a and right == 1:
        return F.mm(b, _turned(F, a)) if left == 2 else F.mv(b, a)
    if left == 1:
        a = F.unsqueeze(a, -2)
    if right == 1:
        b = F.unsqueeze(b, -1)
    if left == right == 3:
        # Three dimensions are a batch already: what has no other is broadcast.
        a, b = (x if x.ndim == 4 else F.unsqueeze(x, 0) for x in (a, b))
    found = F.matmul(a, b)
    if right == 1:
        found = F.squeeze(found, -1)
    return F.squeeze(found, -1 if right == 1 else -2) if left == 1 else found


def multiplied(batch: Batch, left: str, right: str):
    """The matrix product of the slices of two inputs."""
    return _products(batch.F, batch[left], batch[right], left in batch, right in batch)


def products_of(left: str, right: str) -> Sliced:
    """The batching rule of a product of two inputs."""
    return Sliced(
        requesting("F", left, right, f"has_{left}", f"has_{right}")(
            lambda *given: _products(*given)
        )
    )


def multiply_conjugated(batch: Batch):
    batch = batch.changed(self=batch.F.conj(batch.full("self")))
    return multiplied(batch, *batch.op.inputs)


# Vectors and matrices -----------------------------------------------------------------------------


_BLAS = frozenset(numpy.dtype(c) for c in "fdFD")


def factors_fit(self, mat2) -> None:
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
            f"({mat2.shape[0]}); .T transposes a matrix" + as_written(self.shape, mat2.shape)
        )


# The method is 0.9 us faster on a small matrix than matmul, which is a ufunc.
@inlined
def _mm(xp, self, mat2):
    return (
        self.dot(mat2)
        if self.ndim == 2 == mat2.ndim and self.dtype is mat2.dtype and self.dtype in _BLAS
        else _other_mm(xp, self, mat2)
    )


def _other_mm(xp, self, mat2):
    factors_fit(self, mat2)
    if self.dtype != mat2.dtype:
        same_dtype("mm", self, mat2)
    return product(xp, self, mat2)


# Shapes and dtypes of what a backward multiplies are known to fit: BLAS at once, without a call
# in between.


@inlined
def _left(F, g, mat2, self_strides):
    """The gradient of the left factor, laid out in memory as that factor is."""
    return (
        g.dot(mat2.T)
        if F.unobserved and self_strides[0] >= self_strides[1] and g.dtype in _BLAS
        else _other_left(F, g, mat2, self_strides)
    )


def _other_left(F, g, mat2, self_strides):
    xp = F.xp
    by_columns = self_strides[0] < self_strides[1] and _by_columns(self_strides, g.shape[0])
    if xp is None:
        return F.t(F.mm(mat2, F.t(g))) if by_columns else F.mm(g, F.t(mat2))
    if by_columns:
        return (mat2.dot(g.T) if F.unobserved and g.dtype in _BLAS else F.mm(mat2, g.T)).T
    return F.mm(g, mat2.T)


@inlined
def _right(F, g, self, mat2_strides):
    """The gradient of the right factor, laid out in memory as that factor is."""
    return (
        self.T.dot(g)
        if F.unobserved and mat2_strides[0] >= mat2_strides[1] and g.dtype in _BLAS
        else _other_right(F, g, self, mat2_strides)
    )


def _other_right(F, g, self, mat2_strides):
    xp = F.xp
    by_columns = mat2_strides[0] < mat2_strides[1] and _by_columns(mat2_strides, self.shape[1])
    if xp is None:
        return F.t(F.mm(F.t(g), self)) if by_columns else F.mm(F.t(self), g)
    if by_columns:
        return (g.T.dot(self) if F.unobserved and g.dtype in _BLAS else F.mm(g.T, self)).T
    return F.mm(self.T, g)


op(
    "mm",
    _mm,
    vjp={"self": _left, "mat2": _right},
    jvp={
        "self": lambda F, t_self, mat2: F.mm(t_self, mat2),
        "mat2": lambda F, t_mat2, self: F.mm(self, t_mat2),
    },
    check=factors_fit,
    batch=products_of("self", "mat2"),
    samples=lambda make: [
        Sample((make((3, 4)), make((4, 2)))),
        Sample((make((3, 4)), make((2, 4)).T)),
        Sample((make((1, 3)), make((3, 1)))),
        Sample((make((2, 0)), make((0, 3)))),
    ],
    errors=lambda make: [
        ErrorSample((make((2, 3)), make((4, 5))), RuntimeError, "cannot be multiplied (2x3 and"),
        ErrorSample((make((2, 3)), make((3,))), RuntimeError, "mat2 must be a matrix"),
    ],
    reference=lambda np, a, b: np.einsum("ij,jk->ik", a, b),
    doc="The product of two matrices.",
    formula=lambda self, mat2: self @ mat2,
    symbol="@",
    autocast="lower",
    **_IN_FLOAT32,
    operands=True,
    flops="product",
)


def _bmm(xp, self, mat2):
    if self.ndim != 3 or mat2.ndim != 3:
        raise RuntimeError(
            f"batch{1 if self.ndim != 3 else 2} must be a 3D tensor: batch1 has {self.ndim} and "
            f"batch2 {mat2.ndim} dimensions"
        )
    if self.shape[0] != mat2.shape[0] or self.shape[2] != mat2.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{self.shape[0]}, "
            f"{self.shape[2]}] but got: [{mat2.shape[0]}, {mat2.shape[1]}]."
            + as_written(self.shape, mat2.shape)
        )
    if self.dtype != mat2.dtype:
        same_dtype("bmm", self, mat2)
    return product(xp, self, mat2)


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
    batch=products_of("self", "mat2"),
    samples=lambda make: [
        Sample((make((2, 3, 4)), make((2, 4, 2)))),
        Sample((make((2, 3, 4)), make((2, 2, 4)).swapaxes(1, 2))),
    ],
    errors=lambda make: [
        ErrorSample((make((2, 3, 4)), make((2, 5, 4))), RuntimeError, "but got: [2, 5]")
    ],
    reference=lambda np, a, b: np.einsum("bij,bjk->bik", a, b),
    doc="The products of matrices in two batches.",
    formula=lambda self, mat2: self @ mat2,
    symbol="@",
    autocast="lower",
    **_IN_FLOAT32,
    operands=True,
    flops="product",
)


@inlined
def mv(xp, self, vec):
    return (
        self.dot(vec)
        if self.ndim == 2
        and vec.ndim == 1
        and self.dtype is vec.dtype
        and self.dtype in _BLAS
        and self.shape[1] == vec.shape[0]
        else _other_mv(xp, self, vec)
    )


def _other_mv(xp, self, vec):
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
    return product(xp, self, vec)


def outer_product(a, b):
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
    batch=products_of("self", "vec"),
    samples=lambda make: [Sample((make((3, 4)), make((4,)))), Sample((make((4, 3)).T, make((4,))))],
    errors=lambda make: [ErrorSample((make((2, 3)), make((4,))), RuntimeError, "size mismatch")],
    reference=lambda np, a, b: np.einsum("ij,j->i", a, b),
    doc="A matrix times a vector.",
    formula=lambda self, vec: self @ vec,
    symbol="@",
    autocast="cuda lower",
    **_IN_FLOAT32,
    operands=True,
    flops="product",
)


@inlined
def _vm(xp, self, mat2):
    return (
        self.dot(mat2)
        if self.dtype is mat2.dtype and self.dtype in _BLAS and self.shape[0] == mat2.shape[0]
        else _other_vm(xp, self, mat2)
    )


def _other_vm(xp, self, mat2):
    if self.dtype != mat2.dtype:
        same_dtype("mm", self, mat2)
    if self.shape[0] != mat2.shape[0]:
        factors_fit(self[None], mat2)
    return product(xp, self, mat2)


# What a transform makes of a vector times a matrix: torch's are three nodes, of a row.
op(
    "vm",
    _vm,
    vjp={
        "self": lambda F, g, mat2: F.mv(mat2, g),
        "mat2": lambda g, self: outer_product(self, g),
    },
    jvp={
        "self": lambda F, t_self, mat2: F.vm(t_self, mat2),
        "mat2": lambda F, t_mat2, self: F.vm(self, t_mat2),
    },
    batch=products_of("self", "mat2"),
    public=False,
    public_name="matmul",
    node="MmBackward0",
    samples=lambda make: [Sample((make((3,)), make((3, 4)))), Sample((make((3,)), make((4, 3)).T))],
    oracle=False,  # torch makes an mm of a row of it and takes the dimension away again
    doc="A vector times a matrix.",
    symbol="@",
    **_IN_FLOAT32,
)


def _check_vectors(name: str, self, tensor) -> None:
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


def _dot(xp, self, tensor):
    _check_vectors("dot", self, tensor)
    return xp.dot(self, tensor)


def _vector_samples(make):
    yield Sample((make((4,)), make((4,))))
    yield Sample((make((0,)), make((0,))))


def _vector_errors(make):
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
    batch=products_of("self", "tensor"),
    samples=_vector_samples,
    errors=_vector_errors,
    reference=lambda np, a, b: np.sum(a * b),
    doc="The sum of products of two vectors (nothing is conjugated).",
    symbol="@",
    autocast="cuda widest",
    flops="product",
)


def _vdot(xp, self, other):
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
    autocast="cuda widest",
)
