"""Products of vectors and of many matrices, tensors taken as matrices, powers and exponentials.

The Frechet derivative of the exponential is a block of the exponential of a block matrix:
R. Mathias, "A chain rule for matrix functions and applications" (1996).
"""

from __future__ import annotations

import math

import numpy

from ag_visual.arrays.kernels.expm import matrix_exp as exponential
from ag_visual.dispatch import dtype_errors
from ag_visual.dispatch.dims import broadcast, wrap, wrap_all
from ag_visual.dispatch.record import PROMOTE, ROWS, ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import leading
from ag_visual.ops.linalg.checks import (
    array_of,
    check_square,
    composed,
    conj,
    identity,
    kind_of,
    product,
    turned,
)

# Products -----------------------------------------------------------------------------------------


def _crossed(xp, a, b, dim: int):
    turn = lambda x, by: xp.roll(x, by, axis=dim)  # noqa: E731
    return turn(turn(a, -1) * turn(b, -2), 0) - turn(a, -2) * turn(b, -1)


def _cross(xp, self, other, dim: int = -1):
    """The vector at right angles to two vectors of three numbers, along `dim`; others broadcast."""
    return _crossed(xp, self, other, dim)


def _normal_cross(self, other, dim: int = -1) -> tuple[int]:
    if self.ndim != other.ndim:
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions, but got "
            f"{self.ndim} and {other.ndim}"
        )
    at = wrap(dim, self.ndim)
    if self.shape[at] != 3 or other.shape[at] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {self.shape[at]} and "
            f"{other.shape[at]}"
        )
    broadcast(self.shape, other.shape)
    return (at,)


def _cross_errors(make):
    text = "linalg.cross: inputs dimension -1 must have length 3. Got 3 and 2"
    yield ErrorSample((make((2, 3)), make((2, 2))), RuntimeError, text)
    yield ErrorSample((make((3,)), make((2, 3))), RuntimeError, "same number of dimensions")


op(
    "linalg_cross",
    _cross,
    vjp={
        "self": lambda F, g, other, dim: F.linalg_cross(other, g, dim),
        "other": lambda F, g, self, dim: F.linalg_cross(g, self, dim),
    },
    jvp={
        "self": lambda F, t_self, other, dim: F.linalg_cross(t_self, other, dim),
        "other": lambda F, t_other, self, dim: F.linalg_cross(self, t_other, dim),
    },
    policy=PROMOTE,
    layout=ROWS,
    normalize=_normal_cross,
    public=False,
    dtype_check=dtype_errors.pair,
    oracle=lambda torch, a, b, dim: torch.linalg.cross(a, b, dim=dim),
    samples=lambda make: [
        Sample((make((3,)), make((3,)))),
        Sample((make((2, 3)), make((2, 3)))),
        Sample((make((3, 2)), make((3, 1)), 0)),
        Sample((make((0, 3)), make((1, 3)))),
    ],
    errors=_cross_errors,
    out="exact no_overlap",
)


