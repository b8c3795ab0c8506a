"""A profile that follows a schedule of steps: torch.profiler.profile."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable, Iterable
from typing import Any

from ag_visual import cuda, devices
from ag_visual.core.source import warn
from ag_visual.profiler import legacy, profile_file, stacks, timeline
from ag_visual.profiler.columns import Columns
from ag_visual.profiler.event_lists import EventList
from ag_visual.profiler.execution_trace import ExecutionTraceObserver
from ag_visual.profiler.schedules import ProfilerAction, Schedule, always

NONE, WARMUP = ProfilerAction.NONE, ProfilerAction.WARMUP
RECORD, SAVE = ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE
_STEP = "ProfilerStep"
_cleared: set[str] = set()


class ProfilerActivity(enum.Enum):
    """What to collect. Devices other than these two there are none here."""

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5

    def __int__(self) -> int:
        return int(self.value)


Activities = Iterable[ProfilerActivity | dict[ProfilerActivity, list[str]]]


def supported_activities() -> set[ProfilerActivity]:
    """CPU, and CUDA where CuPy finds a device."""
    found = {ProfilerActivity.CPU}
    return found | {ProfilerActivity.CUDA} if cuda.is_available() else found


class _KinetoProfile:
    """A profile between `start()` and `stop()`, again and again: each time a trace of its own.

    activities: what to collect (default: all that is supported). Other arguments are those of
    `autograd.profiler.profile`.
    """

    def __init__(
        self,
        *,
        activities: Activities | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = _parsed(activities)
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.use_device = "cuda" if ProfilerActivity.CUDA in self.activities else None
        self.profiler: legacy.profile | None = None
        self.preset_metadata: dict[str, str] = {}
        self._metadata: dict[str, str] = {}

    def start(self) -> None:
        """Begin to collect."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """Collect no more."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """The next trace is a new one, unless events are accumulated."""
        self._refuse_running()
        if self.profiler is not None and not self.acc_events and not _cleared:
            _cleared.add("warned")
            text = "Warning: Profiler clears events at the end of each cycle. Only events from the "
            text += "current cycle will be reported. To keep events across cycles, set "
            warn(f"{text}acc_events=True.")
        if self.profiler is None or not self.acc_events:
            self.profiler = legacy.profile(
                use_cpu=ProfilerActivity.CPU in self.activities,
                use_device=self.use_device,
                record_shapes=self.record_shapes,
                with_flops=self.with_flops,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
                with_modules=self.with_modules,
                use_kineto=True,
                experimental_config=self.experimental_config,
                acc_events=self.acc_events,
                custom_trace_id_callback=self.custom_trace_id_callback,
                post_processing_timeout_s=self.post_processing_timeout_s,
            )
        self.profiler._prepare_trace()

    def start_trace(self) -> None:
        """Begin to collect what was prepared."""
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.start()
        self._of("starting trace")._start_trace()
        asked = ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops")
        self._metadata.update({name: "1" for name in asked if getattr(self, name)})
        self._metadata.update(self.preset_metadata)

    def stop_trace(self) -> None:
        """Collect no more; the trace can be asked."""
        try:
            if self.execution_trace_observer is not None:
                self.execution_trace_observer.stop()
        finally:
            self._of("stopping trace").__exit__(None, None, None)

    def _refuse_running(self) -> None:
        if self.profiler is not None:
            self.profiler._refuse_running()

    def _of(self, doing: str) -> legacy.profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {doing}")
        return self.profiler

    # What it has found -----------------------------------------------------------------------

    @property
    def columns(self) -> Columns:
        """All that was collected, as columns (docs/notes/profiler)."""
        return self._of("getting columns").columns

    def events(self) -> EventList:
        """The events of the last trace."""
        return self._of("accessing events").function_events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Events of one name together: see `EventList.key_averages`."""
        return self._of("getting key averages").key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity]
    ) -> None:
        """Leave what follows out, or let it in again."""
        if self.profiler is not None:
            self.profiler.toggle_collection_dynamic(enable, activities)

    def plot(self, kind: str = "flame") -> Any:
        """A figure of plotly, "flame", "icicle", "ops" or "memory": see
        `autograd.profiler.profile.plot`.
        """
        return self._of("plotting").plot(kind)

    # Files -----------------------------------------------------------------------------------

    def add_metadata(self, key: str, value: str) -> None:
        """A text for the top of the trace."""
        self._metadata[key] = json.dumps(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """The same, where the text is JSON itself."""
        self._metadata[key] = value

    def preset_metadata_json(self, key: str, value: str) -> None:
        """The same, before it has started."""
        self.preset_metadata[key] = value

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Write a trace for Perfetto and chrome://tracing; packed where the path ends in .gz."""
        self._of("exporting chrome trace").export_chrome_trace(path, self._metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write collapsed stacks, for flame graphs."""
        self._of("exporting stacks").export_stacks(path, metric)

    def export_speedscope(self, path: str) -> None:
        """Write a file for speedscope.app: one profile for each thread."""
        stacks.speedscope(path, self.columns)

    def export_profile(self, path: str) -> None:
        """Write the columns for the Time view of the Inspector; packed where the path ends in .gz.

        Name it `something.agprof`: JupyterLab opens that with a double click, without a kernel.
        """
        profile_file.write(path, self.columns)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write live bytes by category over time.

        path: .html for a figure; .json or .json.gz for [times in us, [bytes of each category]];
        .raw.json.gz for [time in ns, action, bytes, category] of each change. It needs
        record_shapes, profile_memory and with_stack, as torch's does. Times are since 1970.
        device: "cpu"; what has no memory here has none in the file.

        Raises:
            ValueError: one of them was left out.
        """
        needed = ("record_shapes", "profile_memory", "with_stack")
        missing = [f"{name}=True" for name in needed if not getattr(self, name)]
        if missing:
            raise ValueError(f"{', '.join(missing)} required for memory profiling.")
        columns = self.columns
        if device is not None and devices.device(device).type not in ("cpu", self.use_device):
            columns = dataclasses.replace(columns, memory=columns.memory[:0])
        timeline.write(path, columns)


def _parsed(activities: Activities | None) -> set[ProfilerActivity]:
    if activities is None:
        return supported_activities()
    found: set[ProfilerActivity] = set()
    for each in activities:
        if not isinstance(each, (ProfilerActivity, dict)):
            raise TypeError(f"Expected ProfilerActivity or dict, got {type(each)}")
        for activity in each if isinstance(each, dict) else (each,):
            if activity in found:
                raise ValueError(f"Activity {activity} specified more than once")
            found.add(activity)
        if isinstance(each, dict):
            legacy.warn_once("a list of activity types", "all of a group is collected.")
    return found


class profile(_KinetoProfile):
    """Collects in the steps that a schedule names, and hands each trace to a function.

    schedule: from the number of a step to a `ProfilerAction` (default: all in one trace).
    on_trace_ready: called with this object when a cycle has ended. `step()` says that the next step
    begins. Other arguments are those of `autograd.profiler.profile`.

    Raises:
        ValueError: a schedule asks for DEVICE_STOPPED.
    """

    def __init__(
        self,
        *,
        activities: Activities | None = None,
        schedule: Schedule | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        given = None if activities is None else list(activities)
        named = given is None or any(isinstance(x, (ProfilerActivity, dict)) for x in given)
        wanted = _parsed(given) if named else set()
        if use_cuda is not None:
            text = "`use_cuda` is deprecated, use `activities` argument instead"
            warn(text, FutureWarning)
            wanted = wanted | {ProfilerActivity.CUDA} if use_cuda else wanted
            wanted -= set() if use_cuda else {ProfilerActivity.CUDA}
        if not wanted:
            raise AssertionError("No valid profiler activities found")
        super().__init__(
            activities=wanted,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer
            or ExecutionTraceObserver.build_execution_trace_obs_from_env(),
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        self.schedule = schedule or always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.step_rec_fn: legacy.record_function | None = None
        # Of the steps since `start()`: where one was interrupted, there may be nothing to end.
        self._prepared = self._begun = True
        self.current_action = _asked(self.schedule(0))
        legacy.KinetoStepTracker.init_step_count(_STEP)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            self.stop()
        finally:
            legacy.KinetoStepTracker.erase_step_count(_STEP)
            if self.execution_trace_observer is not None:
                self.execution_trace_observer.cleanup()

    def start(self) -> None:
        """The first step begins."""
        self._refuse_running()
        self._prepared = self._begun = False
        self._go(NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """The last step ends."""
        self._end_step()
        self._go(self.current_action, None)

    def step(self) -> None:
        """The next step begins."""
        self._end_step()
        before, after = self.current_action, _asked(self.schedule(self.step_num + 1))
        self.step_num += 1
        self.current_action = after
        self._go(before, after)
        self._begin_step()

    def _begin_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = legacy.record_function(f"{_STEP}#{self.step_num}").__enter__()

    def _end_step(self) -> None:
        open_step, self.step_rec_fn = self.step_rec_fn, None
        if open_step is not None:
            open_step.__exit__(None, None, None)

    def _go(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """What has to happen between two steps; after None there is none."""
        collects = before in (RECORD, SAVE)
        goes_on = before is RECORD and after in (RECORD, SAVE)
        if before in (WARMUP, RECORD) and (after is NONE or (before is RECORD and after is WARMUP)):
            text = f"Incorrect schedule: {before.name} followed by {after.name}"
            warn(text)
        if before is WARMUP and after in (NONE, None) and self._prepared:
            self.start_trace()
            self.stop_trace()
        if collects and not goes_on and self._begun:
            try:
                self.stop_trace()
            finally:
                self._begun = False
            # A trace that a schedule cuts short is nobody's.
            if (before is SAVE or after is None) and self.on_trace_ready is not None:
                self.on_trace_ready(self)
        if after in (NONE, None) or goes_on:
            return
        if before is not WARMUP and not (before is RECORD and after is WARMUP):
            self.prepare_trace()
            self._prepared = True
        if after in (RECORD, SAVE):
            self._begun = True
            self.start_trace()

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Name the traces that begin from now on by what this gives."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The name of the trace; None before there is one."""
        return None if self.profiler is None else self.profiler.trace_id


def _asked(action: ProfilerAction) -> ProfilerAction:
    if action is ProfilerAction.DEVICE_STOPPED:
        raise ValueError(
            "ProfilerAction.DEVICE_STOPPED is set internally by the profiler and must not be "
            "returned by a user-provided schedule"
        )
    return action
