"""Elementwise ops where values are extreme and derivatives jump: torch's answers.

The conventions at non-smooth points are listed in numbers; the rest is compared with torch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.core.tensor import from_array
from ag_visual.dispatch.record import KEEP, Op

from ..oracle import torch
from .cases import arguments, calls, differentiable, every, host, run
from .checks import close
from .test_oracle import counterpart, listed

F = ag.nn.functional
INF, NAN = math.inf, math.nan
LINE = numpy.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.5, 2.5, 3.0, -3.5, 20.0, 90.0, -90.5, INF, NAN])


def gradient(function: Any, *values: Any) -> list[Any]:
    leaves = [ag.tensor(v, dtype=ag.float64, requires_grad=True) for v in values]
    result = function(*leaves)
    result.backward(ag.ones_like(result))
    return [host(leaf.grad).tolist() for leaf in leaves]


NON_SMOOTH: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("max shares ties", lambda x: x.max(), [[1.0, 3, 3]], [[0, 0.5, 0.5]]),
    ("min shares ties", lambda x: x.min(), [[1.0, 1, 3]], [[0.5, 0.5, 0]]),
    ("amax shares ties", lambda x: x.amax(0), [[2.0, 2, 2, 1]], [[1 / 3, 1 / 3, 1 / 3, 0]]),
    ("amax of NaN", lambda x: x.amax(0), [[1.0, NAN]], [[NAN, NAN]]),
    ("aminmax of NaN", lambda x: x.aminmax().min, [[1.0, NAN]], [[NAN, NAN]]),
    ("median shares ties", lambda x: x.median(), [[2.0, 2, 3]], [[0.5, 0.5, 0]]),
    ("max(dim) takes the index", lambda x: x.max(0).values, [[1.0, 3, 3]], [[0, 1, 0]]),
    ("min(dim) takes the index", lambda x: x.min(0).values, [[1.0, 1, 3]], [[1, 0, 0]]),
    ("maximum", ag.maximum, [[1.0, 2], [1.0, 1]], [[0.5, 1], [0.5, 0]]),
    ("minimum", ag.minimum, [[1.0, 2], [1.0, 1]], [[0.5, 0], [0.5, 1]]),
    ("abs", ag.abs, [[0.0, -2]], [[0, -1]]),
    ("relu", ag.relu, [[0.0, 1, -1]], [[0, 1, 0]]),
    ("clamp", lambda x: x.clamp(0, 2), [[0.0, 2, 1, 3]], [[1, 1, 1, 0]]),
    ("clamp_min", lambda x: x.clamp_min(0), [[0.0, -1]], [[1, 0]]),
    ("hardtanh", F.hardtanh, [[-1.0, 1, 0, NAN]], [[0, 0, 1, 1]]),
    ("hardswish", F.hardswish, [[-3.0, 3, NAN]], [[0, 1, 1]]),
    ("elu", F.elu, [[0.0, 2, NAN]], [[1, 1, 1]]),
    ("norm of NaN", lambda x: x.norm(INF), [[1.0, NAN]], [[0, 0]]),
    ("atan2", ag.atan2, [[0.0], [0.0]], [[0], [0]]),
    ("x ** 0.5 at -0", lambda x: x**0.5, [[-0.0, -INF]], [[-INF, NAN]]),
    ("leaky_relu", F.leaky_relu, [[0.0, 1]], [[0.01, 1]]),
    ("norm", lambda x: x.norm(), [[0.0, 0]], [[0, 0]]),
    ("sqrt", ag.sqrt, [[0.0, 4]], [[INF, 0.25]]),
    ("prod, one zero", ag.prod, [[2.0, 0, 3]], [[0, 6, 0]]),
    ("prod, two zeros", ag.prod, [[2.0, 0, 0]], [[0, 0, 0]]),
    ("x ** 0", lambda x: x**0, [[0.0, 2]], [[0, 0]]),
    ("0 ** v", lambda v: 0**v, [[0.0, 2]], [[0, 0]]),
    ("x ** v at 0", ag.pow, [[0.0, 0], [0.0, 2]], [[0, 0], [0, 0]]),
    ("std of equal values", ag.std, [[2.0, 2, 2]], [[0, 0, 0]]),
    ("cumprod with a zero", lambda x: x.cumprod(0), [[2.0, 0, 3]], [[1, 8, 0]]),
    ("logsumexp", lambda x: x.logsumexp(0), [[-INF, 0]], [[0, 1]]),
    ("hypot", ag.hypot, [[0.0], [0.0]], [[NAN], [NAN]]),
    ("duplicates sum", lambda x: x[ag.tensor([0, 0, 1])], [[1.0, 2]], [[2, 1]]),
]


@pytest.mark.parametrize(
    ("function", "values", "expected"), [k[1:] for k in NON_SMOOTH], ids=[k[0] for k in NON_SMOOTH]
)
def test_gradients_at_non_smooth_points(
    function: Any, values: list[Any], expected: list[Any]
) -> None:
    for found, wanted in zip(gradient(function, *values), expected, strict=True):
        close(found, wanted, "gradient")


def elementwise(op: Op) -> bool:
    """One tensor, or two that are promoted together, and a first sample without dimensions."""
    if "dim" in op.params or (not op.reference and op.policy == KEEP):
        return False
    tensors = [n for n in op.inputs if isinstance(calls(op)[0].values[n], numpy.ndarray)]
    return list(op.inputs) == tensors and len(tensors) < 3 and not op.lists and op.policy != KEEP


@every(elementwise)
@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_extreme_values_as_torch(op: Op) -> None:
    function = counterpart(op)
    if function is None or calls(op)[0].values[op.inputs[0]].dtype.kind != "f":
        return
    grid = numpy.meshgrid(*[LINE] * len(op.inputs))
    arrays = {n: a.ravel().copy() for n, a in zip(op.inputs, grid, strict=True)}
    plain = calls(op)[0].values
    wanted = op.diff_inputs if differentiable(op) else ()
    ours = {n: from_array(a.copy(), n in wanted) for n, a in arrays.items()}
    out = run(op, {**plain, **ours})[0]
    forth, back = (theirs_of(op, function, plain, arrays, wanted, way) for way in (1, -1))
    close(host(out), forth[0], op.name, 1e-6, 1e-12)
    if not out.requires_grad:
        return
    for arriving, *answers in zip((1.0, INF), forth[1], back[1], strict=True):
        out.backward(ag.full_like(out, arriving), retain_graph=True)
        for name, leaf in ours.items():
            found, leaf.grad = leaf.grad, None
            exact, other = (each.get(name) for each in answers)
            if exact is not None:
                known = ~numpy.any([numpy.isnan(a) for a in arrays.values()], axis=0)
                known &= numpy.isclose(exact, other, 1e-6, 1e-12)
                told = f"gradient of {name} for {arriving}"
                close(host(found)[known], exact[known], told, 1e-6, 1e-12)


def theirs_of(
    op: Op, function: Any, plain: Any, arrays: Any, wanted: Any, way: int
) -> tuple[Any, list[dict[str, Any]]]:
    """torch's values, and its gradients for 1 and infinity, with the elements from the front (1) or
    from the back (-1): where they are NaN or zero, its answer depends on whether the element is in
    one of its vectors or in what is left after them.
    """
    leaves = {
        n: torch.tensor(a[::way].copy(), requires_grad=n in wanted) for n, a in arrays.items()
    }
    positional, keyword = arguments(op, {**plain, **leaves})
    result = listed(function(*positional, **keyword))[0]
    gradients: list[dict[str, Any]] = []
    for arriving in (1.0, INF) if result.requires_grad else ():
        result.backward(torch.full_like(result, arriving), retain_graph=True)
        grads = {n: leaf.grad for n, leaf in leaves.items() if leaf.grad is not None}
        gradients.append({n: g.numpy(force=True)[::way] for n, g in grads.items()})
        for leaf in leaves.values():
            leaf.grad = None
    return result.numpy(force=True)[::way], gradients or [{}, {}]


SQUARES: dict[str, Any] = {
    "norm": lambda t, x: x.norm(),
    "norm, of rows": lambda t, x: x.norm(2, 1),
    "vector_norm": lambda t, x: t.linalg.vector_norm(x, 2, 1),
    "matrix_norm": lambda t, x: t.linalg.matrix_norm(x),
    "dist": lambda t, x: t.dist(x, -x),
    "normalize": lambda t, x: t.nn.functional.normalize(x),
    "cosine_similarity": lambda t, x: t.nn.functional.cosine_similarity(x, x.flip(0)),
    "pairwise_distance": lambda t, x: t.nn.functional.pairwise_distance(x, -x),
    "renorm": lambda t, x: x.renorm(2, 0, 1.0),
    "std": lambda t, x: x.std(),
    "std, of rows": lambda t, x: x.std(1),
    "std_mean": lambda t, x: t.std_mean(x, 1)[0],
    "mean of var_mean": lambda t, x: t.var_mean(x * 40)[1],
    "attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(x, x, x),
    "embedding_bag": lambda t, x: t.nn.functional.embedding_bag(t.tensor([[0, 1]]), x),
}


@pytest.mark.parametrize("scale", [300.0, 3e-4])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SQUARES)
def test_sixteen_bits_do_not_lose_squares(name: str, dtype: str, scale: float) -> None:
    """What is squared and added on the way to a result that fits is computed in float32."""
    found = []
    for t in (ag, torch):
        rows = [[1.0, -2.0, 0.5, 1.5], [2.0, 1.0, -1.0, 0.25], [-0.5, 1.0, 1.25, 3.0]]
        x = (t.tensor(rows) * scale).to(getattr(t, dtype)).requires_grad_()
        y = SQUARES[name](t, x)
        (slope,) = t.autograd.grad(y.sum(), x)
        assert str(y.dtype) == str(slope.dtype) == f"torch.{dtype}"
        found.append([host(each.detach().float()) for each in (y, slope)])
    near = 4e-3 if dtype == "float16" else 3e-2
    for mine, other in zip(*found, strict=True):
        numpy.testing.assert_allclose(mine, other, rtol=near, atol=near * abs(other).max())
