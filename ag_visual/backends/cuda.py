"""torch.backends.cuda: switches of products and of attention on CUDA; they choose nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ag_visual.names import only as _only


class _Matmul:
    """Switches of matrix products: CuPy multiplies in the dtype that it is given."""

    def __init__(self) -> None:
        self.__dict__.update(
            allow_tf32=False,
            allow_fp16_reduced_precision_reduction=True,
            allow_bf16_reduced_precision_reduction=True,
            allow_fp16_accumulation=False,
            fp32_precision="none",
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Unknown attribute {name}", name=name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise AttributeError(f"Unknown attribute {name}", name=name)
        self.__dict__[name] = value


matmul = _Matmul()
_kernels = dict.fromkeys(("flash", "math", "mem_efficient", "cudnn"), True)


def is_built() -> bool:
    """Whether CUDA can be used: CuPy is installed and a GPU answers."""
    from ag_visual import cuda

    return cuda.is_available()


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` was told last; attention is computed in one way."""
    return _kernels["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Keeps the switch; attention is computed in one way."""
    _kernels["flash"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` was told last; attention is computed in one way."""
    return _kernels["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Keeps the switch; attention is computed in one way."""
    _kernels["math"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` was told last; attention is computed in one way."""
    return _kernels["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Keeps the switch; attention is computed in one way."""
    _kernels["mem_efficient"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` was told last; attention is computed in one way."""
    return _kernels["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Keeps the switch; attention is computed in one way."""
    _kernels["cudnn"] = bool(enabled)


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[dict[str, Any]]:
    """A block with these switches of attention, which is computed in one way."""
    before = dict(_kernels)
    asked = (enable_flash, enable_math, enable_mem_efficient, enable_cudnn)
    _kernels.update(zip(_kernels, asked, strict=True))
    try:
        yield {}
    finally:
        _kernels.update(before)


__dir__ = _only(
    [
        *("cudnn_sdp_enabled", "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp"),
        *("enable_mem_efficient_sdp", "flash_sdp_enabled", "is_built", "math_sdp_enabled"),
        *("matmul", "mem_efficient_sdp_enabled", "sdp_kernel"),
    ],
    __name__,
)
