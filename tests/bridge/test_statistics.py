"""Running statistics that an evaluation has saved: torch writes them without counting a version."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.errors import SilentWriteWarning

from ..oracle import torch


def warned(program: Any, **options: Any) -> list[Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with ag.watch(torch, **options):
            program()
    return [each.message for each in caught if isinstance(each.message, SilentWriteWarning)]


@pytest.mark.parametrize("problems_only", [False, True])
def test_training_between_an_evaluation_and_its_backward_is_told(problems_only: bool) -> None:
    first = sys._getframe().f_lineno + 5

    def program() -> None:
        norm = torch.nn.BatchNorm1d(3, affine=False).eval()
        x = torch.randn(4, 3, requires_grad=True)
        y = norm(x)
        norm.train()
        norm(torch.randn(4, 3) * 10)
        y.sum().backward()

    found = warned(program, problems_only=problems_only)
    assert len(found) == 1  # not of mean and variance each
    fields = found[0].fields
    assert (fields["kind"], fields["saved"]["site"].line) == ("silent", first)
    assert [write["site"].line for write in fields["writes"]] == [first + 2]
    assert "by a batch_norm in training" in str(found[0])
    assert "before the module trains again" in str(found[0])


def test_ordinary_training_and_evaluation_warn_of_nothing() -> None:
    def program() -> None:
        norm = torch.nn.BatchNorm1d(3)
        optimizer = torch.optim.SGD(norm.parameters(), 0.1)
        x = torch.randn(4, 3, requires_grad=True)
        for _ in range(2):
            norm.train()
            (norm(x) + norm(x * 2)).sum().backward()
            optimizer.step()
            norm.eval()
            with torch.no_grad():
                norm(x)
            norm(x).sum().backward()

    assert warned(program) == []
