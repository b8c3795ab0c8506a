"""Functions made of source that this package writes: compiled, and shown in tracebacks."""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

_FOLDER = os.path.dirname(os.path.abspath(__file__))


class Writer:
    """The source of a function, line by line."""

    def __init__(self, head: str) -> None:
        self.lines = [head]

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def defined(text: str, label: str, scope: dict[str, Any]) -> dict[str, Any]:
    """What a source defines, with the names of `scope`.

    Its file, `<built label>`, counts as part of the package: what it calls is not the user's.
    """
    filename = os.path.join(_FOLDER, f"<built {label}>")
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    space: dict[str, Any] = {}
    exec(compile(text, filename, "exec"), scope, space)
    return space


finish: Callable[[], Callable[..., Any]]  # in the scope of every built function

take_code: Callable[[FunctionType, CodeType], None] | None = None
"""Called in place of giving a built function its code, which it then has to give it."""


def _stub(*args: Any, **kwargs: Any) -> Any:
    """The code of every built function until its first call.

    An error of that call looks like one of any later call: a bare `raise` adds no frame again.
    """
    function = finish()  # noqa: F821
    try:
        return function(*args, **kwargs)
    except BaseException as error:
        # (In a local variable the traceback would hold this frame, and this frame it.)
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        raise


def waits(function: FunctionType) -> bool:
    """Whether it is a built function that was not called yet."""
    return function.__code__ is _stub.__code__


def lazily(
    name: str, scope: dict[str, Any], write: Callable[[dict[str, Any]], str], label: str = ""
) -> Callable[..., Any]:
    """The function `name` of the source that `write(scope)` gives, compiled when first called.

    Compiling takes 0.3 ms a function, which would be most of the import. The function object is
    there at once; its first call gives it the code, so nothing is in the way of later ones.
    """
    function = FunctionType(_stub.__code__, scope, name)
    function.__qualname__ = name

    def finish() -> Callable[..., Any]:
        made = defined(write(scope), label or name, scope)[name]
        function.__defaults__, function.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        if take_code is None:
            function.__code__ = made.__code__
        else:
            take_code(function, made.__code__)
        return function

    scope["finish"] = finish
    return function
