"""torch.autograd.profiler_util: events of a profile (see ag_visual/profiler)."""

from __future__ import annotations

from ag_visual import absent as _absent
from ag_visual.devices import DeviceType as DeviceType
from ag_visual.names import only as _only
from ag_visual.profiler.averages import FunctionEventAvg as FunctionEventAvg
from ag_visual.profiler.event_lists import (
    MEMORY_EVENT_NAME as MEMORY_EVENT_NAME,
    OUT_OF_MEMORY_EVENT_NAME as OUT_OF_MEMORY_EVENT_NAME,
    EventList as EventList,
    MemRecordsAcc as MemRecordsAcc,
    StringTable as StringTable,
    _filter_name as _filter_name,
    _rewrite_name as _rewrite_name,
)
from ag_visual.profiler.function_events import (
    FunctionEvent as FunctionEvent,
    Interval as Interval,
    Kernel as Kernel,
)
from ag_visual.profiler.times import FormattedTimesMixin as FormattedTimesMixin

__all__ = [
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MemRecordsAcc",
    "StringTable",
]
__dir__ = _only(__all__, __name__)
__getattr__ = _absent.asked(__name__, "autograd.profiler_util")
