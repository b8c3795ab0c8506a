"""Magics in an IPython shell of this process."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

import ag_visual as ag
from ag_visual.core.source import resolve_call_site
from ag_visual.events import instrument
from ag_visual.session.session import current


@pytest.fixture
def shell():
    """A shell with the extension loaded; recording is off afterwards."""
    found = InteractiveShell()
    ag.load_ipython_extension(found)
    found.run_cell("import ag_visual as ag")
    yield found
    current().stop()
    current().clear()
    found.history_manager.end_session()


def said(shell, capsys, line):
    capsys.readouterr()
    shell.run_line_magic("ag_visual", line)
    return capsys.readouterr().out


def test_status_and_record(shell, capsys):
    assert said(shell, capsys, "").startswith("ag_visual: not recording")
    assert said(shell, capsys, "record on").startswith("ag_visual: recording;")
    assert instrument.sink is not None
    assert "each 10th" in said(shell, capsys, "record every 10")
    assert "next backward" in said(shell, capsys, "record once")
    assert said(shell, capsys, "record off").startswith("ag_visual: not recording")
    assert instrument.sink is None


@pytest.mark.parametrize(
    "line", ["fly", "record", "record every x", "record every 0", "save", "break"]
)
def test_unknown_lines_show_the_usage(shell, capsys, line):
    assert "%ag_visual" in said(shell, capsys, line)


def test_help_lists_every_line(shell, capsys):
    text = said(shell, capsys, "help")
    for word in ("as_torch", "record", "pause", "break", "save", "clear", "%%ag_visual step"):
        assert word in text


def test_pausing_needs_a_kernel(shell, capsys):
    assert "Nothing could end a pause here" in said(shell, capsys, "pause")
    assert "Nothing could end a pause here" in said(shell, capsys, "break MulBackward0")
    assert instrument.gate is None


def test_record_cell_and_save(shell, capsys, tmp_path):
    shell.run_cell_magic(
        "ag_visual",
        "record",
        "x = ag.tensor([1.0], requires_grad=True)\n(x * x).backward()\n",
    )
    assert "1 nodes and 2 runs kept" in capsys.readouterr().out
    path = tmp_path / "run.agv"
    assert "Written" in said(shell, capsys, f"save {path}")
    assert ag.load_recording(path).rows("nodes") == 1
    assert "0 nodes" in said(shell, capsys, "clear")


def test_cell_magic_of_another_name(shell, capsys):
    shell.run_cell_magic("ag_visual", "fly", "1")
    assert "%%ag_visual knows 'record' and 'step'" in capsys.readouterr().out


def test_code_knows_its_cell_and_line(shell):
    shell.run_cell("def f(a):\n    return a * a", store_history=True)
    shell.run_cell("y = f(ag.tensor([1.0], requires_grad=True))", store_history=True)
    site = resolve_call_site(shell.user_ns["y"].grad_fn.call_site)
    assert (site.kind, site.line, site.text) == ("cell", 2, "a * a")
    first = site.execution_count
    shell.run_cell("def f(a):\n    return a * a", store_history=True)
    assert resolve_call_site(shell.user_ns["y"].grad_fn.call_site).execution_count == first
