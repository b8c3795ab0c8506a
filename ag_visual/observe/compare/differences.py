"""What differs between two matched graphs, in words, the most telling first."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Literal

from ag_visual.observe.compare.match import (
    UNWATCHED,
    Facts,
    Matching,
    Part,
    facts_of,
    is_finite,
    match,
    passes,
)
from ag_visual.observe.export.export import Recording

Kind = Literal["equal", "changed", "added", "removed"]
MARKS: Final[dict[Kind, str]] = {"equal": "=", "changed": "~", "added": "+", "removed": "-"}

LOUD: Final = 2.0
"""From this factor on, a gradient's change is a difference of its own."""

ROUNDING: Final = 5e-3
_SHOWN: Final = 40
_WEIGHTS: Final = {
    "op": 800,
    "inputs": 650,
    "dtype": 600,
    "name": 560,
    "shape": 500,
    "attribute": 450,
    "source": 400,
    "saved": 300,
    "bytes": 200,
}
_STATISTICS: Final = ("norm", "mean", "min", "max", "nan", "inf", "zero")


@dataclass(frozen=True, slots=True)
class Change:
    """One fact of a pair that differs; of: an attribute's name or an input, else ''."""

    what: str
    before: str
    after: str
    of: str = ""

    def __str__(self) -> str:
        return f"{self.of or self.what} {self.before} -> {self.after}"


@dataclass(frozen=True, slots=True)
class Difference:
    """A pair that differs, or nodes that follow each other and that one side lacks.

    before and after: the parts of each side (one each for a pair); gradient: their norms, -1.0
    where none arrived; values: by tensor and statistic, what both sides hold and differs.
    """

    kind: Kind
    leaf: bool
    before: tuple[Part, ...]
    after: tuple[Part, ...]
    changes: tuple[Change, ...] = ()
    gradient: tuple[float, float] | None = None
    values: tuple[tuple[str, str, float, float], ...] = ()
    relevance: float = 0.0

    @property
    def title(self) -> str:
        """Names of the nodes."""
        if self.before and self.after:
            names = dict.fromkeys([_name(self.before[0]), _name(self.after[0])])
            return " -> ".join(names)
        names = dict.fromkeys(_name(part) for part in self.before + self.after)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return ", ".join(list(names)[:3]) + more

    def __str__(self) -> str:
        site = (self.after or self.before)[0].site
        parts = [str(change) for change in self.changes]
        if self.gradient is not None and loudness(self.gradient) >= 1:
            parts.append(gradient_text(self.gradient))
        parts += [f"{tensor} {what} {a:.4g} -> {b:.4g}" for tensor, what, a, b in self.values]
        count = len(self.before + self.after)
        if self.kind in ("added", "removed"):
            parts.append("leaf" if self.leaf else "1 node" if count == 1 else f"{count} nodes")
        return f"{MARKS[self.kind]} {self.title}{at_line(site)}: {'; '.join(parts)}"


def _name(part: Part) -> str:
    return part.name or f"a leaf of shape {part.shape or 'scalar'}"


def at_line(site: Any) -> str:
    """', In[4] line 2', or nothing for a part without a line."""
    if not site:
        return ""
    cell = site["kind"] == "cell"
    named = "cell" if site["execution_count"] is None else f"In[{site['execution_count']}]"
    return f", {named if cell else os.path.basename(site['file'])} line {site['line']}"


def loudness(gradient: tuple[float, float]) -> float:
    """How far a gradient moved, in powers of two; inf where it became or ceased to be finite."""
    before, after = gradient
    if (before < 0 and after < 0) or UNWATCHED in gradient:
        return 0.0
    if is_finite(before) != is_finite(after):
        return math.inf
    if not is_finite(before) or before == after:
        return 0.0
    if before <= 0 or after <= 0:
        return 64.0
    ratio = after / before
    if not 0 < ratio < math.inf:
        return 1074.0
    return 0.0 if abs(ratio - 1) < ROUNDING else abs(math.log2(ratio))


def gradient_text(gradient: tuple[float, float]) -> str:
    """'norm 0.5 -> 2, 4 times larger'."""
    before, after = gradient
    unknown = {-1.0: "no gradient", UNWATCHED: "not watched"}
    texts = [unknown.get(norm, f"{norm:.3g}") for norm in gradient]
    times = ""
    if before > 0 and after > 0 and is_finite(before) and is_finite(after):
        ratio = after / before
        times = ", the same" if abs(ratio - 1) < ROUNDING else f", {factor_text(ratio)}"
    return f"norm {texts[0]} -> {texts[1]}{times}"


def factor_text(ratio: float) -> str:
    """'4 times larger', '4 times smaller'."""
    if ratio >= 1:
        return f"{ratio:.3g} times larger"
    return f"{1 / ratio:.3g} times smaller" if ratio else "it became zero"


