"""torch._subclasses.fake_tensor: libraries ask whether a tensor is one without values."""

from __future__ import annotations

from typing import Any

from ag_visual import absent as _absent


def is_fake(x: Any) -> bool:
    """False: a tensor of device `meta` has no values either, but is none of a compiler's."""
    return False


def get_proxy_mode() -> None:
    """None: no compiler traces."""


__getattr__ = _absent.asked(__name__, "_subclasses.fake_tensor")
