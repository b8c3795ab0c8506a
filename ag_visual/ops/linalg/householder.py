"""Products of Householder reflectors: householder_product, geqrf, ormqr, orgqr."""

from __future__ import annotations

from typing import Any

from ag_visual.arrays.kernels import lapack
from ag_visual.dispatch.families import not_differentiable
from ag_visual.dispatch.record import ErrorSample, Sample
from ag_visual.dispatch.table import composite, op
from ag_visual.dispatch.vmap import leading
from ag_visual.ops.linalg.checks import adjoint, check_kind, column, columns, conj, product, whole


def _check_reflectors(name: str, input, tau) -> None:
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if input.shape[-1] < tau.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if input.shape[:-2] != tau.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{list(tau.shape[:-1])}"
        )
    check_kind(name, input)


def _reflectors(F, input, count: int) -> list[Any]:
    """The vectors v_i = (0, ..., 0, 1, input[i+1:, i]) as columns."""
    m, n = tuple(input.shape)[-2:]
    whole = F.tril(input, -1) + F.where(
        F.diagonal_mask(input, m, n), 1.0, F.zeros_of(input, (m, n))
    )
    return [columns(F, whole, i, i + 1) for i in range(count)]


def _reflected(F, x, v, factor):
    """(I - factor v v^H) x."""
    return x - product(F, column(F, column(F, factor)) * v, product(F, adjoint(F, v), x))


def _householder(xp, input, tau):
    """The first n columns of H_1 H_2 ... H_k with H_i = I - tau_i v_i v_i^H.

    input: (..., m, n) with v_i below the diagonal of column i (1 on it), tau: (..., k), as `geqrf`
    gives them.
    """
    _check_reflectors("torch.linalg.householder_product", input, tau)
    m, n = input.shape[-2:]
    result = xp.zeros(input.shape, input.dtype)
    result += xp.eye(m, n, dtype=input.dtype)
    for i in reversed(range(tau.shape[-1])):
        v = input[..., i:, i].copy()
        v[..., 0] = 1
        below = result[..., i:, :]
        inner = xp.matmul(v.conj()[..., None, :], below)
        below -= (tau[..., i, None] * v)[..., None] * inner
    return result


def _householder_rule(F, g, input, tau) -> tuple[Any, Any]:
    """For dH_i between its left product L and its right one R, the gradient of H_i is L^H g R^H."""
    m, n = tuple(input.shape)[-2:]
    count = tau.shape[-1]
    vectors = _reflectors(F, input, count)
    factors = [tau[..., i] for i in range(count)]
    rights = [F.where(F.diagonal_mask(input, m, n), 1.0, F.zeros_of(input, tuple(input.shape)))]
    for i in reversed(range(1, count)):
        rights.append(_reflected(F, rights[-1], vectors[i], factors[i]))
    g_vectors, g_factors = [], []
    for i in range(count):
        v, t = vectors[i], factors[i]
        right = rights[count - 1 - i]
        # K v and K^H v of K = g right^H, which is never formed.
        k_v = product(F, g, product(F, adjoint(F, right), v))
        kh_v = product(F, right, product(F, adjoint(F, g), v))
        g_factors.append(-product(F, adjoint(F, v), k_v)[..., 0, 0])
        wide = column(F, column(F, t))
        g_vectors.append(-(wide * kh_v) - conj(F, wide) * k_v)
        # H_i^H from the left for the next.
        g = _reflected(F, g, v, conj(F, t))
    g_vectors += [F.zeros_of(input, (*tuple(input.shape)[:-1], 1))] * (n - count)
    g_input = (
        F.tril(F.cat(tuple(g_vectors), -1), -1) if g_vectors else F.zeros_of(input, input.shape)
    )
    g_tau = F.stack(tuple(g_factors), -1) if g_factors else F.zeros_of(tau, tuple(tau.shape))
    return g_input, g_tau


def _householder_move(F, input, tau, t_input=None, t_tau=None):
    """The tangent of the product along one of its inputs, one reflection after the other."""
    m, n = tuple(input.shape)[-2:]
    count = tau.shape[-1]
    vectors = _reflectors(F, input, count)
    low = None if t_input is None else F.tril(t_input, -1)
    x = F.where(F.diagonal_mask(input, m, n), 1.0, F.zeros_of(input, tuple(input.shape)))
    moved = F.zeros_of(input, tuple(input.shape))
    for i in reversed(range(count)):
        v, t = vectors[i], tau[..., i]
        moved = _reflected(F, moved, v, t)
        if low is not None:
            t_v = columns(F, low, i, i + 1)
            turn = t_v * product(F, adjoint(F, v), x) + v * product(F, adjoint(F, t_v), x)
            moved = moved - column(F, column(F, t)) * turn
        else:
            factor = column(F, column(F, t_tau[..., i]))
            moved = moved - factor * v * product(F, adjoint(F, v), x)
        x = _reflected(F, x, v, t)
    return moved


def _householder_move_of_input(F, t_input, input, tau):
    return _householder_move(F, input, tau, t_input=t_input)


def _householder_move_of_tau(F, t_tau, input, tau):
    return _householder_move(F, input, tau, t_tau=t_tau)