class Comparison:
    """What differs between two backward passes: iterate it, print it, or show it in a notebook.

    nodes and leaves count what was added, removed, changed and equal; differences are sorted, what
    says most first; summary is one sentence; `same` says that the structure is the same.
    """

    renderer: Any = None
    """Makes a mime bundle for notebooks; set by the display layer, as is `writer`."""

    writer: Any = None

    def __init__(self, a: Recording, b: Recording, tasks: tuple[int | None, int | None]) -> None:
        self.recordings = a, b
        self.tasks = tasks
        self._facts = facts_of(a, tasks[0]), facts_of(b, tasks[1])
        self._matching = match(*self._facts)
        self.nodes = dict.fromkeys(("added", "removed", "changed", "equal"), 0)
        self.leaves = dict(self.nodes)
        self._loudest: tuple[float, Part, tuple[float, float]] | None = None
        found = [*self._pairs(), *self._alone("added"), *self._alone("removed")]
        self.differences = sorted(found, key=lambda d: -d.relevance)

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)

    def __len__(self) -> int:
        return len(self.differences)

    @property
    def same(self) -> bool:
        """Whether nothing was added, removed or changed; gradients may differ."""
        kinds = ("added", "removed", "changed")
        return not any(self.nodes[kind] + self.leaves[kind] for kind in kinds)

    @property
    def summary(self) -> str:
        """Counts and the largest change of a gradient, in one sentence."""
        if self.same:
            count = self.nodes["equal"]
            text = f"No difference in {count:,} node{'' if count == 1 else 's'}"
        else:
            parts = []
            for what, counts in (("Nodes", self.nodes), ("leaves", self.leaves)):
                shown = [f"{counts[k]:,} {k}" for k in ("added", "removed", "changed") if counts[k]]
                if shown or what == "Nodes":
                    parts.append(f"{what}: {', '.join(shown) or 'all equal'}")
            text = "; ".join(parts)
        return f"{text}; {self._loudest_text()}."

    def _loudest_text(self) -> str:
        if self._loudest is None:
            return "gradients match"
        _, part, (before, after) = self._loudest
        sound = before > 0 and after >= 0 and is_finite(before) and is_finite(after)
        how = factor_text(after / before) if sound else "from or to NaN, inf or nothing"
        return f"largest gradient change at {_name(part)}{at_line(part.site)}: {how}"

    def __repr__(self) -> str:
        shown = [f"  {difference}" for difference in self.differences[:_SHOWN]]
        if len(self) > _SHOWN:
            shown.append(f"  and {len(self) - _SHOWN} more")
        return "\n".join([self.summary, *shown])

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        if type(self).renderer is None:
            return {"text/plain": repr(self)}
        return type(self).renderer(self)

    def save(self, path: str | os.PathLike[str]) -> Any:
        """Write both graphs side by side: a standalone page for a name in .html, else a file."""
        return type(self).writer(self, path)

    def _count(self, leaf: bool, kind: Kind) -> None:
        (self.leaves if leaf else self.nodes)[kind] += 1

    def _pairs(self) -> Iterator[Difference]:
        a, b = self._facts
        found = self._matching
        for leaf, partners, one, other in (
            (False, found.of_a, a.nodes, b.nodes),
            (True, found.leaf_of_a, a.leaves, b.leaves),
        ):
            for i, j in enumerate(partners):
                if j < 0:
                    continue
                before, after = one[i], other[j]
                changes = tuple(_leaf_changes(before, after) if leaf else self._changes(i, j))
                kind: Kind = "changed" if changes else "equal"
                self._count(leaf, kind)
                gradient = before.norm, after.norm
                loud = loudness(gradient)
                if loud > (self._loudest[0] if self._loudest else 0):
                    self._loudest = loud, after, gradient
                if changes or loud >= math.log2(LOUD):
                    values = tuple(self._values(before, after))
                    most = max((_WEIGHTS[change.what] for change in changes), default=0)
                    weight = 900 + most / 100 if loud == math.inf else most + min(loud, 90)
                    parts = (before,), (after,)
                    yield Difference(kind, leaf, *parts, changes, gradient, values, weight)

    def _changes(self, i: int, j: int) -> Iterator[Change]:
        a, b = self._facts
        before, after = a.nodes[i], b.nodes[j]
        yield from _differing("op", before.name, after.name)
        yield from _differing("shape", before.shape or "scalar", after.shape or "scalar")
        yield from _differing("dtype", before.dtype, after.dtype)
        lines = [_line(part) for part in (before, after)]
        if all(lines):
            yield from _differing("source", *lines)
        if before.attributes is not None and after.attributes is not None:
            for name in dict.fromkeys([*before.attributes, *after.attributes]):
                old = _anonymous(before.attributes.get(name, "none"))
                new = _anonymous(after.attributes.get(name, "none"))
                yield from _differing("attribute", old, new, of=name)
        saved = [", ".join(part.saved) or "nothing" for part in (before, after)]
        yield from _differing("saved", *saved)
        saved_alike = before.saved == after.saved and before.shape == after.shape
        if saved_alike and before.dtype == after.dtype:
            yield from _differing("bytes", f"{before.nbytes} B", f"{after.nbytes} B")
        yield from _rewired(a, b, self._matching, before, after)

    def _values(self, before: Part, after: Part) -> Iterator[tuple[str, str, float, float]]:
        """Statistics of tensors that both recordings hold, where they differ."""
        one, other = (recording.record["values"] for recording in self.recordings)
        names = [f"saved:{name}" for name in before.saved] or ["variable", "grad"]
        for which in names:
            old, new = one.get(f"{before.seq} {which}"), other.get(f"{after.seq} {which}")
            if old is None or new is None:
                continue
            for what in _STATISTICS:
                if old[what] is not None and new[what] is not None and old[what] != new[what]:
                    yield which.removeprefix("saved:"), what, old[what], new[what]

    def _alone(self, kind: Literal["added", "removed"]) -> Iterator[Difference]:
        facts = self._facts[kind == "added"]
        found = self._matching
        partners, leaves = (
            (found.of_b, found.leaf_of_b) if kind == "added" else (found.of_a, found.leaf_of_a)
        )

        def difference(parts: Iterable[Part], leaf: bool) -> Difference:
            own = tuple(parts)
            before, after = ((), own) if kind == "added" else (own, ())
            return Difference(kind, leaf, before, after, relevance=650 if leaf else 700)

        pairs = zip(facts.nodes, partners, strict=True)
        for alone, run in groupby(pairs, key=lambda pair: pair[1] < 0):
            if alone:
                nodes = [node for node, _ in run]
                self.nodes[kind] += len(nodes)
                yield difference(nodes, False)
        for leaf, partner in zip(facts.leaves, leaves, strict=True):
            if partner < 0:
                self._count(True, kind)
                yield difference([leaf], True)


