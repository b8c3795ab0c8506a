"""What releases of torch differ in, found out by what they have: the one place that asks."""

from __future__ import annotations

import re
from typing import Any, Final

import torch

_autograd: Final[Any] = torch._C._autograd

TELLS: Final = hasattr(_autograd.SavedTensor, "unpack_hook")
"""Whether a saved tensor tells if a hook packed it, and gives its data whatever was written since.

Those of PyTorch 2.5 to 2.9 do neither: they are read where no hook can have packed them, and
before anything is written in place.
"""

_PYTHON: Final = re.compile(r"<built-in |.+\(\d+\): ")
_USER_SCOPE: Final = 7


def packing_now() -> bool:
    """Whether hooks of this thread pack what is saved."""
    if hasattr(_autograd, "_top_saved_tensors_default_hooks"):
        return bool(_autograd._top_saved_tensors_default_hooks(True))
    # They are refused while some are set, with this text. Where they are refused, none are set.
    if not _autograd._saved_tensors_hooks_is_enabled():
        return False
    try:
        _autograd._saved_tensors_hooks_disable("to see whether some are set")
    except RuntimeError:
        return True
    finally:
        _autograd._saved_tensors_hooks_enable()
    return False


def is_python_function(event: Any) -> bool:
    """Whether an event of torch's profiler is a call of Python."""
    if hasattr(event, "is_python_function"):
        return bool(event.is_python_function())
    return event.scope() != _USER_SCOPE and _PYTHON.match(event.name()) is not None
