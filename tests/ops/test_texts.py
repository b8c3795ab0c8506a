"""Errors name what the user called, and say what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag

F = ag.nn.functional

TEXTS: dict[str, tuple[Callable[[], Any], str]] = {
    "layer_norm": (lambda: F.layer_norm(ag.tensor([1, 2]), (2,)), '"layer_norm" not implemented'),
    "group_norm": (
        lambda: F.group_norm(ag.ones(1, 4, 2, dtype=ag.int64), 2),
        '"group_norm" not implemented',
    ),
    "pad": (lambda: F.pad(ag.ones(2), (1, 1), value="a"), "pad()"),
    "matmul": (lambda: ag.ones(2, 3) @ ag.ones(2, 3), "(2x3 and 2x3): the columns of the first"),
    "Linear": (lambda: ag.nn.Linear(3, 2)(ag.ones(4, 5)), ".T transposes"),
    "view": (lambda: ag.ones(2, 3).view(4), "for input of size 6: it asks for 4 elements"),
    "view -1": (lambda: ag.ones(2, 3).view(4, -1), "it asks for a multiple of 4"),
    "cat": (lambda: ag.cat([ag.ones(2, 3), ag.ones(3, 4)]), "Shapes: [2, 3], [3, 4]"),
    "add": (lambda: ag.ones(2, 3) + ag.ones(2), "Shapes: [2, 3] and [2]"),
    "special": (lambda: ag.special.xlog1py("a", "b"), "special.xlog1py(): argument"),
    "SGD of a module": (lambda: ag.optim.SGD(ag.nn.Linear(1, 1), lr=0.1), "its .parameters()"),
    "SGD of a number": (lambda: ag.optim.SGD(3, lr=0.1), "a list of Tensors"),
    "SGD of nothing": (lambda: ag.optim.SGD([], lr=0.1), "instead of a ModuleList"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_names_what_was_called_and_says_what_to_do(name: str) -> None:
    call, words = TEXTS[name]
    with pytest.raises((RuntimeError, TypeError, ValueError)) as told:
        call()
    assert words in str(told.value)
