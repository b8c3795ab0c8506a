"""torch.backends.opt_einsum: the package opt_einsum is not used; its switches can be set."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ag_visual.backends.switches import held
from ag_visual.names import only as _only

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """False: contractions are not ordered by it."""
    return False


def flags(enabled: bool | None = None, strategy: str | None = None) -> AbstractContextManager[None]:
    """A block with these switches; they choose nothing."""
    return held(__name__, enabled=enabled, strategy=strategy)


__dir__ = _only(["enabled", "flags", "is_available", "strategy"], __name__)
