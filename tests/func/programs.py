"""What programs of transforms see: structure, numbers, dtypes, requires_grad, and errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import ag_visual
from tests.oracle import torch
from tests.programs import close, old_names, raised

Program = Callable[[Any], Any]


def shown(value: Any) -> Any:
    """A result as plain data."""
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, *map(shown, value)]
    if isinstance(value, dict):
        return ["dict", *([key, shown(each)] for key, each in value.items())]
    if hasattr(value, "requires_grad"):
        kind = str(value.dtype).rpartition(".")[2]
        return [kind, list(value.shape), value.requires_grad, value.detach().clone().tolist()]
    return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__


def saw(program: Program, t: Any) -> Any:
    """What it returns, or the error and the beginning of its text."""
    found: list[Any] = []
    kind, text = raised(lambda: found.append(shown(program(t))))
    if kind:
        return [kind, old_names(text.replace(f"{t.__name__}.", "torch."))[:36]]
    return found[0]


def same(program: Program) -> None:
    """Both engines see the same."""
    seen = saw(program, ag_visual)
    if torch.__version__:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, on its first use of forward mode
            close(seen, saw(program, torch))


def values(t: Any, *shape: int, start: float = 0.3, step: float = 0.4) -> Any:
    """A tensor of different numbers, in float64."""
    count = 1
    for n in shape:
        count *= n
    return (t.arange(count, dtype=t.float64) * step + start).reshape(shape)
