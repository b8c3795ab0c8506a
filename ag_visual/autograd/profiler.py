"""torch.autograd.profiler: one profile, and ranges of the user's (see ag_visual/profiler)."""

from __future__ import annotations

from ag_visual import absent as _absent
from ag_visual.devices import DeviceType as DeviceType
from ag_visual.names import only as _only
from ag_visual.profiler.event_lists import (
    MEMORY_EVENT_NAME as MEMORY_EVENT_NAME,
    OUT_OF_MEMORY_EVENT_NAME as OUT_OF_MEMORY_EVENT_NAME,
    EventList as EventList,
    MemRecordsAcc as MemRecordsAcc,
)
from ag_visual.profiler.experimental import _ExperimentalConfig as _ExperimentalConfig
from ag_visual.profiler.function_events import FunctionEvent as FunctionEvent
from ag_visual.profiler.legacy import (
    EnforceUnique as EnforceUnique,
    KinetoStepTracker as KinetoStepTracker,
    kineto_available as kineto_available,
    profile as profile,
    record_function as record_function,
)
from ag_visual.profiler.nvprof import (
    load_nvprof as load_nvprof,
    parse_nvprof_trace as parse_nvprof_trace,
)
from ag_visual.profiler.ranges import emit_itt as emit_itt, emit_nvtx as emit_nvtx
from ag_visual.profiler.scheduled import ProfilerActivity as ProfilerActivity

__all__ = [
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]
__dir__ = _only(__all__, __name__)
__getattr__ = _absent.asked(__name__, "autograd.profiler")
