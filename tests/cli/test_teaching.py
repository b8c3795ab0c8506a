"""The teaching notebook runs from top to bottom, and its numbers are right."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import ag_visual

if importlib.util.find_spec("nbclient") is None:
    pytest.skip('notebooks need the extra "lab"', allow_module_level=True)

CHECKOUT = Path(__file__).resolve().parents[2]


def test_the_teaching_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbclient
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(Path(ag_visual.__file__).resolve().parents[1]))
    monkeypatch.setenv("AG_VISUAL_HEADLESS", "1")
    notebook = nbformat.read(CHECKOUT / "notebooks" / "01_teaching.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    said = "".join(output.get("text", "") for output in outputs)
    ours, by_hand = re.findall(r"by (?:autograd|hand) +(-?[\d.]+)", said)
    assert float(ours) == pytest.approx(float(by_hand), rel=1e-5)
    assert "chain_rule.html#lesson=Step%20through" in said
    drawn = [o["data"]["text/plain"] for o in outputs if o["output_type"] == "execute_result"]
    assert sum("picture of 13 nodes" in text for text in drawn) == 2
    page = (tmp_path / "chain_rule.html").read_text()
    assert '"slopes":' in page
    assert '"lesson":{"text":"Step through' in page
