"""torch.linalg side by side with torch: values, gradients, second gradients, errors, modes.

The table's tests cover what finite differences can see; here are matrices with a structure
(symmetric, of low rank), results that are unique only up to a phase, and the public functions.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.core.tensor import from_array
from ag_visual.dispatch import table
from ag_visual.dispatch.table import ops, raw_numpy

from ..oracle import torch
from ..programs import agree
from ..properties.cases import settled
from ..properties.checks import close
from .side_by_side import graph

Array = Any


def matrices(kind: str, *shapes: tuple[int, ...]) -> list[Array]:
    random = numpy.random.default_rng(len(shapes))
    found = []
    for shape in shapes:
        a = random.uniform(-1, 1, shape)
        found.append(a + 1j * random.uniform(-1, 1, shape) if kind == "complex128" else a)
    return found


def herm(a: Any) -> Any:
    return a + a.mH


def pos(t: Any, a: Any) -> Any:
    return a @ a.mH + t.eye(a.shape[-1], dtype=a.dtype)


SQUARE, BATCH, TALL, WIDE = (3, 3), (2, 3, 3), (4, 2), (2, 4)

# Name, function of the engine and of leaves, their shapes. Phases are taken out by abs and by
# products; everything else is compared as it is.
CASES: list[tuple[str, Callable[..., Any], tuple[tuple[int, ...], ...]]] = [
    ("cholesky", lambda t, a: t.linalg.cholesky(pos(t, a)), (BATCH,)),
    ("cholesky upper", lambda t, a: t.linalg.cholesky(pos(t, a), upper=True), (SQUARE,)),
    ("torch.cholesky", lambda t, a: t.cholesky(pos(t, a), upper=True), (BATCH,)),
    ("cholesky_ex", lambda t, a: t.linalg.cholesky_ex(pos(t, a)), (SQUARE,)),
    (
        "cholesky_solve",
        lambda t, b, a: t.cholesky_solve(b, t.linalg.cholesky(pos(t, a))),
        ((3, 2), BATCH),
    ),
    (
        "cholesky_solve upper",
        lambda t, b, a: t.cholesky_solve(b, t.linalg.cholesky(pos(t, a)).mH, True),
        ((3, 2), SQUARE),
    ),
    ("cholesky_inverse", lambda t, a: t.cholesky_inverse(t.linalg.cholesky(pos(t, a))), (BATCH,)),
    (
        "cholesky_inverse upper",
        lambda t, a: t.cholesky_inverse(t.linalg.cholesky(pos(t, a)).mH, True),
        (SQUARE,),
    ),
    ("eigh", lambda t, a: (lambda w, v: (w, abs(v)))(*t.linalg.eigh(herm(a))), (BATCH,)),
    ("eigh upper", lambda t, a: abs(t.linalg.eigh(herm(a), "U")[1]), (SQUARE,)),
    ("eigh asymmetric", lambda t, a: abs(t.linalg.eigh(a)[1]), (SQUARE,)),
    ("eigvalsh", lambda t, a: t.linalg.eigvalsh(a), (BATCH,)),
    ("svd", lambda t, a: (lambda u, s, v: (abs(u), s, u @ v))(*t.linalg.svd(a)), (BATCH,)),
    ("svd tall", lambda t, a: (lambda u, s, v: u[..., :2] @ v)(*t.linalg.svd(a)), (TALL,)),
    ("svd wide", lambda t, a: abs(t.linalg.svd(a)[2][..., :2, :]), (WIDE,)),
    ("svd reduced", lambda t, a: abs(t.linalg.svd(a, full_matrices=False)[0]), ((2, 4, 2),)),
    ("svdvals", lambda t, a: t.linalg.svdvals(a), (TALL,)),
    ("torch.svd", lambda t, a: (lambda u, s, v: (u @ v.mH, s))(*t.svd(a)), (TALL,)),
    ("torch.svd full", lambda t, a: t.svd(a, some=False)[1], (WIDE,)),
    (
        "eig",
        lambda t, a: (lambda w, v: v * w.unsqueeze(-2) @ t.linalg.inv(v))(*t.linalg.eig(a)),
        (BATCH,),
    ),
    ("eig sizes", lambda t, a: abs(t.linalg.eig(a)[1]).sum(-1), (SQUARE,)),
    ("eigvals", lambda t, a: (t.linalg.eigvals(a) ** 3).sum(-1), (BATCH,)),
    ("qr", lambda t, a: t.qr(a), (TALL,)),
    ("qr wide", lambda t, a: t.linalg.qr(a, "complete"), ((2, 2, 4),)),
    ("lu", lambda t, a: t.linalg.lu(a)[1:], ((2, 4, 3),)),
    ("lu_factor", lambda t, a: t.linalg.lu_factor(a)[0], (WIDE,)),
    ("torch.lu", lambda t, a: t.lu(a, get_infos=True)[0], (TALL,)),
    ("lu_unpack", lambda t, a: t.lu_unpack(*t.linalg.lu_factor(a))[1:], (BATCH,)),
    ("lu_solve", lambda t, b, a: t.lu_solve(b, *t.linalg.lu_factor(a)), ((3, 2), BATCH)),
    (
        "lu_solve adjoint",
        lambda t, b, a: t.linalg.lu_solve(*t.linalg.lu_factor(a), b, left=False, adjoint=True),
        ((2, 3), SQUARE),
    ),
    ("solve", lambda t, a, b: t.linalg.solve(a, b), (BATCH, (2, 3, 2))),
    ("solve a vector", lambda t, a, b: t.linalg.solve(a, b), (BATCH, (2, 3))),
    ("solve from the right", lambda t, a, b: t.linalg.solve(a, b, left=False), (SQUARE, (4, 3))),
    ("solve_ex", lambda t, a, b: t.linalg.solve_ex(a, b)[0], (SQUARE, (3,))),
    (
        "solve_triangular",
        lambda t, a, b: t.linalg.solve_triangular(a, b, upper=True),
        (BATCH, (3, 2)),
    ),
    ("triangular_solve", lambda t, b, a: t.triangular_solve(b, a, transpose=True), ((3, 2), BATCH)),
    ("inv", lambda t, a: t.linalg.inv(a), (BATCH,)),
    ("inverse", lambda t, a: a.inverse(), (SQUARE,)),
    ("det", lambda t, a: t.det(a), (BATCH,)),
    ("logdet", lambda t, a: t.logdet(pos(t, a)), (BATCH,)),
    ("slogdet", lambda t, a: t.linalg.slogdet(a), (BATCH,)),
    ("lstsq", lambda t, a, b: t.linalg.lstsq(a, b)[0], (TALL, (4, 3))),
    ("lstsq wide", lambda t, a, b: t.linalg.lstsq(a, b)[0], (WIDE, (2, 3))),
    (
        "lstsq residuals",
        lambda t, a, b: t.linalg.lstsq(a, b, driver="gelsd")[:2],
        ((2, 4, 2), (2, 4, 3)),
    ),
    ("pinv", lambda t, a: t.linalg.pinv(a), ((2, 4, 2),)),
    ("pinv of rank 1", lambda t, a, b: t.linalg.pinv(a @ b), ((3, 1), (1, 3))),
    ("pinv hermitian", lambda t, a: t.linalg.pinv(herm(a), hermitian=True), (SQUARE,)),
    ("pinverse", lambda t, a: t.pinverse(a), (WIDE,)),
    ("householder_product", lambda t, a, tau: t.linalg.householder_product(a, tau), (TALL, (2,))),
    ("ormqr", lambda t, a, tau, c: t.ormqr(a, tau, c, False, True), (TALL, (2,), (3, 4))),
    ("matrix_exp", lambda t, a: t.linalg.matrix_exp(a), (BATCH,)),
    ("matrix_exp, large", lambda t, a: t.matrix_exp(a * 9), (SQUARE,)),
    ("matrix_power", lambda t, a: t.linalg.matrix_power(a, -3), (BATCH,)),
    ("matrix_power 0", lambda t, a: t.matrix_power(a, 0), (SQUARE,)),
    ("matrix_norm", lambda t, a: t.linalg.matrix_norm(a), (BATCH,)),
    ("matrix_norm nuc", lambda t, a: t.linalg.matrix_norm(a, "nuc", (0, 1), True), (BATCH,)),
    ("matrix_norm 2", lambda t, a: t.linalg.matrix_norm(a, -2), (TALL,)),
    ("matrix_norm 1", lambda t, a: t.linalg.matrix_norm(a, 1, (0, -1)), (BATCH,)),
    ("matrix_norm inf", lambda t, a: t.linalg.matrix_norm(a, -math.inf, (2, 0), True), (BATCH,)),
    ("norm", lambda t, a: t.linalg.norm(a), (BATCH,)),
    ("norm of rows", lambda t, a: t.linalg.norm(a, 3, -1), (BATCH,)),
    ("norm nuc", lambda t, a: t.norm(a, "nuc"), (TALL,)),
    ("vector_norm", lambda t, a: t.linalg.vector_norm(a, 3, (0, 2), True), (BATCH,)),
    ("cond", lambda t, a: t.linalg.cond(a), (BATCH,)),
    ("cond -2", lambda t, a: t.linalg.cond(a, -2), (TALL,)),
    ("cross", lambda t, a, b: t.linalg.cross(a, b, dim=0), ((3, 2), (3, 1))),
    ("torch.cross", lambda t, a, b: t.cross(a, b), ((2, 3), (2, 3))),
    ("vecdot", lambda t, a, b: t.linalg.vecdot(a, b, dim=0), ((3, 2), (3, 2))),
    ("multi_dot", lambda t, a, b, c: t.linalg.multi_dot([a, b, c]), ((4,), TALL, (2, 3))),
    ("chain_matmul", lambda t, a, b, c: t.chain_matmul(a, b, c), ((2, 3), (3, 5), (5, 2))),
    ("tensorinv", lambda t, a: t.linalg.tensorinv(a), ((2, 3, 6),)),
    ("tensorsolve", lambda t, a, b: t.linalg.tensorsolve(a, b, dims=(0,)), ((6, 2, 3), (2, 3))),
    ("vander", lambda t, a: t.linalg.vander(a, N=4), ((2, 3),)),
    ("diagonal", lambda t, a: t.linalg.diagonal(a, offset=1), (BATCH,)),
    (
        "svd_lowrank",
        lambda t, a, b: (lambda u, s, v: (u @ v.mH, s))(*t.svd_lowrank(a @ b, 2)),
        ((5, 2), (2, 4)),
    ),
    ("pca_lowrank", lambda t, a, b: t.pca_lowrank(a @ b, 2, center=False)[1], ((3, 2), (2, 4))),
]


def tensors_of(value: Any, kind: type) -> list[Any]:
    found = value if isinstance(value, (tuple, list)) else [value]
    return [x for x in found if isinstance(x, kind) and x.requires_grad]


def host(x: Any, like: Array) -> Array:
    return numpy.zeros_like(like) if x is None else numpy.asarray(x.detach().numpy(force=True))


def derivatives(t: Any, function: Any, arrays: list[Array]) -> tuple[list[Array], list[Array]]:
    """Results, and gradients and second gradients along fixed directions."""
    random = numpy.random.default_rng(3)

    def along(shape: Any, complex_: bool) -> Any:
        g = random.uniform(-1, 1, tuple(shape))
        g = g + 1j * random.uniform(-1, 1, tuple(shape)) if complex_ else g
        return t.tensor(g)

    leaves = [t.tensor(a, requires_grad=True) for a in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = tensors_of(function(t, *leaves), t.Tensor)
    gs = [along(out.shape, out.is_complex()) for out in outputs]
    first = t.autograd.grad(outputs, leaves, gs, create_graph=True, allow_unused=True)
    plain = t.autograd.grad(outputs, leaves, gs, retain_graph=True, allow_unused=True)
    found = [host(g, a) for g, a in zip([*first, *plain], arrays * 2, strict=True)]
    again = [along(a.shape, numpy.iscomplexobj(a)) for a in arrays]
    pairs = [(g, v) for g, v in zip(first, again, strict=True) if g is not None and g.requires_grad]
    if pairs:
        second = t.autograd.grad(
            [g for g, _ in pairs], leaves, [v for _, v in pairs], allow_unused=True
        )
        found += [host(g, a) for g, a in zip(second, arrays, strict=True)]
    return [host(out, None) for out in outputs], found


@pytest.mark.oracle
@pytest.mark.parametrize("kind", ["float64", "complex128"])
@pytest.mark.parametrize(("function", "shapes"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_as_torch(function: Any, shapes: Any, kind: str) -> None:
    arrays = matrices(kind, *shapes)
    values, grads = derivatives(ag, function, arrays)
    expected, expected_grads = derivatives(torch, function, arrays)
    assert [v.shape for v in values] == [v.shape for v in expected]
    assert [v.dtype for v in values] == [v.dtype for v in expected]
    for a, b in zip(values, expected, strict=True):
        close(a, b, "value", 1e-8, 1e-10)
    assert len(grads) == len(expected_grads)
    scale = max(1.0, max(float(abs(g).max(initial=0)) for g in expected_grads))
    for a, b in zip(grads, expected_grads, strict=True):
        close(a, b, "gradient", 1e-6, 1e-9 * scale)


# Forward derivatives ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float64", "complex128"])
@pytest.mark.parametrize(
    "name",
    [
        "linalg_cholesky_ex",
        "cholesky",
        "linalg_eigh",
        "linalg_svd",
        "linalg_eig",
        "linalg_pinv_within",
    ],
)
def test_forward_derivative_against_backward(name: str, kind: str) -> None:
    """<g, J t> = <J^T g, t> for every g that leaves phases alone."""
    op = ops[name]
    shape = (2, 4, 3) if name in ("linalg_svd", "linalg_pinv_within") else (2, 3, 3)
    a, t = matrices(kind, shape, shape)
    if name in ("linalg_cholesky_ex", "cholesky", "linalg_eigh"):
        a, t = (x + x.conj().swapaxes(-1, -2) for x in (a, t))
        a = a + 5 * numpy.eye(3)
    args = (False,) if name == "linalg_svd" else ()
    _, moved = table.jvp(op, (a, *args), {op.params[0]: t}, namespace=raw_numpy)
    moved = list(moved) if isinstance(moved, tuple) else [moved]
    leaf = from_array(a.copy(), True)
    outputs = op.call(leaf, *args)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    random = numpy.random.default_rng(4)
    gs, total = [], 0.0
    for i, m in zip(op.differentiable, moved, strict=False):
        g = random.uniform(-1, 1, m.shape)
        g = g + 1j * random.uniform(-1, 1, m.shape) if outputs[i].is_complex() else g
        if name in ("linalg_eigh", "linalg_svd") and g.ndim == 3 and numpy.iscomplexobj(g):
            v = outputs[i].detach().numpy()
            axis = -1 if op.outputs[i] == "Vh" else -2
            turn = numpy.sum(v.conj() * g, axis, keepdims=True).imag
            g = g - 1j * v * turn / numpy.sum(abs(v) ** 2, axis, keepdims=True)
        g = settled(op, i, outputs[i], g)
        gs.append(from_array(g))
        total += numpy.vdot(g, m).real
    (back,) = ag.autograd.grad([outputs[i] for i in op.differentiable], [leaf], gs)
    close(total, numpy.vdot(back.numpy(), t).real, "inner product", 1e-9, 1e-10)


# Errors -------------------------------------------------------------------------------------------

ERRORS = [
    "t.linalg.inv(t.zeros(2, 2))",
    "t.linalg.inv(t.zeros(3, 2, 2))",
    "t.linalg.inv(t.zeros(2, 3))",
    "t.linalg.inv(t.zeros(2))",
    "t.linalg.inv(t.zeros(2, 2, dtype=t.int64))",
    "t.linalg.inv(t.zeros(2, 2, dtype=t.float16))",
    "t.linalg.solve(t.zeros(2, 2), t.zeros(2))",
    "t.linalg.solve(t.zeros(2, 2, 2), t.zeros(2, 2, 1))",
    "t.linalg.solve(t.zeros(2, 2), t.zeros(3))",
    "t.linalg.cholesky(t.zeros(2, 2))",
    "t.linalg.cholesky(t.zeros(2, 2, 2))",
    "t.linalg.eig(t.full((2, 2), float('nan')))",
    "t.linalg.svd(t.full((2, 2), float('nan')))",
    "t.linalg.svd(t.full((2, 2, 2), float('nan')))",
    "t.linalg.solve_triangular(t.zeros(2, 3), t.zeros(2, 2), upper=True)",
    "t.linalg.solve_triangular(t.zeros(2, 2), t.zeros(3, 2), upper=True)",
    "t.linalg.qr(t.zeros(2, 3), mode='x')",
    "t.linalg.lu_factor(t.zeros(2, 2))",
    "t.linalg.eigh(t.zeros(2, 2), 'X')",
    "t.inverse(t.zeros(2, 2))",
    "t.det(t.zeros(2, 3))",
    "t.logdet(t.zeros(2, 3))",
    "t.linalg.matrix_norm(t.zeros(2), 'fro')",
    "t.linalg.matrix_norm(t.zeros(2, 2), 'foo')",
    "t.linalg.matrix_norm(t.zeros(2, 2), 3)",
    "t.linalg.cond(t.zeros(2, 3), 'fro')",
    "t.linalg.cross(t.zeros(2, 3), t.zeros(2, 2))",
    "t.cross(t.zeros(2, 2), t.zeros(2, 2))",
    "t.linalg.multi_dot([t.zeros(2, 2)])",
    "t.linalg.tensorinv(t.zeros(2, 3), 1)",
    "t.linalg.vander(t.zeros(()))",
    "t.linalg.lstsq(t.zeros(3, 2), t.zeros(2, 2))",
    "t.linalg.lstsq(t.zeros(3, 2), t.zeros(3, 2), driver='x')",
    "t.linalg.householder_product(t.zeros(2, 3), t.zeros(2))",
    "t.cholesky_inverse(t.zeros(2, 3))",
    "t.linalg.matrix_exp(t.zeros(2, 3))",
    "t.linalg.matrix_power(t.zeros(2, 3), 2)",
    "t.pinverse(t.zeros(3))",
    "t.pca_lowrank(t.zeros(3, 2), 4)",
    "t.linalg.qr(t.ones(2, 2, requires_grad=True), 'r')[1].sum().backward()",
    "t.linalg.qr(t.ones(3, 2, requires_grad=True), 'complete')[1].sum().backward()",
    "t.geqrf(t.ones(2, 2, requires_grad=True))[0].sum().backward()",
]


@pytest.mark.oracle
@pytest.mark.parametrize("expression", ERRORS)
def test_errors_as_torch(expression: str) -> None:
    with pytest.raises(Exception) as expected:
        eval(expression, {"t": torch})
    with pytest.raises(Exception) as found:
        eval(expression, {"t": ag})
    assert str(expected.value).partition("\n")[0].rstrip(".") in str(found.value)
    theirs = torch.linalg.LinAlgError
    assert isinstance(found.value, ag.linalg.LinAlgError) == isinstance(expected.value, theirs)
    assert isinstance(found.value, type(expected.value).__mro__[isinstance(expected.value, theirs)])


@pytest.mark.parametrize(
    ("function", "phrase"),
    [
        (lambda a: ag.linalg.svd(a)[0].real, "svd_backward: The singular vectors in the complex"),
        (lambda a: ag.linalg.eigh(a + a.mH)[1].real, "linalg_eigh_backward: The eigenvectors in"),
        (
            lambda a: ag.linalg.eig(a)[1].real,
            "linalg_eig_backward: The eigenvectors in the complex",
        ),
    ],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_loss_that_depends_on_a_phase_is_refused(
    function: Any, phrase: str, create_graph: bool
) -> None:
    a = from_array(matrices("complex128", (3, 3))[0], True)
    loss = (function(a) * ag.arange(9.0).reshape(3, 3)).sum()
    with pytest.raises(RuntimeError, match=phrase):
        ag.autograd.grad(loss, a, create_graph=create_graph)


# Many small matrices ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_many_small_matrices_are_done_as_each_alone(kind: str) -> None:
    """Beyond a few matrices for each row, kernels work on one row of all of them at a time."""
    a, b = matrices(kind, (40, 3, 3), (40, 3, 2))
    a[7] = 0
    a[9, :, 1] = 0
    functions: list[Callable[..., Any]] = [
        lambda a, b: ag.linalg.lu_factor_ex(a),
        lambda a, b: ag.linalg.lu(a),
        lambda a, b: ag.linalg.lu_solve(*ag.linalg.lu_factor_ex(a + ag.eye(3))[:2], b),
        lambda a, b: ag.linalg.lu_solve(
            *ag.linalg.lu_factor_ex(a + ag.eye(3))[:2], b, adjoint=True
        ),
        lambda a, b: ag.linalg.solve_triangular(a + 3 * ag.eye(3), b, upper=True),
        lambda a, b: ag.linalg.solve_triangular(
            a, b.mT, upper=False, left=False, unitriangular=True
        ),
    ]
    for function in functions:
        together = function(from_array(a), from_array(b))
        alone = [function(from_array(x), from_array(y)) for x, y in zip(a, b, strict=True)]
        if not isinstance(together, tuple):
            together, alone = (together,), [(x,) for x in alone]
        for i, found in enumerate(together):
            expected = numpy.stack([each[i].numpy() for each in alone])
            assert found.numpy().dtype == expected.dtype
            close(found.numpy(), expected, "each alone", 1e-10, 1e-12)


# What the matrices are ----------------------------------------------------------------------------


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_determinant_of_a_singular_matrix_has_its_adjugate_as_gradient(
    create_graph: bool,
) -> None:
    """torch's gradient is 0 where the determinant is exactly 0."""
    a = ag.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=ag.float64, requires_grad=True)
    (g,) = ag.autograd.grad(ag.linalg.det(a), a, create_graph=create_graph)
    close(g.detach().numpy(), [[4.0, -2.0], [-2.0, 1.0]], "adjugate")


