"""The documentation builds without a warning, and its table of functions is complete."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ag_visual
from ag_visual import autograd, cuda, nn, optim
from ag_visual.dispatch import table

from .pages import DOCS

NEEDED = ("sphinx", "myst_parser", "furo", "sphinx_copybutton")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
HOW_TO = f'{", ".join(MISSING)} missing: pip install ".[docs]"'
MUST = os.environ.get("CI", "").lower() in ("1", "true")


@pytest.mark.skipif(bool(MISSING) and not MUST, reason=f"the documentation is not built: {HOW_TO}")
def test_builds_without_a_warning(tmp_path: Path) -> None:
    assert not MISSING, f"CI=true and the documentation cannot be built: {HOW_TO}"
    words = ["-q", "-W", "--keep-going", "-b", "html"]
    # A third of the build would be the entries of functions, in each page's table of all pages.
    words += ["-D", "toc_object_entries=0"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, DOCS, tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ag_visual.__version__ in (tmp_path / "index.html").read_text()
    reference = {page.stem: page.read_text() for page in (tmp_path / "reference").iterdir()}
    shown = set(re.findall(r'id="fn-([\w.]+)"', reference["functions"]))
    assert shown == {name for name in table.functions if not name.endswith("_")}
    documented = set(re.findall(r'id="ag_visual[\w.]*\.(\w+)"', "".join(reference.values())))
    assert not public_names() - shown - documented


def public_names() -> set[str]:
    """Classes and functions that the package offers."""
    modules = [ag_visual, autograd, autograd.graph, nn, optim, cuda]
    return {
        name
        for module in modules
        for name in module.__all__
        if callable(vars(module).get(name, print)) and not name.endswith("_")
    }


def test_what_is_public_is_known() -> None:
    """The check above would not miss a class, a function, or one that is imported late."""
    assert {"Tensor", "Linear", "SGD", "record", "saved_tensors_hooks"} <= public_names()
