"""The notebook on PyTorch itself: a mistake with both lines, its repair, a first NaN, a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
    assert "The first NaN or infinity of this backward: SqrtBackward0 gave one" in page
