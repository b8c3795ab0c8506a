"""torch.backends.nnpack: NNPACK is not used."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from ag_visual.names import expose as _expose


def is_available() -> bool:
    """False: nothing is computed by NNPACK."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Keeps nothing: there is nothing to switch. What was set before: False."""
    return (False,)


def flags(enabled: bool = False) -> AbstractContextManager[None]:
    """A block like any other."""
    return nullcontext()


_expose(__name__)
