"""One profile, and ranges of the user's: torch.autograd.profiler."""

from __future__ import annotations

import functools
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar, cast

from ag_visual import cuda
from ag_visual.core.source import warn
from ag_visual.events.spans import STEP, USER
from ag_visual.events.timed import Span
from ag_visual.profiler import chrome_trace, figures
from ag_visual.profiler.averages import FunctionEventAvg
from ag_visual.profiler.collection import Collection
from ag_visual.profiler.columns import Columns
from ag_visual.profiler.event_lists import EventList
from ag_visual.profiler.experimental import MEANINGLESS
from ag_visual.profiler.from_columns import EventBuilder, function_events, key_averages

F = TypeVar("F", bound=Callable[..., Any])
_warned: set[str] = set()


def warn_once(what: str, why: str) -> None:
    """Warn, once in a process, that an argument changes nothing here."""
    if what not in _warned:
        _warned.add(what)
        warn(f"{what} changes nothing here: {why}")


def kineto_available() -> bool:
    """Whether torch's own collector is there: never."""
    return False


class profile:
    """Collects what runs in its block: ops, nodes of backwards, ranges of the user's.

    enabled: False makes it do nothing. record_shapes: what ops are called with. with_flops: their
    floating-point operations (and what they are called with). profile_memory: bytes of tensors
    that come and go. with_stack: the user's calls that led to each op. with_modules: forwards of
    modules as spans. use_device: "cuda" for times on the device, too. acc_events: a second block
    adds its events to those of the first. post_processing_timeout_s: seconds after which
    `function_events` leaves the rest out. use_cuda, use_kineto, use_cpu, experimental_config,
    custom_trace_id_callback and activity_filters are torch's.

    Blocks may nest: each has all that ran in it. All threads are collected.

    Raises:
        RuntimeError: it is entered a second time.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        self.enabled = enabled
        self._collection: Collection | None = None
        self._events: EventList | None = None
        self._older: list[Any] = []
        self._builder: EventBuilder | None = None
        if not enabled:
            return
        if use_cuda:
            text = "The attribute `use_cuda` will be deprecated soon, please use"
            text += " ``use_device = 'cuda'`` instead."
            warn(text, FutureWarning)
            use_device = "cuda"
        self.use_cuda = use_cuda
        self.use_device = _usable(use_device)
        self.entered = False
        self.record_shapes = record_shapes or with_flops
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.use_cpu = use_cpu
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.trace_id = ""
        if not use_cpu and not use_kineto:
            raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
        if not use_cpu and self.use_device is None:
            raise AssertionError("No activities specified for the profiler")
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError("post_processing_timeout_s must be non-negative")
        for name in getattr(experimental_config, "_asked", ()):
            warn_once(f"experimental_config's {name}", MEANINGLESS[name])
        if activity_filters:
            warn_once("activity_filters", "all that runs on the CPU is collected.")

    # A block ---------------------------------------------------------------------------------

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self._prepare_trace()
        self._start_trace()
        return self

    def _prepare_trace(self) -> None:
        self.entered = True
        self.trace_id = self.create_trace_id()

    def default_trace_id(self) -> str:
        """A name for a trace that no other one has."""
        return f"{uuid.uuid4().int:032X}"

    def create_trace_id(self) -> str:
        """What a trace is called: what the callback gives, if there is one."""
        callback = self.custom_trace_id_callback
        if not callback:
            return self.default_trace_id()
        named: Any = callback()
        if not isinstance(named, str):
            kind = type(named).__name__
            raise TypeError(f"custom_trace_id_callback must return a str, but it returned {kind}")
        return named

    def _start_trace(self) -> None:
        self._refuse_running()
        self.entered = True
        self._collection = Collection(
            shapes=self.record_shapes,
            stack=self.with_stack,
            memory=self.profile_memory,
            modules=self.with_modules,
            flops=self.with_flops,
            device=self.use_device is not None,
        )

    def _refuse_running(self) -> None:
        if self._collection is not None and self._collection.running:
            raise RuntimeError("Profiler is already enabled on this thread.")

    def __exit__(self, *_: Any) -> bool | None:
        if not self.enabled:
            return None
        if self._collection is not None:
            try:
                if self.use_device is not None:
                    cuda.synchronize()
            finally:
                self._collection.stop()
        if self.acc_events and self._events is not None:
            self._older = list(self._events)
        self._events = self._builder = None
        if self.acc_events:
            self._ensure_function_events()
        return False

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Leave a part of the block out: ops between False and True are not collected."""
        if self._collection is not None and any(each.name == "CPU" for each in activities):
            self._collection.pause(not enabled)

    # What it has found -----------------------------------------------------------------------

    @property
    def columns(self) -> Columns:
        """All that was collected, as columns (docs/notes/profiler).

        Raises:
            AssertionError: it has not ended.
        """
        found = self._collection
        if not self.enabled or found is None or found.running:
            raise AssertionError("Expected profiling results")
        return found.finish()

    def _event_builder(self) -> EventBuilder:
        if self._builder is None:
            self._builder = EventBuilder(self.columns, self.use_device)
        return self._builder

    @property
    def _options(self) -> dict[str, bool]:
        return {"profile_memory": self.profile_memory, "with_flops": self.with_flops}

    def _ended(self) -> bool:
        return self.enabled and self._collection is not None and not self._collection.running

    def _ensure_function_events(self) -> None:
        if self._events is None and self._ended():
            limit = self.post_processing_timeout_s
            self._events = function_events(self._event_builder(), limit, **self._options)
            self._events.extend(self._older)
            self._older = []

    @property
    def function_events(self) -> EventList:
        """All events, made when first asked for; none before the block has ended."""
        self._ensure_function_events()
        if self._events is not None:
            return self._events
        nothing = EventList()
        nothing._build_tree()
        return nothing

    def __repr__(self) -> str:
        if not self._ended():
            return "<unfinished torch.autograd.profile>"
        return repr(self.function_events)

    def __str__(self) -> str:
        if not self._ended():
            return "<unfinished torch.autograd.profile>"
        return str(self.function_events)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int | None = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """The events as text: see `EventList.table`."""
        return self.function_events.table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
        )

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Events of one name together: see `EventList.key_averages`."""
        whole = self._ended() and self.post_processing_timeout_s is None and not self.acc_events
        if whole and self._events is None:
            builder, calls = self._event_builder(), max(group_by_stack_n, 0)
            return key_averages(builder, group_by_input_shape, calls, **self._options)
        return self.function_events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def total_average(self) -> FunctionEventAvg:
        """All events together."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events together, each without what is inside of it."""
        return self.function_events.self_cpu_time_total

    def plot(self, kind: str = "flame") -> Any:
        """A figure of plotly that answers one question.

        kind: "flame" for where the time goes, calls above what called them; "icicle" for the same
        from the top down; "ops" for what takes most of it; "memory" for live bytes over time by
        what they are (it needs profile_memory=True).

        Raises:
            AssertionError: it has not ended.
            MissingExtraError: plotly is not installed (the extra `lab` brings it).
            ValueError: another kind, or nothing to show.
        """
        return figures.plot(self.columns, kind)

    # Files -----------------------------------------------------------------------------------

    def export_chrome_trace(
        self, path: Any, metadata: dict[str, str] | None = None, use_python_export: bool = False
    ) -> None:
        """Write a trace for Perfetto and chrome://tracing, as torch's profiler does.

        metadata: texts in JSON by key, for the top of the file; a path that ends in .gz is packed.
        """
        chrome_trace.write(path, self.columns, self.trace_id, metadata or {})

    def export_stacks(self, path: Any, metric: str = "self_cpu_time_total") -> None:
        """Write collapsed stacks: see `EventList.export_stacks`."""
        if not self.enabled or not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.function_events.export_stacks(path, metric)


