"""`python -m ag_visual script.py [arguments]`: runs code that imports torch on this engine.

`-m module` in the script's place runs a module of a package, as Python does.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from ag_visual.session import as_torch

USAGE = "usage: python -m ag_visual script.py [arguments]\n"
USAGE += "       python -m ag_visual -m module [arguments]"
_BELOW = {__file__, runpy.__file__, runpy.run_module.__code__.co_filename}
"""Files whose lines start the program, and are none of its own."""


def main(words: list[str]) -> int:
    """Run the script as Python would; the exit code."""
    if not words or words[0] in ("-h", "--help"):
        print(f"{USAGE}\n\nRuns a script in which `import torch` gives ag_visual.", file=sys.stderr)
        return 0 if words else 2
    as_module = words[0] == "-m"
    if as_module:
        words = words[1:]
        wrong = None if words else "-m wants the name of a module"
    else:
        wrong = problem(Path(words[0]))
        if wrong and words[0] in ("profile", "tour"):
            wrong += f" (the command is `ag-visual {words[0]}`)"
    if wrong:
        print(f"ag_visual: {wrong}\n{USAGE}", file=sys.stderr)
        return 2
    try:
        as_torch.install()
    except RuntimeError as error:
        print(f"ag_visual: {error}", file=sys.stderr)
        return 1
    return run_module(words) if as_module else run(Path(words[0]), words)


def problem(path: Path) -> str | None:
    """Why a file cannot be run; None: it can."""
    if path.is_file():
        return None
    if path.is_dir():
        package = (path / "__main__.py").is_file() or (path / "__init__.py").is_file()
        return f"{path} is a folder, not a script{'; -m runs a package' if package else ''}"
    return f"{path}: no such file"


def run(path: Path, words: list[str]) -> int:
    """Execute the file as `__main__`, with its folder first on sys.path and its own sys.argv.

    As in Python both are absolute, for a script may change the folder it runs in; and the folder is
    that of the file that a link leads to.
    """
    path = path.absolute()
    module = ModuleType("__main__")
    module.__file__ = str(path)
    sys.modules["__main__"] = module
    sys.argv = words
    sys.path.insert(0, str(path.resolve().parent))

    def execute() -> None:
        code: CodeType = compile(path.read_bytes(), str(path), "exec")
        exec(code, vars(module))

    return _ran(execute)


def run_module(words: list[str]) -> int:
    """Execute the module of that name as `__main__`, as `python -m` does: its package is known."""
    sys.argv = list(words)
    sys.path.insert(0, os.getcwd())
    return _ran(lambda: runpy.run_module(words[0], run_name="__main__", alter_sys=True))


def _ran(execute: Callable[[], object]) -> int:
    try:
        execute()
    except SystemExit:
        raise
    except BaseException as error:
        traceback.print_exception(type(error), error, _own(error.__traceback__))
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _own(found: TracebackType | None) -> TracebackType | None:
    """The lines of the program, without those that started it."""
    while found is not None and found.tb_frame.f_code.co_filename in _BELOW:
        found = found.tb_next
    return found
