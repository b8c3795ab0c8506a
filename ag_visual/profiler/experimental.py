"""What torch's profiler can be asked for beside its arguments: most of it is about Kineto."""

from __future__ import annotations

from collections.abc import Sequence

MEANINGLESS = {
    "profiler_metrics": "counters of a GPU are for Nsight Compute to read.",
    "profiler_measure_per_kernel": "counters of a GPU are for Nsight Compute to read.",
    "performance_events": "counters of the processor are for `perf stat` to read.",
    "enable_cuda_sync_events": "a device's times are taken by events in its stream.",
    "adjust_profiler_step": "steps and ops have one clock.",
    "disable_external_correlation": "an op's number in a trace is its own.",
    "capture_overload_names": "a function has one op whatever it is called with.",
    "record_python_gc_info": "Python's gc.callbacks tell when it collects.",
    "expose_kineto_event_metadata": "Kineto is not used.",
    "custom_profiler_config": "there is no other profiler below this one.",
    "adjust_timestamps": "there is one clock.",
    "trace_only": "events are made when they are asked for.",
}
"""By argument, why it changes nothing. Call stacks (`verbose`) and all threads are always there."""


class _ExperimentalConfig:
    """Arguments of torch's; a profile that is given one says what of it changes nothing here."""

    def __init__(
        self,
        profiler_metrics: Sequence[str] = (),
        profiler_measure_per_kernel: bool = False,
        verbose: bool = False,
        performance_events: Sequence[str] = (),
        enable_cuda_sync_events: bool = False,
        adjust_profiler_step: bool = False,
        disable_external_correlation: bool = False,
        profile_all_threads: bool = False,
        capture_overload_names: bool = False,
        record_python_gc_info: bool = False,
        expose_kineto_event_metadata: bool = False,
        custom_profiler_config: str = "",
        adjust_timestamps: bool = False,
        trace_only: bool = False,
    ) -> None:
        given = dict(locals())
        self.custom_profiler_config = custom_profiler_config
        self.trace_only = trace_only
        self._asked = [name for name in MEANINGLESS if given[name]]
