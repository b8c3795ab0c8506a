"""Integers and bools: the values and dtypes that torch gives them, and what it refuses."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.programs import agree, agree_in_words, told

EXPRESSIONS = [
    "t.nn.functional.hardtanh(t.tensor([-3, 0, 5]))",
    "t.nn.functional.hardtanh(t.tensor([-3, 0, 5]), -1.5, 2.7)",
    "t.nn.functional.hardtanh(t.tensor([3, 0], dtype=t.uint8))",
    "t.nn.functional.hardtanh(b)",
    "t.nn.functional.relu6(t.tensor([8, -1], dtype=t.int8))",
    "t.logsumexp(b, 0)",
    "t.logsumexp(t.tensor([1, 2]), 0)",
    "t.conj_physical(b)",
    "t.diff(b)",
    "t.diff(b, n=2)",
    "t.diff(b, prepend=b)",
    "t.diff(b, prepend=t.tensor([1, 2]))",
    "t.diff(b, prepend=t.tensor(True))",
    "t.diff(t.tensor(1.0))",
    "t.diff(b, n=-1)",
    "t.diff(b, dim=2)",
    "3 ** t.tensor(-2)",
    "(-3) ** (u * 3)",
    "300 ** (u * 3)",
    "t.tensor([2, -1, 1, -1, -2]) ** t.tensor([1, -1, -3, -2, -1])",
    "t.tensor([2, -1, 1]).pow_(t.tensor([-1, -1, -3]))",
    "t.tensor([2, 3]) ** -1",
    "t.tensor([2, 3]) ** -1.0",
    "u ** 300",
    "b ** b",
    "b ** True",
    "b ** 2",
    "2 ** b",
    "b ** t.tensor([2, 3, 4])",
    "t.add(u, u, alpha=-3)",
    "t.add(u, u, alpha=300)",
    "t.rsub(u, u, alpha=-3)",
    "t.addmm(m, m, m, beta=0.6, alpha=0.2)",
    "t.addmm(m, m, m, beta=2.6, alpha=1.2)",
    "t.addmm(m.byte(), m.byte(), m.byte(), alpha=-1)",
    "t.addmv(m[0], m, m[0], beta=0.6, alpha=2.2)",
    "t.addbmm(m.int(), m[None].int(), m[None].int(), beta=2)",
    "t.baddbmm(m[None], m[None], m[None], alpha=0.2)",
    "t.addr(m, m[0], m[0], beta=0.6)",
    "t.addr(b, b, b, beta=2, alpha=3)",
    "t.sum(u, 0, dtype=t.uint8)",
    "t.sum(u, dtype=t.bool)",
    "t.prod(u, 0, dtype=t.int32)",
    "t.prod(b, dtype=t.bool)",
    "t.nansum(u, dtype=t.int16)",
    "t.cumsum(u, 0, dtype=t.uint8)",
    "t.cumprod(u, 0, dtype=t.int32)",
    "u.all()",
    "u.any(0, keepdim=True)",
    "u.int().all()",
    "t.linspace(4.3, -3, 8, dtype=t.int64)",
    "t.linspace(0, 10.9, 4, dtype=t.int32)",
    "t.logspace(0, 1.9, 3, dtype=t.int64)",
    "t.linspace(t.tensor([0.0]), t.tensor([1.0]), 3)",
    "t.logspace(0, t.tensor([[1.0]]), 3)",
    "b % b",
    "t.fmod(b, b)",
    "b // b",
    "t.lerp(b, b, 0.5)",
    "b.clone().lerp_(b, 0.5)",
    "t.ones(3, dtype=t.uint8).index_add(0, t.tensor([0]), u[:1], alpha=-1)",
    "t.tensor([1, 2]).scatter(0, t.tensor([0]), 2.5, reduce='add')",
    "t.tensor([1, 2]).scatter_(0, t.tensor([0]), 2.5, reduce='multiply')",
    "t.tensordot(t.ones(1, 2).int(), t.ones(3, 2).int(), [[0], [0]])",
    "t.relu(b)",
    "b.clone().relu_()",
    "t.relu(u)",
    "t.var(u)",
    "t.std(b)",
    "m.var(0)",
    "t.var_mean(m)",
    "t.std_mean(u, 0)",
    "t.norm(m)",
    "m[0].norm(1)",
    "t.norm(u, dtype=t.float32)",
    "t.nn.functional.normalize(m)",
    "t.nn.functional.smooth_l1_loss(u, u)",
    "t.nn.functional.huber_loss(u, u)",
    "t.var(m, dtype=t.float32)",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_torch(expression: str) -> None:
    def program(t: Any) -> Any:
        scope = {
            "t": t,
            "b": t.tensor([True, False, False]),
            "m": t.ones(2, 2, dtype=t.int64),
            "u": t.tensor([200, 100, 3], dtype=t.uint8),
        }

        def call() -> Any:
            scope["found"] = eval(expression, scope)

        error = told(call)
        if "text" in error:  # torch names its kernels: "remainder_cpu"
            error["text"] = re.sub(r"\"\w+\" not", "not", error["text"])
        found = scope.get("found")
        return error if found is None else [found, str(found.dtype)]

    agree_in_words(program)


def test_no_factor_of_a_contraction() -> None:
    agree(lambda t: [t.tensordot(t.ones(0), t.ones(0), 1), t.tensordot(t.ones(()), t.ones(()), 0)])
    agree(lambda t: list(t.tensordot(t.ones(()), t.ones(2, 0), 0).shape))
    agree_in_words(lambda t: told(lambda: t.tensordot(t.ones(()), t.ones(2), 1)))
