"""The table of saved tensors in a real notebook, while a backward is paused in the middle."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from .lab import Lab

START = """\
import ag_visual as torch
x = torch.full((64, 32), 0.1)
W = torch.full((32, 16), 0.1, requires_grad=True)
V = torch.full((16, 4), 0.1, requires_grad=True)"""
PAUSED = """\
h = (x @ W).tanh()
y = (h @ V).exp()
loss = (y * y).sum()
with torch.debugger(stop="TanhBackward0"):
    loss.backward()"""


def test_saved_tensors_can_be_sorted_and_looked_at(lab: Lab) -> None:
    lab.open("tensors/both.ipynb", [START, PAUSED])
    panel = lab.inspector()
    lab.run(0)
    lab.start(1)
    expect(panel.locator(".agv-pill")).to_contain_text("Paused before step")
    panel.get_by_role("tab", name="Tensors").click()
    # x (64 x 32) and the output of tanh (64 x 16) are held; the rest was given back.
    expect(panel.get_by_text("12 kB held now by 2 saved tensors on 2 storages")).to_be_visible()
    rows = panel.locator(".agv-tensors tbody tr")
    expect(rows.first).to_contain_text(re.compile(r"MmBackward0.*self.*\[64, 32\].*8 kB"))
    expect(rows.last).to_contain_text("after step")

    head = panel.get_by_role("columnheader", name="shape", exact=True)
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    panel.get_by_label("only those that are held").check()
    expect(rows).to_have_count(2)
    row = rows.filter(has_text="TanhBackward0")
    expect(row).to_contain_text("own output")
    row.click()
    numbers = panel.locator(".agv-numbers")
    expect(numbers.locator("canvas")).to_be_visible()
    expect(numbers).to_contain_text(re.compile("all (about )?0.31"))  # by the processor
    selected = "model.store.nameOf(model.selected)"
    lab.wait_until(lambda: lab.model(selected) == "TanhBackward0", "the node to be selected")
    lab.pictures("tensors")
    panel.get_by_role("button", name="Continue").click()
    expect(panel.get_by_text("0 B held now")).to_be_visible()


COLUMNS = """\
import ag_visual as torch
a = torch.ones(4, 2, requires_grad=True)
b = torch.full((4, 2), 2.0)
first = b[0]
with torch.record():
    y = a * b
    b.add_(1)
    loss = (y.exp() * first).sum()
with torch.debugger(stop="ExpBackward0"):
    loss.backward()"""


def test_every_column_tells_what_is_so(lab: Lab) -> None:
    lab.open("tensors/columns.ipynb", [COLUMNS])
    panel = lab.inspector()
    lab.start(0)
    expect(panel.locator(".agv-pill")).to_contain_text("Paused before step")
    panel.get_by_role("tab", name="Tensors").click()
    expect(panel.get_by_text("64 B held now by 2 saved tensors on 2 storages")).to_be_visible()
    expect(panel.get_by_text("64 B saved in all, on 2 storages")).to_be_visible()
    heads = panel.locator(".agv-tensors th button")
    labels = ["node", "name", "shape", "dtype", "bytes", "version", "shares", "kept", "freed"]
    for head, label in zip(heads.all(), labels, strict=True):
        expect(head).to_contain_text(label)
        head.click()
    panel.get_by_role("button", name="node", exact=True).click()
    rows = panel.locator(".agv-tensors tbody tr")
    mul = "MulBackward0.other"
    wanted = [
        ["MulBackward0", "other", "[2]", "float32", "8 B", "v1", mul, mul, "after step 2"],
        ["ExpBackward0", "result own output", "[4, 2]", "float32", "32 B", "v0", "",
         "ExpBackward0.result", ""],
        ["MulBackward0", "other", "[4, 2]", "float32", "32 B", "v0, now v1", mul, mul, ""],
    ]  # fmt: skip
    cells = "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.innerText))"
    lab.wait_until(lambda: rows.evaluate_all(cells) == wanted, f"{wanted} as rows")
    # Nothing is cut off where the panel stands in the dock.
    wide = panel.locator(".agv-wide")
    assert wide.evaluate("box => box.scrollWidth <= box.clientWidth")
    lab.screenshot("tensors_columns")
