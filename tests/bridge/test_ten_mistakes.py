"""Ten kinds of mistakes, written before looking at what is said of them: both lines are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .test_blame import _marked, run

PROGRAMS: dict[str, str] = {
    "gru_hidden_inplace": """
import torch
cell = torch.nn.GRUCell(2, 3)
h = torch.zeros(1, 3)
loss = 0
for t in range(3):
    h = cell(torch.ones(1, 2), h)  #SAVE
    loss = loss + h.square().sum()  #SAVE
    h.mul_(0.5)  #GUILTY
loss.backward()
""",
    "attention_mask_after_softmax": """
import torch
q = torch.randn(2, 4, requires_grad=True)
att = torch.softmax(q @ q.T, -1)  #SAVE
att.masked_fill_(torch.eye(2, dtype=torch.bool), 0)  #GUILTY
(att @ q).sum().backward()
""",
    "ema_of_weights_between": """
import torch
m = torch.nn.Linear(3, 3); x = torch.randn(2, 3, requires_grad=True)
y = m(x)  #SAVE
with torch.no_grad():
    for p in m.parameters(): p.lerp_(torch.zeros_like(p), 0.1)  #GUILTY
y.sum().backward()
""",
    "sort_then_write_index": """
import torch
x = torch.randn(5, requires_grad=True)
v, i = torch.sort(x)  #SAVE
i[0] = 2  #GUILTY
v.sum().backward()
""",
    "copy_into_list_of_states": """
import torch
w = torch.randn(3, requires_grad=True)
state = torch.zeros(3)
outs = []
for t in range(2):
    new = torch.sigmoid(state + w)  #SAVE
    outs.append(new)
    new.clamp_(0, .5)  #GUILTY
sum(o.sum() for o in outs).backward()
""",
    "two_losses_shared_trunk": """
import torch
m = torch.nn.Linear(3, 3); x = torch.randn(2, 3)
h = torch.tanh(m(x))  #SAVE
a = h.sum(); b = h.square().sum()
a.backward()  #FAIL
b.backward()
""",
    "unbind_view_write": """
import torch
x = torch.randn(3, 2, requires_grad=True)
y = x * 1
rows = y.unbind()
rows[0].add_(1)  #GUILTY
""",
    "out_argument_into_saved": """
import torch
x = torch.randn(3, requires_grad=True)
buf = torch.ones(3)
y = (x * buf)  #SAVE
torch.add(torch.ones(3), 1, out=buf)  #GUILTY
y.sum().backward()
""",
    "foreach_write": """
import torch
a = torch.randn(3, requires_grad=True); b = torch.ones(3)
y = a * b  #SAVE
torch._foreach_mul_([b], 2.0)  #GUILTY
y.sum().backward()
""",
    "scatter_into_embedding": """
import torch
e = torch.nn.Embedding(4, 2); idx = torch.tensor([0, 1])
out = e(idx)  #SAVE
idx.add_(1)  #GUILTY
out.sum().backward()
""",
}


@pytest.mark.parametrize("problems_only", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_both_lines_are_named(name: str, problems_only: bool, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    error: Any = run(program, tmp_path / "program.py", problems_only=problems_only)
    fields = error.fields
    guilty, saved = _marked(program, "GUILTY"), _marked(program, "SAVE")
    if fields["kind"] == "second-backward":
        assert fields["saved"]["site"].line in saved
        assert fields["first_backward"].line in _marked(program, "FAIL")
    elif fields["kind"] == "view-inplace":
        assert fields["where"].line in guilty
    else:
        assert fields["saved"]["site"].line in saved
        assert {write["site"].line for write in fields["writes"]} & set(guilty)
    assert fields["repair"]["text"] in "\n".join(error.__notes__)