def _usable(device: str | None) -> str | None:
    """A device that can be timed, or None with a warning that says why."""
    if device is None:
        return None
    if device not in ("cuda", "xpu", "hpu"):
        warn(f"The {device} is not a valid device option.")
        return None
    if device != "cuda" or not cuda.is_available():
        name = device.upper()
        warn(f"{name} is not available, disabling {name} profiling")
        return None
    return device


class record_function:
    """A name for what runs in a block, or in a function that it decorates.

    args: a text that is shown with it.

    Raises:
        RuntimeError: a block begins whose name or `args` is no text.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True
        self._spans: list[Span] = []

    def __enter__(self) -> record_function:
        texts = isinstance(self.name, str) and (self.args is None or isinstance(self.args, str))
        if not texts:
            raise RuntimeError(_no_text(self.name, self.args))
        kind = STEP if self.name.startswith("ProfilerStep#") else USER
        self._spans.append(Span(self.name, kind, () if self.args is None else (self.args,)))
        return self

    def __exit__(self, *_: Any) -> None:
        if self.run_callbacks_on_exit:
            if not self._spans:
                raise AssertionError("Expected record to be set")
            self._spans.pop().end()

    def __call__(self, function: F) -> F:
        """The same function, each call of which is named."""

        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return cast(F, named)

    def _call_end_callbacks_on_future(self, future: Any) -> Any:
        """Let the range go on until a future (of concurrent.futures) is done."""
        if not self.run_callbacks_on_exit:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
        self.run_callbacks_on_exit = False
        span = self._spans.pop()
        future.add_done_callback(lambda _: span.end())
        return future


def _no_text(name: Any, args: Any) -> str:
    """The error of a range: what of it is no text."""
    given, wanted, found = ("args", "Optional[str]", args)
    if not isinstance(name, str):
        given, wanted, found = ("name", "str", name)
    return (
        f"profiler::_record_function_enter_new() Expected a value of type '{wanted}' for argument "
        f"'{given}' but instead found type '{type(found).__name__}'."
    )


class EnforceUnique:
    """Refuses a key that it has seen before."""

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Raises RuntimeError where it has seen this key."""
        if key in self.seen:
            raise RuntimeError(f"duplicate key: {key}")
        self.seen.add(key)


class KinetoStepTracker:
    """The number of the step that a program is in, where several count: the highest of theirs."""

    _current_step: ClassVar[int] = 0
    _step_dict: ClassVar[dict[str, int]] = defaultdict(int)

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """One more counts, from the step of now."""
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """One counts no more; whether it did."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """One has made a step; the number of the step of now."""
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        highest = max(cls._step_dict.values())
        if highest - cls._current_step > 1:
            warn(
                "Profiler step count has increased more than 1 - "
                f"current_step = {cls._current_step} step dict =  {cls._step_dict}"
            )
        cls._current_step = max(highest, cls._current_step)
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The number of the step of now."""
        return cls._current_step
