"""Tracebacks of cells: the user's frames, and those of the package where they say something."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import ag_visual as ag
from ag_visual.core import source
from ag_visual.session.tracebacks import users_frames
from tests.oracle import torch

SETUP = """
import numpy as np
import ag_visual as torch
a = torch.ones(3, requires_grad=True)
"""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    found: Any = InteractiveShell()
    ag.load_ipython_extension(found)
    found.run_cell(SETUP)
    yield found
    found.history_manager.end_session()


def told(shell: Any, capsys: Any, cell: str) -> str:
    capsys.readouterr()
    shell.run_cell(cell, store_history=True)
    text: str = COLOURS.sub("", capsys.readouterr().out)
    return text


LEFT_OUT = re.compile(r"\[\.\.\. \d+ frames? inside of ag_visual: %ag_visual traceback\]")


@pytest.mark.parametrize(
    ("cell", "error"),
    [
        ("a + torch.ones(4)", "RuntimeError: add(): The size of tensor a (3)"),
        ("torch.nn.Linear(3, 2)(torch.ones(1, 4))", "RuntimeError: mat1 and mat2 shapes cannot"),
        ("h = a.exp(); h.add_(1); h.sum().backward()", "InplaceError: one of the variables"),
        ("(a * 2).backward()", "RuntimeError: grad can be implicitly created only"),
        ("torch.ones(2)[5]", "IndexError: index 5 is out of bounds"),
        ("torch.tensr", "AttributeError: ag_visual has no 'tensr'"),
        ("torch.optim.SGD(torch.nn.Linear(2, 2))", "TypeError: 'Linear' object is not iterable"),
    ],
)
def test_what_the_package_says_itself_shows_the_users_lines(
    shell: Any, capsys: Any, cell: str, error: str
) -> None:
    text = told(shell, capsys, cell)
    assert cell in text
    assert error in text
    assert "ag_visual/" not in text
    assert "During handling" not in text
    assert LEFT_OUT.search(text.split(error)[0])
    said = shell.run_line_magic("ag_visual", "traceback")
    assert said is None
    whole = capsys.readouterr().out
    assert "ag_visual/" in whole
    assert error.partition(": ")[2] in whole


def test_frames_of_hooks_and_modules_stay(shell: Any, capsys: Any) -> None:
    hook = (
        "def bad(g): raise ValueError('mine')\nh = a * 2\nh.register_hook(bad)\nh.sum().backward()"
    )
    text = told(shell, capsys, hook)
    assert "raise ValueError('mine')" in text
    assert "h.sum().backward()" in text
    assert "ag_visual/" not in text
    module = (
        "class M(torch.nn.Module):\n    def forward(self, x):\n"
        "        return x @ torch.ones(4, 2)\nM()(a)"
    )
    text = told(shell, capsys, module)
    assert "return x @ torch.ones(4, 2)" in text
    assert text.count("M()(a)") == 1
    assert "ag_visual/" not in text


def test_what_nobody_said_is_shown_whole(shell: Any, capsys: Any) -> None:
    for cell in ("1 / 0", "np.linalg.inv(np.zeros((2, 2)))"):
        assert "inside of ag_visual" not in told(shell, capsys, cell)
    # As a fault of the package would: an error that none of its lines raises.
    text = told(shell, capsys, "m = torch.nn.Linear(2, 2)\nm._modules = None\nlist(m.modules())")
    assert "AttributeError: 'NoneType' object has no attribute 'items'" in text
    assert "nn/members.py" in text
    assert "inside of ag_visual" not in text


def test_an_interrupt_shows_the_users_lines_wherever_it_came() -> None:
    layer: Any = ag.nn.Linear(2, 2)
    layer._modules = None
    with pytest.raises(AttributeError) as raised:
        list(layer.modules())
    trace = raised.value.__traceback__
    assert trace is not None
    assert users_frames(trace) == (trace, 0)
    shown, left_out = users_frames(trace, interrupted=True)
    assert left_out == 2
    assert shown.tb_frame is trace.tb_frame
    assert shown.tb_next is None


def test_files_that_a_watcher_counts_in_are_not_the_packages() -> None:
    folder = f"{os.path.dirname(__file__)}{os.sep}"
    source.count_in(folder)
    try:
        with pytest.raises(RuntimeError) as raised:
            ag.ones(2) + ag.ones(3)
        shown, left_out = users_frames(raised.value.__traceback__)  # type: ignore[arg-type]
    finally:
        source.count_in(folder, counts=False)
    assert left_out == 1
    assert shown.tb_frame.f_code.co_filename == __file__


@pytest.mark.oracle
def test_errors_of_a_watched_torch_keep_torchs_frames() -> None:
    with ag.watch(torch), pytest.raises(RuntimeError, match="cannot be multiplied") as raised:
        torch.nn.Linear(3, 2)(torch.ones(1, 4))
    shown, left_out = users_frames(raised.value.__traceback__)  # type: ignore[arg-type]
    files = []
    trace: Any = shown
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    assert left_out == 1
    assert files[0] == __file__
    assert files[-1].endswith("linear.py")


def test_the_exception_keeps_its_whole_traceback(shell: Any, capsys: Any) -> None:
    result = shell.run_cell("a + torch.ones(4)")
    capsys.readouterr()
    error = result.error_in_exec
    trace, files = error.__traceback__, []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    assert any("built add" in file for file in files)
    assert error.__suppress_context__


def test_before_any_error_the_magic_says_so(shell: Any, capsys: Any) -> None:
    vars(sys).pop("last_value", None)
    shell.run_line_magic("ag_visual", "traceback")
    assert capsys.readouterr().out == "No cell has ended with an error.\n"
