"""The programs of tests/blame on the real torch, watched: its errors name both lines."""

from __future__ import annotations

import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.errors import SilentWriteWarning

from ..oracle import torch

CASES = tomllib.loads((Path(__file__).parents[1] / "blame" / "cases.toml").read_text())["case"]


def _marked(program: str, mark: str) -> list[int]:
    return [i for i, line in enumerate(program.splitlines(), 1) if f"#{mark}" in line]


def run(program: str, path: Path, **options: Any) -> Any:
    """The error or warning of ours that a program ends in while torch is watched."""
    path.write_text(program)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with ag.watch(torch, **options):
                exec(compile(program, str(path), "exec"), {"__name__": "program"})
        except RuntimeError as error:
            return error
    silent = [w.message for w in caught if isinstance(w.message, SilentWriteWarning)]
    return silent[0] if silent else None


@pytest.mark.parametrize("problems_only", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_note_names_both_lines(case: Any, problems_only: bool, tmp_path: Path) -> None:
    program = case["bad"]
    error = run(program, tmp_path / "program.py", problems_only=problems_only)
    assert error is not None, "nothing was raised and nothing was warned of"
    fields = error.fields
    assert fields["kind"] == case["kind"]
    lines = {write["site"].line for write in fields["writes"]}
    if case["kind"] in ("modified-by-inplace", "silent"):
        assert fields["saved"]["site"].line in _marked(program, "SAVE")
        guilty = set(_marked(program, "GUILTY"))
        assert lines & guilty or "optimizer" in fields["text"]
    elif case["kind"] == "second-backward":
        assert fields["saved"]["site"].line in _marked(program, "SAVE")
        assert fields["first_backward"].line in _marked(program, "FAIL")
    else:
        assert fields["where"].line in _marked(program, "GUILTY")
    assert fields["repair"], "no repair was suggested"
    if isinstance(error, RuntimeError):
        assert type(error) is RuntimeError
        assert fields["repair"]["text"] in "\n".join(error.__notes__)


def test_of_several_saved_tensors_the_written_one_is_named(tmp_path: Path) -> None:
    program = """
import torch

class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a

x = torch.ones(3, requires_grad=True)
first, second = x * 2, x * 3
y = Both.apply(first, second)
second += 1
y.sum().backward()
"""
    fields = run(program, tmp_path / "program.py").fields
    assert fields["tensor"]["name"] == "second"
    assert [write["site"].line for write in fields["writes"]] == [18]
