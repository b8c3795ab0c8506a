"""The tab Parameters in a real notebook, and in a page without a kernel."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import BrowserContext, Locator, expect

import ag_visual as ag

from .lab import Lab
from .test_guide_pictures import beside

MODEL = """\
import ag_visual as torch
from ag_visual import nn

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 16)
        self.scale = nn.Parameter(torch.ones(16))
        self.unused = nn.Linear(16, 16)

    def forward(self, x):
        h = torch.tanh(self.fc(x))
        return h + (h * self.scale).detach()

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = Encoder()
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.enc(x))

torch.manual_seed(0)
model = Model()
model.head.bias.requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""
TRAIN = """\
for step in range(24):
    x = torch.randn(32, 8)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()"""


def row(panel: Locator, name: str) -> Locator:
    """The row of a parameter."""
    head = panel.page.get_by_role("rowheader", name=name, exact=True)
    return panel.get_by_role("row").filter(has=head)


def test_every_parameter_is_listed_with_what_became_of_its_gradient(lab: Lab) -> None:
    lab.open("parameters/model.ipynb", [MODEL, "%ag_visual record on\n" + TRAIN])
    panel = beside(lab, 560)
    lab.run(0)
    lab.run(1)
    # Why there is no gradient is one click away.
    lab.count_clicks()
    panel.get_by_role("tab", name="Problems").click()
    cut = panel.get_by_role("article", name="no gradient").filter(has_text="detached")
    expect(cut).to_contain_text("model.enc.scale.grad stays None: detached")
    expect(cut).to_contain_text("In[1] line 13")
    unused = panel.get_by_role("article").filter(has_text="not used in this pass")
    expect(unused).to_contain_text("model.enc.unused.weight.grad stays None, and 1 other")
    assert lab.clicks == 1
    panel.get_by_role("tab", name="Parameters").click()
    expect(panel.get_by_text("7 parameters, 3 without a gradient, 1 frozen")).to_be_visible()
    expect(row(panel, "model.enc.scale")).to_contain_text("detached, In[1] line 13")
    expect(row(panel, "model.enc.unused.weight")).to_contain_text("not used in this pass")
    expect(row(panel, "model.head.bias")).to_contain_text("requires_grad is False")
    weight = row(panel, "model.enc.fc.weight")
    numbers = re.compile(r"\[16, 8\]\d\.\d+\d\.\d+[×÷]")
    expect(weight).to_contain_text(numbers)
    expect(weight.get_by_role("img", name="|grad| over 24 passes")).to_be_visible()

    # Largest first, by the keyboard; what has none stands at the end.
    head = panel.get_by_role("columnheader", name="|grad|", exact=True)
    head.get_by_role("button").press("Enter")
    expect(head).to_have_attribute("aria-sort", "descending")
    heads = panel.get_by_role("rowheader")
    expect(heads.nth(3)).to_contain_text(re.compile("scale|unused|head.bias"))
    heads.first.get_by_role("button").focus()
    lab.page.keyboard.press("ArrowDown")
    expect(heads.nth(1).get_by_role("button")).to_be_focused()
    lab.page.keyboard.press("Enter")
    chosen = heads.nth(1).inner_text()
    lab.wait_until(lambda: lab.model("model.titleOf(model.selected)") == chosen, "its leaf")

    head.get_by_role("button").click()
    head.get_by_role("button").click()
    row(panel, "model.enc.scale").get_by_role("rowheader").click()
    expect(panel.get_by_role("status").filter(has_text="is detached at")).to_contain_text(
        "To mend it: remove the detach() at cell In[1], line 13"
    )
    lab.pictures("parameters")
    panel.get_by_label("only those without a gradient").check()
    expect(heads).to_have_count(4)


def test_a_saved_page_has_them_also_where_it_is_narrow(
    context: BrowserContext, tmp_path: Path
) -> None:
    class Layers(ag.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = ag.nn.ModuleList([ag.nn.Linear(2, 2) for _ in range(300)])

        def forward(self, x: ag.Tensor) -> ag.Tensor:
            for layer in self.layers:
                x = x + layer(x) / 300
            return x

    model = Layers()
    with ag.record() as recorded:
        for _ in range(2):
            model(ag.ones(1, 2)).sum().backward()
    page = context.new_page()
    page.set_viewport_size({"width": 400, "height": 900})
    page.goto(recorded.save(tmp_path / "page.html").as_uri())
    page.get_by_role("tab", name="Parameters").click()
    expect(page.get_by_text("600 parameters")).to_be_visible()
    heads = page.get_by_role("rowheader")
    assert heads.count() < 100
    heads.first.get_by_role("button").focus()
    page.keyboard.press("End")
    last = page.get_by_role("rowheader", name="model.layers.299.bias")
    expect(last.get_by_role("button")).to_be_focused()
    assert heads.count() < 100
    side = page.get_by_role("tabpanel")
    assert side.evaluate("box => box.scrollWidth <= box.clientWidth")
    page.get_by_role("searchbox", name="Filter parameters").fill("s.17.w")
    expect(heads).to_have_count(1)
    expect(heads).to_have_text("model.layers.17.weight")
