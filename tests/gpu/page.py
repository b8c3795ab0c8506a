"""What an acceptance run checks, by section, and the page that it prints: failing names first."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

WIDTH = 110
MOST = 40
"""Names of failing ops that a check tells; of the others it tells how many."""


@dataclass(frozen=True)
class Machine:
    """Where the checks run."""

    device: str = "cuda"
    real: bool = True
    """Whether that is a GPU; else the stand-in, of which times mean nothing."""
    every: int = 1
    """Each how many-th op of the table is looked at."""
    seconds: float = 2.0
    """How long a ratio is measured."""


Run = Callable[[Machine], str | None]


@dataclass(frozen=True)
class Check:
    """A function of the machine: what it returns stands on the page, what it raises fails."""

    section: str
    name: str
    run: Run
    only_real: bool


CHECKS: list[Check] = []


def check(section: str, only_real: bool = False) -> Callable[[Run], Run]:
    """Put a function among the checks of a section. only_real: it means nothing on a stand-in."""

    def added(run: Run) -> Run:
        CHECKS.append(Check(section, run.__name__.replace("_", " "), run, only_real))
        return run

    return added


class Failed(AssertionError):
    """Some of many cases fail. cases: what is wrong, by name."""

    def __init__(self, cases: dict[str, str], of: int) -> None:
        self.cases = cases
        shown = list(cases.items())[:MOST]
        lines = [f"{len(cases)} of {of} fail"]
        lines += [f"  {name}: {wrong}" for name, wrong in shown]
        if len(cases) > len(shown):
            rest = ", ".join(list(cases)[MOST:])
            lines.append(f"  and {len(cases) - len(shown)} more: {rest}")
        super().__init__("\n".join(lines))


def for_each(items: Iterable[tuple[str, Callable[[], None]]]) -> str:
    """Run named cases, all of them; raises `Failed` with those that raise. Tells how many ran."""
    wrong: dict[str, str] = {}
    number = 0
    for number, (name, case) in enumerate(items, 1):  # noqa: B007
        try:
            case()
        except Exception as error:
            wrong[name] = told(error)
    if wrong:
        raise Failed(wrong, number)
    if not number:
        raise AssertionError("no case was found")
    return f"{number} cases"


def told(error: BaseException) -> str:
    """An error in one line: its type, where it was raised, its first line."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" ({last[0].filename.rpartition('/')[2]}:{last[0].lineno})" if last else ""
    first = " ".join(str(error).split())
    return f"{type(error).__name__}{where}: {first}"[:300]


@dataclass
class Page:
    """The results of a run."""

    title: str
    results: list[tuple[Check, str, float]] = field(default_factory=list)
    failures: list[tuple[Check, BaseException]] = field(default_factory=list)
    left_out: list[Check] = field(default_factory=list)

    def text(self) -> str:
        """Failing names first, then what each check found, then what was left out, and the sum."""
        lines = [self.title, ""]
        lines += [f"FAILED {each.section}: {each.name}" for each, _ in self.failures]
        for each, error in self.failures:
            wrong = str(error) if isinstance(error, Failed) else told(error)
            lines += ["", f"{each.section}: {each.name}", *(f"  {x}" for x in wrong.splitlines())]
        if self.failures:
            lines.append("")
        section = None
        for each, found, seconds in self.results:
            if each.section != section:
                section = each.section
                lines.append(section)
            left = f"  {each.name}"
            lines.append(f"{left:<62} {found:<36} {seconds:8.1f} s"[:WIDTH].rstrip())
        if self.left_out:
            names = ", ".join(f"{each.section}: {each.name}" for each in self.left_out)
            lines += ["", f"not run, as they need a GPU: {names}"]
        lines += ["", f"{len(self.results)} checks hold, {len(self.failures)} fail"]
        return "\n".join(lines)


def run(checks: Iterable[Check], machine: Machine, title: str, say: Any = None) -> Page:
    """Run checks one after the other; none keeps the next from being tried."""
    page = Page(title)
    for each in checks:
        if each.only_real and not machine.real:
            page.left_out.append(each)
            continue
        if say is not None:
            say(f"{each.section}: {each.name} ...")
        begun = time.perf_counter()
        try:
            found = each.run(machine)
        except Exception as error:
            page.failures.append((each, error))
        else:
            page.results.append((each, found or "", time.perf_counter() - begun))
    return page
