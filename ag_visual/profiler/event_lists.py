"""Lists of events and averages, which print as tables; what torch keeps beside them."""

from __future__ import annotations

import bisect
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from ag_visual.files import writing
from ag_visual.profiler import tables
from ag_visual.profiler.averages import FunctionEventAvg
from ag_visual.profiler.function_events import FunctionEvent

MEMORY_EVENT_NAME = "[memory]"
OUT_OF_MEMORY_EVENT_NAME = "[OutOfMemory]"


class StringTable(defaultdict[str, str]):
    """Names as they are shown: what is asked for is kept (there is nothing to demangle here)."""

    def __missing__(self, key: str) -> str:
        self[key] = key
        return key


class MemRecordsAcc:
    """Memory records by time: each a list whose first item has `start_ns()`."""

    def __init__(self, mem_records: list[Any]) -> None:
        self._records = sorted(mem_records, key=lambda each: each[0].start_ns())
        self._starts = [each[0].start_ns() for each in self._records]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """The records from one time to another, both included, in ns."""
        first = bisect.bisect_left(self._starts, start_ns)
        yield from self._records[first : bisect.bisect_right(self._starts, end_ns)]


_HIDDEN = frozenset(
    (
        *(MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME),
        *("profiler::_record_function_enter", "profiler::_record_function_enter_new"),
        *("profiler::_record_function_exit", "aten::is_leaf", "aten::output_nr", "aten::_version"),
    )
)


def _filter_name(name: str) -> bool:
    return name in _HIDDEN


def _rewrite_name(name: str, with_wildcard: bool = False) -> str:
    return "ProfilerStep*" if with_wildcard and name.startswith("ProfilerStep#") else name


class EventList(list[Any]):
    """Events or averages, which prints as their table."""

    def __init__(
        self,
        events: Iterable[Any] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(events)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops
        self._tree_built = False

    def __str__(self) -> str:
        return self.table()

    def _build_tree(self) -> None:
        """Find out which event is inside of which, by thread and times."""
        by_thread: dict[Any, list[FunctionEvent]] = defaultdict(list)
        for each in self:
            if each._counted:
                by_thread[each.thread, each.node_id].append(each)
        for events in by_thread.values():
            events.sort(key=lambda each: (each.time_range.start, -each.time_range.end))
            around: list[FunctionEvent] = []
            for each in events:
                start, end = each.time_range.start, each.time_range.end
                while around and (
                    start >= around[-1].time_range.end or end > around[-1].time_range.end
                ):
                    around.pop()
                if around:
                    around[-1].append_cpu_child(each)
                    each.set_cpu_parent(around[-1])
                around.append(each)
        self._remove_dup_nodes()
        self._tree_built = True

    def _remove_dup_nodes(self) -> None:
        """An event that is all there is in one of its own name is one with it."""
        while True:
            gone = set()
            for each in self:
                parent = each.cpu_parent
                if parent is None or parent.name != each.name or len(parent.cpu_children) > 1:
                    continue
                parent.cpu_children = each.cpu_children
                parent.kernels = each.kernels
                for child in each.cpu_children:
                    child.cpu_parent = parent
                gone.add(id(each))
            if not gone:
                return
            self[:] = [each for each in self if id(each) not in gone]

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events together, each without what is inside of it."""
        return float(round(sum(each.self_cpu_time_total for each in self), 3))

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int | None = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text, a row each.

        sort_by: an attribute of events, the largest first: cpu_time, cpu_time_total,
        self_cpu_time_total, device_time_total, cpu_memory_usage, self_cpu_memory_usage, count ...
        row_limit: at most so many rows, -1 or None: all. max_..._column_width: longer texts are
        cut, None: never. header: a line above. top_level_events_only: leave out what is inside of
        others. time_unit: 's', 'ms' or 'us' for all times.
        """
        return tables.table(
            self,
            sort_by,
            row_limit,
            (max_src_column_width, max_name_column_width, max_shapes_column_width),
            header,
            self._profile_memory,
            self._with_flops,
            top_level_events_only,
            time_unit,
        )

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a small Chrome trace: names and times. That of a profile has more."""
        events: list[dict[str, Any]] = []
        launched = 0
        for each in self:
            if each.trace_name is None:
                continue
            thread = each.thread
            if each.is_remote:
                thread = f" node_id:{each.node_id}, thread_id:{each.thread} "
            where = {"ts": each.time_range.start, "tid": thread, "pid": "CPU functions"}
            length = {"dur": each.time_range.elapsed_us()}
            events.append({"name": each.trace_name, "ph": "X", **where, **length, "args": {}})
            for _ in each.kernels:
                arrow = {"name": each.trace_name, "ph": "s", **where, "id": launched}
                cat = f"cpu_to_{self._use_device or 'cuda'}"
                events.append({**arrow, "cat": cat, "args": {}})
                launched += 1
        with writing(path) as file:
            file.write(json.dumps(events).encode())

    def supported_export_stacks_metrics(self) -> list[str]:
        """What `export_stacks` can weigh stacks by."""
        devices = ("cpu", "cuda", "xpu", "privateuse1")
        return [f"self_{device}_time_total" for device in devices]

    def export_stacks(self, path: str | os.PathLike[str], metric: str) -> None:
        """Write one line for each event: its stack, the outermost call first, and its time in us.

        The format is that of flame graphs ("collapsed stacks").
        """
        if metric not in self.supported_export_stacks_metrics():
            known = self.supported_export_stacks_metrics()
            raise ValueError(f"metric should be one of: {known}")
        no_separators = str.maketrans(" ;\t\n", "____")
        with writing(path) as file:
            for each in self:
                weight = int(getattr(each, tables.metric(metric)))
                if each.stack and weight > 0:
                    calls = [call.translate(no_separators) for call in reversed(each.stack)]
                    file.write(f"{';'.join(calls)} {weight}\n".encode())

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Events of one name together, also by shapes, by the innermost calls, by overload."""
        if not self._tree_built:
            raise AssertionError("Expected tree to be built before calling key_averages")
        groups: dict[Any, FunctionEventAvg] = defaultdict(FunctionEventAvg)
        calls = max(group_by_stack_n, 0)
        for each in self:
            groups[
                (
                    *(each.key, each.node_id, each.device_type, each.is_legacy),
                    each.is_user_annotation,
                    each.overload_name if group_by_overload_name else None,
                    str(each.input_shapes) if group_by_input_shapes else None,
                    *(each.stack or ())[:calls],
                )
            ].add(each)
        found = EventList(
            groups.values(),
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )
        for average in found:
            average.stack = (average.stack or [])[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
            if not group_by_overload_name:
                average.overload_name = ""
        return found

    def total_average(self) -> FunctionEventAvg:
        """All events together, under the key 'Total'."""
        total = FunctionEventAvg()
        for each in self:
            total.add(each)
            total.key = None
        total.key = "Total"
        return total
