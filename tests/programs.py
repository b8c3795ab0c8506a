"""Small programs that are run on ag_visual and on torch, whose observations must be the same.

A program is a function of the module it runs on and returns what it saw: numbers, strings, lists,
tuples, arrays or tensors.
"""

from __future__ import annotations

import re
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
        assert isinstance(seen, list), f"{path}: {seen!r} is no list like {expected!r}"
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


def old_names(text: str) -> str:
    """A text without the suffixes of node names: 2.8 writes MulBackward0 where 2.13 writes Mul."""
    return re.sub(r"Backward\d*\b", "", text)


def _builtin(error: BaseException) -> str:
    """The builtin exception that this one is."""
    for cls in type(error).__mro__:
        if cls.__module__ == "builtins":
            return cls.__name__
    return "BaseException"