op(
    "linalg_householder_product",
    _householder,
    vjp={("input", "tau"): _householder_rule},
    jvp={"input": _householder_move_of_input, "tau": _householder_move_of_tau},
    also_saves=("result",),
    holomorphic=False,
    public=False,
    batch=whole,
    samples=lambda make: [
        Sample((make(shape), make((*shape[:-2], k))))
        for shape, k in (((3, 3), 3), ((4, 2), 2), ((4, 3), 2), ((2, 3, 2), 2), ((0, 3, 2), 2))
    ],
    errors=lambda make: [
        ErrorSample((make((2, 3)), make((2,))), RuntimeError, "must be greater than or equal to")
    ],
    out="casts",
    autocast="cpu float32",
)


@composite("orgqr", out="casts", autocast="cpu float32")
def orgqr(F, self, input2):
    """`linalg.householder_product` under LAPACK's name."""
    return F.linalg_householder_product(self, input2)


def _geqrf(xp, self) -> tuple[Any, Any]:
    """R in the upper triangle, the Householder vectors below it, and their factors tau."""
    if self.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    check_kind("torch.geqrf", self)
    return lapack.geqrf(xp, self)


op(
    "geqrf",
    _geqrf,
    vjp={"self": not_differentiable("geqrf")},
    outputs=("a", "tau"),
    namedtuple="geqrf",
    batch=leading(),
    samples=lambda make: [Sample((make((3, 2)),)), Sample((make((2, 2, 3)),))],
    out="casts",
    autocast="cpu float32",
)


def _ormqr(xp, self, input2, input3, left: bool = True, transpose: bool = False):
    """Q C, Q^H C, C Q or C Q^H with Q = H_1 ... H_k in its Householder vectors and tau.

    self: (..., m, k) and input2: (..., k) as `geqrf` gives them, input3: C.
    """
    for name, array in (("input", self), ("other", input3)):
        if array.ndim < 2:
            raise RuntimeError(f"torch.ormqr: {name} must have at least 2 dimensions.")
    if input2.ndim != self.ndim - 1:
        raise RuntimeError(
            "torch.ormqr: Expected tau to have one dimension less than input, but got tau.ndim "
            f"equal to {input2.ndim} and input.ndim is equal to {self.ndim}"
        )
    k = input2.shape[-1]
    if input3.shape[-2 if left else -1] != self.shape[-2]:
        raise RuntimeError(
            f"torch.ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2]"
        )
    if k > min(input3.shape[-2 if left else -1], self.shape[-1]):
        raise RuntimeError(
            f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{-2 if left else -1}], "
            "input.shape[-1])"
        )
    check_kind("torch.ormqr", self)
    result = (input3 if left else xp.conj(input3.swapaxes(-1, -2))).copy()
    # C Q = (Q^H C^H)^H
    adjoint_ = transpose == left
    for i in range(k) if adjoint_ else reversed(range(k)):
        v = self[..., i:, i].copy()
        v[..., 0] = 1
        factor = input2[..., i, None]
        below = result[..., i:, :]
        inner = xp.matmul(v.conj()[..., None, :], below)
        below -= ((factor.conj() if adjoint_ else factor) * v)[..., None] * inner
    return result if left else xp.ascontiguousarray(result.swapaxes(-1, -2).conj())


def _ormqr_rule(
    F, g, needs, self, input2, input3, left: bool, transpose: bool
) -> tuple[Any, Any, Any]:
    g_other = None
    if needs[2]:
        g_other = F.ormqr(self, input2, g, left, not transpose)
    if not (needs[0] or needs[1]):
        return None, None, g_other
    m, n, k = self.shape[-2], self.shape[-1], input2.shape[-1]
    if 0 in self.shape:
        return None, None, g_other
    # The whole Q is the product of these reflectors with more columns, whose factors are absent.
    batch = tuple(self.shape)[:-2]
    square = columns(F, self, 0, k)
    square = F.cat((square, F.zeros_of(self, (*batch, m, m - k))), -1) if m > k else square
    g_q = product(F, g, adjoint(F, input3)) if left else product(F, adjoint(F, input3), g)
    g_q = adjoint(F, g_q) if transpose else g_q
    g_input, g_tau = _householder_rule(F, g_q, square, input2)
    g_input = columns(F, g_input, 0, k)
    rest = F.zeros_of(self, (*batch, m, n - k))
    return (F.cat((g_input, rest), -1) if n > k else g_input), g_tau, g_other


def _ormqr_samples(make):
    for left in (True, False):
        for transpose in (False, True):
            other = (3, 2) if left else (2, 3)
            yield Sample((make((3, 2)), make((2,)), make(other), left, transpose))
    yield Sample((make((2, 3, 3)), make((2, 3)), make((2, 3, 2))))
    yield Sample((make((2, 4)), make((2,)), make((2, 3))))


op(
    "ormqr",
    _ormqr,
    vjp={("self", "input2", "input3"): _ormqr_rule},
    also_saves=("result",),
    holomorphic=False,
    batch=whole,
    samples=_ormqr_samples,
    errors=lambda make: [
        ErrorSample((make((3, 2)), make((2,)), make((2, 2))), RuntimeError, "must be equal to")
    ],
    autocast="cpu float32",
)
