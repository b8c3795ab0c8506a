"""The notebook on PyTorch itself: a mistake with both lines, its repair, a first NaN, a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ag_visual import load_recording
from ag_visual.observe.wire.schema import RECORDING_ELEMENT

from ..oracle import torch
from .notebooks import outputs_of


def test_a_watched_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert torch.__version__
    _, said = outputs_of("your_pytorch_program.ipynb", tmp_path, monkeypatch)
    assert "modified by an inplace operation" in said
    assert re.search(r"saved at +cell In\[2\], line 9: torch\.relu\(self\.second\(h\)\)", said)
    assert re.search(r"written at +cell In\[2\], line 10: out \+= x", said)
    assert "Use `out = out + x`" in said
    losses = [float(loss) for loss in re.findall(r"step \d+: loss ([\d.]+)", said)]
    assert len(losses) == 4
    assert losses[-1] < losses[0] / 2
    assert "`points` does not require grad" in said
    assert "tensor([nan, nan])" in said
    assert "tensor([-0.3333, -0.3333])" in said
    runs = re.search(r"(\d+) runs of nodes", said)
    assert runs is not None
    assert int(runs[1]) > 40 * 20
    page = (tmp_path / "watched.html").read_text()
    recording = re.search(rf'id="{RECORDING_ELEMENT}">(.*?)</script>', page, re.S)
    assert recording is not None
    (tmp_path / "watched.json").write_text(recording[1])
    odd = load_recording(tmp_path / "watched.json").tables["odd"]
    assert odd["zero"].tolist() == [1.0]  # what the root gave, for the finding about its NaN
