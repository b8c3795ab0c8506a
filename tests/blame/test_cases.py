"""Real in-place mistakes: the error names the line that saved and the line that wrote."""

from __future__ import annotations

import ast
import sys
import tomllib
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ag_visual
from ag_visual.errors import AutogradError, SilentWriteWarning

CASES = tomllib.loads((Path(__file__).parent / "cases.toml").read_text())["case"]


@pytest.fixture
def as_torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`import torch` inside a program means this engine."""
    monkeypatch.setitem(sys.modules, "torch", ag_visual)
    monkeypatch.setitem(sys.modules, "torch.nn", ag_visual.nn)
    monkeypatch.setitem(sys.modules, "torch.nn.functional", ag_visual.nn.functional)
    monkeypatch.setitem(sys.modules, "torch.utils", ag_visual.utils)
    monkeypatch.setitem(sys.modules, "torch.utils.checkpoint", ag_visual.utils.checkpoint)
    return ag_visual


def _marked(program: str, mark: str) -> list[int]:
    return [i for i, line in enumerate(program.splitlines(), 1) if f"#{mark}" in line]


def _run(program: str, path: Path) -> Any:
    """Run a program from a file of its own; the autograd error or warning it ends in."""
    path.write_text(program)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(compile(program, str(path), "exec"), {"__name__": "program"})
        except AutogradError as error:
            return error
    silent = [w.message for w in caught if isinstance(w.message, SilentWriteWarning)]
    return silent[0] if silent else None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_error_names_both_lines(case: Any, as_torch: ModuleType, tmp_path: Path) -> None:
    program = case["bad"]
    error = _run(program, tmp_path / "program.py")
    assert error is not None, "nothing was raised and nothing was warned of"
    fields = error.fields
    assert fields["kind"] == case["kind"]
    lines = {write["site"].line for write in fields["writes"]}
    if case["kind"] in ("modified-by-inplace", "silent"):
        assert fields["saved"]["site"].line in _marked(program, "SAVE")
        guilty = set(_marked(program, "GUILTY"))
        assert lines & guilty or "optimizer" in str(error) or case["id"] == "manual_sgd_on_leaf"
    elif case["kind"] == "second-backward":
        assert fields["saved"]["site"].line in _marked(program, "SAVE")
        assert fields["first_backward"].line in _marked(program, "FAIL")
    else:
        assert fields["where"].line in _marked(program, "GUILTY")
    assert fields["repair"], "no repair was suggested"
    assert fields["repair"]["text"] in str(error)


class _Change(ast.NodeTransformer):
    """Puts statements in the place of, or before, the one at a line."""

    def __init__(self, line: int, code: str, *, before: bool) -> None:
        self.line, self.before, self.done = line, before, False
        self.code = ast.parse(code.removeprefix("return ")).body

    def visit(self, node: ast.AST) -> Any:
        simple = isinstance(node, ast.stmt) and not hasattr(node, "body")
        if simple and node.lineno <= self.line <= (node.end_lineno or 0) and not self.done:
            self.done = True
            return [*self.code, node] if self.before else self.code
        return self.generic_visit(node)


def _applied(program: str, fields: dict[str, Any]) -> str:
    """The program with the suggested line where it belongs."""
    repair = fields["repair"]
    write = (fields["writes"] or [{"site": fields["where"]}])[0]["site"].line
    save = fields["saved"]["site"].line if fields["saved"] else 0
    line = {
        "write": write,
        "save": save,
        "before save": save,
        "before": repair["line"],
        "replace": repair["line"],
    }[repair["at"]]
    change = _Change(line, repair["code"], before=repair["at"].startswith("before"))
    changed = change.visit(ast.parse(program))
    assert change.done
    return ast.unparse(changed)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_suggested_line_runs(case: Any, as_torch: ModuleType, tmp_path: Path) -> None:
    """Where one line is suggested, the program with it runs, without an error or a warning."""
    error = _run(case["bad"], tmp_path / "bad.py")
    repair = error.fields["repair"]
    if repair["code"] is None:
        assert case["lines"] == "several"
        return
    assert "lines" not in case
    if case["kind"] == "silent":  # the suggestion is to make the mistake an error
        assert "so that the error appears" in repair["text"]
        assert _run(_applied(case["bad"], error.fields), tmp_path / "repaired.py") is not None
        return
    assert _run(_applied(case["bad"], error.fields), tmp_path / "repaired.py") is None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_variable_and_its_aliases_are_named(
    case: Any, as_torch: ModuleType, tmp_path: Path
) -> None:
    error = _run(case["bad"], tmp_path / "bad.py")
    assert error.fields["tensor"]["name"] == case.get("variable")
    found = [alias["name"] for alias in error.fields.get("aliases", ())]
    assert found == case.get("aliases", [])
    if case.get("variable"):
        assert f"`{case['variable']}`" in str(error)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_accepted_repair_runs(case: Any, as_torch: ModuleType, tmp_path: Path) -> None:
    assert _run(case["fix"], tmp_path / "program.py") is None


def test_at_most_three_writing_lines_are_named(tmp_path: Path) -> None:
    program = (
        "import ag_visual as torch\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "y = x.exp()\n" + "y.add_(1)\n" * 5 + "y.sum().backward()\n"
    )
    error = _run(program, tmp_path / "program.py")
    text = str(error)
    assert text.count("written at") == 3
    assert "and 2 more writes" in text
    assert "is at version 5; expected version 0 instead" in text
    assert error.fields["tensor"]["name"] == "y"
    assert error.fields["tensor"]["shape"] == (3,)
    assert error.fields["tensor"]["dtype"] == "float32"


def test_a_loop_that_writes_often_is_one_line_and_memory_stays_flat(tmp_path: Path) -> None:
    program = (
        "import ag_visual as torch\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "y = x.exp()\n"
        "for _ in range(1000):\n"
        "    y.mul_(1.0)\n"
        "y.sum().backward()\n"
    )
    error = _run(program, tmp_path / "program.py")
    assert len(error.fields["writes"]) == 1
    assert error.fields["more_writes"] == 1000 - 16
    assert str(error).count("written at") == 1


def test_a_notebook_cell_is_named_as_its_reader_knows_it(tmp_path: Path) -> None:
    from ag_visual.core import source

    text = "x = torch.ones(2, requires_grad=True)\ny = x.exp()\ny += 1\ny.sum().backward()\n"
    code = compile(text, "<cell 7>", "exec")
    source.register_code(code, source.Cell("abc", 7, text))
    with pytest.raises(RuntimeError, match=r"cell In\[7\], line 3: y \+= 1") as caught:
        exec(code, {"torch": ag_visual})
    assert "cell In[7], line 2: x.exp()" in str(caught.value)
    site = caught.value.fields["saved"]["site"]  # type: ignore[attr-defined]
    assert (site.cell_id, site.line, site.col, site.end_col) == ("abc", 2, 4, 11)


def test_nothing_is_changed_by_an_error() -> None:
    x = ag_visual.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used"):
        x.add_(1)
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert x._version == 0


def test_an_object_that_refuses_every_attribute_hides_no_error(tmp_path: Path) -> None:
    program = (
        "import ag_visual as torch\n"
        "class Refuses:\n"
        "    def __getattr__(self, name): raise ValueError(name)\n"
        "a = Refuses()\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "y = x.exp()\n"
        "y.add_(1)\n"
        "y.sum().backward()\n"
    )
    assert _run(program, tmp_path / "program.py").fields["tensor"]["name"] == "y"


@pytest.mark.parametrize(
    "write", ["y[1] = 2", "y[1] += 2", "y[0:2][0] = x.sum()", "é = 'é'; y[1] = 2; z = 3  # note"]
)
def test_an_assignment_by_index_is_quoted_whole(write: str, tmp_path: Path) -> None:
    program = (
        "import ag_visual as torch\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "y = x.exp()\n" + write + "\ny.sum().backward()\n"
    )
    error = _run(program, tmp_path / "program.py")
    assert error.fields["writes"][-1]["site"].text == write.split("; ")[write.count("; ") // 2]


def test_the_alias_chain_is_named(tmp_path: Path) -> None:
    program = (
        "import ag_visual as torch\n"
        "x = torch.ones(2, 3, requires_grad=True)\n"
        "y = x.exp()\n"
        "row = y.view(6).narrow(0, 0, 2)\n"
        "loose = y.detach()\n"
        "rows = [y.select(0, 1)]\n"
        "row.add_(1)\n"
        "y.sum().backward()\n"
    )
    error = _run(program, tmp_path / "program.py")
    assert error.fields["aliases"] == [
        {"name": "row", "how": "a view: view.slice of `y`"},
        {"name": "loose", "how": "detached, the same memory"},
        {"name": "rows[0]", "how": "a view: select of `y`"},
    ]
    assert "also known  `row`: a view: view.slice of `y`" in str(error)


def test_a_second_backward_names_what_kept_the_graph_alive(tmp_path: Path) -> None:
    program = (
        "import ag_visual as torch\n"
        "w = torch.ones(2, requires_grad=True)\n"
        "h = w.exp()\n"
        "a = (h * h).sum()\n"
        "a.backward()\n"
        "del a\n"
        "(h * w).sum().backward()\n"
    )
    error = _run(program, tmp_path / "program.py")
    assert error.fields["kind"] == "second-backward"
    assert error.fields["holders"] == ["h"]
    assert "kept alive by   `h`" in str(error)
    assert error.fields["first_backward"].line == 5
