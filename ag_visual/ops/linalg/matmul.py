"""Products of tensors of any dimensions, `@`: composites of the nodes that torch makes of them."""

from __future__ import annotations

import math

import numpy

from ag_visual.core import modes
from ag_visual.core.level import Wrapper
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.codegen.forward import forward
from ag_visual.dispatch.dims import broadcast
from ag_visual.dispatch.table import composite, ops, traced
from ag_visual.errors import type_name
from ag_visual.ops.linalg.mm import product


def _folds(tensor1, tensor2) -> bool:
    """Whether the larger factor is folded into a matrix (torch's should_fold)."""
    larger, smaller = (tensor1, tensor2) if tensor1.ndim >= tensor2.ndim else (tensor2, tensor1)
    if not (larger.ndim >= 3 and smaller.ndim <= 2):
        return False
    if smaller.requires_grad:
        return True
    if tensor1.ndim == 2:
        return False
    if larger.numel() == 0:
        return True
    shape, strides = list(larger._array.shape), list(larger._array.strides)
    if larger is tensor2:
        shape[-2:], strides[-2:] = shape[:-3:-1], strides[:-3:-1]
    return all(strides[i] == strides[i + 1] * shape[i + 1] for i in range(len(shape) - 2))


def _folded(F, tensor1, tensor2):
    turn = tensor2.ndim > tensor1.ndim
    many = F.transpose(tensor2, -2, -1) if turn else tensor1
    few = (F.t(tensor1) if tensor1.ndim == 2 else tensor1) if turn else tensor2
    shape = tuple(many.shape)
    matrix = F.reshape(many, (math.prod(shape[:-1]), shape[-1]))
    if few.ndim == 1:
        return F.unsafe_view(F.mv(matrix, few), shape[:-1])
    result = F.unsafe_view(F.mm(matrix, few), (*shape[:-1], few.shape[1]))
    return F.contiguous(F.transpose(result, -2, -1)) if turn else result


def _batched(F, tensor1, tensor2):
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


@composite("matmul", out=True, symbol="@", autocast="lower", operands=True, flops="product")
def _matmul(F, self, other):
    """The product of vectors, matrices or (broadcasting) batches of matrices.

    (n) x (n) is a number, (n, k) x (k) a vector, (n, k) x (k, m) a matrix, and
    (..., n, k) x (..., k, m) a batch; a vector on the left is a row.
    """
    if not F.traced:
        return product(F.xp, self, other)
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
        if isinstance(self, Wrapper) or isinstance(other, Wrapper):
            return F.vm(self, other)
        return F.mm(F.unsqueeze(self, 0), other)._squeeze_dim_(0)
    if one == 3 and two == 3 and self.shape[0] != other.shape[0]:
        # A batch of one that requires grad is folded into a matrix, too.
        if self.shape[0] == 1 and self.requires_grad:
            return F.matmul(F.squeeze(self, 0), other)
        if other.shape[0] == 1 and other.requires_grad:
            return F.matmul(self, F.squeeze(other, 0))
    if _folds(self, other):
        return _folded(F, self, other)
    return _batched(F, self, other)


def _matmul_operator(self: Tensor, other):
    if isinstance(other, numpy.ndarray):
        # As torch, where NumPy multiplies: it cannot where grad is required.
        return from_array(numpy.asarray(numpy.matmul(self.numpy(), other)))
    return traced.matmul(self, other) if isinstance(other, Tensor) else NotImplemented


def _rmatmul_operator(self: Tensor, other):
    return traced.matmul(other, self) if isinstance(other, Tensor) else NotImplemented


# Of the products, that of two matrices has the built wrapper at once.
Tensor.__matmul__ = forward(
    ops["mm"], reference=_matmul_operator, only="a_self.ndim == 2 == a_mat2.ndim"
)
Tensor.__rmatmul__ = _rmatmul_operator


@composite(
    "linear", method=False, out=True, spaces="nn.functional", autocast="lower", operands=True
)
def _linear(F, input, weight, bias=None):
    """input @ weight.T + bias: (..., in) to (..., out) with weight (out, in), bias (out)."""
    if not F.traced:
        result = product(F.xp, input, weight.T)
        return result if bias is None else result + bias
    if bias is None:
        return F.matmul(input, F.t(weight))
    ndim = input._array.ndim
    if ndim == 1 and isinstance(input, Wrapper):
        return F.add(F.mv(weight, input), bias)
    if ndim == 2:
        return F.addmm(bias, input, F.t(weight))
    if ndim and weight.ndim == 2 and input._array.flags.c_contiguous:
        shape = tuple(input.shape)
        flat = F.view_size(input, (math.prod(shape[:-1]), shape[-1]))
        return F.view_size(F.addmm(bias, flat, F.t(weight)), (*shape[:-1], weight.shape[0]))
    return F.add(F.matmul(input, F.t(weight)), bias)


@composite("outer", aliases=("ger",), out="casts check_overlap")
def _outer(F, self, vec2):
    """The matrix of all products of elements of two vectors."""
    if self.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(
            f"outer: Expected 1-D arguments, but got {self.ndim}-D and {vec2.ndim}-D"
        )
    return F.mul(F.reshape(self, (self.shape[0], 1)), vec2)


@composite("inner", out=True)
def _inner(F, self, other):
    """Sums of products over the last dimensions of both."""
    if self.ndim == 0 or other.ndim == 0:
        return F.mul(self, other)
    return F.tensordot(self, other, ([-1], [-1]))


@composite("tensordot", method=False, out=True, autocast="cuda widest")
def _tensordot(F, a, b, dims=2):
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
    if math.prod(sizes1) == 1 == math.prod(sizes2) and F.traced and modes.state.autocast:
        # One number is no product of matrices to torch, whose mixed precision leaves it alone.
        left, right = F.permute(a, tuple(free1 + first)), F.permute(b, tuple(second + free2))
        found = F.dot(F.reshape(left, (inner,)), F.reshape(right, (inner,)))
        return F.reshape(found, (*sizes1, *sizes2))
    left = F.reshape(F.permute(a, tuple(free1 + first)), (math.prod(sizes1), inner))
    right = F.reshape(F.permute(b, tuple(second + free2)), (inner, math.prod(sizes2)))
    return F.reshape(F.mm(left, right), (*sizes1, *sizes2))


@composite("kron", out="casts check_overlap")
def _kron(F, self, other):
    """The Kronecker product."""
    ndim = max(self.ndim, other.ndim)
    a = (1,) * (ndim - self.ndim) + tuple(self.shape)
    b = (1,) * (ndim - other.ndim) + tuple(other.shape)
    left = F.reshape(self, tuple(n for size in a for n in (size, 1)))
    right = F.reshape(other, tuple(n for size in b for n in (1, size)))
    return F.unsafe_view(F.mul(left, right), tuple(m * n for m, n in zip(a, b, strict=True)))
