"""torch.backends.mkldnn: oneDNN is not used; `enabled` says how recurrent layers are recorded.

As in torch, a layer in one direction is one node while it is True; else each step has nodes.
"""

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
    """A block with these switches. `enabled=False`: recurrent layers are recorded step by step."""
    given = {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32}
    return held(__name__, **given)


__dir__ = _only(["allow_tf32", "deterministic", "enabled", "flags", "is_available"], __name__)
