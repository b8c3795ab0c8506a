"""Many programs, what differed grouped by cause, and the smallest program of each."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from .minimise import minimised, renamed
from .program import script
from .run import Finding, Run, quiet, random_program, replay

Cause = tuple[str, str, str]


@dataclass
class Report:
    """What a number of programs showed."""

    programs: int = 0
    found: Counter[Cause] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    smallest: dict[Cause, Finding] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)  # forms that some program did without an error

    def add(self, run: Run) -> None:
        self.programs += 1
        self.known.update(run.met)
        self.done.update(each.form for at, each in enumerate(run.program) if at not in run.raising)
        finding = run.found
        if finding is None:
            return
        if finding.entry is not None:
            self.known[finding.entry.name] += 1
            return
        cause = finding.cause
        self.found[cause] += 1
        shortest = self.smallest.get(cause)
        if shortest is None or len(finding.program) < len(shortest.program):
            self.smallest[cause] = finding

    @quiet()
    def causes(self, limit: int) -> list[tuple[int, Finding]]:
        """So many causes, most frequent first, each with how often it was met and its smallest."""
        groups: dict[Cause, tuple[int, Finding]] = {}
        for cause, count in self.found.most_common():
            if len(groups) == limit:
                break
            small = minimised(self.smallest[cause])
            before, other = groups.get(small.cause, (0, small))
            groups[small.cause] = before + count, min(small, other, key=lambda f: len(f.program))
        return sorted(groups.values(), key=lambda group: -group[0])

    def text(self, limit: int = 20) -> str:
        """The most frequent causes, each with a script that shows it; then the counts."""
        parts = [f"--- {count} times: {told(small)}" for count, small in self.causes(limit)]
        parts += [f"known, {name}: {count}" for name, count in sorted(self.known.items())]
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


def search(seed: int, programs: int | None = None, minutes: float = 0.0) -> Report:
    """So many random programs, or as many as these minutes allow."""
    report = Report()
    end = time.monotonic() + minutes * 60
    with quiet():
        while report.programs < programs if programs is not None else time.monotonic() < end:
            report.add(random_program(f"{seed}/{report.programs}"))
    return report
