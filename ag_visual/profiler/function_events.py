"""One span of a profile as an object. Times are microseconds, sizes bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

from ag_visual.devices import DeviceType
from ag_visual.profiler.times import FormattedTimesMixin, formerly


class Interval:
    """From `start` to `end`, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start


class Kernel(NamedTuple):
    """What ran on a device for an op; `duration` in microseconds."""

    name: str
    device: int
    duration: float


class FunctionEvent(FormattedTimesMixin):
    """One span of a profile. What it has beside times is what the profile was asked for."""

    cuda_time_total = formerly("cuda_time_total", "device_time_total")
    self_cuda_time_total = formerly("self_cuda_time_total", "self_device_time_total")
    self_cuda_memory_usage = formerly("self_cuda_memory_usage", "self_device_memory_usage")
    metadata_json = formerly("metadata_json", "_metadata_json")

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: DeviceType = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: list[Any] | None = None,
        kwinputs: dict[str, Any] | None = None,
        is_user_annotation: bool = False,
        is_python_function: bool = False,
        activity_type: str | None = None,
        metadata_json: str | None = None,
        flow_id: int | None = None,
        flow_type: int | None = None,
        flow_start: bool | None = None,
        external_id: int = 0,
        linked_correlation_id: int = 0,
        extra_meta: dict[str, str] | None = None,
        structured_input_shapes: list[Any] | None = None,
        structured_input_strides: list[Any] | None = None,
        input_dtypes: list[str] | None = None,
        python_id: int = -1,
        python_parent_id: int = -1,
        python_module_id: int = -1,
        paused_us: float = 0,
    ) -> None:
        self.id = id
        self.name = name
        self.thread = thread
        self.time_range = Interval(start_us, end_us)
        self.overload_name = overload_name
        self.fwd_thread = fwd_thread
        self.input_shapes = input_shapes
        self.stack = stack
        self.scope = scope
        self.use_device = use_device
        self.cpu_memory_usage = cpu_memory_usage
        self.device_memory_usage = device_memory_usage
        self.is_async = is_async
        self.is_remote = is_remote
        self.sequence_nr = sequence_nr
        self.node_id = node_id
        self.device_type = device_type
        self.device_index = device_index
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.is_legacy = is_legacy
        self.flops = flops
        self.trace_name = trace_name
        self.concrete_inputs = concrete_inputs
        self.kwinputs = kwinputs
        self.is_user_annotation = is_user_annotation
        self.is_python_function = is_python_function
        self.activity_type = activity_type
        self._metadata_json = metadata_json
        self.flow_id = flow_id
        self.flow_type = flow_type
        self.flow_start = flow_start
        self.external_id = external_id
        self.linked_correlation_id = linked_correlation_id
        self.event_metadata = extra_meta or None
        self.structured_input_shapes = structured_input_shapes
        self.structured_input_strides = structured_input_strides
        self.input_dtypes = input_dtypes
        self.python_id = python_id
        self.python_parent_id = python_parent_id
        self.python_module_id = python_module_id
        self.paused_us = paused_us
        self.count = 1
        self.kernels: list[Kernel] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.self_cpu_percent: Any = -1
        self.total_cpu_percent: Any = -1
        self.total_device_percent: Any = -1

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """What it launched on a device; duration in microseconds."""
        self._on_cpu()
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """What ran directly inside of it."""
        self._on_cpu()
        _related(child, "child")
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """What it ran directly inside of."""
        self._on_cpu()
        _related(parent, "parent")
        self.cpu_parent = parent

    def _on_cpu(self) -> None:
        if self.device_type != DeviceType.CPU:
            raise AssertionError("Expected device_type to be CPU")

    @property
    def _counted(self) -> bool:
        """Whether it takes part in what is the events' own."""
        return not self.is_async and self.device_type == DeviceType.CPU

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from its begin to its end, without those in which it was stopped."""
        if self.device_type != DeviceType.CPU:
            return 0
        length = self.time_range.elapsed_us()
        return round(length - self.paused_us, 3) if self.paused_us else length

    @property
    def self_cpu_time_total(self) -> float:
        """Of these, in nothing inside of it; times are whole nanoseconds."""
        if not self._counted:
            return 0
        inside = sum(each.cpu_time_total for each in self.cpu_children)
        return round(self.cpu_time_total - inside, 3)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes allocated less freed in it and in nothing inside of it."""
        if not self._counted:
            return 0
        return self.cpu_memory_usage - sum(each.cpu_memory_usage for each in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """The same on the device."""
        if not self._counted:
            return 0
        inside = sum(each.device_memory_usage for each in self.cpu_children)
        return self.device_memory_usage - inside

    @property
    def device_time_total(self) -> float:
        """Microseconds of the kernels that it and what is inside launched."""
        if self.is_async or not self.use_device:
            return 0
        if self.device_type != DeviceType.CPU:
            return self.time_range.elapsed_us()
        own = sum(each.duration for each in self.kernels)
        if self.is_legacy:
            return own
        return own + sum(each.device_time_total for each in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """Of these, of its own kernels."""
        if self.is_async or not self.use_device or self.device_type != DeviceType.CPU:
            return self.device_time_total
        return self.device_time_total - sum(each.device_time_total for each in self.cpu_children)

    @property
    def key(self) -> str:
        """What it is grouped by: its name."""
        return self.name

    def __repr__(self) -> str:
        device = self.use_device
        facts = {
            "id": self.id,
            "name": self.name,
            "overload_name": self.overload_name,
            "device_type": self.device_type,
            "node_id": self.node_id,
            "cpu_time": self.cpu_time_str,
            "start_us": self.time_range.start,
            "end_us": self.time_range.end,
            "cpu_children": [c.id for c in self.cpu_children],
            f"{device}_time": self.device_time_str,
            "thread": self.thread,
            "input_shapes": self.input_shapes,
            "cpu_memory_usage": self.cpu_memory_usage,
            f"{device}_memory_usage": self.device_memory_usage,
            "is_async": self.is_async,
            "is_remote": self.is_remote,
            "seq_nr": self.sequence_nr,
            "is_legacy": self.is_legacy,
        }
        return f"<FunctionEvent {' '.join(f'{name}={value}' for name, value in facts.items())}>"


def _related(event: Any, what: str) -> None:
    if not isinstance(event, FunctionEvent):
        raise AssertionError(f"Expected {what} to be a FunctionEvent")
    if event.device_type != DeviceType.CPU:
        raise AssertionError(f"Expected {what} device_type to be CPU")
