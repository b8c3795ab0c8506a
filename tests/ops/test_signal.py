"""torch.signal.windows, beside torch: values, dtypes, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ag_visual as ag
from tests.oracle import torch

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "exponential": [{"tau": 3.0}, {"center": 1.5, "sym": False}],
    "gaussian": [{"std": 2.5}],
    "general_cosine": [{"a": [0.4, 0.3, 0.3]}, {"a": (1.0,)}],
    "general_hamming": [{"alpha": 0.7}],
    "kaiser": [{"beta": 0.0}, {"beta": 3}],
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", ag.signal.windows.__all__)
def test_windows_are_torchs(name: str) -> None:
    assert set(ag.signal.windows.__all__) == set(torch.signal.windows.__all__)
    ours, theirs = getattr(ag.signal.windows, name), getattr(torch.signal.windows, name)
    plain: list[dict[str, Any]] = [] if name == "general_cosine" else [{}, {"sym": False}]
    for options in [*plain, *OPTIONS.get(name, [])]:
        for size in (0, 1, 2, 3, 8, 33):
            for kind, tolerance in (("float32", 1e-6), ("float64", 1e-13)):
                found = ours(size, dtype=getattr(ag, kind), **options)
                wanted = theirs(size, dtype=getattr(torch, kind), **options)
                assert str(found.dtype) == str(wanted.dtype)
                np.testing.assert_allclose(found.numpy(), wanted.numpy(), 0, tolerance)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("hann", {"M": -1}),
        ("nuttall", {"M": 5, "dtype": "int32"}),
        ("bartlett", {"M": 5, "dtype": "float16"}),
        ("cosine", {"M": 5, "layout": "sparse_coo"}),
        ("kaiser", {"M": 5, "beta": -1}),
        ("gaussian", {"M": 5, "std": 0}),
        ("exponential", {"M": 5, "tau": 0.0}),
        ("exponential", {"M": 5, "center": 1.0}),
        ("general_cosine", {"M": 5, "a": []}),
    ],
)
def test_what_torch_refuses_is_refused_in_its_words(name: str, given: dict[str, Any]) -> None:
    said = []
    for engine in (ag, torch):
        named = {k: getattr(engine, v) if isinstance(v, str) else v for k, v in given.items()}
        with pytest.raises(ValueError) as raised:
            getattr(engine.signal.windows, name)(**named)
        said.append(str(raised.value))
    assert said[0] == said[1]


def test_a_window_is_a_leaf_and_its_size_an_integer() -> None:
    window = ag.signal.windows.hann(ag.tensor(4), requires_grad=True)
    (window * ag.arange(4.0)).sum().backward()
    assert window.is_leaf
    assert window.grad.tolist() == [0, 1, 2, 3]
    with pytest.raises(TypeError, match=r"M is the number of places, an int, but is 2\.5"):
        ag.signal.windows.hann(2.5)
    with pytest.raises(TypeError, match="list/tuple, but are float"):
        ag.signal.windows.general_cosine(5, a=1.0)
