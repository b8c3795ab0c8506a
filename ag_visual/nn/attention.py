"""torch.nn.attention: which kernel attention may use. There is one: the choice is only kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from ag_visual import absent as _absent
from ag_visual.backends import cuda as _switches
from ag_visual.names import expose as _expose


class SDPBackend(Enum):
    """The kernels that torch has for scaled dot product attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value


@contextmanager
def sdpa_kernel(
    backends: list[SDPBackend] | SDPBackend, set_priority: bool = False
) -> Iterator[dict[str, Any]]:
    """A block that asks for these kernels.

    `scaled_dot_product_attention` computes the same in one way whichever is asked for; the block
    sets what torch.backends.cuda tells.

    Raises:
        AssertionError: `backends` is neither an SDPBackend nor a list of them.
    """
    if not isinstance(backends, list | SDPBackend):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    asked = backends if isinstance(backends, list) else [backends]
    with _switches.sdp_kernel(
        SDPBackend.FLASH_ATTENTION in asked,
        SDPBackend.MATH in asked,
        SDPBackend.EFFICIENT_ATTENTION in asked,
        SDPBackend.CUDNN_ATTENTION in asked,
    ):
        yield {}


_expose(__name__)

__getattr__ = _absent.asked(__name__, "nn.attention")
