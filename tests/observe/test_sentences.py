"""What cards say of ops: something of each, and for readers, not for who implements them."""

from __future__ import annotations

import re

import pytest

import ag_visual as torch
from ag_visual.dispatch.table import ops
from ag_visual.observe.formulas import sentences
from ag_visual.observe.formulas.cards import card, card_by_name

DIFFERENTIABLE = [op for op in ops.values() if op.rules]

OF_IMPLEMENTERS = re.compile(
    r"Raises|int32|int64|float16|float32|NumPy|LAPACK|[Aa]s torch|named tuple|named_tuple|kernel_|"
    r"no lazy|an op of its own|relative precision|see nn\\.|CuPy|always stable|Source:"
)


def test_something_is_said_of_every_differentiable_op():
    assert sentences.undescribed() == []


def test_nothing_of_it_is_about_the_implementation():
    told = {op.name: sentences.described(op) for op in DIFFERENTIABLE}
    assert {name: text for name, text in told.items() if OF_IMPLEMENTERS.search(text)} == {}
    assert OF_IMPLEMENTERS.search("The sum; integers add up in int64.")


@pytest.mark.parametrize(
    ("made", "what", "means"),
    [
        (lambda x: x * x, "self * other, elementwise.", sentences.SCALES_EACH),
        (lambda x: x.tanh(), "The hyperbolic tangent", sentences.SCALES),
        (lambda x: x - x, "self - alpha * other, elementwise.", sentences.PASSES),
        (lambda x: x.sum(0), "The sum of all elements, or over dim.", sentences.SHARES),
        (lambda x: x.amax(), "The largest element", sentences.COUNTS),
        (lambda x: x @ x, "The product of two matrices.", sentences.CROSSES),
        (lambda x: x.t(), "A matrix transposed", sentences.MOVES),
    ],
)
def test_what_the_derivative_means_follows_from_the_kind_of_op(made, what, means):
    says = card(made(torch.ones(2, 2, requires_grad=True)).grad_fn)["says"]
    assert says.startswith(what)
    assert says.endswith(means)


def test_the_gradient_of_an_op_is_said_to_be_one():
    assert "gradient of tanh" in card_by_name("TanhBackwardBackward0")["says"]
