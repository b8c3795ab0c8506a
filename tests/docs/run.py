"""Runs a page's examples and compares what they print with what the page says they print."""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import traceback
import types
import warnings
from pathlib import Path
from typing import Any

from .pages import Block, Example

FLAGS = doctest.ELLIPSIS
_checker = doctest.OutputChecker()


class PageError(AssertionError):
    """A page says what is not so; the text shows both."""


def run_page(examples: list[Example], folder: Path) -> None:
    """Run all examples of a page in one namespace. Raises PageError at the first that differs.

    No local variable here holds that namespace itself: errors name the variables of every frame.
    """
    page = types.ModuleType("__main__")
    for number, example in enumerate(examples):
        if example.code.text.lstrip().startswith(">>> "):
            _session(example.code, page)
        else:
            _program(example, page, folder, number)


def _session(block: Block, page: types.ModuleType) -> None:
    parser = doctest.DocTestParser()
    test = parser.get_doctest(block.text, {}, block.where, str(block.page), block.line - 1)
    test.globs = vars(page)
    said = io.StringIO()
    runner = doctest.DocTestRunner(_checker, optionflags=FLAGS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runner.run(test, out=said.write, clear_globs=False)
    if runner.summarize(verbose=False).failed:
        raise PageError(said.getvalue())


def _program(example: Example, page: types.ModuleType, folder: Path, number: int) -> None:
    block = example.code
    # A file of its own, so that errors can quote its lines; a named one starts afresh.
    path = folder / (block.file or f"example_{number}.py")
    path.write_text(block.text)
    linecache.checkcache(str(path))
    scope = types.ModuleType("__main__") if block.file else page
    said = io.StringIO()
    error: BaseException | None = None
    with warnings.catch_warnings(), contextlib.redirect_stdout(said):
        warnings.simplefilter("always")
        warnings.showwarning = _shown(said)  # type: ignore[assignment]
        try:
            exec(compile(block.text, str(path), "exec"), vars(scope))
        except Exception as raised:
            error = raised
            said.write("".join(traceback.format_exception_only(raised)))
    if block.file:
        vars(page).update(vars(scope))
    got = said.getvalue()
    want = "" if example.output is None else example.output.text
    if example.output is None and error is None and not got:
        return
    if not _checker.check_output(want, got, FLAGS):
        shown = "nothing" if example.output is None else f"\n{want}"
        told = PageError(
            f"{block.where}, line {block.line}:\n{block.text}\n"
            f"The page says: {shown}\nIt prints:\n{got}"
        )
        raise told from error


def _shown(said: io.StringIO) -> Any:
    """Warnings in the order in which they come, without the line of this file's program."""

    def show(message: Any, category: Any, *_: Any) -> None:
        said.write(f"{category.__name__}: {message}\n")

    return show
