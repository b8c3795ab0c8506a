"""What pip installs: the package, the prebuilt extension and the page's bundle."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

import ag_visual

CHECKOUT = Path(__file__).resolve().parents[2]
EXTENSION = "share/jupyter/labextensions/ag-visual-inspector"


@pytest.fixture
def files() -> dict[str, Path]:
    """Installed path from the environment's root -> where it lies."""
    try:
        installed = distribution("ag-visual")
    except PackageNotFoundError:
        pytest.skip("ag-visual runs from its checkout here and is not installed")
    if CHECKOUT in Path(ag_visual.__file__).resolve().parents:
        pytest.skip("an editable install shows the checkout, not a wheel")
    assert installed.files is not None
    return {
        str(file).replace("\\", "/").lstrip("./"): Path(installed.locate_file(file))
        for file in installed.files
    }


def test_the_front_end_came_along(files: dict[str, Path]) -> None:
    package = json.loads(files[f"{EXTENSION}/package.json"].read_text())
    assert package["version"] == ag_visual.__version__ == distribution("ag-visual").version
    entry = package["jupyterlab"]["_build"]["load"]
    assert files[f"{EXTENSION}/{entry}"].stat().st_size > 1000
    assert files[f"{EXTENSION}/install.json"].exists()
    assert files["ag_visual/display/static/inspector.js"].stat().st_size > 10_000


def test_the_tour_came_along(files: dict[str, Path]) -> None:
    tour = json.loads(files["ag_visual/notebooks/tour.ipynb"].read_text())
    assert tour["metadata"]["ag_visual"] == {"inspector": "open"}
    assert sum(name.startswith("ag_visual/notebooks/course_") for name in files) == 8


def test_type_checkers_may_read_it(files: dict[str, Path]) -> None:
    assert files["ag_visual/py.typed"].exists()
    assert files["ag_visual/core/attached.pyi"].exists()


def test_the_version_is_one() -> None:
    """`ag_visual/__init__.py` says it; pyproject.toml reads it there, these repeat it."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "ag_visual/__init__.py"
    extension = json.loads((CHECKOUT / "extension" / "package.json").read_text())
    assert extension["version"] == ag_visual.__version__
    news = (CHECKOUT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\S+)", news, re.MULTILINE)[0] == ag_visual.__version__


def test_only_what_runs_is_installed(files: dict[str, Path]) -> None:
    stray = [
        name for name in files if name.startswith(("tests/", "extension/", "docs/", "notebooks/"))
    ]
    assert stray == []


def test_the_core_needs_three_packages() -> None:
    try:
        needs = distribution("ag-visual").requires or []
    except PackageNotFoundError:
        pytest.skip("ag-visual runs from its checkout here and is not installed")
    core = {need.split(">")[0].strip() for need in needs if "extra ==" not in need}
    assert core == {"numpy", "scipy", "ml-dtypes"}
