"""torch.backends.mkldnn: oneDNN is not used; its switches can be set."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ag_visual.backends.switches import held
from ag_visual.names import only as _only

enabled = True
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False: nothing is computed by oneDNN."""
    return False


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> AbstractContextManager[None]:
    """A block with these switches; they choose nothing."""
    given = {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32}
    return held(__name__, **given)


__dir__ = _only(["allow_tf32", "deterministic", "enabled", "flags", "is_available"], __name__)
