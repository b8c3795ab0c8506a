"""Live bytes by category over time, as JSON or as a page with a figure."""

from __future__ import annotations

import gzip
import json
import os
from typing import Any

import numpy

from ag_visual.files import write as write_file
from ag_visual.profiler.columns import Columns
from ag_visual.profiler.memory import CATEGORIES

TORCHS = (
    *("PARAMETER", "OPTIMIZER_STATE", "INPUT", "TEMPORARY", "ACTIVATION", "GRADIENT"),
    *("AUTOGRAD_DETAIL", "UNKNOWN"),
)
"""torch's categories, in its order; UNKNOWN is its None."""
_OURS = {
    "parameter": "PARAMETER",
    "optimiser state": "OPTIMIZER_STATE",
    "input": "INPUT",
    "temporary": "TEMPORARY",
    "activation": "ACTIVATION",
    "gradient": "GRADIENT",
    "other": "UNKNOWN",
}


def write(path: Any, columns: Columns) -> None:
    """See `profile.export_memory_timeline`."""
    name = os.fspath(path)
    if name.endswith(".html"):
        text = page(columns)
    elif name.endswith("raw.json.gz"):
        text = json.dumps(raw(columns))
    else:
        text = json.dumps(by_microsecond(columns))
    data = text.encode()
    write_file(path, gzip.compress(data) if name.endswith(".gz") else data)


def _categories(columns: Columns) -> Any:
    place = numpy.array([TORCHS.index(_OURS[name]) for name in CATEGORIES])
    return place[columns.memory["category"]]


def curves(columns: Columns) -> tuple[list[int], list[list[int]]]:
    """Times in ns since 1970, and at each the live bytes: one 0, then one for each of TORCHS."""
    memory = columns.memory
    changes = numpy.zeros((len(memory), len(TORCHS) + 1), numpy.int64)
    changes[numpy.arange(len(memory)), _categories(columns) + 1] = memory["bytes"]
    return (memory["time"] + columns.wall).tolist(), numpy.cumsum(changes, axis=0).tolist()


def by_microsecond(columns: Columns) -> tuple[list[int], list[list[int]]]:
    """The same in microseconds, as torch writes it: of each one the last state."""
    times, sizes = curves(columns)
    micro = numpy.array(times, numpy.int64) // 1000
    last = numpy.flatnonzero(numpy.diff(micro, append=-1))
    return micro[last].tolist(), [sizes[at] for at in last]


_WAS_THERE, _ALLOCATED, _FREED = 1, 2, 4
"""torch's numbers of actions; 3 is a next version of a tensor, which takes and gives nothing."""


def raw(columns: Columns) -> list[tuple[int, int, int, int]]:
    """(time in ns since 1970, -1 of what was there; action; bytes, below 0: freed; category)."""
    memory = columns.memory
    before = (memory["time"] == columns.start) & (memory["span"] < 0)
    action = numpy.where(memory["bytes"] < 0, _FREED, numpy.where(before, _WAS_THERE, _ALLOCATED))
    time = numpy.where(action == _WAS_THERE, -1, memory["time"] + columns.wall)
    rows = (time, action, memory["bytes"], _categories(columns))
    return list(zip(*(each.tolist() for each in rows), strict=True))


COLORS = ("#56b4e9", "#d55e00", "#0072b2", "#cc79a7", "#e69f00", "#009e73", "#999999", "#bbbbbb")
"""Of each of TORCHS."""
_WIDTH, _HEIGHT = 960, 400


def page(columns: Columns) -> str:
    """A page with the curves, stacked, that needs nothing else."""
    times, sizes = curves(columns)
    table = numpy.array(sizes, float).reshape(len(times), -1)[:, 1:]
    top = numpy.cumsum(table, axis=1)
    highest = max(float(top.max(initial=0)), 1.0)
    length = max((times[-1] - times[0]) if times else 1, 1)
    xs = [(each - times[0]) / length * _WIDTH for each in times]
    shapes, legend = [], []
    for at, name in enumerate(TORCHS):
        if not len(table) or not table[:, at].any():
            continue
        upper = [
            f"{x:.1f},{_HEIGHT * (1 - y / highest):.1f}"
            for x, y in zip(xs, top[:, at], strict=False)
        ]
        below = top[:, at] - table[:, at]
        lower = [
            f"{x:.1f},{_HEIGHT * (1 - y / highest):.1f}" for x, y in zip(xs, below, strict=False)
        ]
        points = " ".join([*upper, *reversed(lower)])
        shapes.append(f'<polygon points="{points}" fill="{COLORS[at]}"/>')
        peak = int(table[:, at].max())
        legend.append(f'<li><b style="color:{COLORS[at]}">■</b> {name}: at most {peak:,} B</li>')
    return (
        "<!doctype html><meta charset=utf-8><title>Memory over time</title>"
        f"<h1>Memory over time</h1><p>{length / 1e6:.3f} ms; at most {int(highest):,} bytes</p>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" role="img" '
        f'aria-label="Live bytes by category">{"".join(shapes)}</svg><ul>{"".join(legend)}</ul>'
    )
