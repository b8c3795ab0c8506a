"""What people ask of a profile in a line of options: the magics and the command line share it."""

from __future__ import annotations

import argparse
import html
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy

from ag_visual.errors import MissingExtraError
from ag_visual.files import write
from ag_visual.profiler import flops, tables
from ag_visual.profiler.scheduled import ProfilerActivity, profile
from ag_visual.profiler.tables import in_unit

SORTS: Final = {
    "self": "self_cpu_time_total",
    "total": "cpu_time_total",
    "average": "cpu_time",
    "calls": "count",
    "memory": "self_cpu_memory_usage",
    "flops": "flops",
}
"""What a table can be sorted by, and the attribute of an average that it is."""
_NAME_WIDTH: Final = 55
_SOURCE_WIDTH: Final = 75
_CALLS: Final = 5
"""Of a stack, the calls by which averages differ."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of a profile and of its table."""
    add = parser.add_argument
    add("-s", "--sort", choices=SORTS, metavar="BY", help=f"{', '.join(SORTS)} (default: self)")
    add("-r", "--rows", type=_rows, default=20, metavar="N", help="rows of the table (default: 20)")
    add("-m", "--memory", action="store_true", help="bytes of tensors, by op and over time")
    add("-k", "--stacks", action="store_true", help="the lines of yours that led to each op")
    add("-f", "--flops", action="store_true", help="operations and bytes a second, by op")
    add("--shapes", action="store_true", help="one row for each shape of inputs")
    add("--modules", action="store_true", help="forwards of modules, too")


def _rows(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows: use 1 or more")
    return int(text)


def profiler(options: argparse.Namespace) -> profile:
    """A profile that collects what the options ask for."""
    return profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=options.shapes,
        profile_memory=options.memory or options.sort == "memory",
        with_flops=options.flops or options.sort == "flops",
        with_stack=options.stacks,
        with_modules=options.modules,
    )


def text(found: profile, options: argparse.Namespace) -> str:
    """The table of a profile that has ended, and what the rows that it leaves out take."""
    averages = found.key_averages(options.shapes, _CALLS if options.stacks else 0)
    if not averages:
        return "Nothing ran: no op of ag_visual, no backward, no range.\n"
    for each in averages:
        each.stack = _yours(each.stack or [])
    key = SORTS[options.sort or "self"]
    ranked = sorted(averages, key=lambda each: getattr(each, key), reverse=True)
    # As wide as the names that are shown.
    width = min(_NAME_WIDTH, max(len(each.key) for each in ranked[: options.rows]) + 4)
    shown = tables.table(
        averages,
        key,
        options.rows,
        (_SOURCE_WIDTH, width, 80),
        None,
        found.profile_memory,
        found.with_flops,
        False,
        None,
        _moved(found, options) if found.with_flops else None,
    )
    if rest := ranked[options.rows :]:
        time = in_unit(sum(each.self_cpu_time_total for each in rest), None)
        shown += f"{len(rest)} more rows, {time} of their own (-r {len(averages)} shows all)\n"
    return shown


def _yours(stack: list[str]) -> list[str]:
    """The calls from the script or the cell on, without those of what runs it."""
    outermost = next((i for i, call in enumerate(stack) if call.endswith(": <module>")), len(stack))
    return stack[: outermost + 1]


def _moved(found: profile, options: argparse.Namespace) -> Callable[[Any], int]:
    """Bytes that an average moved; 0 where averages are grouped by their stacks."""
    if options.stacks:
        return lambda average: 0
    columns = found.columns
    sizes = flops.moved(columns)
    rows = numpy.flatnonzero(sizes)
    shapes = [str(each.shapes) if options.shapes else "" for each in columns.inputs]
    sums: dict[tuple[str, str], int] = {}
    spans = columns.spans[rows]
    for name, inputs, size in zip(spans["name"], spans["inputs"], sizes[rows], strict=True):
        key = columns.names[name], shapes[inputs]
        sums[key] = sums.get(key, 0) + int(size)
    return lambda average: sums.get((average.key, str(average.input_shapes)), 0)


FORMATS: Final = {
    ".html": "a page with table and figures",
    ".agprof": "for the Time view of the Inspector",
    ".speedscope.json": "for speedscope.app",
    ".json": "a Chrome trace",
    ".json.gz": "a packed Chrome trace",
    ".txt": "the table",
}
"""What a profile can be written as, by how the name of the file ends."""


def unwritable(path: str | os.PathLike[str]) -> str | None:
    """Why a profile cannot be written there, as far as can be known before; None: it can."""
    name = os.fspath(path)
    if not name.endswith(tuple(FORMATS)):
        known = ", ".join(f"{ending} ({what})" for ending, what in FORMATS.items())
        return f"{name}: its ending says what is written: {known}"
    folder = os.path.dirname(name) or "."
    if not os.path.isdir(folder):
        return f"{name}: there is no folder {folder}"
    if os.path.isdir(name):
        return f"{name} is a folder"
    if not os.access(name if os.path.exists(name) else folder, os.W_OK):
        return f"{name}: {folder} cannot be written (-o names another place)"
    return None


def save(
    found: profile, path: str | os.PathLike[str], options: argparse.Namespace, title: str
) -> None:
    """Write a profile as the ending of the path says, whole or not at all.

    Raises:
        ValueError: an ending that stands for nothing.
        OSError: the place cannot be written.
    """
    name = os.fspath(path)
    if wrong := unwritable(path):
        raise ValueError(wrong)
    if name.endswith(".html"):
        write(path, page(found, options, title).encode("utf-8", "replace"))
    elif name.endswith(".speedscope.json"):
        found.export_speedscope(name)
    elif name.endswith(".agprof"):
        found.export_profile(name)
    elif name.endswith(".txt"):
        write(path, text(found, options).encode("utf-8", "replace"))
    else:
        found.export_chrome_trace(name)


_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;"
    "max-width:75rem;padding:0 1rem;color:CanvasText;background:Canvas}"
    "pre{overflow-x:auto;font-size:12px;line-height:1.35}"
)


def page(found: profile, options: argparse.Namespace, title: str) -> str:
    """A page that needs nothing else: figures, where plotly is installed, and the table."""
    named = html.escape(title)
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{named}</title>"
        f"<style>{_STYLE}</style><main><h1>{named}</h1>"
    ]
    try:
        for kind in figures_of(found):
            drawn = found.plot(kind)
            parts.append(drawn.to_html(full_html=False, include_plotlyjs=len(parts) == 1))
    except MissingExtraError as error:
        parts.append(f"<p>No figures: {html.escape(str(error))}</p>")
    parts.append(
        f"<h2>Table</h2><pre tabindex=0>{html.escape(text(found, options))}</pre></main></html>"
    )
    return "\n".join(parts)


def figures_of(found: profile) -> Sequence[str]:
    """The figures that a profile has something for."""
    if not len(found.columns.spans):
        return ()
    return ("flame", "ops", "memory") if len(found.columns.memory) else ("flame", "ops")
