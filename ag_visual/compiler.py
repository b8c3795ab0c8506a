"""torch.compiler, and `torch.compile`: a program runs as it is, and is told so once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual import absent as _absent
from ag_visual.core.source import warn
from ag_visual.names import expose as _expose

_warned: set[str] = set()


def _warn_once(name: str) -> None:
    """A warning at the first use of each name: nothing is compiled."""
    if name in _warned:
        return
    _warned.add(name)
    warn(f"torch.{name} compiles nothing here: the program runs as it is, with the same results.")


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
    **more: Any,
) -> Any:
    """The function or module itself; without one, a decorator that gives what it is put on.

    No option changes anything. The first use says so in a UserWarning.
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if not disable:
        _warn_once("compile")
    if model is None:
        return _as_it_is
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    return model


def _as_it_is(model: Any) -> Any:
    return model


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself, as nothing would compile it; without one, a decorator."""
    return _as_it_is if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """The function itself."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself: it is called each time."""
    return fn


def is_compiling() -> bool:
    """False: nothing compiles."""
    return False


def is_dynamo_compiling() -> bool:
    """False: nothing compiles."""
    return False


def is_exporting() -> bool:
    """False: nothing is exported."""
    return False


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The compilers that there are: none."""
    return []


def reset() -> None:
    """Does nothing: no compiled code is kept."""


def cudagraph_mark_step_begin() -> None:
    """Does nothing: no graph of kernels is kept."""


_expose(__name__)
__getattr__ = _absent.asked(__name__, "compiler")
