"""A product added to a tensor: addmm, addbmm, baddbmm, addmv, addr."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual import dtypes, promotion
from ag_visual.dispatch.families import number_in
from ag_visual.dispatch.record import ONCE, Sample
from ag_visual.dispatch.rules import requesting, takes
from ag_visual.dispatch.table import op
from ag_visual.dispatch.vmap import Batch
from ag_visual.ops.linalg.mm import (
    _bmm,
    _left,
    _mm,
    _right,
    _scaled,
    _turned,
    factors_fit,
    multiplied,
    mv,
    outer_product,
    same_dtype,
)


def _plus(xp, self, product, beta, alpha):
    """beta * self + alpha * product; a zero beta ignores self, NaN included, as torch does."""
    if product.dtype.kind in "iub":
        alpha, beta = number_in(alpha, product.dtype), number_in(beta, product.dtype)
    if alpha != 1:
        product = _scaled(product, alpha)
    if beta == 0:
        return product
    if beta != 1:
        self = _scaled(self, beta)
    alike = self.shape == product.shape[product.ndim - self.ndim :]
    if not alike and product.ndim and _broadcast(self, product) != product.shape:
        raise RuntimeError(
            f"The expanded size of the tensor must match: self {list(self.shape)} does not "
            f"broadcast to the product's shape {list(product.shape)}"
        )
    return self + product


def _broadcast(self, product) -> tuple[int, ...]:
    return numpy.broadcast_shapes(self.shape, product.shape)


def _plus_alike(xp, self, product, beta, alpha):
    """`_plus` for all but addr."""
    if self.dtype != product.dtype:
        same_dtype("self", self, product)
    return _plus(xp, self, product, beta, alpha)


def _plus_promoted(xp, self, product, beta, alpha):
    """`_plus` of addr."""
    self, product = _in_common(self, product)
    for name, factor in (("alpha", alpha), ("beta", beta)):
        if product.dtype.kind in "iub" and isinstance(factor, (float, complex)):
            raise RuntimeError(
                f"For integral input tensors, argument {name} must not be a floating point number."
            )
    return _plus(xp, self, product, beta, alpha)


def _mm_added(xp, mat1, mat2):
    if mat1.dtype != mat2.dtype:
        same_dtype("addmm", mat1, mat2)
    try:
        return _mm(xp, mat1, mat2)
    except ValueError:
        factors_fit(mat1, mat2)
        raise


def _times(x, factor):
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
    plus: Callable[..., Any] = _plus_alike,
    sliced: Callable[[Batch, str, str], Any] = multiplied,
    **options,
) -> None:
    """beta * self + alpha * (left x right), with the rules of the product.

    sliced: the product of slices.
    """
    options.setdefault("may_alias", (left, right))
    options.setdefault("out", "check_overlap")
    rule_left, rule_right = rules
    left_facts = (f"{left}_strides",) if strides else ()
    right_facts = (f"{right}_strides",) if strides else ()

    @takes("xp", "self", left, right)
    def kernel(xp, self, x, y, *, beta=1, alpha=1):
        return plus(xp, self, product(xp, x, y), beta, alpha)

    vjp = {
        "self": lambda g, beta: _times(g, beta),
        left: requesting("alpha", "F", "g", right, *left_facts)(
            lambda alpha, *known: _times(rule_left(*known), alpha)
        ),
        right: requesting("alpha", "F", "g", left, *right_facts)(
            lambda alpha, *known: _times(rule_right(*known), alpha)
        ),
    }

    def samples(make):
        for shape in shapes[:-2]:
            yield Sample((make(shape), make(shapes[-2]), make(shapes[-1])))
        yield Sample(
            (make(shapes[0]), make(shapes[-2]), make(shapes[-1])), {"beta": 0.5, "alpha": -2}
        )

    def slices(batch: Batch):
        """The product of the slices, and what is added to it."""
        F = batch.F
        found = sliced(batch, left, right)
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

    if plus is _plus_alike:
        options.update(opmath=True, rounding=ONCE)
    op(
        name,
        kernel,
        vjp=vjp,
        jvp={
            "self": lambda F, t_self, result, beta: F.expand(
                _times(t_self, beta), tuple(result.shape)
            ),
            left: requesting("F", "self", f"t_{left}", right, "alpha")(
                lambda F, self, t, y, alpha: getattr(F, name)(self, t, y, beta=0, alpha=alpha)
            ),
            right: requesting("F", "self", left, f"t_{right}", "alpha")(
                lambda F, self, x, t, alpha: getattr(F, name)(self, x, t, beta=0, alpha=alpha)
            ),
        },
        batch=slices,
        inplace=True,
        samples=samples,
        formula=requesting("self", left, right, "beta", "alpha")(
            lambda self, x, y, beta, alpha: beta * self + alpha * (x @ y)
        )
        if name not in ("addbmm", "addr")
        else None,
        **options,
    )


def _addbmm_left(F, g, batch2):
    return F.bmm(_repeated(F, g, batch2), _turned(F, batch2))


def _addbmm_right(F, g, batch1):
    return F.bmm(_turned(F, batch1), _repeated(F, g, batch1))


def _repeated(F, g, batch):
    return F.expand(g, (batch.shape[0], *g.shape))


def _in_common(*arrays) -> tuple[Any, ...]:
    """Arrays in the dtype that torch gives them together, 0-d ones counting like others."""
    kinds = [dtypes.of_array(a) for a in arrays]
    common = functools.reduce(promotion.promote_types, kinds).np
    return tuple(a.astype(common, copy=False) for a in arrays)


def _bmm_added(xp, batch1, batch2):
    products = _bmm(xp, batch1, batch2)
    whole = products.dtype if products.dtype.kind in "iu" else None
    return products.sum(axis=0, dtype=whole)


def _outer_kernel(xp, vec1, vec2):
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
    autocast="lower",
    flops="product 1",
)
_addition(
    "addmv",
    "mat",
    "vec",
    mv,
    (lambda F, g, vec: outer_product(g, vec), lambda F, g, mat: F.mv(_turned(F, mat), g)),
    ((3,), (), (3, 4), (4,)),
    rounds=frozenset(("beta", "alpha")),
    doc="beta * self + alpha * (mat @ vec).",
    inplace_function=True,
    autocast="cuda lower",
    flops="product 1",
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
    autocast="lower",
    flops="product 1",
)
_addition(
    "addbmm",
    "batch1",
    "batch2",
    _bmm_added,
    (_addbmm_left, _addbmm_right),
    ((3, 2), (2,), (2, 3, 4), (2, 4, 2)),
    doc="beta * self + alpha * the sum of the products of both batches.",
    autocast="lower",
)
_addition(
    "addr",
    "vec1",
    "vec2",
    _outer_kernel,
    (lambda F, g, vec2: F.mv(g, vec2), lambda F, g, vec1: F.mv(_turned(F, g), vec1)),
    ((3, 4), (4,), (3,), (4,)),
    plus=_plus_promoted,
    sliced=lambda batch, vec1, vec2: batch.F.mul(
        batch.F.unsqueeze(batch[vec1], -1), batch.F.unsqueeze(batch[vec2], -2)
    ),
    may_alias=(),  # torch computes it element by element, the others whole
    out="casts check_overlap",
    doc="beta * self + alpha * the outer product of two vectors.",
    autocast="cuda lower",
)
