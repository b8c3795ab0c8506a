"""The notebook on profiles: five repairs leave the numbers and take the ops that were too many."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .notebooks import outputs_of


def test_five_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, said = outputs_of("where_does_the_time_go.ipynb", tmp_path, monkeypatch)
    epochs = re.findall(r"ms an epoch, loss ([\d.]+), sure ([\d.]+)", said)
    assert len(epochs) == 6
    assert set(epochs) == {epochs[0]}
    looks = said.split("as it was")[1]
    assert "enumerate(DataLoader)" in looks.split("scaled once")[0]
    by_line = looks.split("scaled once")[1].split("one product")[0]
    assert re.search(r"3840 times +aten::mul .*forward", by_line)
    assert "nn.Module: Positions_0" in looks.split("one product")[1].split("a buffer")[0]
    assert "evaluate_function: TanhBackward0" in looks.split("a buffer")[1]
    before, after = map(float, re.findall(r"at most ([\d.]+) MB", said))
    assert after < 0.7 * before
    ops = re.search(r"ops: (\d+) before, (\d+) after", said)
    assert ops is not None
    assert int(ops[2]) * 10 < int(ops[1])
    assert (tmp_path / "before.agprof").stat().st_size > (tmp_path / "after.agprof").stat().st_size
