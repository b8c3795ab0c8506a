"""torch's own samples of each differentiable name, a few of every variant (all: see opinfo)."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.dispatch.table import ops

from ..groups import each
from ..oracle import torch
from . import opinfo
from .test_golden import reasons

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
FEW = 2


@each("name", opinfo.names(), size=16)
def test_agreement_on_torchs_own_samples(name: str) -> None:
    differs = name in reasons("agreement")
    result = opinfo.compared(name, opinfo.names()[name], None if differs else FEW)
    assert result.agrees != differs, f"{result.samples} samples: {result.differences}"


@pytest.mark.parametrize(
    "injected",
    [
        lambda x: ag.sin(x) + 1e-3,
        lambda x: ag.sin(x.detach()) + 0 * x,
        lambda x: ag.sin(x).float(),
        lambda x: ag.sin(x).unsqueeze(0),
    ],
    ids=["another value", "another gradient", "another dtype", "another shape"],
)
def test_the_comparison_finds_injected_faults(injected: Any) -> None:
    (info,) = opinfo.infos("sin")
    sample = next(iter(info.sample_inputs("cpu", torch.float64, requires_grad=True)))
    assert not opinfo.compare(info, sample, ag.sin, True)
    with numpy.errstate(all="ignore"):
        assert opinfo.compare(info, sample, injected, True)


def test_the_comparison_finds_a_gradient_that_should_require_grad(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (info,) = opinfo.infos("nn.functional.avg_pool2d")
    sample = next(iter(info.sample_inputs("cpu", torch.float64, requires_grad=True)))
    function = ag.nn.functional.avg_pool2d
    assert opinfo.compare(info, sample, function, True) == ""
    monkeypatch.setattr(ops["avg_pool2d_of"], "fused", ())
    assert opinfo.compare(info, sample, function, True).startswith("flags")


def test_the_comparison_finds_another_second_gradient() -> None:
    (info,) = opinfo.infos("sin")
    sample = next(iter(info.sample_inputs("cpu", torch.float64, requires_grad=True)))

    def once(x: Any) -> Any:
        return ag.sin(x.detach()) + (x - x.detach()) * ag.cos(x.detach())

    assert opinfo.compare(info, sample, once, False) == ""
    assert opinfo.compare(info, sample, once, True).startswith("seconds")
