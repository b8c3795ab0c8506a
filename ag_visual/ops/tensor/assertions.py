"""torch's checks that raise unless something holds: `_check` and its relatives, `_assert_async`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import function


def _checked(kind: type[Exception], cond, message: Callable[[], Any] | None) -> None:
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise kind("Expected cond to be True, but got False: pass a message that says of what")
    if not callable(message):
        raise TypeError(f"message must be a callable, but got {type(message)}")
    raise kind(str(message()))


@function()
def _check(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """Raise RuntimeError with `message()` unless `cond` is True."""
    _checked(RuntimeError, cond, message)


@function()
def _check_index(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """Raise IndexError with `message()` unless `cond` is True."""
    _checked(IndexError, cond, message)


@function()
def _check_value(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """Raise ValueError with `message()` unless `cond` is True."""
    _checked(ValueError, cond, message)


@function()
def _check_type(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """Raise TypeError with `message()` unless `cond` is True."""
    _checked(TypeError, cond, message)


@function()
def _check_not_implemented(cond: bool, message: Callable[[], Any] | None = None) -> None:
    """Raise NotImplementedError with `message()` unless `cond` is True."""
    _checked(NotImplementedError, cond, message)


@function()
def _assert(condition, message: str) -> None:
    """Raise AssertionError with `message` unless the condition, which may be a Tensor, is true."""
    if not condition:
        raise AssertionError(message)


@function()
def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """Raise RuntimeError unless the one value of `input` is nonzero (at once, on every device)."""
    if not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")
