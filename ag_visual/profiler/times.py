"""Times of events and averages: in microseconds, as texts, under torch's former names."""

from __future__ import annotations

from typing import Any

from ag_visual.core.source import warn
from ag_visual.profiler import tables


def _as_text(name: str) -> property:
    return property(
        lambda self: tables.format_time(getattr(self, name)), doc=f"`{name}` with its unit."
    )


def formerly(name: str, now: str, words: str = ". Use") -> property:
    """What warns, in torch's words, and gives the attribute `now`."""

    def get(self: Any) -> Any:
        warn(f"`{name}` is deprecated{words} `{now}` instead.", FutureWarning)
        return getattr(self, now)

    return property(get, doc=f"The former name of `{now}`.")


class FormattedTimesMixin:
    """Times per call, and times as texts, of what has `*_time_total` and `count`."""

    count: int
    cpu_time_str = _as_text("cpu_time")
    device_time_str = _as_text("device_time")
    cpu_time_total_str = _as_text("cpu_time_total")
    device_time_total_str = _as_text("device_time_total")
    self_cpu_time_total_str = _as_text("self_cpu_time_total")
    self_device_time_total_str = _as_text("self_device_time_total")
    cuda_time = formerly("cuda_time", "device_time", ", please use")

    @property
    def cpu_time(self) -> float:
        """Microseconds of one call."""
        return self._each("cpu_time_total")

    @property
    def device_time(self) -> float:
        """Microseconds of one call on the device."""
        return self._each("device_time_total")

    def _each(self, total: str) -> float:
        return float(getattr(self, total)) / self.count if self.count else 0.0
