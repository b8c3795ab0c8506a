"""Every example of the README and of the guide runs and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ag_visual as ag
from ag_visual.events import live

from ..oracle import torch
from .pages import CHECKOUT, Example, examples, written
from .run import PageError, run_page

PAGES = {str(page.relative_to(CHECKOUT)): page for page in written()}
WITH_CODE = [name for name, page in PAGES.items() if examples(page)]
WITH_CELLS = [name for name, page in PAGES.items() if examples(page, language="ipython")]


def test_the_readme_and_the_guide_have_examples() -> None:
    guide = {name for name in PAGES if name.startswith("docs/guide/")}
    assert guide
    assert {"README.md", *guide} <= {*WITH_CODE, *WITH_CELLS}


@pytest.fixture
def settings() -> Iterator[None]:
    """What pages set for the whole process is what it was; nothing is watched any more."""
    precision, benchmark = ag.get_float32_matmul_precision(), ag.backends.cudnn.benchmark
    yield
    if live.engines:
        ag.watch(torch).stop()
    ag.set_float32_matmul_precision(precision)
    ag.backends.cudnn.benchmark = benchmark


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    "name",
    [
        # Some watch torch itself.
        pytest.param(
            name,
            marks=[pytest.mark.oracle]
            * any("ag.watch(torch)" in each.code.text for each in examples(PAGES[name])),
        )
        for name in WITH_CODE
    ],
)
def test_examples_print_what_the_page_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(examples(PAGES[name]), tmp_path)


@pytest.mark.parametrize("name", WITH_CELLS)
def test_cells_run_in_ipython(name: str, tmp_path: Path) -> None:
    """All ```ipython blocks of a page in one fresh IPython, one cell each."""
    cells = examples(PAGES[name], language="ipython")
    got = _in_ipython(cells, tmp_path)
    for example, text in zip(cells, got, strict=True):
        want = example.output.text if example.output else ""
        if text.strip() != want.strip():
            raise PageError(
                f"{example.code.where}, line {example.code.line}:\n{example.code.text}\n"
                f"The page says:\n{want}\nIt prints:\n{text}"
            )


_CELLS = """\
import sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.colors = "nocolor"
for cell in sys.stdin.read().split("\\f"):
    shell.run_cell(cell, store_history=True).raise_error()
    print("\\f", end="", flush=True)
"""


def _in_ipython(cells: list[Example], folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _CELLS],
        input="\f".join(example.code.text for example in cells),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "IPYTHONDIR": str(folder / "ipython")},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = [re.sub(r"^Out\[\d+\]: ", "", text.strip()) for text in done.stdout.split("\f")]
    return printed[:-1]


INJECTED = {
    "a wrong result in a session": "```python\n>>> 1 + 1\n3\n```\n",
    "a wrong output": "```python\nprint(2)\n```\n```output\n3\n```\n",
    "output that the page does not show": "```python\nprint(2)\n```\n",
    "output that does not come": "```python\nx = 2\n```\n```output\n2\n```\n",
    "an error that the page does not show": "```python\n1 / 0\n```\n",
    "another error than the page shows": (
        "```python\n1 / 0\n```\n```output\nZeroDivisionError: by nothing\n```\n"
    ),
    "a warning that the page does not show": (
        "```python\nimport warnings\nwarnings.warn('look')\n```\n"
    ),
}


@pytest.mark.parametrize("text", INJECTED.values(), ids=INJECTED.keys())
def test_a_page_that_says_what_is_not_so_is_found(text: str, tmp_path: Path) -> None:
    page = CHECKOUT / "docs" / "injected.md"
    with pytest.raises(PageError):
        run_page(examples(page, text), tmp_path)


def test_a_true_page_passes(tmp_path: Path) -> None:
    text = (
        "```python\nx = 2\n```\nthen\n```python\n>>> x + 1\n3\n```\n"
        "```python\n# train.py\nraise ValueError('no')\n```\n```output\nValueError: no\n```\n"
    )
    run_page(examples(CHECKOUT / "docs" / "injected.md", text), tmp_path)
    assert (tmp_path / "train.py").exists()
