"""A warning names the line of the user's program, however deep in the package it is noticed."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual import nn, optim
from ag_visual.core import source

PACKAGE = Path(ag.__file__).parent


def test_all_warnings_come_from_one_place() -> None:
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for _ in re.finditer(r"\bwarnings\.warn\b", path.read_text("utf-8"))
    ]
    assert found == ["core/source.py"]


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.loss = nn.MSELoss()

    def forward(self, x: Any, y: Any) -> Any:
        return self.loss(x, y)  # warns


def _read_only() -> numpy.ndarray[Any, Any]:
    array = numpy.zeros(3)
    array.flags.writeable = False
    return array


def _before_the_optimizer() -> None:
    x = ag.ones(2, requires_grad=True)
    scheduler = optim.lr_scheduler.StepLR(optim.SGD([x], lr=0.1), 1)
    scheduler.step()  # warns


def _written_through_data() -> None:
    x = ag.ones(2, requires_grad=True)
    y = x.exp()
    y.data.mul_(2)
    y.sum().backward()  # warns


def _in_a_function() -> None:
    class Same(ag.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.clone()
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    Same.apply(ag.ones(2, requires_grad=True))  # warns


PROGRAMS: list[Callable[[], Any]] = [
    _before_the_optimizer,
    _written_through_data,
    _in_a_function,
    lambda: _Model()(ag.ones(3, 1), ag.ones(3)),
    lambda: nn.functional.mse_loss(ag.ones(3, 1), ag.ones(3)),  # warns
    lambda: nn.functional.huber_loss(ag.ones(3, 1), ag.ones(3)),  # warns
    lambda: nn.functional.softmax(ag.ones(3)),  # warns
    lambda: nn.Softmax()(ag.ones(3)),  # warns
    lambda: (ag.ones(2, requires_grad=True) * 2).grad,  # warns
    lambda: ag.from_numpy(_read_only()),  # warns
    lambda: ag.tensor(ag.ones(2)),  # warns
    lambda: ag.range(0, 3),  # warns
    lambda: ag.ones(2, 3, 4).T,  # warns
    lambda: ag.meshgrid(ag.ones(2), ag.ones(3)),  # warns
    lambda: ag.ones(3)[ag.tensor([1, 0, 1], dtype=ag.uint8)],  # warns
    lambda: ag.ones(1).var(),  # warns
    lambda: ag.cov(ag.ones(1)),  # warns
    lambda: ag.ones(2, dtype=ag.complex64).to(ag.float32),  # warns
    lambda: ag.add(ag.ones(2), 2, ag.ones(2)),  # warns
    lambda: ag.add(ag.ones(2), 1, out=ag.ones(3)),  # warns
    lambda: nn.functional.dropout2d(ag.ones(2, 3, 4)),  # warns
    lambda: nn.LSTM(2, 3, dropout=0.5),  # warns
    lambda: nn.L1Loss(size_average=False),  # warns
    lambda: nn.init.uniform(ag.ones(2)),  # warns
    lambda: nn.utils.clip_grad_norm_((p for p in ()), 1.0),  # warns
    lambda: ag.autograd.detect_anomaly(),  # warns
    lambda: ag.cuda.amp.GradScaler(),  # warns
    lambda: ag.autocast("cuda"),  # warns
    lambda: ag.utils.checkpoint.checkpoint(ag.exp, ag.ones(2)),  # warns
    lambda: ag.utils.data.random_split(range(1), [1, 0]),  # warns
    lambda: ag.autograd.profiler.profile(use_cuda=True),  # warns
    lambda: float(ag.ones(1, requires_grad=True)),  # warns
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: str(p.__code__.co_firstlineno))
def test_a_warning_names_the_line_of_the_program(program: Callable[[], Any]) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of 0 / 0
        program()
    lines = Path(__file__).read_text("utf-8").splitlines()
    assert told
    for each in told:
        assert each.filename == __file__, each
        assert lines[each.lineno - 1].endswith("# warns"), each


def test_a_warning_with_no_program_around_it_names_the_outermost_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As at the end of a program, where the package's own code runs last."""
    monkeypatch.setattr(source, "inside", dict.fromkeys(_files(), 1))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        source.warn("nobody is outside")
    assert [str(each.message) for each in told] == ["nobody is outside"]


def _files() -> set[str]:
    frame, found = sys._getframe(), set()
    while frame is not None:
        found.add(frame.f_code.co_filename)
        frame = frame.f_back  # type: ignore[assignment]
    return found | {source.__file__}
