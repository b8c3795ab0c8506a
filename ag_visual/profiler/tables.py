"""The table of events or averages as text, in the columns, widths and units of torch's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def format_time(time_us: float) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if time_us >= size:
            return f"{time_us / size:.3f}{unit}"
    return f"{time_us:.3f}us"


def time_share(time_us: float, total_time_us: float) -> str:
    if total_time_us == 0:
        if time_us != 0:
            raise AssertionError(f"Expected time_us == 0 but got {time_us}")
        return "NaN"
    return f"{time_us * 100.0 / total_time_us:.2f}%"


def format_memory(nbytes: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def format_rate(amount: float, time_us: float, unit: str) -> str:
    """How much a second, as '12.345 GFLOP/s'; '--' where there is no amount or no time."""
    if not amount or time_us <= 0:
        return "--"
    rate = amount * 1e6 / time_us
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if rate >= size:
            return f"{rate / size:.3f} {prefix}{unit}"
    return f"{rate:.3f} {unit}"


def in_unit(time_us: float, unit: str | None) -> str:
    """A time in the unit that somebody asked for, else in the one that suits it."""
    sizes = {"s": 1e6, "ms": 1e3, "us": 1.0}
    return f"{time_us / sizes[unit]:.3f}{unit}" if unit in sizes else format_time(time_us)


WIDTH = 12
"""Characters of a column of numbers."""
GAP = "  "
Row = list[str]
Column = tuple[str, int, Callable[[Any], str]]
"""Its title, its width, and the text of an event in it."""


def metric(name: str) -> str:
    """The attribute of an event that a metric of one kind of device means."""
    for device in ("cuda", "xpu", "privateuse1"):
        name = name.replace(device, "device")
    return name


def table(
    events: Any,
    sort_by: str | None,
    row_limit: int | None,
    widths: tuple[int | None, int | None, int | None],
    header: str | None,
    with_memory: bool,
    with_flops: bool,
    top_level_only: bool,
    unit: str | None,
    moved: Callable[[Any], int] | None = None,
) -> str:
    """See `EventList.table`. widths: the most characters of a source line, a name and shapes.

    moved: the bytes that go in and out of an event, for what torch's table has not: rates beside
    the operations.
    """
    if not len(events):
        return ""
    most_source, most_name, most_shapes = widths
    device = events[0].use_device
    on_device = any(each.self_device_time_total > 0 for each in events)
    if on_device and not device:
        raise RuntimeError("use_device is None, but there is device performance data.")
    if sort_by is not None:
        key = metric(sort_by)
        events = sorted(events, key=lambda each: getattr(each, key), reverse=True)
    total = round(sum(each.self_cpu_time_total for each in events), 3)
    # Ops have the times themselves where no kernel stands beside them.
    timed = [each for each in events if _of_device(each)] or events
    device_total = sum(each.self_device_time_total for each in timed)

    columns: list[Column] = []

    def add(title: str, text: Callable[[Any], str], width: int = WIDTH) -> None:
        columns.append((title, width, text))

    def times(title: str, of: str, whole: float) -> None:
        def share(each: Any) -> str:
            own = of[:4] == "self"
            found = time_share(getattr(each, of), whole) if own or not each.is_async else 0
            setattr(each, f"{'self' if own else 'total'}_cpu_percent", found)
            return str(found)

        add(f"{title} %", share)
        add(title, lambda each: in_unit(getattr(each, of), unit))

    name_width = _width((each.key for each in events), most_name)
    add("Name", lambda each: _cut(each.key, most_name), name_width)
    if any(each.overload_name for each in events):
        add("Overload Name", lambda each: _cut(each.overload_name, most_name), name_width)
    times("Self CPU", "self_cpu_time_total", total)
    times("CPU total", "cpu_time_total", total)
    add("CPU time avg", lambda each: in_unit(each.cpu_time, unit))
    if on_device:
        called = device.upper()
        add(f"Self {called}", lambda each: in_unit(each.self_device_time_total, unit))
        add(f"Self {called} %", lambda each: time_share(each.self_device_time_total, device_total))
        add(f"{called} total", lambda each: in_unit(each.device_time_total, unit))
        add(f"{called} time avg", lambda each: in_unit(each.device_time, unit))
    if with_memory:
        add("CPU Mem", lambda each: format_memory(each.cpu_memory_usage))
        add("Self CPU Mem", lambda each: format_memory(each.self_cpu_memory_usage))
        if device and any(each.self_device_memory_usage > 0 for each in events):
            called = device.upper()
            add(f"{called} Mem", lambda each: format_memory(each.device_memory_usage))
            add(f"Self {called} Mem", lambda each: format_memory(each.self_device_memory_usage))
    add("# of Calls", lambda each: str(each.count))
    if any(each.node_id != -1 for each in events):
        add("Node ID", lambda each: str(each.node_id))
    if any(each.input_shapes for each in events):
        width = _width((str(each.input_shapes) for each in events), most_shapes)
        add("Input Shapes", lambda each: str(each.input_shapes)[:width], width)
    source_at = None
    if any(each.stack for each in events):
        calls = (call for each in events for call in each.stack or ())
        source_at = len(columns)
        add("Source Location", lambda each: (each.stack or [""])[0], _width(calls, most_source))
    counted = [each.flops for each in events if each.flops] if with_flops else []
    if counted:
        scale, name = _flops_scale(min(counted))
        add(f"Total {name}", lambda each: f"{each.flops / scale:8.3f}" if each.flops else "--")
        if moved is not None:
            rate = moved
            add("FLOP/s", lambda each: format_rate(each.flops or 0, each.cpu_time_total, ""))
            if any(map(rate, events)):
                add("Bytes/s", lambda each: format_rate(rate(each), each.cpu_time_total, ""))
    return _text(events, columns, source_at, row_limit, header, top_level_only) + _totals(
        total, device_total if on_device else None, device, unit
    )


def _text(
    events: Any,
    columns: list[Column],
    source_at: int | None,
    row_limit: int | None,
    header: str | None,
    top_level_only: bool,
) -> str:
    """The lines of the table; in column `source_at` stand calls, more below each event."""

    def line(texts: Row) -> str:
        found = [
            text.ljust(width) if at == source_at else text.rjust(width)
            for at, (text, (_, width, _)) in enumerate(zip(texts, columns, strict=True))
        ]
        return GAP.join(found) + GAP

    def source_line(call: str) -> Row:
        return [_tail(call, columns[at][1]) if at == source_at else "" for at in every]

    every = range(len(columns))
    rule = GAP.join("-" * width for _, width, _ in columns) + GAP
    lines = []
    whole = "=" * (len(rule) - len(GAP))
    if header is not None:
        lines += [whole, header]
    if top_level_only:
        lines += [whole, "This report only display top-level ops statistics"]
    lines += [rule, line([title for title, _, _ in columns]), rule]
    shown = [each for each in events if not (top_level_only and each.cpu_parent is not None)]
    for each in shown if row_limit is None or row_limit < 0 else shown[:row_limit]:
        texts = [text(each) for _, _, text in columns]
        if source_at is not None:
            texts[source_at] = _tail(texts[source_at], columns[source_at][1])
        lines.append(line(texts))
        if source_at is not None:
            lines += [line(source_line(call)) for call in [*(each.stack or ())[1:], ""]]
    return "".join(f"{each}\n" for each in [*lines, rule])


def _totals(total: float, device_total: float | None, device: str | None, unit: str | None) -> str:
    text = f"Self CPU time total: {in_unit(total, unit)}\n"
    if device_total is not None and device:
        text += f"Self {device.upper()} time total: {in_unit(device_total, unit)}\n"
    return text


def _of_device(event: Any) -> bool:
    """Whether its device time counts: kernels, or events of old that hold theirs."""
    return bool(event.is_legacy if event.device_type == 0 else not event.is_user_annotation)


def _width(texts: Any, most: int | None) -> int:
    if most is not None and most < 0:
        raise ValueError(f"a column cannot be {most} characters wide")
    width = max(map(len, texts), default=0) + 4
    return width if most is None else min(width, most)


def _cut(text: str, most: int | None) -> str:
    """A name that is too long, by its beginning."""
    return text if most is None or len(text) < most - 3 else text[: most - 3] + "..."


def _tail(text: str, width: int) -> str:
    """A source line that is too long, by its end."""
    if len(text) <= width:
        return text
    text = text[len(text) - width :]
    return "..." + text[3:] if len(text) > 3 else text


def _flops_scale(smallest: int) -> tuple[float, str]:
    """What to divide operations by, and the name of that unit."""
    units = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
    power = max(0, min(int(math.log10(smallest) / 3), len(units) - 1))
    return 1000.0**power, units[power]