@pytest.mark.oracle
def test_vander_counts_powers_from_either_side() -> None:
    for increasing in (False, True):
        for count in (None, 0, 1, 2, 5):
            a, b = (t.vander(t.tensor([1.5, 2.0, 3.0]), count, increasing) for t in (ag, torch))
            assert (a.shape, a.tolist()) == (b.shape, b.tolist())


@pytest.mark.parametrize(
    "name",
    [
        "inv",
        "det",
        "pinv",
        "matrix_exp",
        "svdvals",
        "eigvalsh",
        "eigvals",
        "cond",
        "matrix_norm",
        "matrix_rank",
    ],
)
def test_empty_batches_and_single_precision(name: str) -> None:
    function = getattr(ag.linalg, name)
    full = function(ag.eye(3, dtype=ag.float32).expand(2, 3, 3).contiguous())
    empty = function(ag.zeros(0, 3, 3))
    assert empty.shape == (0, *full.shape[1:])
    assert empty.dtype is full.dtype
    kinds = {"eigvals": ag.complex64, "matrix_rank": ag.int64}
    assert full.dtype is kinds.get(name, ag.float32)


def test_complete_modes_span_the_whole_space() -> None:
    a = from_array(matrices("complex128", (5, 3))[0])
    u, s, vh = ag.linalg.svd(a)
    q, r = ag.linalg.qr(a, "complete")
    assert (u.shape, s.shape, vh.shape) == ((5, 5), (3,), (3, 3))
    assert (q.shape, r.shape) == ((5, 5), (5, 3))
    for whole in (u, q):
        close((whole.mH @ whole).numpy(), numpy.eye(5), "unitary")
    close((u[:, :3] * s @ vh).numpy(), a.numpy(), "svd")
    close((q @ r).numpy(), a.numpy(), "qr")


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("kind", ["float64", "complex128"])
def test_ldl_solves_indefinite_systems(kind: str, hermitian: bool) -> None:
    a, b = matrices(kind, (2, 4, 4), (2, 4, 3))
    a = a + (a.conj() if hermitian else a).swapaxes(-1, -2)
    factors = ag.linalg.ldl_factor(from_array(a), hermitian=hermitian)
    x = ag.linalg.ldl_solve(*factors, from_array(b), hermitian=hermitian)
    close(a @ x.numpy(), b, "ldl", 1e-9, 1e-9)


