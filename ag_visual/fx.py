"""torch.fx: libraries import it; what would trace a program says what to do instead."""

from __future__ import annotations

from typing import Any

from ag_visual import absent as _absent
from ag_visual.names import expose as _expose


def wrap(fn_or_name: Any) -> Any:
    """The function itself, or its name: nothing is traced."""
    return fn_or_name


_expose(__name__)

__getattr__ = _absent.asked(__name__, "fx")
