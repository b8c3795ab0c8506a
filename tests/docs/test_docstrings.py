"""The examples in the package's docstrings run and give what they say."""

from __future__ import annotations

import doctest
import importlib.util
import pkgutil
import warnings
from types import ModuleType

import ag_visual

from ..groups import each

# Modules that need what this machine may lack, or that act when they are imported.
APART = {"ag_visual.__main__", "ag_visual.arrays.cupy", "ag_visual.utils.tensorboard"}
BY_EXTRA = {"torch": "ag_visual.bridge.", "numba": "ag_visual.arrays.kernels.compiled."}
"""What imports a package that an extra brings."""


def modules() -> list[str]:
    """Every module of the package that can be imported here."""
    missing = [own for name, own in BY_EXTRA.items() if importlib.util.find_spec(name) is None]
    found = [
        module.name
        for module in pkgutil.walk_packages(ag_visual.__path__, "ag_visual.")
        if module.name not in APART and "node_modules" not in module.name
        if not f"{module.name}.".startswith(tuple(missing))
    ]
    return ["ag_visual", *sorted(found)]


def run(module: ModuleType) -> doctest.TestResults:
    """The doctests of one module, each with nothing but the module's own names."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
        for test in doctest.DocTestFinder().find(module, module.__name__):
            if test.examples:  # the runner looks at all files of the program, for nothing
                runner.run(test)
        return runner.summarize()


@each("name", modules())
def test_docstring_examples(name: str) -> None:
    found = run(importlib.import_module(name))
    assert not found.failed, f"{found.failed} of {found.attempted} examples of {name} differ"


def test_a_wrong_docstring_is_found() -> None:
    injected = ModuleType("injected", "Says what is not so.\n\n>>> 1 + 1\n3\n")
    assert run(injected).failed == 1
