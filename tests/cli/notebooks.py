"""Runs a notebook of the checkout from top to bottom."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import ag_visual

if importlib.util.find_spec("nbclient") is None:
    pytest.skip('notebooks need the extra "lab"', allow_module_level=True)

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def outputs_of(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, then: str = ""
) -> tuple[list[Any], str]:
    """All outputs, and what was printed; files are written to `folder`.

    then: code that runs after the last cell, in a cell of its own.
    """
    import nbclient
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(Path(ag_visual.__file__).resolve().parents[1]))
    monkeypatch.setenv("AG_VISUAL_HEADLESS", "1")
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    if then:
        notebook.cells.append(nbformat.v4.new_code_cell(then))
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return outputs, "".join(output.get("text", "") for output in outputs)
