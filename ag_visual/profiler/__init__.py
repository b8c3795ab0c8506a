"""torch.profiler: what ran when, and what it cost. A reader of `events.spans`.

What it is built of is in the other files here; autograd/profiler.py and autograd/profiler_util.py
have torch's older names of it.
"""

from __future__ import annotations

from ag_visual import absent as _absent
from ag_visual.devices import DeviceType as DeviceType
from ag_visual.names import only as _only
from ag_visual.profiler import itt as itt
from ag_visual.profiler.execution_trace import ExecutionTraceObserver as ExecutionTraceObserver
from ag_visual.profiler.experimental import _ExperimentalConfig as _ExperimentalConfig
from ag_visual.profiler.legacy import (
    KinetoStepTracker as KinetoStepTracker,
    kineto_available as kineto_available,
    record_function as record_function,
)
from ag_visual.profiler.scheduled import (
    ProfilerActivity as ProfilerActivity,
    _KinetoProfile as _KinetoProfile,
    profile as profile,
    supported_activities as supported_activities,
)
from ag_visual.profiler.schedules import (
    ProfilerAction as ProfilerAction,
    schedule as schedule,
    tensorboard_trace_handler as tensorboard_trace_handler,
)

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "KinetoStepTracker",
    "ProfilerAction",
    "ProfilerActivity",
    "itt",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
__dir__ = _only(__all__, __name__)
__getattr__ = _absent.asked(__name__, "profiler")
