"""How a process begins in which this package works for a program: workers, and `spawn`.

Python's multiprocessing would import the program's main module first of all. Here that waits until
the alias `torch` is there (`before_main`), is done only for a job that needs it, and stops where
the program itself would begin to work, so that a script needs no guard for it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import multiprocessing
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from multiprocessing import spawn
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any, Final

before_main: list[tuple[str, str]] = []
"""Functions (module, name) that a process calls first: an upper layer adds its own."""
_PRELOADED: Final = ["ag_visual.utils.data.worker", "ag_visual.multiprocessing.spawning"]
_lock = threading.Lock()
_importing = False
_hidden: ModuleType | None = None


class Begun(BaseException):
    """The program's main module, imported by a worker, has begun to work."""


def working() -> None:
    """Called where a program works, not defines: a worker needs no more of its main module."""
    if _importing:
        raise Begun


class Program:
    """What another process must know of this one to import its main module."""

    def __init__(self) -> None:
        facts = spawn.get_preparation_data("ag_visual")
        self.name = facts.get("init_main_from_name")
        self.path = facts.get("init_main_from_path")
        self.first = list(before_main)

    @property
    def importable(self) -> bool:
        """Whether the main module is a file: that of a notebook, or of `python -c`, is not."""
        if "IPython" in sys.modules and self.name is None:
            shell = sys.modules["IPython"].get_ipython()
            if shell is not None and type(shell).__name__ != "TerminalInteractiveShell":
                return False
        return self.name is not None or (self.path is not None and os.path.isfile(self.path))

    def begin(self) -> None:
        """In the new process: what comes before everything else."""
        for module, name in self.first:
            getattr(importlib.import_module(module), name)()

    def import_main(self) -> None:
        """In the new process: the definitions of the main module, under the name __mp_main__."""
        global _importing
        module = ModuleType("__mp_main__")
        if self.name is not None:
            spec: Any = importlib.util.find_spec(self.name)
            code = spec.loader.get_code(self.name)
            module.__package__ = spec.parent
            module.__file__ = spec.origin
        else:
            path = os.fspath(self.path or "")
            with open(path, "rb") as file:
                code = compile(file.read(), path, "exec")
            module.__file__ = path
        sys.modules["__main__"] = sys.modules["__mp_main__"] = module
        _importing = True
        try:
            # What a script prints on its way is printed once, by the program itself.
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                exec(code, vars(module))
        except Begun:
            pass
        finally:
            _importing = False


@contextlib.contextmanager
def without_main() -> Iterator[None]:
    """Processes that are started inside do not import the main module by themselves."""
    global _hidden
    with _lock:
        main = _hidden = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"], _hidden = main, None


class Later:
    """An argument of a process that is made there after the main module has been imported."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.needs_main = False

    def get(self) -> Any:
        """The argument."""
        return self._value

    def __reduce__(self) -> Any:
        shown = sys.modules["__main__"]
        sys.modules["__main__"] = _hidden or shown
        try:
            data = bytes(ForkingPickler.dumps(self._value))
        finally:
            sys.modules["__main__"] = shown
        return _Pickled, (data,)


class _Pickled:
    """A `Later` that has arrived."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.needs_main = b"__main__" in data

    def get(self) -> Any:
        return pickle.loads(self._data)


def context_of(given: Any) -> Any:
    """The way in which processes are started: as asked, else by a server, else anew.

    The server has imported this package, so that a process is there in milliseconds.
    """
    if given is not None and not isinstance(given, str):
        return given
    methods = multiprocessing.get_all_start_methods()
    chosen = given or ("forkserver" if "forkserver" in methods else "spawn")
    found = multiprocessing.get_context(chosen)
    if chosen == "forkserver":
        found.set_forkserver_preload(_PRELOADED)
    return found


def started(process: Any, method: str) -> None:
    """Start a process; one that is forked has the main module."""
    if method == "fork":
        process.start()
        return
    with without_main():
        process.start()
