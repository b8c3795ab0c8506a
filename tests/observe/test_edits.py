"""Repairs as edits: for every known mistake the edited program runs, layout and comments kept."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ag_visual.observe.diagnose.problems import problem
from ag_visual.observe.diagnose.source_edits import edit_of
from tests.blame.test_cases import CASES, _run, as_torch

__all__ = ["as_torch"]


def edited(program: str, edit: dict[str, Any]) -> str:
    lines = program.splitlines()
    first, was = edit["first"], edit["was"]
    assert lines[first - 1 : first - 1 + len(was)] == was
    lines[first - 1 : first - 1 + len(was)] = edit["becomes"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_edited_program_runs(case: Any, as_torch: ModuleType, tmp_path: Path) -> None:
    error = _run(case["bad"], tmp_path / "bad.py")
    edit = edit_of(error.fields)
    if error.fields["repair"]["code"] is None:
        assert edit is None
        return
    assert edit is not None
    after = _run(edited(case["bad"], edit), tmp_path / "edited.py")
    assert (after is not None) == (case["kind"] == "silent")


def fields_of(program: str, tmp_path: Path) -> dict[str, Any]:
    fields: dict[str, Any] = _run(program, tmp_path / "program.py").fields
    return fields


HEAD = "import torch\nx = torch.ones(2, requires_grad=True)\ny = x.exp()\nz = y.sum()\n"


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("y += 1  # a note", ["y = y + 1  # a note"]),
        ("if True: y += 1", ["if True: y = y + 1"]),
        ("y.add_(\n    1)", ["y = y.add(1)"]),
        ("a = 'ä'; y += 1", ["a = 'ä'; y = y + 1"]),
        ("y += 1; b = 2", None),
    ],
)
def test_layout_stays(
    line: str, becomes: list[str] | None, as_torch: ModuleType, tmp_path: Path
) -> None:
    fields = fields_of(f"{HEAD}{line}\nz.backward()\n", tmp_path)
    edit = edit_of(fields)
    assert (edit and edit["becomes"]) == becomes
    told = problem(1, fields, "")
    assert told["repair"]["edit"] == edit


def test_aliases_holders_and_places_are_told(as_torch: ModuleType, tmp_path: Path) -> None:
    told = problem(1, fields_of(f"{HEAD}v = y[:1]\ny += 1\nz.backward()\n", tmp_path), "")
    assert told["aliases"] == [{"name": "v", "how": "a view: slice of `y`"}]
    told = problem(1, fields_of(f"{HEAD}z.backward()\nz.backward()\n", tmp_path), "")
    assert told["first"]["line"] == 5
    assert "z" in told["holders"]
    views = "import torch\nx = torch.ones(2, 2, requires_grad=True)\n"
    views += "a, b = (x * 1).unbind()\na += 1\n"
    assert problem(1, fields_of(views, tmp_path), "")["made"]["line"] == 3
