"""Functions of torch's in Python that write where an argument says so: the line is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .test_blame import _marked, run

WRITES: dict[str, str] = {
    "relu, by name": "F.relu(y, inplace=True)",
    "relu, by position": "F.relu(y, True)",
    "dropout": "F.dropout(y, 0.5, True, True)",
    "elu of a module": "nn.ELU(inplace=True)(y)",
    "embedding": "nn.Embedding.from_pretrained(y.detach(), max_norm=0.1)(torch.tensor([0]))",
    "embedding_bag": "F.embedding_bag(torch.tensor([[0]]), y.detach(), max_norm=0.1)",
}

PROGRAM = """
import torch
from torch import nn
import torch.nn.functional as F
x = torch.ones(3, 2, requires_grad=True)
y = x * 2
z = y.sin()  #SAVE
{write}  #GUILTY
z.sum().backward()
"""


@pytest.mark.parametrize("problems_only", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_the_line_that_wrote_is_named(name: str, problems_only: bool, tmp_path: Path) -> None:
    program = PROGRAM.format(write=WRITES[name])
    error: Any = run(program, tmp_path / "program.py", problems_only=problems_only)
    assert error.fields["saved"]["site"].line in _marked(program, "SAVE")
    lines = {write["site"].line for write in error.fields["writes"]}
    assert lines & set(_marked(program, "GUILTY"))
