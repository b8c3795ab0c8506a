"""Many programs, what differed grouped by cause, and the smallest program of each."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from signal import Signals
from typing import Any

from .kinds import NAMES
from .minimise import minimised, renamed
from .program import Line, script
from .run import ENGINES, Finding, Run, alone, quiet, random_program, replay
from .workers import Died, Note, Workers

BATCH = 500  # programs that a worker runs before it answers

Cause = tuple[str, str, str]
Plant = Callable[[], None]  # plants a fault


@dataclass(frozen=True)
class Crash:
    """A program in whose last line the process ended."""

    seed: str
    program: tuple[Line, ...]
    raising: tuple[int, ...]  # numbers of the lines that raise on both
    signal: int
    engine: str  # that crashes on it alone; empty where none does

    @property
    def kind(self) -> str:
        return f"crash of {self.engine or 'the two together'}"

    def text(self) -> str:
        """For people: where and how it crashed, and the script that shows it."""
        head = f"{self.kind} by {Signals(self.signal).name}, program {self.seed}"
        return f"{head}\n{script(renamed(self.program), self.raising)}"


@dataclass
class Report:
    """What a number of programs showed."""

    programs: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # how many of each kind
    found: Counter[Cause] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    smallest: dict[Cause, Finding] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)  # forms that some program did without an error
    crashes: list[Crash] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """How many programs showed something that is not known, a crash of torch apart."""
        ours = [crash for crash in self.crashes if crash.engine != "torch"]
        return sum(self.found.values()) + len(ours)

    def add(self, run: Run) -> None:
        self.programs += 1
        self.kinds[run.kind] += 1
        self.known.update(run.met)
        self.done.update(each.form for at, each in enumerate(run.program) if at not in run.raising)
        finding = run.found
        if finding is None:
            return
        if finding.entry is not None:
            self.known[finding.entry.name] += 1
            return
        self.found[finding.cause] += 1
        self._show(finding)

    def _show(self, finding: Finding) -> None:
        shortest = self.smallest.setdefault(finding.cause, finding)
        self.smallest[finding.cause] = min(shortest, finding, key=lambda f: len(f.program))

    def merge(self, other: Report) -> None:
        """Add up what other programs showed."""
        self.programs += other.programs
        self.kinds += other.kinds
        self.found += other.found
        self.known += other.known
        self.done |= other.done
        self.crashes += other.crashes
        for finding in other.smallest.values():
            self._show(finding)

    def causes(self, limit: int, jobs: int = 0) -> list[tuple[int, Finding]]:
        """So many causes, most frequent first, each with how often it was met and its smallest.

        They are made small by so many workers, by none in this process.
        """
        frequent = self.found.most_common(limit)
        smallest = smaller([self.smallest[cause] for cause, _ in frequent], jobs)
        groups: dict[Cause, tuple[int, Finding]] = {}
        for (_, count), small in zip(frequent, smallest, strict=True):
            before, other = groups.get(small.cause, (0, small))
            groups[small.cause] = before + count, min(small, other, key=lambda f: len(f.program))
        return sorted(groups.values(), key=lambda group: -group[0])

    def text(self, limit: int = 20, jobs: int = 0) -> str:
        """The most frequent causes, each with a script that shows it; then the counts."""
        parts = [f"--- {crash.text()}" for crash in self.crashes]
        parts += [f"--- {count} times: {told(small)}" for count, small in self.causes(limit, jobs)]
        parts += [f"known, {name}: {count}" for name, count in sorted(self.known.items())]
        crashes = Counter(crash.kind for crash in self.crashes)
        parts += [f"{kind}: {count}" for kind, count in sorted(crashes.items())]
        parts += [f"programs of {kind}: {count}" for kind, count in sorted(self.kinds.items())]
        found = sum(self.found.values())
        parts.append(f"{self.programs} programs, {found} differences of {len(self.found)} causes")
        return "\n".join(parts)


@quiet()
def told(finding: Finding) -> str:
    """A finding for people: what differs, and the script that shows it."""
    finding = replay(renamed(finding.program), finding.often).found or finding
    difference = finding.difference
    where = f" of {difference.name}" if difference.name else ""
    lines = [f"{difference.kind}{where} after {finding.program[-1].form}"]
    lines += [f"ag_visual: {difference.ours}", f"torch:     {difference.theirs}"]
    if finding.often:
        lines.append("(each tensor is looked at after each line)")
    return "\n".join([*lines, script(finding.program, finding.raising, difference.look)])


@quiet()
def smaller(findings: list[Finding], jobs: int) -> list[Finding]:
    """Findings minimised, but one whose process ends under it."""
    if not jobs:
        return [minimised(finding) for finding in findings]
    small, left = list(findings), iter(enumerate(findings))
    with Workers(jobs) as workers:
        for (at, _), answer in workers.answers(_minimised, lambda: next(left, None)):
            if not isinstance(answer, Died):
                small[at] = answer
    return small


@quiet()
def _minimised(note: Note, at: int, finding: Finding) -> Finding:
    return minimised(finding)


def search(
    seed: int,
    programs: int | None = None,
    minutes: float = 0.0,
    jobs: int = 1,
    plant: Plant | None = None,
    transforms: bool = True,
    kinds: tuple[str, ...] = NAMES,
) -> Report:
    """So many random programs, or as many as these minutes allow, by so many workers.

    `plant` is called in each worker before it begins. transforms, kinds: as for `random_program`.
    """
    end = time.monotonic() + minutes * 60
    count = sys.maxsize if programs is None else programs
    left = (range(count)[start : start + BATCH] for start in range(0, count, BATCH))
    again: list[range] = []  # what was left of the batches that ended early

    def task() -> tuple[Any, ...] | None:
        if programs is None and time.monotonic() > end:
            return None
        numbers = again.pop() if again else next(left, None)
        return numbers and (seed, numbers, plant, transforms, kinds)

    reports: dict[int, Report] = {}
    with Workers(jobs) as workers:
        for (_, numbers, *_), answer in workers.answers(_batch, task):
            if isinstance(answer, Died):
                at, often, raising, _ = answer.notes[-1]
                lines = tuple(line for number, *_, line in answer.notes if number == at)
                ends = [workers.answer(_alone, name, lines, often, plant) for name in ENGINES]
                pairs = zip(ENGINES, ends, strict=True)
                engine = " and ".join(name for name, end in pairs if isinstance(end, Died))
                crash = Crash(f"{seed}/{at}", lines, raising, answer.signal, engine)
                reports[at] = Report(1, crashes=[crash])
                again += filter(None, (range(numbers.start, at), range(at + 1, numbers.stop)))
            else:
                reports[numbers.start] = answer
    whole = Report()
    for _, report in sorted(reports.items()):
        whole.merge(report)
    return whole


@quiet()
def _batch(
    note: Note,
    seed: int,
    numbers: range,
    plant: Plant | None,
    transforms: bool,
    kinds: tuple[str, ...],
) -> Report:
    """The programs of these numbers; each line is noted before it is done."""
    if plant is not None:
        plant()
    report = Report()
    for number in numbers:
        report.add(random_program(f"{seed}/{number}", partial(note, number), transforms, kinds))
    return report


@quiet()
def _alone(
    note: Note, engine: str, program: tuple[Line, ...], often: bool, plant: Plant | None
) -> None:
    if plant is not None:
        plant()
    alone(engine, program, often)
