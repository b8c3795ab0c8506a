"""nn.init: what can be known of random values, and the rest against torch."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest

import ag_visual as ag
from tests.oracle import torch
from tests.programs import agree, raised

# (function, arguments, mean, standard deviation, least, most) of 200 x 100 values
RANDOM: dict[str, tuple[Any, float, float, float, float]] = {
    "uniform_": ((-1.0, 3.0), 1.0, 4 / math.sqrt(12), -1.0, 3.0),
    "normal_": ((1.0, 2.0), 1.0, 2.0, -math.inf, math.inf),
    "trunc_normal_": ((0.0, 1.0, -1.0, 1.0), 0.0, 0.5396, -1.0, 1.0),
    "xavier_uniform_": ((2.0,), 0.0, 2 * math.sqrt(2 / 300), -0.2829, 0.2829),
    "xavier_normal_": ((2.0,), 0.0, 2 * math.sqrt(2 / 300), -math.inf, math.inf),
    "kaiming_uniform_": ((0.0,), 0.0, math.sqrt(2 / 100), -0.24495, 0.24495),
    "kaiming_normal_": ((1.0, "fan_out"), 0.0, math.sqrt(1 / 200), -math.inf, math.inf),
}
GAINS = ["linear", "conv1d", "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"]


@pytest.mark.parametrize("name", RANDOM)
def test_distribution(name: str) -> None:
    args, mean, std, least, most = RANDOM[name]
    ag.manual_seed(0)
    w = ag.nn.Parameter(ag.empty(200, 100, dtype=ag.float64))
    before = w._version
    assert getattr(ag.nn.init, name)(w, *args) is w
    assert w.grad_fn is None
    assert w._version > before
    assert w.mean().item() == pytest.approx(mean, abs=5 * std / math.sqrt(20000))
    assert w.std().item() == pytest.approx(std, rel=0.03)
    assert least <= w.min().item() <= w.max().item() <= most


@pytest.mark.parametrize("name", RANDOM)
def test_generator(name: str) -> None:
    pair = [
        getattr(ag.nn.init, name)(ag.empty(3, 4), generator=ag.Generator().manual_seed(5))
        for _ in range(2)
    ]
    assert pair[0].tolist() == pair[1].tolist()


def test_not_random() -> None:
    def program(t: Any) -> Any:
        init = t.nn.init
        return [
            init.eye_(t.empty(3, 4)),
            init.dirac_(t.empty(4, 3, 3)),
            init.dirac_(t.empty(4, 2, 3, 2), 2),
            init.dirac_(t.empty(2, 3, 1, 2, 3)),
            init.constant_(t.empty(2), 0.3),
            init.ones_(t.empty(2)),
            init.zeros_(t.empty(2)),
            [init.calculate_gain(name) for name in GAINS],
            init.calculate_gain("leaky_relu", 0.3),
        ]

    agree(program)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (5, 5), (3, 2, 4)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    w = ag.nn.init.orthogonal_(ag.empty(shape, dtype=ag.float64), gain=2.0).reshape(shape[0], -1)
    rows, columns = w.shape
    product = w @ w.t() if rows <= columns else w.t() @ w
    assert ag.allclose(product, 4 * ag.eye(min(rows, columns), dtype=ag.float64))


def test_sparse() -> None:
    w = ag.nn.init.sparse_(ag.empty(20, 7), 0.33, std=3.0)
    assert ((w == 0).sum(0) == 7).all()
    assert w.std().item() > 1


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.nn.init.eye_(t.empty(3)),
        lambda t: t.nn.init.dirac_(t.empty(3, 3)),
        lambda t: t.nn.init.dirac_(t.empty(3, 3, 3), 2),
        lambda t: t.nn.init.orthogonal_(t.empty(3)),
        lambda t: t.nn.init.sparse_(t.empty(3), 0.5),
        lambda t: t.nn.init.xavier_normal_(t.empty(3)),
        lambda t: t.nn.init.kaiming_normal_(t.empty(3, 3), mode="odd"),
        lambda t: t.nn.init.calculate_gain("odd"),
        lambda t: t.nn.init.calculate_gain("leaky_relu", True),
    ],
)
def test_bad_arguments(make: Any) -> None:
    def program(t: Any) -> Any:
        kind, text = raised(lambda: make(t))
        return [kind, text[:33]]

    agree(program)


def test_warnings_and_signatures() -> None:
    with pytest.warns(UserWarning, match="no-op"):
        ag.nn.init.kaiming_uniform_(ag.empty(0, 3))
    with pytest.warns(UserWarning, match="more than 2 std"):
        ag.nn.init.trunc_normal_(ag.empty(3), 9.0)
    for name in (n for n in dir(torch.nn.init) if n.endswith("_") and not n.startswith("_")):
        ours, theirs = (inspect.signature(getattr(t.nn.init, name)) for t in (ag, torch))
        assert [(k, p.default) for k, p in ours.parameters.items()] == [
            (k, p.default) for k, p in theirs.parameters.items()
        ], name


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("name", "args"),
    [
        *(("constant", (3.0,)), ("eye", ()), ("dirac", ()), ("uniform", ()), ("normal", ())),
        *(("xavier_uniform", ()), ("xavier_normal", ()), ("kaiming_uniform", ())),
        *(("kaiming_normal", ()), ("orthogonal", ()), ("sparse", (0.5,))),
    ],
)
def test_older_names_warn_and_fill(name: str, args: tuple[Any, ...]) -> None:
    told = []
    for t in (ag, torch):
        w = t.empty((4, 4, 3) if name == "dirac" else (4, 4))
        with pytest.warns(FutureWarning) as warned:
            result = getattr(t.nn.init, name)(w, *args)
        told.append(str(warned[0].message))
        assert result is w
    assert told[0] == told[1]
    if name in ("constant", "eye"):
        assert result.tolist() == getattr(ag.nn.init, f"{name}_")(ag.empty(4, 4), *args).tolist()
