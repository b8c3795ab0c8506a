"""Events of one key together. Times are microseconds, sizes bytes."""

from __future__ import annotations

from typing import Any

from ag_visual.devices import DeviceType
from ag_visual.profiler.function_events import FunctionEvent
from ag_visual.profiler.times import FormattedTimesMixin, formerly

_SUMMED = (
    *("cpu_time_total", "device_time_total", "self_cpu_time_total", "self_device_time_total"),
    *("cpu_memory_usage", "device_memory_usage", "self_cpu_memory_usage"),
    *("self_device_memory_usage", "count"),
)
_OF_THE_FIRST = (
    *("key", "node_id", "is_async", "is_remote", "cpu_parent", "cpu_children", "overload_name"),
    *("input_shapes", "stack", "scope", "device_type", "is_legacy", "use_device"),
    "is_user_annotation",
)


class FunctionEventAvg(FormattedTimesMixin):
    """Events of one key together: totals over all of them, `cpu_time` and `device_time` of one."""

    cuda_time_total = formerly("cuda_time_total", "device_time_total")
    self_cuda_time_total = formerly("self_cuda_time_total", "self_device_time_total")

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.node_id = 0
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.use_device: str | None = None
        self.cpu_time_total: float = 0
        self.device_time_total: float = 0
        self.self_cpu_time_total: float = 0
        self.self_device_time_total: float = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: list[str] | None = None
        self.scope: int | None = None
        self.cpu_memory_usage = 0
        self.device_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.self_device_memory_usage = 0
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.device_type = DeviceType.CPU
        self.flops: int | None = 0
        self.self_cpu_percent: Any = -1
        self.total_cpu_percent: Any = -1
        self.total_device_percent: Any = -1

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Count an event, or another average of the same key, in."""
        if self.key is None:
            for name in _OF_THE_FIRST:
                setattr(self, name, getattr(other, name))
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)):
            raise AssertionError("Expected other to be a FunctionEvent or FunctionEventAvg")
        if other.key != self.key:
            raise AssertionError(f"Expected keys to match, but got {other.key} vs {self.key}")
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("cpu_time_total", "self_cpu_time_total"):  # in whole nanoseconds
            setattr(self, name, round(getattr(self, name), 3))
        if self.flops is None:
            self.flops = other.flops
        elif other.flops is not None:
            self.flops += other.flops
        return self

    def __iadd__(self, other: Any) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        facts = {
            "key": self.key,
            "self_cpu_time": self.self_cpu_time_total_str,
            "cpu_time": self.cpu_time_str,
            f" self_{device}_time": self.self_device_time_total_str,
            f"{device}_time": self.device_time_str,
            "input_shapes": self.input_shapes,
            "cpu_memory_usage": self.cpu_memory_usage,
            f"{device}_memory_usage": self.device_memory_usage,
        }
        return f"<FunctionEventAvg {' '.join(f'{name}={value}' for name, value in facts.items())}>"
