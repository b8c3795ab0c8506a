"""torch.__future__: how `Module.to` changes parameters. It always changes their `.data`."""

from __future__ import annotations

from ag_visual.names import expose as _expose

_overwrites = _swaps = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Keeps the switch: parameters stay the same objects anyway."""
    global _overwrites
    _overwrites = value


def get_overwrite_module_params_on_conversion() -> bool:
    """What was set last, False at first."""
    return _overwrites


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Keeps the switch: parameters stay the same objects anyway."""
    global _swaps
    _swaps = value


def get_swap_module_params_on_conversion() -> bool:
    """What was set last, False at first."""
    return _swaps


_expose(__name__)
