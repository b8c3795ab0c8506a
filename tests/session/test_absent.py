"""Names of torch that are not here: the error says what to write, in names that torch has, too."""

from __future__ import annotations

import abc
import importlib
import importlib.util
import operator
import pkgutil
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import ag_visual as ag
from ag_visual import absent
from ag_visual.session import as_torch
from tests.oracle import torch


def found(root: Any, path: str) -> bool:
    """Whether a dotted name is there, as an attribute or as a module to import."""
    *above, last = path.split(".")
    try:
        for name in above:
            below = f"{root.__name__}.{name}"
            root = getattr(root, name) if hasattr(root, name) else importlib.import_module(below)
        if hasattr(root, last):
            return True
    except ImportError:
        pass  # of a module that needs a package of others only the file can be looked for
    if not hasattr(root, "__path__"):
        return False
    return importlib.util.find_spec(f"{root.__name__}.{last}") is not None


@pytest.mark.parametrize("name", absent.SAID)
def test_an_absent_name_is_torchs_and_not_ours(name: str) -> None:
    inner = as_torch.is_inner(f"torch.{name}")
    assert inner or not found(ag, name), f"{name} is here now: take it out of the table"
    # Of a module that needs a package of others only the file can be looked for.
    assert found(torch, name) or importlib.util.find_spec(f"torch.{name}"), f"torch has no {name}"
    if not inner:
        with pytest.raises(AttributeError, match=re.escape(absent.SAID[name])):
            operator.attrgetter(name)(ag)


NAMED = re.compile(r"\btorch\.[\w.]*\w")


@pytest.mark.parametrize("said", sorted(set(absent.SAID.values())))
def test_what_is_written_instead_is_there_in_both(said: str) -> None:
    for name in NAMED.findall(said):
        inner = name.removeprefix("torch.")
        assert found(torch, inner), name
        assert found(ag, inner) or inner == "__version__", name
    for name in re.findall(r"\bag_visual\.(\w+)", said):
        assert hasattr(ag, name)
    for name in re.findall(r"\bTensor\.(\w+)", said):
        assert hasattr(ag.Tensor, name)
        assert hasattr(torch.Tensor, name)


def modules_of(folders: list[str], above: str = "") -> Iterator[str]:
    """The dotted names of public modules, but not of those in a package that is not here."""
    for module in pkgutil.iter_modules(folders):
        name = f"{above}{module.name}"
        if not module.name.startswith("_"):
            yield name
            # (What is in the one is in a package of others.)
            if module.ispkg and name != "utils.tensorboard" and found(ag, name):
                yield from modules_of([f"{folder}/{module.name}" for folder in folders], f"{name}.")


@pytest.mark.oracle
def test_every_module_of_torch_is_here_or_in_the_table() -> None:
    names = list(modules_of(list(torch.__path__)))
    assert {"signal.windows", "masked", "utils.module_tracker"} <= set(names)
    untold = [name for name in names if not found(ag, name) and absent.said_of(name) is None]
    assert untold == []


@pytest.mark.oracle
def test_a_module_that_torch_lacks_is_none_under_its_name() -> None:
    assert torch.__path__  # `walk_packages` imports what it is to look into
    modules = pkgutil.walk_packages(ag.__path__, "torch.")
    names = [module.name for module in modules if as_torch.is_ours(module.name)]
    assert "torch.nn.functional" in names
    unknown = [name for name in names if name not in sys.modules]
    assert [name for name in unknown if importlib.util.find_spec(name) is None] == []
    for inner in as_torch.INNER:
        assert importlib.util.find_spec(f"ag_visual.{inner}"), f"{inner} is gone: take it out"


@pytest.mark.parametrize(
    "path",
    [
        *("torch.tensr", "torch.nn.Covn2d", "torch.nn.Modle", "torch.utils.data.Dataloader"),
        *("torch.autograd.gradd", "torch.optim.Adamm", "torch.nn.init.kaiming_uniforn_"),
        *("torch.cudaa", "torch.utils.data.loadr", "torch.optim.rule", "torch.recrod"),
        *("torch.nn.savin", "torch.autograd.apii", "torch.linalg.solvee", "torch.nn.utils.rnnn"),
    ],
)
def test_the_nearest_names_exist_in_torch(path: str) -> None:
    text = as_torch.explain(path)
    named = [name.removeprefix("torch.") for name in NAMED.findall(text.partition(". ")[2])]
    assert named or "No name here is like it" in text
    for name in named:
        if name != "dir":
            assert found(torch, name), text


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: ag.mtia, "torch.cuda.is_available"),
        (lambda: ag.jit.Error, "has no attribute 'Error'. Nothing is compiled"),
        (lambda: ag.func.functionalize, "a function runs as it is"),
        (
            lambda: ag.ones(2, 2).to_sparse_csc(),
            "'Tensor' object has no attribute 'to_sparse_csc'.*Tensor.to_sparse",
        ),
        (lambda: ag.nn.Parameter(ag.ones(2)).pin_memory(), "leave the call out"),
        (lambda: ag.sparse.spsolve, "call .to_dense"),
        (lambda: ag.nn.Linaer, "module 'ag_visual.nn' has no attribute 'Linaer'$"),
    ],
)
def test_errors_say_what_to_write(ask: Any, told: str) -> None:
    with pytest.raises(AttributeError, match=told):
        ask()


def test_under_torchs_name_as_well() -> None:
    text = as_torch.explain("torch.utils.mobile_optimizer")
    assert text.startswith("ag_visual has no torch.utils.mobile_optimizer. Nothing is compiled")


def test_what_is_absent_is_neither_listed_nor_had() -> None:
    x = ag.ones(2)
    for name in (name for name in absent.SAID if name.startswith("Tensor.")):
        method = name.removeprefix("Tensor.")
        assert not hasattr(x, method)
        assert not hasattr(ag.Tensor, method)
        assert method not in dir(x)


def test_a_stand_in_may_be_the_base_of_an_abstract_class() -> None:
    class Derived(ag.nn.SyncBatchNorm, abc.ABC): ...

    with pytest.raises(NotImplementedError, match=r"torch\.nn\.SyncBatchNorm is not here"):
        Derived(3)
    assert not isinstance(ag.nn.Linear(1, 1), Derived)
    with pytest.raises(AttributeError, match=r"no attribute 'convert_sync_batchnorm'.*one process"):
        _ = ag.nn.SyncBatchNorm.convert_sync_batchnorm
