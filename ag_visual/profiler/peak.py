"""The moment of most live memory, and what held it."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy

from ag_visual.events.spans import MODULE
from ag_visual.profiler.columns import Columns
from ag_visual.profiler.from_columns import stack_text
from ag_visual.profiler.memory import CATEGORIES

Shares = list[tuple[str, int]]
"""What held memory, and how many bytes: most first."""


class Peak(NamedTuple):
    """time: ns of `perf_counter_ns`. size: live bytes then.

    What was there before the profile, or came outside of any op, line or module, is under ''.
    """

    time: int
    size: int
    by_category: Shares
    by_op: Shares
    by_line: Shares
    by_module: Shares


def peak(columns: Columns) -> Peak:
    """When most bytes were live, and whose they were: of the op (and so on) that allocated them.

    Lines need a profile with_stack=True, modules one with_modules=True.
    """
    memory, spans = columns.memory, columns.spans
    if not len(memory):
        return Peak(columns.start, 0, [], [], [], [])
    at = int(numpy.argmax(memory["total"]))
    live: dict[int, int] = {}
    for row, (storage, size) in enumerate(memory[["storage", "bytes"]][: at + 1].tolist()):
        if size > 0:
            live[storage] = row
        else:
            live.pop(storage, None)
    modules = _modules(columns)
    shares: tuple[dict[str, int], ...] = tuple(defaultdict(int) for _ in range(4))
    for row in live.values():
        span, size = int(memory["span"][row]), int(memory["bytes"][row])
        stack = int(spans["stack"][span]) if span >= 0 else -1
        found = (
            CATEGORIES[memory["category"][row]],
            columns.names[spans["name"][span]] if span >= 0 else "",
            stack_text(columns.stacks[stack][:1])[0] if stack >= 0 else "",
            modules[span] if span >= 0 else "",
        )
        for share, name in zip(shares, found, strict=True):
            share[name] += size
    tables = [sorted(each.items(), key=lambda pair: -pair[1]) for each in shares]
    return Peak(int(memory["time"][at]), int(memory["total"][at]), *tables)


def _modules(columns: Columns) -> list[str]:
    """The path of the modules around each span."""
    paths: list[str] = []
    kinds, names, parents = (columns.spans[each].tolist() for each in ("kind", "name", "parent"))
    for kind, name, parent in zip(kinds, names, parents, strict=True):
        path = paths[parent] if parent >= 0 else ""
        if kind == MODULE:
            own = columns.names[name].removeprefix("nn.Module: ")
            path = f"{path}.{own}" if path else own
        paths.append(path)
    return paths
