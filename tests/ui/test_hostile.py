"""Names, texts and tensors that mean harm: nothing runs, nothing breaks, the page stays quick."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Page, expect

from .lab import Lab

MARKUP = '<img src=x onerror="window.__pwned=1"><script>window.__pwned=1</script></script><!--'
START = f"""\
import ag_visual as torch
markup = {MARKUP!r}
half = chr(0xd800)
odd = markup + chr(0x202e) + chr(0x200b) + chr(0) + half
W = torch.ones(2, 3, requires_grad=True)
globals()[odd] = W

def forward(ctx, x):
    ctx.save_for_backward(x)
    return x * 2
def backward(ctx, g):
    return g * 2
Bad = type(markup + chr(0x202e), (torch.autograd.Function,),
           dict(forward=staticmethod(forward), backward=staticmethod(backward)))
def hook(g): pass
hook.__qualname__ = odd + "x" * 10_000_000
def failing(g): raise ValueError(odd)
failing.__qualname__ = markup
Net = type(markup, (torch.nn.Module,), dict(forward=lambda self, x: self.inner(x)))
net = Net()
net.inner = torch.nn.Linear(3, 2)
del W"""
RUN = """\
W = globals()[odd]
y = Bad.apply(W); text = "<script>window.__pwned=1</script>"
y.register_hook(hook)
z = net(y).exp()
z.register_hook(hook)
s = z.sum()
s.backward(retain_graph=True)
z += 1
z.register_hook(failing)
try: s.backward()
except (ValueError, RuntimeError): pass"""
ZOO = """\
nan, inf = float("nan"), float("inf")
values = [torch.full((3, 2), nan), torch.full((2,), -inf), torch.ones(0, 3), torch.tensor(2.0),
          torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.bfloat16),
          torch.ones(1_000_000, 1), torch.ones(*[1] * 64)]
total = 0
for v in values:
    v = v.requires_grad_()
    total = total + (v * v).abs().sum().to(torch.float32)
total = total + (W * (W > 0)).sum() + W.take(torch.zeros(2, dtype=torch.int64)).sum()
total.backward(retain_graph=True)"""
TABS = ("Node", "Outline", "Tensors", "Hooks", "Problems")


def harmless(page: Page) -> None:
    assert page.evaluate("window.__pwned") is None
    inside = page.locator(".agv-root img, .agv-root script")
    assert inside.count() == 0


def test_hostile_texts_and_odd_tensors_are_harmless(lab: Lab) -> None:
    lab.open("hostile/both.ipynb", [START, RUN, ZOO])
    panel = lab.inspector()
    lab.run(0)
    panel.get_by_role("button", name="Record").first.click()
    expect(panel.locator(".agv-pill")).to_have_text("Recording")
    assert "Error" not in lab.run(1)
    expect(panel.locator(".agv-card")).to_have_count(1)
    for number in lab.model("Array.from(model.graph.seqs)"):
        lab.model(f"model.select({number})")
        expect(panel.locator(".agv-det, .agv-card").first).to_be_visible()
    for tab in TABS:
        panel.get_by_role("tab", name=tab).click()
        harmless(lab.page)
        if tab in ("Hooks", "Node"):
            lab.pictures(f"hostile_{tab.lower()}")
    panel.locator(".agv-graph").hover()
    lab.select("<img src=x")
    lab.wait_until(lambda: lab.model("model.hits.length") > 0, "the node to be found")
    panel.get_by_role("tab", name="Hooks").click()
    long = panel.locator(".agv-hook").first
    expect(long).to_contain_text("<img src=x")
    assert len(long.inner_text()) < 500
    harmless(lab.page)

    assert "Error" not in lab.run(2)
    panel.get_by_role("tab", name="Tensors").click()
    for seq in lab.model("Array.from(model.graph.seqs).slice(0, 40)"):
        lab.model(f"model.select({seq})")
    panel.get_by_role("tab", name="Node").click()
    lab.wait_until(lambda: lab.model("model.graph.seqs.length") > 30, "the graph of odd tensors")
    harmless(lab.page)
    # Names of ten million letters reach the page as a line of each.
    assert (
        lab.page.evaluate("() => document.querySelector('.agv-root').outerHTML.length") < 1_000_000
    )
    lab.pictures("hostile_zoo")

    # The page that needs no kernel says the same and stays well-formed.
    lab.write("hostile/export.ipynb", [])
    file = lab.server.root / "hostile" / "saved.html"
    lab.edit(
        2,
        f"from ag_visual.session.session import current\n"
        f"path = current().export(values=True, source=True); path.replace({str(file)!r})",
    )
    assert "Error" not in lab.run(2)
    check_page(lab, file)


def check_page(lab: Lab, file: Path) -> None:
    other = lab.page.context.new_page()
    failed: list[str] = []
    other.on("pageerror", lambda error: failed.append(str(error)))
    other.goto(file.as_uri())
    expect(other.locator(".agv-root")).to_be_visible()
    carried = other.locator("#ag-visual-recording").text_content()
    assert json.loads(carried or "")["format"] == "ag_visual-recording"
    for tab in TABS:
        other.get_by_role("tab", name=tab).click()
        harmless(other)
    for scheme in ("dark", "light"):
        other.emulate_media(color_scheme=scheme)
        other.screenshot(path=lab.screenshots / f"hostile_page_{scheme}.png")
    assert not failed
    other.close()
