"""The factor alpha of sums and differences: which numbers it may be, and the dtype it leaves."""

from __future__ import annotations

import functools
from typing import Any

import numpy
import pytest

import ag_visual as ag
from tests.oracle import torch
from tests.programs import agree, raised

ALPHAS: dict[str, Any] = {
    "1": 1,
    "2": 2,
    "1.0": 1.0,
    "2.5": 2.5,
    "True": True,
    "False": False,
    "1+0j": 1 + 0j,
    "2j": 2j,
    "numpy": numpy.float32(2),
    "None": None,
    "str": "2",
}


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32", "bfloat16", "complex64"])
@pytest.mark.parametrize("name", ["add", "sub", "add_", "sub_"])
def test_alpha_is_taken_or_refused(name: str, dtype: str, alpha: str) -> None:
    def program(t: Any) -> Any:
        def run() -> str:
            x, y = (t.tensor(v).to(getattr(t, dtype)) for v in ([1, 0], [1, 1]))
            found = getattr(x, name)(y, alpha=ALPHAS[alpha])
            return f"{found.dtype} {found.tolist()}"

        kind, text = raised(run)
        # torch's text names the in-place variant.
        return [kind, text.replace("_()", "()")[:60]] if kind else run()

    agree(program)


@pytest.mark.parametrize("value", [2.0, 1, True, [2.0]])
def test_alpha_may_be_a_tensor_without_dimensions(value: Any) -> None:
    def program(t: Any) -> Any:
        x = t.ones(2, requires_grad=True)

        def run(alpha: Any) -> None:
            t.add(x, x * 2, alpha=alpha).sum().backward()

        seen = [raised(lambda: run(t.tensor(value)))]
        if isinstance(value, float):
            seen.append(raised(lambda: run(t.tensor(value, requires_grad=True))))
        return [[(kind, text[:50]) for kind, text in seen], x.grad]

    agree(program)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("alpha", [2, 1.5, numpy.float64(2), numpy.int64(2)])
@pytest.mark.parametrize("other", [1, 2.5, numpy.float64(1)])
@pytest.mark.parametrize("name", ["add", "sub", "rsub", "add_", "sub_"])
def test_alpha_times_a_number_keeps_the_dtype(
    name: str, other: Any, alpha: Any, dtype: str
) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1, 0]).to(getattr(t, dtype))
        called = [getattr(x, name)] if name[-1] == "_" else [getattr(t, name), x]
        call = functools.partial(*called, other, alpha=alpha)
        kind, _ = raised(call)
        return kind or [str((found := call()).dtype)[-9:], found]

    agree(program)


@pytest.mark.parametrize("name", ["add_", "sub_"])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_refused_alpha_counts_no_write(name: str, shape: tuple[int, ...]) -> None:
    for engine in (ag, torch):
        x, y = engine.ones(shape), engine.ones(shape)
        for other in (x, y, 2):
            with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean"):
                getattr(x, name)(other, alpha=True)
        assert x._version == 0
        assert x.equal(y)
