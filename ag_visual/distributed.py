"""torch.distributed: programs ask whether it is there, and are told that it is not."""

from __future__ import annotations

from typing import Any, NoReturn

from ag_visual import absent as _absent
from ag_visual.names import expose as _expose


def is_available() -> bool:
    """False: a program runs in one process."""
    return False


def is_initialized() -> bool:
    """False: a program runs in one process."""
    return False


def is_torchelastic_launched() -> bool:
    """False: a program runs in one process."""
    return False


def is_nccl_available() -> bool:
    """False: nothing is sent between processes."""
    return False


def is_gloo_available() -> bool:
    """False: nothing is sent between processes."""
    return False


def is_mpi_available() -> bool:
    """False: nothing is sent between processes."""
    return False


def _none() -> NoReturn:
    raise ValueError(
        "Default process group has not been initialized: a program runs in one process here. Ask "
        "torch.distributed.is_initialized() first."
    )


def get_rank(group: Any = None) -> int:
    """Raises ValueError: there is no process group."""
    _none()


def get_world_size(group: Any = None) -> int:
    """Raises ValueError: there is no process group."""
    _none()


_expose(__name__)

__getattr__ = _absent.asked(__name__, "distributed")
