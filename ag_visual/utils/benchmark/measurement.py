"""What a Timer measured, and of what."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy

_SUSPICIOUS: Final = 0.1
_GROSS: Final = 0.25


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time in seconds reads well, and its length in seconds."""
    units = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3))
    return next((unit for unit in units if t < unit[1] * 1e3 * (1 - 1e-9)), ("s", 1.0))


@dataclass(frozen=True, repr=False)
class TaskSpec:
    """What was measured: the statement, and what a table calls it."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, else the statement."""
        if self.label is None and "\n" in self.stmt:
            more = f" ({self.sub_label})" if self.sub_label else ""
            return f"stmt:{more}\n{textwrap.indent(self.stmt, '  ')}"
        more = f": {self.sub_label}" if self.sub_label else ""
        return (self.stmt if self.label is None else self.label) + more

    def setup_str(self) -> str:
        """The setup under its name; nothing where there is none."""
        if not self.setup or self.setup == "pass":
            return ""
        several = "\n" in self.setup
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if several else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup."""
        parts = [part for part in (self.title, self.description, self.setup_str()) if part]
        return "\n".join(f"{part}\n" if "\n" in part else part for part in parts)


_TASK: Final = frozenset(field.name for field in fields(TaskSpec))


@dataclass(repr=False)
class Measurement:
    """Seconds of several runs of one statement; `raw_times` are those of `number_per_run` each."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in _TASK:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute {name!r}", name=name, obj=self)

    @property
    def times(self) -> list[float]:
        """Seconds of one execution, in each run."""
        return [time / self.number_per_run for time in self.raw_times]

    def _quantile(self, q: float) -> float:
        return float(numpy.quantile(self.times, q))

    @property
    def median(self) -> float:
        """The median of `times`."""
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """The mean of `times`."""
        return float(numpy.mean(self.times))

    @property
    def iqr(self) -> float:
        """The range in which the middle half of `times` is."""
        return self._quantile(0.75) - self._quantile(0.25)

    def meets_confidence(self, threshold: float = _SUSPICIOUS) -> bool:
        """Whether the middle half of `times` is near the median."""
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        """Whether the times differ much."""
        return bool(self.raw_times) and not self.meets_confidence()

    @property
    def title(self) -> str:
        """The label, else the statement."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """What a table calls it."""
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        count = len(self.raw_times)
        unit, scale = select_unit(self.median)
        lines = [object.__repr__(self), self.task_spec.summarize()]
        lines.append(f"  {'Median: ' if count > 1 else ''}{self.median / scale:.2f} {unit}")
        if count > 3:
            low, high = (self._quantile(q) / scale for q in (0.25, 0.75))
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        each = "per measurement," if count > 1 else ","
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        measured = f"{count} measurement{'s' if count > 1 else ''}"
        lines.append(f"  {measured}, {self.number_per_run} runs {each} {threads}")
        if self.has_warnings:
            gross = not self.meets_confidence(_GROSS)
            lines.append(
                f"  WARNING: Interquartile range is {self.iqr / self.median:.1%} of the median "
                "measurement.\n           "
                + ("Other work on the machine took part." if gross else "The machine may be busy.")
            )
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each statement, from all that were made of it."""
        groups: dict[TaskSpec, list[float]] = {}
        for each in measurements:
            groups.setdefault(each.task_spec, []).extend(each.times)
        return [Measurement(1, times, spec) for spec, times in groups.items()]