def _anonymous(text: str) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def _line(part: Part) -> str:
    return str(part.site["source_line"] or part.site["text"]) if part.site else ""


def _differing(what: str, before: str, after: str, of: str = "") -> Iterator[Change]:
    if before != after:
        yield Change(what, before, after, of)


def _leaf_changes(before: Part, after: Part) -> Iterator[Change]:
    if before.name and after.name:
        yield from _differing("name", before.name, after.name)
    yield from _differing("shape", before.shape or "scalar", after.shape or "scalar")
    yield from _differing("dtype", before.dtype, after.dtype)


def _rewired(a: Facts, b: Facts, found: Matching, before: Part, after: Part) -> Iterator[Change]:
    """An input from another node, though both are on both sides, or one without gradient."""
    for slot in range(max(len(before.inputs), len(after.inputs))):
        one = before.inputs[slot] if slot < len(before.inputs) else None
        other = after.inputs[slot] if slot < len(after.inputs) else None
        if one is None or other is None:
            apart = one is not other
        elif one[0] != other[0]:
            apart = False
        else:
            of_a, of_b = (
                (found.of_a, found.of_b) if one[0] == "node" else (found.leaf_of_a, found.leaf_of_b)
            )
            apart = of_a[one[1]] >= 0 and of_b[other[1]] >= 0 and of_a[one[1]] != other[1]
        if apart:
            yield Change("inputs", _source(a, one), _source(b, other), f"input {slot + 1}")
            return


def _source(facts: Facts, at: tuple[str, int] | None) -> str:
    if at is None:
        return "nothing"
    return _name((facts.nodes if at[0] == "node" else facts.leaves)[at[1]])


def compare_recordings(
    a: Recording, b: Recording, steps: tuple[int | None, int | None] = (None, None)
) -> Comparison:
    """Compares one backward pass of each (counted from 1, from -1 backwards; None: the last)."""
    return Comparison(a, b, (_task(a, steps[0], "first"), _task(b, steps[1], "second")))


def _task(recording: Recording, step: int | None, which: str) -> int | None:
    known = passes(recording)
    if step is None:
        if not known and not recording.rows("nodes"):
            raise ValueError(f"the {which} recording holds no graph")
        return known[-1] if known else None
    if step == 0 or abs(step) > len(known):
        raise IndexError(
            f"the {which} recording has {len(known)} backward passes, counted from 1; got {step}"
        )
    return known[step - 1 if step > 0 else step]
