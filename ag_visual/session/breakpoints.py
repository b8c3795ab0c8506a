"""Where a backward stops: at a node, a name, a line, or where the gradient fulfils a condition."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from ag_visual.arrays.backend import backend_of
from ag_visual.core import source
from ag_visual.events.live import LiveNode, gradient_array, written_out

Grads = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Stop before a node that fulfils all that is given; without anything, before none."""

    id: int
    seq: int | None = None  # this very node
    name: str | None = None  # each node of this class
    line: int | None = None  # nodes that this line made ...
    place: str | None = None  # ... of this cell (its id) or file; None: of any
    above: float | None = None  # the 2-norm of the gradient that arrives is larger
    nonfinite: bool = False  # it holds a NaN or an infinity
    shape: str | None = None  # it has this shape: "4×2", where * is any length

    def __post_init__(self) -> None:
        if self.above is not None:
            finite(self.above)

    def criteria(self) -> dict[str, Any]:
        """What is given, under the names of the schema."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            key: fields[key] for key in fields if key != "id" and fields[key] not in (None, False)
        }

    def same(self, other: Breakpoint) -> bool:
        """Whether both stop at the same nodes."""
        return self.criteria() == other.criteria()

    def json(self) -> dict[str, Any]:
        """The schema's Breakpoint record."""
        given = self.criteria()
        kind = "condition"
        if given.keys() == {"seq"}:
            kind = "node"
        elif given.keys() == {"name"}:
            kind = "name"
        elif "line" in given and given.keys() <= {"line", "place"}:
            kind = "line"
        return {"id": self.id, "kind": kind, **given}

    def stops(self, node: LiveNode, grads: Grads) -> bool:
        """Whether a backward that is about to run this node stops."""
        if not self.criteria():
            return False
        if self.seq is not None and node.seq != self.seq:
            return False
        if self.name is not None and self.name not in (
            node.name(),
            node.name().rpartition("::")[2],
        ):
            return False
        if self.line is not None and not self._at_line(node):
            return False
        if self.shape is not None and not has_shape(grads, self.shape):
            return False
        if self.above is not None and not norm_of(grads) > self.above:
            return False
        return not self.nonfinite or is_nonfinite(grads)

    def _at_line(self, node: LiveNode) -> bool:
        if node.call_site is None:
            return False
        site = _resolved(*node.call_site)
        return site.line == self.line and self.place in (None, site.cell_id, site.file)


@lru_cache(maxsize=4096)
def _resolved(code: CodeType, lasti: int) -> source.Site:
    return source.resolve(code, lasti)


def line_of(node: LiveNode) -> tuple[str, int] | None:
    """The file or cell and the line that made a node."""
    if node.call_site is None:
        return None
    site = _resolved(*node.call_site)
    return site.cell_id or site.file, site.line


def arrays_of(grads: Grads) -> list[Any]:
    """The arrays of the gradients that arrived."""
    return [written_out(gradient_array(g)) for g in grads if g is not None]


def finite(above: float) -> float:
    """A norm to compare with: infinity is above all, and JSON knows neither it nor NaN."""
    number = float(above)
    if not math.isfinite(number):
        raise ValueError(f"the norm to stop above should be a finite number, but is {number}")
    return number


def norm_of(grads: Grads) -> float:
    """The 2-norm of all that arrives, nan where a NaN is in it."""
    total = 0.0
    for array in arrays_of(grads):
        xp = backend_of(array).xp
        largest = float(xp.abs(array).max()) if array.size else 0.0
        if largest and math.isfinite(largest):
            scaled = xp.abs(array) / largest
            norm = largest * math.sqrt(float((scaled * scaled).sum()))
            total = math.hypot(total, norm)
        else:
            total += largest
    return total


def is_nonfinite(grads: Grads) -> bool:
    """Whether a NaN or an infinity arrives."""
    return any(
        array.dtype.kind in "fcV" and not bool(backend_of(array).xp.isfinite(array).all())
        for array in arrays_of(grads)
    )


def has_shape(grads: Grads, shape: str) -> bool:
    """Whether a gradient of this shape arrives: "4×2", "4x2", "4, *"; "" is a scalar."""
    wanted = [part for part in re.split(r"[×x,\s]+", shape.strip("()[] ")) if part]
    return any(
        len(array.shape) == len(wanted)
        and all(w in ("*", str(n)) for w, n in zip(wanted, array.shape, strict=True))
        for array in arrays_of(grads)
    )


def problem_of(node: LiveNode, grads: Grads) -> str:
    """What is wrong with the node that is about to run, as a sentence; '' where nothing is."""
    if is_nonfinite(grads):
        return "The gradient that arrives holds a NaN or an infinity."
    for field in node.saved_fields():
        if field.version_then is None or field.freed or field.version_now is None:
            continue
        if field.version_now != field.version_then:
            return (
                f"Its saved tensor {field.name} was overwritten: saved at version "
                f"{field.version_then}, now at version {field.version_now}."
            )
    return ""
