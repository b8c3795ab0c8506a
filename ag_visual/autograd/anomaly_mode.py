"""detect_anomaly and set_detect_anomaly.

Source: https://pytorch.org/docs/2.8/autograd.html#anomaly-detection
"""

from __future__ import annotations

from ag_visual.core import modes
from ag_visual.core.source import warn

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class detect_anomaly:
    """Inside, a failing backward prints the forward stack of its node, and NaN gradients raise.

    check_nan: whether NaN in a gradient is an error. Every error of this package names its lines
    without this mode; what it adds are whole stacks and the NaN check.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        self._previous = modes.anomaly
        warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging."
        )

    def __enter__(self) -> None:
        self._previous = modes.set_anomaly(self.check_nan)

    def __exit__(self, *_: object) -> None:
        modes.set_anomaly(self._previous)


class set_detect_anomaly:
    """Turn anomaly mode on or off; as a context manager, restore it on leaving."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._previous = modes.set_anomaly(check_nan if mode else None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        modes.set_anomaly(self._previous)


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return modes.anomaly is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode is on and raises at NaN gradients."""
    return bool(modes.anomaly)
