"""Small programs that are run on ag_visual and on torch, whose observations must be the same.

A program is a function of the module it runs on and returns what it saw: numbers, strings, lists,
tuples, arrays or tensors.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy

import ag_visual

from .oracle import torch


def plain(value: Any) -> Any:
    """What a program saw, as plain data."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if hasattr(value, "detach"):
        return plain(value.detach().numpy())
    if isinstance(value, numpy.ndarray):
        return value.tolist()
    return value


def close(seen: Any, expected: Any, path: str = "seen") -> None:
    """Assert that two plain values agree, numbers to six digits."""
    if isinstance(expected, list):
        assert isinstance(seen, list), f"{path}: {seen!r} is not a list like {expected!r}"
        assert len(seen) == len(expected), f"{path}: {seen!r} != {expected!r}"
        for i, (a, b) in enumerate(zip(seen, expected, strict=True)):
            close(a, b, f"{path}[{i}]")
        return
    if isinstance(expected, float):
        assert isinstance(seen, float), f"{path}: {seen!r} != {expected!r}"
        assert numpy.isclose(seen, expected, rtol=1e-6, atol=1e-8, equal_nan=True), (
            f"{path}: {seen} != {expected}"
        )
        return
    assert seen == expected, f"{path}: {seen!r} != {expected!r}"


def expect(program: Callable[[Any], Any], expected: Any) -> None:
    """The program sees `expected` on ag_visual."""
    close(plain(program(ag_visual)), plain(expected))


def agree(program: Callable[[Any], Any], expected: Any = ...) -> None:
    """The program sees the same on ag_visual and torch, and `expected` where it is given."""
    seen = plain(program(ag_visual))
    if expected is not ...:
        close(seen, plain(expected))
    if torch.__version__:
        close(seen, plain(program(torch)))


def raised(call: Callable[[], Any]) -> tuple[str, str]:
    """The type and the text of what a call raises; ('', '') for nothing."""
    try:
        call()
    except Exception as error:
        return _builtin(error), str(error)
    return "", ""


def told(call: Callable[[], Any]) -> dict[str, str]:
    """What a call raises, as an idiom tells it: `agree_in_words` compares the sense of the text."""
    kind, text = raised(call)
    return {"error": kind, "text": text}


def idiom(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Mark a program that people write, for `idioms_of`."""
    program.is_idiom = True  # type: ignore[attr-defined]
    return program


def idioms_of(scope: dict[str, Any]) -> list[Callable[[Any], Any]]:
    """The marked programs of a module."""
    return [each for each in scope.values() if getattr(each, "is_idiom", False)]


def agree_in_words(program: Callable[[Any], Any]) -> None:
    """`agree`, with warnings left alone and errors compared by type and torch's first clause."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = plain(program(ag_visual))
        if torch.__version__:
            expected = plain(program(torch))
            close(_met(seen, expected), expected)


def _met(seen: Any, expected: Any) -> Any:
    """What was seen, with torch's words in place of errors that say the same."""
    if isinstance(seen, list) and isinstance(expected, list):
        pairs = zip(seen, expected, strict=False)
        return [_met(a, b) for a, b in pairs] + seen[len(expected) :]
    if isinstance(seen, dict) and isinstance(expected, dict) and "error" in expected:
        clause = re.split(r"[.:(\[,]", old_names(expected["text"]))[0].strip().lower()
        same = seen["error"] == expected["error"] and clause in old_names(seen["text"]).lower()
        return expected if same else seen
    return seen


def old_names(text: str) -> str:
    """A text without the suffixes of node names: 2.8 writes MulBackward0 where 2.13 writes Mul."""
    return re.sub(r"Backward\d*\b", "", text)


def _builtin(error: BaseException) -> str:
    """The builtin exception that this one is."""
    for cls in type(error).__mro__:
        if cls.__module__ == "builtins":
            return cls.__name__
    return "BaseException"
