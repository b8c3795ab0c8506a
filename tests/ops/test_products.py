"""Matrix products in bfloat16: NumPy multiplies it into float32, torch does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ag_visual as ag

F = ag.nn.functional

PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "mm": lambda x, w: x @ w,
    "mv": lambda x, w: x @ w[:, 0],
    "vector times matrix": lambda x, w: x[0] @ w,
    "bmm": lambda x, w: x[None].bmm(w[None]),
    "batch times matrix": lambda x, w: x[None] @ w,
    "addmm": lambda x, w: ag.addmm(w[0], x, w, beta=0.5, alpha=2),
    "linear": lambda x, w: F.linear(x, w.t(), w[0]),
    "einsum": lambda x, w: ag.einsum("ij,jk->ki", x, w),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], x[None], x[None]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_bfloat16_stay_in_it(name: str) -> None:
    values = [np.linspace(-1, 1, 12).reshape(3, 4), np.linspace(0, 1, 8).reshape(4, 2)]
    found = {}
    for dtype in (ag.float32, ag.bfloat16):
        x, w = (ag.tensor(v).to(dtype).requires_grad_() for v in values)
        y = PRODUCTS[name](x, w)
        assert y.dtype is dtype
        y.float().sin().sum().backward()
        grads = [g for g in (x.grad, w.grad) if g is not None]
        assert all(g.dtype is dtype for g in grads)
        found[dtype] = [y.detach().float().numpy(), *(g.float().numpy() for g in grads)]
    for rough, exact in zip(found[ag.bfloat16], found[ag.float32], strict=True):
        np.testing.assert_allclose(rough, exact, rtol=0.05, atol=0.05)
