"""A profile as a Chrome trace, with the keys that torch 2.13 writes (docs/notes/profiler).

Beyond these: "Call stack" and "Module Hierarchy", which torch leaves empty; where a thread was
stopped, a slice "[paused]" and, of each around it, "Paused" (us).
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from ag_visual.events.spans import MODULE, NODE, STEP, USER
from ag_visual.files import writing
from ag_visual.profiler.columns import Columns
from ag_visual.profiler.from_columns import stack_text
from ag_visual.profiler.inputs import Inputs

SCHEMA = 1
_PIECE = 2000
"""Events that are made, and written, at once: all of a long profile would take gigabytes."""


def write(path: Any, columns: Columns, trace_id: str, metadata: dict[str, str]) -> None:
    """Write the trace; packed where the path ends in .gz. metadata: texts in JSON by key."""
    name = os.fspath(path)
    base = columns.wall // 10**9 * 10**9
    head = {
        "schemaVersion": SCHEMA,
        "deviceProperties": [],
        "trace_id": trace_id,
        **{key: json.loads(text) for key, text in metadata.items()},
        "host_name": platform.node(),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base,
    }
    events = _events(columns, columns.wall - base)
    with ExitStack() as opened:
        file: Any = opened.enter_context(writing(path))
        if name.endswith(".gz"):
            file = opened.enter_context(gzip.GzipFile(fileobj=file, mode="wb"))
        between = f'{json.dumps(head)[:-1]}, "traceEvents": ['
        while piece := list(itertools.islice(events, _PIECE)):
            file.write(f"{between}{json.dumps(piece)[1:-1]}".encode())
            between = ", "
        file.write(f'], "traceName": {json.dumps(name)}}}'.encode())


def _events(columns: Columns, shift: int) -> Iterator[dict[str, Any]]:
    """shift: what to add to times, in ns."""
    process = os.getpid()
    start = (columns.start + shift) / 1000
    yield from _titles(columns, process, start)
    spans, sequence = columns.spans, columns.sequence.tolist()
    threads = [ident & 0x7FFFFFFF for ident, _ in columns.threads]
    stacks = [";\n".join(stack_text(each)) for each in columns.stacks]
    described = [_arguments(each) for each in columns.inputs]
    paused = columns.paused.tolist()
    modules: dict[int, int] = {}  # row of a span -> that of the module it ran in
    paths: dict[int, str] = {}
    external = 0
    for at, span in enumerate(spans.tolist()):
        begin, end, _, name, kind, _, thread, parent, _, _, seq, forward, inputs, stack = span[:14]
        common = {
            "name": columns.names[name],
            "pid": process,
            "tid": threads[thread],
            "ts": (begin + shift) / 1000,
            "dur": (end - begin) / 1000,
        }
        stopped = {"Paused": paused[at] / 1000} if paused[at] else {}
        module = modules.get(parent, -1)
        if kind == MODULE:
            modules[at] = at
            around = f"{paths[module]}." if module >= 0 else ""
            paths[at] = around + columns.names[name].removeprefix("nn.Module: ")
            args: dict[str, Any] = {
                "Python parent id": module + 1 if module >= 0 else None,
                "Python id": at + 1,
                "Python module id": int(columns.names[name].rpartition("_")[2]),
                "Ev Idx": at,
                **stopped,
            }
            yield {"ph": "X", "cat": "python_function", **common, "args": args}
            continue
        if module >= 0:
            modules[at] = module
        external += 1
        args = {"External id": external, **stopped}
        if kind in (USER, STEP):
            args |= {"Record function id": 0, "Ev Idx": at}
            if inputs >= 0 and columns.inputs[inputs].concrete:
                args |= described[inputs]
            yield {"ph": "X", "cat": "user_annotation", **common, "args": args}
            continue
        if sequence[at] >= 0:
            args["Sequence number"] = sequence[at]
            args["Fwd thread id"] = int(spans["thread"][forward]) + 1 if forward >= 0 else 0
        args["Record function id"] = 0
        if inputs >= 0:
            args |= described[inputs]
        args["Ev Idx"] = at
        if stack >= 0:
            args["Call stack"] = stacks[stack]
        if module >= 0:
            args["Module Hierarchy"] = paths[module]
        yield {"ph": "X", "cat": "cpu_op", **common, "args": args}
        if kind == NODE and forward >= 0:
            yield from _arrow(columns, at, forward, seq, (process, threads, shift))
    yield from _on_device(columns, process, threads, shift)
    for since, until, thread in columns.pauses:
        where = {"pid": process, "tid": threads[thread], "ts": (since + shift) / 1000}
        length = {"dur": (until - since) / 1000}
        yield {"ph": "X", "cat": "pause", "name": "[paused]", **where, **length, "args": {}}
    yield from _memory(columns, process, threads, shift)
    whole = {"ts": start, "dur": (columns.end - columns.start) / 1000}
    at_top = {"pid": "Spans", "tid": "PyTorch Profiler"}
    args = {"Op count": 0}
    yield {
        "ph": "X",
        "cat": "Trace",
        "name": "PyTorch Profiler (0)",
        **at_top,
        **whole,
        "args": args,
    }
    sort = {"sort_index": 0x20000000}
    yield {
        "name": "process_sort_index",
        "ph": "M",
        "ts": start,
        "pid": "Spans",
        "tid": 0,
        "args": sort,
    }
    for title, at_time in (("Iteration Start", start), ("Record Window End", start + whole["dur"])):
        name = "Iteration Start: PyTorch Profiler" if title == "Iteration Start" else title
        at_top = {"pid": "Traces" if title == "Iteration Start" else "", "tid": ""}
        if title == "Iteration Start":
            at_top["tid"] = "Trace PyTorch Profiler"
        yield {"name": name, "ph": "i", "s": "g", **at_top, "ts": at_time}


def _arguments(inputs: Inputs) -> dict[str, list[Any]]:
    return {
        "Concrete Inputs": list(inputs.concrete),
        "Input type": list(inputs.types),
        "Input Strides": [list(each) for each in inputs.strides],
        "Input Dims": [list(each) for each in inputs.dims],
    }


def _titles(columns: Columns, process: int, start: float) -> Iterator[dict[str, Any]]:
    at = {"ph": "M", "ts": start, "pid": process}
    called = os.path.basename(sys.executable) or "python"
    yield {"name": "process_name", **at, "tid": 0, "args": {"name": called}}
    yield {"name": "process_labels", **at, "tid": 0, "args": {"labels": "CPU"}}
    yield {"name": "process_sort_index", **at, "tid": 0, "args": {"sort_index": process}}
    for number, (ident, name) in enumerate(columns.threads):
        tid = ident & 0x7FFFFFFF
        text = f"thread {tid} ({name})"
        yield {"name": "thread_name", **at, "tid": tid, "args": {"name": text}}
        yield {"name": "thread_sort_index", **at, "tid": tid, "args": {"sort_index": number}}


def _arrow(
    columns: Columns, at: int, forward: int, seq: int, where: tuple[int, list[int], int]
) -> Iterator[dict[str, Any]]:
    """From the op that made a node to the node."""
    process, threads, shift = where
    spans = columns.spans
    for phase, row in (("s", forward), ("f", at)):
        arrow = {
            "ph": phase,
            "id": seq,
            "pid": process,
            "tid": threads[spans["thread"][row]],
            "ts": (int(spans["start"][row]) + shift) / 1000,
            "cat": "fwdbwd",
            "name": "fwdbwd",
        }
        yield arrow | ({"bp": "e"} if phase == "f" else {})


def _on_device(
    columns: Columns, process: int, threads: list[int], shift: int
) -> Iterator[dict[str, Any]]:
    """Rows of streams: what ran there, with an arrow from the op that launched it."""
    found = columns.device
    if found is None or not len(found):
        return
    start = (columns.start + shift) / 1000
    title = {"ph": "M", "ts": start, "pid": 0, "tid": 0}
    yield {"name": "process_name", **title, "args": {"name": "GPU 0"}}
    streams = {
        stream: number for number, stream in enumerate(sorted(set(found["stream"].tolist())))
    }
    # One that called others is what they are.
    innermost = found["own"] == found["end"] - found["start"]
    for begun, end, span, stream, _ in found[innermost].tolist():
        name = columns.names[columns.spans["name"][span]]
        called = columns.spans[span]
        where = {"pid": 0, "tid": streams[stream], "ts": (begun + shift) / 1000}
        args = {"device": 0, "stream": streams[stream], "correlation": span}
        length = {"dur": (end - begun) / 1000}
        yield {"ph": "X", "cat": "kernel", "name": name, **where, **length, "args": args}
        arrow = {"cat": "ac2g", "name": "ac2g", "id": span}
        at = (int(called["start"]) + shift) / 1000
        yield {"ph": "s", **arrow, "pid": process, "tid": threads[called["thread"]], "ts": at}
        yield {"ph": "f", "bp": "e", **arrow, **where}


def _memory(
    columns: Columns, process: int, threads: list[int], shift: int
) -> Iterator[dict[str, Any]]:
    for at, row in enumerate(columns.memory.tolist()):
        time, thread, _, address, size, total, _, span = row
        if time == columns.start and span < 0:
            continue  # it was there before
        args = {
            "Total Reserved": 0,
            "Total Allocated": total,
            "Bytes": size,
            "Device Id": -1,
            "Device Type": 0,
            "Addr": address,
            "finished": False,
            "Ev Idx": len(columns.spans) + at,
        }
        yield {
            "ph": "i",
            "cat": "cpu_instant_event",
            "s": "t",
            "name": "[memory]",
            "pid": process,
            "tid": threads[thread],
            "ts": (time + shift) / 1000,
            "args": args,
        }