def test_a_matrix_that_is_not_positive_definite_tells_its_minor() -> None:
    a = ag.eye(3, dtype=ag.float64)
    a[1, 1] = -1.0
    assert ag.linalg.cholesky_ex(a).info.item() == 2
    with pytest.raises(ag.linalg.LinAlgError, match="leading minor of order 2"):
        ag.linalg.cholesky_ex(a, check_errors=True)


@pytest.mark.oracle
def test_graphs_as_torch() -> None:
    for function in (
        lambda t, a: t.linalg.solve(a, a),
        lambda t, a: t.linalg.cond(a, 1),
        lambda t, a: t.linalg.matrix_norm(a, 1),
        lambda t, a: t.logdet(a),
        lambda t, a: t.linalg.matrix_power(a, -2),
        lambda t, a: t.svd(a)[2],
        lambda t, a: t.linalg.vecdot(a, a),
    ):
        names = [
            graph(function(t, t.tensor([[2.0, 1.0], [0.5, 3.0]], requires_grad=True)).grad_fn)
            for t in (ag, torch)
        ]
        assert flat(names[0]) == flat(names[1])


def flat(names: Any) -> list[str]:
    """The nodes of a graph, but for those that only look at memory otherwise."""
    if names is None:
        return []
    views = ("PermuteBackward0", "MaskedFillBackward0", "NanToNumBackward0")
    own = [] if names[0] in views else [names[0]]
    return own + [name for below in names[1:] for name in flat(below)]


