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
from ag_visual.ops import table

from .pages import DOCS

NEEDED = ("sphinx", "myst_parser", "furo", "sphinx_copybutton")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
HOW_TO = f'{", ".join(MISSING)} missing: pip install ".[docs]"'
MUST = os.environ.get("CI", "").lower() in ("1", "true")


@pytest.mark.skipif(bool(MISSING) and not MUST, reason=f"the documentation is not built: {HOW_TO}")
def test_builds_without_a_warning(tmp_path: Path) -> None:
    assert not MISSING, f"CI=true and the documentation cannot be built: {HOW_TO}"
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", DOCS, tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ag_visual.__version__ in (tmp_path / "index.html").read_text()
    page = (tmp_path / "reference" / "functions.html").read_text()
    shown = set(re.findall(r'id="fn-([\w.]+)"', page))
    assert shown == {name for name in table.functions if not name.endswith("_")}
