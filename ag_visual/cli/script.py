"""`python -m ag_visual script.py [arguments]`: runs code that imports torch on this engine."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import CodeType, ModuleType

from ag_visual.session import as_torch

USAGE = "usage: python -m ag_visual script.py [arguments]"


def main(words: list[str]) -> int:
    """Run the script as Python would; the exit code."""
    if not words or words[0] in ("-h", "--help"):
        print(f"{USAGE}\n\nRuns a script in which `import torch` gives ag_visual.", file=sys.stderr)
        return 0 if words else 2
    path = Path(words[0])
    if wrong := problem(path):
        print(f"ag_visual: {wrong}\n{USAGE}", file=sys.stderr)
        return 2
    try:
        as_torch.install()
    except RuntimeError as error:
        print(f"ag_visual: {error}", file=sys.stderr)
        return 1
    return run(path, words)


def problem(path: Path) -> str | None:
    """Why a file cannot be run; None: it can."""
    if path.is_file():
        return None
    return f"{path}: {'is a folder, not a script' if path.is_dir() else 'no such file'}"


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
    try:
        code: CodeType = compile(path.read_bytes(), str(path), "exec")
        exec(code, vars(module))
    except SystemExit:
        raise
    except BaseException as error:
        # The reader wants the script's own lines, not those that started it.
        below = error.__traceback__ and error.__traceback__.tb_next
        traceback.print_exception(type(error), error, below)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0
