"""Einstein's sums leave the graph that torch leaves: the same nodes, edges and saved shapes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.programs import agree

# Sizes of the labels; 1 where a label is to broadcast.
SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 6, "h": 3, "o": 1}
EQUATIONS = """
a,b->ab a,b->ba a,b a,a->a a,a-> ab,bc->ac ab,bc->ca hab,hbc->hac hab,hbc->ahc hab,hbc->cha
ab->ba ab-> ab->a ab->b aa-> aa->a aab->b aab->ab abc->cab ab->ab ab,b->a ab,a->ab ab,a->b ab,b->ab
a,ab,b-> ab,cd->abcd ab,cd-> ab,cd->ad ab,ab->ab ab,ab-> ab,ab->a ab,ba-> a,b,c->abc a,b,c->cab
ab,abc,ac->a ha,hb->hab a,->a ,-> ,a-> ab,bc,cd->ad ab,bc,cd->da ab,bc,cd->db ab,cb->ac ab,cb->ca
abc,cd->dab abc,cd->bda ac,cbd->bda abe,ecd->cdab abe,ecd->cbad hac,hcb->bah hac,hc->ha hc,hcb->bh
o,ab->ob oa,ob->ab ao,ob->ab oab,hbc->hac ab,ob->a ...a,...a->... ...ab,...bc->...ac ab...->ba...
...ab->...ba h...a,h...b->h...ab a...,->a... ab,bc->
"""


def _operand(t: Any, labels: str, i: int) -> Any:
    shape = [n for label in labels.replace("...", "eh") for n in [SIZES[label]]]
    values = t.arange(float(math.prod(shape)), dtype=t.float64) + i + 1
    return (values / math.prod(shape)).reshape(shape).requires_grad_()


def _graph(node: Any) -> Any:
    if node is None:
        return None
    saved = (getattr(node, f"_saved_{name}", None) for name in ("self", "mat2", "other"))
    return [
        node.name(),
        [list(x.shape) if x is not None else None for x in saved],
        [_graph(each) for each, _ in node.next_functions],
    ]


@pytest.mark.parametrize("equation", EQUATIONS.split())
def test_the_graph_is_that_of_torch(equation: str) -> None:
    def program(t: Any) -> Any:
        terms = equation.partition("->")[0].split(",")
        operands = [_operand(t, labels, i) for i, labels in enumerate(terms)]
        result = t.einsum(equation, *operands)
        loss = (result * result).sum()
        return [_graph(result.grad_fn), result, t.autograd.grad(loss, operands)]

    agree(program)
