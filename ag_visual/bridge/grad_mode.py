"""torch's grad mode around what is looked at: afterwards it is as it was.

Called where torch functions are disabled: else a mode of Python's would see the mode being set, and
an interrupt inside of it would leave the grad mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_set: Any = torch._C._set_grad_enabled


def leaving_grad_mode(function: Callable[..., Any], /, *args: Any) -> Any:
    """Call a function that may change the grad mode, and leave that as it was.

    torch's own managers (`no_grad`) are Python's: an interrupt inside of one leaves the mode.
    """
    before = torch.is_grad_enabled()
    try:
        return function(*args)
    finally:
        _set(before)


def without_grad(function: Callable[..., Any], /, *args: Any) -> Any:
    """Call a function without grad mode, and leave that as it was, as in `leaving_grad_mode`."""
    before = torch.is_grad_enabled()
    try:
        _set(False)
        return function(*args)
    finally:
        _set(before)
