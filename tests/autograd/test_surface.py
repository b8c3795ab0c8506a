"""Every name of the documentation of torch.autograd 0.4 to 2.8, with its arguments.

Left out are what has its own tests: the functional API, gradient checks, profiler.
The signatures are those of the documentation of 2.8; where torch is installed, it has them too.
"""

from __future__ import annotations

import importlib
import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest

import ag_visual

from ..oracle import torch
from ..programs import agree, raised

GOLDEN = Path(__file__).parents[1] / "golden" / "documented_names.txt"
DOCUMENTED = [line for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]

# Arguments that 2.8 has by another name here: they are given by position.
_FREE = {"fn", "hook", "self", "name"}


def _found(module: Any, path: str) -> Any:
    for part in path.split("."):
        if not hasattr(module, part) and inspect.ismodule(module):
            importlib.import_module(f"{module.__name__}.{part}")
        module = getattr(module, part)
    return module


def _wanted(arguments: str) -> list[str]:
    return [a.strip() for a in arguments.rstrip(")").split(", ") if a.strip()]


def _missing(signature: inspect.Signature, wanted: list[str]) -> list[str]:
    """What of the documented arguments a signature lacks."""
    known = signature.parameters
    kinds = [p.kind for p in known.values()]
    absent = []
    for argument in wanted:
        name, _, default = argument.partition("=")
        if name in ("*", "self") or name in _FREE:
            continue
        if name.startswith("*"):
            kind = inspect.Parameter.VAR_KEYWORD if name[1] == "*" else None
            if (kind or inspect.Parameter.VAR_POSITIONAL) not in kinds:
                absent.append(argument)
        elif name not in known:
            absent.append(argument)
        elif default not in ("", "...") and repr(known[name].default) != default:
            absent.append(f"{argument} (is {known[name].default!r})")
    return absent


@pytest.mark.parametrize("line", DOCUMENTED, ids=lambda line: line.split("(")[0])
def test_documented_names_and_arguments(line: str) -> None:
    path, called, arguments = line.partition("(")
    mine = _found(ag_visual, path)
    if called:
        wanted = _wanted(arguments)
        assert not _missing(inspect.signature(mine), wanted)
        required = [
            p.name
            for p in inspect.signature(mine).parameters.values()
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        given = [a for a in wanted if "=" not in a and not a.startswith("*")]
        assert len(required) <= len(given), f"needs {required}, the documentation gives {given}"
    assert _found(torch, path) is not None
    documented = inspect.getdoc(mine)
    assert documented or not callable(mine), f"{path} has no docstring"


def test_the_walk_notices_what_is_missing() -> None:
    signature = inspect.signature(ag_visual.autograd.grad)
    assert _missing(signature, ["outputs", "no_such"]) == ["no_such"]
    assert _missing(signature, ["create_graph=True"]) == ["create_graph=True (is False)"]
    assert _missing(signature, ["*args", "**kwargs"]) == ["*args", "**kwargs"]


def test_methods_and_functions_are_called_by_their_public_names() -> None:
    for place in (ag_visual.Tensor, ag_visual, ag_visual.autograd):
        for name, found in vars(place).items():
            if inspect.isfunction(found) and not name.startswith("_"):
                assert not found.__name__.startswith("_"), f"{name} is called {found.__name__}"
                assert not found.__qualname__.startswith("_"), f"{name}: {found.__qualname__}"
    assert ag_visual.Tensor.backward.__qualname__ == torch.Tensor.backward.__qualname__

    def program(t: Any) -> Any:
        return raised(lambda: t.ones(2, requires_grad=True).sum().backward(keep=True))

    agree(program)


def test_methods_and_functions_can_be_pickled() -> None:
    for found in (
        ag_visual.Tensor.backward,
        ag_visual.Tensor.where,
        ag_visual.Tensor.masked_fill_,
        ag_visual.resize_as_,
    ):
        assert pickle.loads(pickle.dumps(found)) is found
