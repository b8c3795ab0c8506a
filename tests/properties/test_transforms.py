"""A few of torch's own samples under jvp, vmap, and grad with these (all: see transforms)."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

import ag_visual as ag

from ..oracle import torch
from . import transforms
from .opinfo import infos, names
from .test_golden import reasons

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
EACH = 12


def chosen() -> list[tuple[str, str]]:
    """Each transform of every few names, other ones for each: names whose samples are quick."""
    slow = ("conv", "linalg", "pool", "attention", "svd", "norm", "fft", "ormqr", "cross_entropy")
    quick = [name for name in names() if not any(part in name for part in slow)]
    return [
        (name, form)
        for name in quick
        for number, form in enumerate(transforms.TRANSFORMS)
        if zlib.crc32(name.encode()) % EACH == number % EACH
    ]


def test_torchs_samples_agree() -> None:
    known = reasons("transform")
    differing = {}
    for name, form in chosen():
        result = transforms.compared(name, False, form, 1)
        if result.differences and name not in known:
            differing[name, form] = result.differences
    assert differing == {}


def _detached(x: Any) -> Any:
    return ag.sin(x.detach()) + 0 * x


def _other_dtype(x: Any) -> Any:
    return ag.sin(x).float()


def _no_tangent(x: Any) -> Any:
    return ag.sin(x.detach())


def _other_factor(x: Any) -> Any:
    return ag.sin(x) * 1.001


FAULTS = [(form, _other_factor) for form in transforms.FORMS]
FAULTS += [(form, _other_dtype) for form in (transforms.DUALS, "jvp", "vmap")]
FAULTS += [(transforms.DUALS, _no_tangent)]
FAULTS += [(form, _detached) for form in transforms.FORMS if form != "vmap"]


@pytest.mark.parametrize(("form", "injected"), FAULTS)
def test_the_comparison_finds_injected_faults(form: str, injected: Any) -> None:
    (info,) = infos("sin")
    sample = next(iter(info.sample_inputs("cpu", torch.float64, requires_grad=True)))
    assert not transforms.compare(form, info, sample, ag.sin, "")
    assert transforms.compare(form, info, sample, injected, "")
