"""The clock of all events. Who stamps one imports it from here: all times can be compared."""

from __future__ import annotations

from time import perf_counter_ns

__all__ = ["perf_counter_ns"]
