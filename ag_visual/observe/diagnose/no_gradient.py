"""Why a parameter of a module got no gradient in a backward that ran: in words, with the line.

Three witnesses, the surest first: the graph that a detached value was taken from, while it lives;
the source of the modules around the parameter; the line of a graph break that names one of these
modules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any, Final

from ag_visual.core import source
from ag_visual.observe.diagnose.explain import break_reason, placed, reason_of_break
from ag_visual.observe.diagnose.forward_breaks import (
    GraphBreak,
    Owner,
    Unused,
    left_in_code,
    left_on_way,
)


@dataclass(frozen=True, slots=True)
class Absence:
    """Why there is no gradient.

    kind: 'frozen' (requires_grad is False), 'unused', or how a value left the graph: 'detach',
    'detach_', 'data', 'no_grad', 'inference', 'non_differentiable', 'dtype' or 'other'.
    """

    kind: str
    text: str
    site: source.Site | None = None
    repair: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """A value that had left a graph when the backward's graph took it.

    of: the numbers of parameters that it came from; None where nobody knows them any more.
    """

    kind: str
    site: source.Site
    of: frozenset[int] | None

    @property
    def open(self) -> bool:
        """Whether it may have come from others: what no graph was made of has many inputs."""
        return self.of is None or self.kind not in ("detach", "detach_", "data")


FROZEN: Final = Absence("frozen", "requires_grad is False")


class Reasons:
    """The reasons of the parameters of one backward. breaks: all its values that had left a graph.
    codes: what called it, the innermost first.

    Modules of one class, and a variable of the callers, are read once.
    """

    def __init__(self, breaks: Sequence[Left], codes: Sequence[CodeType] = ()) -> None:
        self.breaks = breaks
        self.codes = codes
        self._read: dict[tuple[type, str], list[GraphBreak] | Unused] = {}
        self._called: dict[str, list[GraphBreak]] = {}

    def of(self, number: int, name: str, owners: Sequence[Owner]) -> Absence:
        """Why the parameter of this number and name got none; owners: the innermost first."""
        for graph_break in self.breaks:
            if graph_break.of is not None and number in graph_break.of:
                return _left(name, graph_break)
        found = [self._in_forward(owner) for owner in owners]
        for breaks in found:
            if isinstance(breaks, Unused):
                break
            if breaks:
                return _in_source(breaks[0])
        for graph_break in self.breaks:
            if graph_break.open and _speaks_of(
                graph_break.site, name, zip(owners, found, strict=True)
            ):
                return _left(name, graph_break)
        unused = next((each for each in found if isinstance(each, Unused)), None)
        if unused is not None:
            where = f" ({unused.site.where})" if unused.site.line else ""
            text = f"not used in this pass: no method of {unused.owner}{where} takes it"
            repair = f"use `self.{unused.attribute}` in {unused.owner}.forward"
            return Absence("unused", text, unused.site, repair)
        if owners and (breaks := self._in_callers(owners[-1][1])):
            return _in_source(breaks[0])
        text = "not used in this pass"
        others = [graph_break for graph_break in self.breaks if graph_break.open]
        if others:
            text += f"; a value left the graph{placed(others[0].site)}"
        return Absence("unused", text, None, f"use {_quoted(name)} in the computation")

    def _in_callers(self, module: str) -> list[GraphBreak]:
        """Cuts on the way from a variable's module to the backward, in what called it."""
        found = self._called.get(module)
        if found is None:
            each = (left_in_code(code, module) for code in self.codes)
            found = self._called[module] = next(filter(None, each), [])
        return found

    def _in_forward(self, owner: Owner) -> list[GraphBreak] | Unused:
        """What the forward of one module does with what is on the way to the parameter."""
        module, path, attribute = owner
        key = module, attribute
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = left_on_way([owner])
        of = f"{path}.{attribute}"
        if isinstance(found, Unused):
            return replace(found, name=of)
        return [replace(graph_break, of=of) for graph_break in found]


def _quoted(name: str) -> str:
    return f"`{name}`" if name else "it"


def _left(name: str, graph_break: Left) -> Absence:
    reason = break_reason(f"what {_quoted(name)} computes", graph_break.kind, graph_break.site)
    return Absence(graph_break.kind, reason.text, graph_break.site, reason.repair)


def _in_source(graph_break: GraphBreak) -> Absence:
    reason = reason_of_break(graph_break)
    return Absence(graph_break.kind, reason.text, graph_break.site, reason.repair)


def _speaks_of(site: source.Site, name: str, owners: Iterable[tuple[Owner, Any]]) -> bool:
    """Whether a line calls one of these modules by its name, or stands in a method of one."""
    if name and name in site.text:
        return True
    for (module, path, _), found in owners:
        if isinstance(found, Unused):
            return False  # nothing that happens in it, or around it, is the parameter's
        if re.search(rf"(?<![\w.]){re.escape(path)}(?![\w.])", site.text):
            return True
        if site.line and _holds(module, site):
            return True
    return False


def _holds(kind: type[Any], site: source.Site) -> bool:
    """Whether a place is in the `forward` of a class."""
    code = getattr(getattr(kind, "forward", None), "__code__", None)
    if code is None or source.inside[code.co_filename] or code.co_filename != site.file:
        return False
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return bool(min(lines) <= site.line <= max(lines))
