"""Switches of the whole program that torch has at its top: threads, determinism, precision."""

from __future__ import annotations

import os
from typing import Any

from ag_visual.core.source import warn

_precision = "highest"
_deterministic = _warn_only = _always = False


def set_float32_matmul_precision(precision: str) -> None:
    """Keeps 'highest', 'high' or 'medium': products are computed in the tensors' dtype."""
    global _precision
    if not isinstance(precision, str):
        raise RuntimeError(
            f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}"
        )
    if precision in ("highest", "high", "medium"):
        _precision = precision
        return
    warn(
        f"{precision} is not one of 'highest', 'high', or 'medium'; the "
        "current setFloat32MatmulPrecision call has no effect."
    )


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was told last, 'highest' at first."""
    return _precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Keeps the switch: on the CPU every operation gives the same result each time anyway.

    On CUDA, sums of what is scattered to the same place are added in no fixed order.
    """
    global _deterministic, _warn_only
    given = (("mode", "(position 1) ", mode), ("warn_only", "", warn_only))
    for name, place, value in given:
        if not isinstance(value, bool):
            raise TypeError(
                f"_set_deterministic_algorithms(): argument '{name}' {place}must be bool, not "
                f"{type(value).__name__}"
            )
    _deterministic, _warn_only = mode, warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was told last."""
    return _deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """The `warn_only` of `use_deterministic_algorithms`."""
    return _warn_only


_MODES = {"default": 0, "warn": 1, "error": 2}


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by name or number: 'default' (0), 'warn' (1), 'error' (2)."""
    if not isinstance(debug_mode, int | str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    mode = _MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        wanted = "one of `default`, `warn`, `error`" if mode is None else "0, 1, or 2"
        raise RuntimeError(f"invalid value of debug_mode, expected {wanted}, but got {debug_mode}")
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def get_deterministic_debug_mode() -> int:
    """0: not asked for; 1: with a warning; 2: with an error."""
    return (1 if _warn_only else 2) if _deterministic else 0


def set_flush_denormal(mode: bool) -> bool:
    """False: NumPy computes with denormal numbers, which cannot be switched off."""
    return False


def set_warn_always(b: bool, /) -> None:
    """Keeps the switch: what is told once stays told once."""
    global _always
    _always = bool(b)


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was told last."""
    return _always


def _blas() -> Any:
    """The thread pools of the BLAS that NumPy uses; None without the package threadpoolctl."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")


def get_num_threads() -> int:
    """How many threads NumPy's BLAS may use.

    Without the package threadpoolctl, what OMP_NUM_THREADS says, else the number of processors.
    """
    found = _blas()
    numbers = [each["num_threads"] for each in found.info()] if found is not None else []
    if numbers:
        return int(max(numbers))
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdigit() and int(said) else os.cpu_count() or 1


def set_num_threads(int: int, /) -> None:
    """Let NumPy's BLAS use this many threads; the package threadpoolctl reaches it.

    Warns where that is not installed: OMP_NUM_THREADS decides then, before the program starts.
    """
    _check("set_num_threads", int)
    found = _blas()
    if found is None:
        warn(
            "set_num_threads() needs the package threadpoolctl to reach NumPy's BLAS, and changes "
            "nothing without: install it, or set OMP_NUM_THREADS before the program starts."
        )
        return
    found.limit(limits=int)


def get_num_interop_threads() -> int:
    """1: operations run one after the other."""
    return 1


def set_num_interop_threads(int: int, /) -> None:
    """Checks the number: operations run one after the other whatever it is."""
    _check("set_num_interop_threads", int)


def _check(name: str, number: Any) -> None:
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise RuntimeError(f"{name} expects an int, but got {type(number).__name__}")
    if number <= 0:
        raise RuntimeError(f"{name} expects a positive integer")
