"""Repairs: ten mistakes that users reported, and the properties every repair has."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, strategies as st

from ag_visual.core.diagnosis.repair import Repair, repair

KINDS = ("modified-by-inplace", "leaf-inplace", "view-inplace", "second-backward", "silent")

# (kind, program, what the repair must say, the code it must give). #S saved, #W wrote.
REPORTED = {
    "iadd after relu": (
        "modified-by-inplace",
        "out=torch.relu(x@w) #S\nout+=x #W\nout.sum().backward()",
        ["`out = out + x`"],
        "out = out + x",
    ),
    "setitem on sigmoid's output": (
        "modified-by-inplace",
        "b=a.sigmoid() #S\nb[1]=2 #W\nb.sum().backward()",
        ["clone()", "torch.where"],
        "b = a.sigmoid().clone()",
    ),
    "optimizer step between two losses": (
        "modified-by-inplace",
        "p=D(G(torch.randn(3,4))) #S\nd_loss.backward(retain_graph=True)\noD.step() #W\n"
        "g_loss.backward()",
        ["every backward() before any step()"],
        None,
    ),
    "rows of one table": (
        "modified-by-inplace",
        "la=torch.zeros(4,3)\nfor t in range(1,4):\n    prev=la[t-1]\n"
        "    la[t]=torch.max(prev.exp(),x[t]*prev) #W #S\nla.sum().backward()",
        ["Python list", "torch.stack(la_rows)"],
        None,
    ),
    "exponent of pow": (
        "modified-by-inplace",
        "b=(x**y).sum() #S\ny.add_(1) #W\nb.backward()",
        ["`y = y.add(1)`"],
        "y = y.add(1)",
    ),
    "a view written inside a call": (
        "view-inplace",
        "with torch.no_grad(): w=x[:2] #S\nrun(lambda: w.add_(1)) #W",
        ["`w` is a view that must not be written"],
        "w = w.add(1)",
    ),
    "detach shares memory": (
        "modified-by-inplace",
        "out=a.sigmoid() #S\nc=out.detach()\nc.zero_() #W\nout.sum().backward()",
        ["detach().clone()"],
        "c = out.detach().clone()",
    ),
    "write through data": (
        "silent",
        "out=a.sigmoid() #S\nout.data.zero_() #W\nout.sum().backward()",
        ["Use detach() so that the error appears"],
        "out.detach().zero_()",
    ),
    "write to an element through data": (
        "silent",
        "out=a.sigmoid() #S\nout.data[0]=0 #W\nout.sum().backward()",
        ["Use detach() so that the error appears"],
        "out.detach()[0] = 0",
    ),
    "operator through data": (
        "silent",
        "out=a.sigmoid() #S\nout.data+=out.data_ptr() #W\nout.sum().backward()",
        ["Use detach() so that the error appears"],
        "out.detach().add_(out.data_ptr())",
    ),
    "manual step on a leaf": (
        "leaf-inplace",
        "w-=0.1*w.grad #W",
        ["with torch.no_grad(): w -= 0.1 * w.grad"],
        "with torch.no_grad():\n    w -= 0.1 * w.grad",
    ),
    "loop over channels": (
        "view-inplace",
        "for t,m,s in zip(img,[.5]*3,[.5]*3):\n    t.sub_(m).div_(s) #W",
        ["out of place", "`img = (img - m) / s`", "`img[i] = ...`"],
        None,
    ),
    "state carried on": (
        "second-backward",
        "for t in range(2):\n    h=c(torch.randn(1,3),h) #S\n    h.sum().backward() #W",
        ["`h = h.detach()`"],
        "h = h.detach()",
    ),
}


def ask(kind: str, program: str, **more: str) -> Repair | None:
    lines = program.splitlines()
    saved = next((i for i, line in enumerate(lines, 1) if "#S" in line), 0)
    wrote = next(i for i, line in enumerate(lines, 1) if "#W" in line)
    found = [lines[i - 1].split("#")[0].strip() if i else "" for i in (saved, wrote)]
    right = found[0].partition("=")[2] or found[0]
    return repair(
        right,
        found[1],
        kind,
        save_line=found[0],
        write_line=found[1],
        save_source=program,
        write_source=program,
        save_lineno=saved,
        write_lineno=wrote,
        **more,
    )


@pytest.mark.parametrize("case", REPORTED, ids=str)
def test_reported_mistake_gets_its_accepted_repair(case):
    kind, program, phrases, code = REPORTED[case]
    found = ask(kind, program)
    assert found is not None
    assert found.code == code
    for phrase in phrases:
        assert phrase in found.text


@pytest.mark.parametrize(
    ("write", "code"),
    [
        ("a *= b + c", "a = a * (b + c)"),
        ("self.h += x", "self.h = self.h + x"),
        ("y.mul_(2).clamp_(min=0)", "y = y.mul(2).clamp(min=0)"),
        ("torch.relu_(x)", "x = torch.relu(x)"),
        ("F.relu(x, inplace=True)", "x = F.relu(x)"),
        ("y = F.relu(x, inplace=True)", "y = F.relu(x)"),
        ("return x.sigmoid_()", "return x.sigmoid()"),
        ("c.zero_()", "c = torch.zeros_like(c)"),
        ("c.fill_(3)", "c = torch.full_like(c, 3)"),
        ("c.copy_(d)", "c = d.clone()"),
        ("out.detach().zero_()", "out.detach().clone().zero_()"),
        ("x.__iadd__", None),
    ],
)
def test_one_line(write, code):
    found = repair("a.exp()", write, "modified-by-inplace", write_line=write)
    assert found is not None
    assert found.code == code


def test_writing_a_row_suggests_copying_its_table():
    found = ask("modified-by-inplace", "e=la.exp() #S\nrow=la[0]\nrow+=1 #W")
    assert found is not None
    assert found.code == "la = la.clone()"


def test_exact_expression_may_be_only_the_target():
    found = repair("a.exp()", "b[1]", "modified-by-inplace", write_line="b[1] = 2")
    assert found is not None
    assert found.code == "b = b.clone()"


def test_module_built_with_inplace_is_named_as_such():
    found = repair("conv(x)", "self.act(x)", "modified-by-inplace", write_op="relu_")
    assert found is not None
    assert "inplace=False" in found.text


def test_without_source_the_variable_is_copied():
    found = repair("", "", "modified-by-inplace", write_op="add_", name="out")
    assert found is not None
    assert found.code == "out = out.clone()"


def test_unknown_kind_has_no_repair():
    assert repair("a", "b += 1", "other") is None


@given(st.sampled_from(KINDS), st.text(), st.text(), st.integers(0, 5))
def test_any_text_gives_an_answer_and_code_that_parses(kind, save, write, line):
    found = repair(save, write, kind, write_source=write, write_lineno=line, write_line=write)
    assert found is not None
    if found.code is not None:
        ast.parse(found.code.removeprefix("return "))


def test_source_nested_too_deeply_is_no_error():
    deep = "x.add_(" + "(" * 5000 + ")" * 5000 + ")"
    assert repair("a", deep, "modified-by-inplace", write_line=deep, name="x") is not None