def test_results_are_written_into_out() -> None:
    a = ag.eye(2) * 2
    values, vectors = ag.empty(0), ag.empty(0)
    found = ag.linalg.eigh(a, out=(values, vectors))
    assert found.eigenvalues is values
    assert values.tolist() == [2.0, 2.0]
    out = ag.empty(0)
    assert ag.linalg.inv(a, out=out) is out
    assert out.tolist() == [[0.5, 0.0], [0.0, 0.5]]


def test_ormqr_without_matrices_has_no_gradients_of_reflectors() -> None:
    def program(t: Any) -> Any:
        given = [t.ones(0, 3, 3, requires_grad=True), t.ones(0, 3, requires_grad=True)]
        given.append(t.ones(0, 3, 2, requires_grad=True))
        result = t.ormqr(*given).sum()
        grads = t.autograd.grad(result, given, create_graph=True, allow_unused=True)
        return [g is not None and g.requires_grad for g in grads]

    agree(program)


@pytest.mark.oracle
@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize(
    "shapes",
    [((2, 4, 3), (1, 3, 2)), ((1, 4, 3), (2, 3, 2)), ((1, 4, 3), (1, 3, 2)), ((2, 4, 3), (3, 2))],
)
def test_batches_of_one_are_folded_as_torch_folds_them(shapes: Any, wanted: Any) -> None:
    def program(t: Any) -> Any:
        factors = [t.ones(s, requires_grad=w) for s, w in zip(shapes, wanted, strict=True)]
        product = factors[0] @ factors[1]
        product.sum().backward()
        return [graph(product.grad_fn), [f.grad.tolist() for f in factors if f.requires_grad]]

    agree(program)