@composite("cross", out="no_overlap", autocast="cuda widest")
def cross(F, self, other, dim=None):
    """`linalg.cross`, along the first dimension of size 3 unless `dim` is given."""
    if dim is None:
        dim = next((i for i, n in enumerate(self.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return F.linalg_cross(self, other, dim)


@composed("linalg.vecdot", out=True, autocast="lower")
def linalg_vecdot(F, x, y, *, dim: int = -1):
    """The sum of conj(x) y along `dim`; others broadcast."""
    if array_of(x).dtype != array_of(y).dtype:
        raise RuntimeError(
            "linalg.vecdot: Expected x and y to have the same dtype, but found x of type "
            f"{kind_of(array_of(x))} and y of type {kind_of(array_of(y))} instead"
        )
    return F.sum(conj(F, x) * y, (dim,))


def _chain_order(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each range of factors for the fewest multiplications."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            found = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], split[i, j] = min(found)
    return split


@composed("linalg.multi_dot", out=True, autocast="cuda lower")
def linalg_multi_dot(F, tensors):
    """The product of matrices, in the order that takes the fewest multiplications.

    The first and the last may be vectors. T. Cormen et al., "Introduction to Algorithms", 15.2.
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0].ndim == 1, tensors[-1].ndim == 1
    for i, x in enumerate(tensors):
        end = i in (0, len(tensors) - 1)
        if x.ndim != 2 and not (end and x.ndim == 1):
            allowed = "1D or 2D" if end else "2D"
            raise RuntimeError(f"multi_dot(): tensor {i} must be {allowed} but got {x.ndim}D")
    if first:
        tensors[0] = F.unsqueeze(tensors[0], 0)
    if last:
        tensors[-1] = F.unsqueeze(tensors[-1], 1)
    for i in range(len(tensors) - 1):
        if tensors[i].shape[1] != tensors[i + 1].shape[0]:
            shapes = [f"[{', '.join(map(str, x.shape))}]" for x in tensors[i : i + 2]]
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {shapes[0]} and {shapes[1]} "
                "cannot be multiplied"
            )
    split = _chain_order([tensors[0].shape[0], *(x.shape[1] for x in tensors)])

    def multiplied(i: int, j: int):
        if i == j:
            return tensors[i]
        k = split[i, j]
        return F.mm(multiplied(i, k), multiplied(k + 1, j))

    result = multiplied(0, len(tensors) - 1)
    for at, was_vector in ((1, last), (0, first)):
        result = F.squeeze(result, at) if was_vector else result
    return result


@composite("chain_matmul", method=False, out=True, autocast="cuda lower")
def chain_matmul(F, *matrices):
    """`linalg.multi_dot` of matrices given one by one, which replaces it."""
    if len(matrices) == 1:
        return F.clone(matrices[0])
    return F.linalg_multi_dot(matrices)


# Tensors as matrices ------------------------------------------------------------------------------


@composed("linalg.tensorinv", out="casts", autocast="cpu float32")
def linalg_tensorinv(F, self, ind: int = 2):
    """The inverse with respect to `tensordot(A, B, ind)`: its first `ind` dimensions are rows."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    shape = tuple(self.shape)
    before, after = shape[:ind], shape[ind:]
    if math.prod(after) != math.prod(before):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {math.prod(after)} != {math.prod(before)}"
        )
    matrix = F.reshape(self, (math.prod(before), math.prod(after)))
    return F.reshape(F.linalg_inv(matrix), (*after, *before))


@composed("linalg.tensorsolve", out="casts", autocast="cpu float32")
def linalg_tensorsolve(F, self, other, dims=None):
    """X with tensordot(A, X, X.ndim) = B; `dims` of A are moved to its end first."""
    if dims is not None:
        moved = wrap_all(dims, self.ndim)
        self = F.permute(self, (*(i for i in range(self.ndim) if i not in moved), *moved))
    after = tuple(self.shape)[other.ndim :]
    size = math.prod(tuple(self.shape)[: other.ndim])
    if math.prod(after) != size:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {math.prod(after)} != {size}"
        )
    solved = F.linalg_solve(F.reshape(self, (size, size)), F.reshape(other, (-1,)))
    return F.reshape(solved, after)


@composed("linalg.vander")
def linalg_vander(F, x, N=None):
    """Powers 0 ... N - 1 (x.shape[-1] by default) of each number in a last dimension."""
    single = x.ndim == 0
    x = F.unsqueeze(x, 0) if single else x
    count = x.shape[-1] if N is None else N
    if count <= 1 and (N is not None or single):
        raise RuntimeError("N must be greater than 1.")
    if array_of(x).dtype.kind in "biu":
        x = F.cast(x, numpy.dtype(numpy.int64))
    wide = F.expand(F.unsqueeze(x, -1), (*tuple(x.shape), count - 1))
    powers = F.cumprod(wide, -1)
    return F.cat((F.zeros_of(x, (*tuple(x.shape), 1)) + 1, powers), -1)


@composite("vander", method=False)
def vander(F, x, N=None, increasing: bool = False):
    """A row of N powers of each number of a vector, from the highest to 0 unless increasing."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    if count < 2:
        first = F.zeros_of(x, (x.shape[0], count)) + 1
        return F.cast(first, numpy.dtype(numpy.int64)) if array_of(x).dtype.kind in "biu" else first
    found = F.linalg_vander(x, count)
    return found if increasing else F.flip(found, (1,))


@composed("linalg.diagonal")
def linalg_diagonal(F, A, *, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """The diagonal of each matrix of the last two dimensions, as a view."""
    return F.diagonal(A, offset, dim1, dim2)


@composed("linalg.matmul", out=True)
def linalg_matmul(F, input, other):
    """`matmul`."""
    return F.matmul(input, other)


# Functions of matrices ----------------------------------------------------------------------------


def _matrix_exp(xp, self):
    """The exponential of each square matrix of (..., n, n)."""
    x = self.astype(xp.float32) if self.dtype.itemsize == 2 else self
    check_square("linalg.matrix_exp", x)
    return exponential(xp, x).astype(self.dtype, copy=False)


def _exp_along(F, a, t):
    """The derivative of exp at A in the direction t: a block of exp [[A, t], [0, A]]."""
    n = a.shape[-1]
    zero = F.zeros_of(a, tuple(a.shape))
    block = F.cat((F.cat((a, t), -1), F.cat((zero, a), -1)), -2)
    return F.linalg_matrix_exp(block)[..., :n, n:]


op(
    "linalg_matrix_exp",
    _matrix_exp,
    vjp={"self": lambda F, g, self: _exp_along(F, turned(F, self), g)},
    jvp={"self": lambda F, t_self, self: _exp_along(F, self, t_self)},
    public=False,
    batch=leading(),
    samples=lambda make: (
        [Sample((make(s),)) for s in ((3, 3), (2, 2, 2), (1, 1), (0, 0), (2, 0, 3, 3))]
        + [Sample((make((2, 3, 3), low=-9.0, high=9.0) * 0.5 - 2.0,), smooth=False)]
    ),
    errors=lambda make: [
        ErrorSample((make((2, 3)),), RuntimeError, "batches of square matrices, but they are 2")
    ],
)


@composite("matrix_exp")
def matrix_exp(F, self):
    """The exponential of each square matrix of (..., n, n)."""
    return F.linalg_matrix_exp(self)


@composed("linalg.matrix_power", out="casts")
def linalg_matrix_power(F, self, n: int):
    """Each square matrix multiplied with itself n times; its inverse -n times for negative n."""
    check_square("linalg.matrix_power", array_of(self), low_allowed=True)
    if n == 0:
        everywhere = F.zeros_of(self, ()) == 0
        return F.masked_fill(self, everywhere, 0) + identity(F, self, self.shape[-1])
    if n < 0:
        self, n = F.linalg_inv(self), -n
    if n == 3:  # one product less than squaring would take
        return product(F, self, self, self)
    result = None
    while n:
        if n & 1:
            result = self if result is None else F.matmul(result, self)
        n >>= 1
        self = F.matmul(self, self) if n else self
    return result


@composite("matrix_power", out="casts")
def matrix_power(F, self, n: int):
    """`linalg.matrix_power`."""
    return F.linalg_matrix_power(self, n)
