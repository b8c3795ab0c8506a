"""The teaching notebook runs from top to bottom, and its numbers are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .notebooks import outputs_of


def test_the_teaching_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs, said = outputs_of("01_teaching.ipynb", tmp_path, monkeypatch)
    ours, by_hand = re.findall(r"by (?:autograd|hand) +(-?[\d.]+)", said)
    assert float(ours) == pytest.approx(float(by_hand), rel=1e-5)
    assert "chain_rule.html#lesson=Step%20through" in said
    drawn = [o["data"]["text/plain"] for o in outputs if o["output_type"] == "execute_result"]
    assert sum("picture of 13 nodes" in text for text in drawn) == 2
    page = (tmp_path / "chain_rule.html").read_text()
    assert '"slopes":' in page
    assert '"lesson":{"text":"Step through' in page
