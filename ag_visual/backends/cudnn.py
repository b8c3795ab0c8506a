"""torch.backends.cudnn: cuDNN is not used; its switches can be set."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ag_visual import absent as _absent
from ag_visual.backends.switches import held
from ag_visual.names import only as _only

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False: no kernel is cuDNN's."""
    return False


def version() -> int | None:
    """None: there is no cuDNN."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """False: no kernel is cuDNN's."""
    return False


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> AbstractContextManager[None]:
    """A block with these switches; they choose nothing."""
    given = {
        "enabled": enabled,
        "benchmark": benchmark,
        "benchmark_limit": benchmark_limit,
        "deterministic": deterministic,
        "allow_tf32": allow_tf32,
    }
    return held(__name__, **given)


__dir__ = _only(
    [
        *("allow_tf32", "benchmark", "benchmark_limit", "deterministic", "enabled"),
        *("flags", "is_acceptable", "is_available", "version"),
    ],
    __name__,
)
__getattr__ = _absent.asked(__name__, "backends.cudnn")
