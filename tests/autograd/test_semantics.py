"""docs/notes/semantics.md says what holds and which test shows it: these tests exist."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "notes" / "semantics.md"
HEAD = ("What holds", "---")


def _rows() -> list[tuple[str, list[str]]]:
    """Each behaviour with the tests that the page names for it."""
    cells = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if "|" in line]
    return [
        (what.strip(), re.findall(r"`(tests/[^`]+)`", tests))
        for what, tests in cells
        if not what.strip().startswith(HEAD)
    ]


@functools.cache
def _tests_of(path: str) -> frozenset[str]:
    """The functions of a test file."""
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("what", "tests"), _rows(), ids=lambda value: str(value)[:60])
def test_every_behaviour_has_its_test(what: str, tests: list[str]) -> None:
    assert tests, f"no test is named for {what!r}"
    for name in tests:
        path, _, function = name.partition("::")
        assert function in _tests_of(path), f"{name} does not exist"


def test_every_section_is_there() -> None:
    sections = re.findall(r"(?m)^## (.+)$", PAGE.read_text())
    assert sections == [
        "Order of hooks",
        "Views and in-place operations",
        "Inference mode",
        "Hooks of saved tensors",
        "The engine",
        "Layout of gradients",
        "Anomaly mode",
        "Custom Functions",
        "Complex numbers",
        "Non-smooth points",
        "Older spellings and modes",
    ]
    assert len(_rows()) > 90
