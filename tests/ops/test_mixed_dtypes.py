"""Inputs of different dtypes: computed in torch's dtype, or refused in torch's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual
from tests.oracle import torch
from tests.programs import raised

Maker = Callable[..., Any]

# Calls with tensors of two dtypes: x(*shape) makes one of the first, w(*shape) of the second.
CALLS: dict[str, Callable[[Any, Maker, Maker], Any]] = {
    "layer_norm": lambda F, x, w: F.layer_norm(x(2, 3), (3,), w(3), w(3)),
    "layer_norm bias": lambda F, x, w: F.layer_norm(x(2, 3), (3,), x(3), w(3)),
    "batch_norm": lambda F, x, w: F.batch_norm(x(2, 3), None, None, w(3), w(3), True),
    "batch_norm running": lambda F, x, w: F.batch_norm(x(2, 3), w(3), w(3), x(3), x(3), False),
    "group_norm": lambda F, x, w: F.group_norm(x(2, 4, 3), 2, w(4), w(4)),
    "instance_norm": lambda F, x, w: F.instance_norm(x(2, 4, 3), None, None, w(4), w(4)),
    "binary_cross_entropy": lambda F, x, w: F.binary_cross_entropy(x(2), w(2)),
    "linear": lambda F, x, w: F.linear(x(2, 3), w(4, 3)),
    "linear bias": lambda F, x, w: F.linear(x(2, 3), x(4, 3), w(4)),
    "conv1d": lambda F, x, w: F.conv1d(x(1, 2, 5), w(3, 2, 3)),
    "conv2d bias": lambda F, x, w: F.conv2d(x(1, 2, 5, 5), x(3, 2, 3, 3), w(3)),
    "conv_transpose2d": lambda F, x, w: F.conv_transpose2d(x(1, 2, 5, 5), w(2, 3, 3, 3)),
    "nll_loss": lambda F, x, w: F.nll_loss(x(2, 3), classes(x), w(3)),
    "mse_loss": lambda F, x, w: F.mse_loss(x(2), w(2)),
    "l1_loss": lambda F, x, w: F.l1_loss(x(2), w(2)),
    "smooth_l1_loss": lambda F, x, w: F.smooth_l1_loss(x(2), w(2)),
    "prelu": lambda F, x, w: F.prelu(x(2), w(1)),
    "cosine_similarity": lambda F, x, w: F.cosine_similarity(x(2, 3), w(2, 3)),
    "attention": lambda F, x, w: F.scaled_dot_product_attention(x(1, 2, 3), w(1, 2, 3), w(1, 2, 3)),
    "attention mask": lambda F, x, w: F.scaled_dot_product_attention(
        x(1, 2, 3), x(1, 2, 3), x(1, 2, 3), w(2, 2)
    ),
}
METHODS: dict[str, Callable[[Any, Maker, Maker], Any]] = {
    "lerp": lambda t, x, w: t.lerp(x(2), w(2), 0.5),
    "lerp weight": lambda t, x, w: t.lerp(x(2), x(2), w(2)),
    "lerp weight without dimensions": lambda t, x, w: t.lerp(x(2), x(2), w()),
    "matmul": lambda t, x, w: x(2, 3) @ w(3, 2),
    "mv": lambda t, x, w: x(2, 3) @ w(3),
    "addmm": lambda t, x, w: t.addmm(x(2, 2), w(2, 3), w(3, 2)),
    "addr": lambda t, x, w: t.addr(x(2, 2), x(2), w(2)),
    "addcmul": lambda t, x, w: t.addcmul(x(2), x(2), w(2)),
    "einsum sum": lambda t, x, w: t.einsum("ij,jk->ik", x(2, 3), w(3, 2)),
    "einsum product": lambda t, x, w: t.einsum("ij,j->ij", x(2, 3), w(3)),
    "cross": lambda t, x, w: t.linalg.cross(x(3), w(3)),
    "isclose": lambda t, x, w: t.isclose(x(2), w(2)),
    "heaviside": lambda t, x, w: t.heaviside(x(2), w(2)),
    "cholesky_solve": lambda t, x, w: t.cholesky_solve(x(1, 1), w(1, 1)),
    "cat": lambda t, x, w: t.cat([x(2), w(2)]),
    "LSTM": lambda t, x, w: t.nn.LSTM(3, 2)(x(2, 1, 3))[0],
    "Linear": lambda t, x, w: t.nn.Linear(3, 2)(x(1, 3)),
    "LayerNorm": lambda t, x, w: t.nn.LayerNorm(3)(x(2, 3)),
    "BatchNorm": lambda t, x, w: t.nn.BatchNorm1d(3)(x(2, 3)),
}
PAIRS = [
    ("float32", "float64"),
    ("float64", "float32"),
    ("float32", "int64"),
    ("bfloat16", "float32"),
]


def classes(x: Maker) -> Any:
    return x(2).long()


def outcome(t: Any, name: str, pair: tuple[str, str]) -> tuple[str, str]:
    """The dtype of the result, or the type and the first words of what it raises."""
    first, second = (getattr(t, kind) for kind in pair)
    owner, call = (t, METHODS[name]) if name in METHODS else (t.nn.functional, CALLS[name])

    def x(*shape: int) -> Any:
        return t.ones(shape).to(first)

    def w(*shape: int) -> Any:
        return t.ones(shape).to(second)

    found: list[Any] = []
    kind, text = raised(lambda: found.append(call(owner, x, w)))
    return (kind, text) if kind else ("", str(found[0].dtype))


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
@pytest.mark.parametrize("name", [*CALLS, *METHODS])
def test_mixed_dtypes_are_torchs(name: str, pair: tuple[str, str]) -> None:
    ours, theirs = outcome(ag_visual, name, pair), outcome(torch, name, pair)
    assert ours[0] == theirs[0], (ours, theirs)
    if name.startswith("conv") and "bias" not in name:
        # torch's words depend on the library that runs it: those of its common path.
        theirs = (ours[0], "expected scalar type ")
    assert ours[1].startswith(theirs[1].partition(".")[0] if theirs[0] else theirs[1])


def test_whole_numbers_are_no_targets_of_logits() -> None:
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        ag_visual.nn.functional.binary_cross_entropy_with_logits(
            ag_visual.ones(2), ag_visual.tensor([1, 0])
        )


def test_complex_numbers_are_refused_where_there_is_no_order() -> None:
    z = ag_visual.ones(2, dtype=ag_visual.complex64)
    for name in ("maximum", "lt", "relu", "clamp", "sort", "amax"):
        more = (z,) if name in ("maximum", "lt") else (1,) if name == "clamp" else ()
        with pytest.raises(NotImplementedError, match=f'"{name}" not implemented for'):
            getattr(ag_visual, name)(z, *more)


def test_the_text_says_what_to_do() -> None:
    with pytest.raises(RuntimeError) as told:
        ag_visual.nn.LayerNorm(3)(ag_visual.ones(2, 3, dtype=ag_visual.float64))
    assert ".to(torch.float64) or .to(torch.float32)" in str(told.value)
