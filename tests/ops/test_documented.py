"""Every public function says in a sentence what it computes."""

from __future__ import annotations

import importlib
from types import FunctionType

import pytest

import ag_visual as ag
from ag_visual.dispatch.table import functions

from ..groups import each

SPACES = ("special", "random", "linalg", "fft", "nn.functional")


@each("name", sorted(functions))
def test_a_function_has_a_docstring(name: str) -> None:
    text = functions[name].__doc__
    assert text
    assert text.strip().partition("\n")[0].rstrip().endswith((".", ":", ",")) or "\n" in text


def test_tensors_attributes_have_docstrings() -> None:
    # A method of torch's that is absent stands in the class for its error alone.
    names = [n for n in dir(ag.Tensor) if not n.startswith("_") and hasattr(ag.Tensor, n)]
    assert [n for n in names if not getattr(ag.Tensor, n).__doc__] == []


@pytest.mark.parametrize("space", SPACES)
def test_functions_of_a_module_have_docstrings(space: str) -> None:
    module = importlib.import_module(f"ag_visual.{space}")
    found = {n: f for n, f in vars(module).items() if isinstance(f, FunctionType) and n[0] != "_"}
    assert found
    assert [n for n, f in found.items() if not f.__doc__] == []
