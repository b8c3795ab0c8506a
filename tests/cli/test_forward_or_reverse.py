"""The lesson on forward and reverse mode runs from top to bottom, and its numbers are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .notebooks import outputs_of


def numbers(line: str, said: str) -> list[float]:
    """What stands in the brackets after this text."""
    found = re.search(rf"{re.escape(line)}\s*\[(.*?)\]", said)
    assert found is not None, said
    return [float(number) for number in found[1].split(",")]


def test_the_lesson_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, said = outputs_of("02_forward_or_reverse.ipynb", tmp_path, monkeypatch)
    column, row = numbers("column 0, forward:", said), numbers("row 0, reverse:", said)
    assert column[0] == pytest.approx(row[0], rel=1e-5)
    tangent, gradient = numbers("tangent of y:", said), numbers("gradient of y[0]:", said)
    assert tangent == pytest.approx(column, rel=1e-5)
    assert gradient == pytest.approx(row, rel=1e-5)
    for text in ("largest difference:", "asymmetry:"):
        assert float(said.split(text)[1].split()[0]) < 1e-5
    assert re.findall(r"needs +([\d.]+) times", said) == ["0.01", "100.00", "1.00"]
    page = (tmp_path / "forward_or_reverse.html").read_text()
    assert '"kind":"jacrev"' in page
    assert "vmap, 2 lanes" in page
