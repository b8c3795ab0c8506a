"""The smallest program that still shows the same cause: lines go first, then arguments shrink."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from .program import Line, holes
from .run import Finding, replay

SIMPLE = {
    "number": ["1", "2", "0.5"],
    "dim": ["0", "-1"],
    "index": ["0", "1"],
    "slice": ["1:", ":1"],
    "shape": ["(-1,)"],
    "expanded": ["(2,)", "(2, 2)"],
    "size": ["(2,)", "(2, 2)"],
    "real": ["float64", "float32"],
    "dtype": ["float64", "float32", "int64"],
    "integer": ["int64"],
    "complex": ["complex128"],
    "strided": ["clone()"],
    "reshaped": ["clone()", "reshape(2, 3)"],
    "floats": ["1.", "[1.]", "[1., 2.]", "[[1., 2.]]", "[[1., 2.], [3., 4.]]"],
    "complexes": ["1j", "[1j]", "[1j, 2+1j]", "[[1j, 2+1j]]"],
    "integers": ["1", "[1]", "[1, 2]", "[[1, 2]]"],
    "body": ["a", "a.sin()", "a * a", "a * 1"],
    "bools": ["True", "[True]", "[True, False]"],
}
OPERANDS = {"x", "y", "f", "w", "leaf"}
NAMED = re.compile(r"\b[a-z]\d+\b")
FORMS = {
    "torch.tensor({floats}, dtype=torch.{real}, requires_grad=True)": [
        "torch.tensor({floats}, requires_grad=True)"
    ],
    "torch.tensor({floats}, dtype=torch.float64, requires_grad=True)": [
        "torch.tensor({floats}, requires_grad=True)"
    ],
    "torch.tensor({floats}, requires_grad=True)": ["torch.tensor({floats})"],
}


def minimised(finding: Finding) -> Finding:
    """The smallest finding of the same cause that single steps lead to."""
    found = _one_look(finding)
    while True:
        smaller = next(_smaller(found), None)
        if smaller is None:
            return found
        found = smaller


def _one_look(finding: Finding) -> Finding:
    """The same program, looked at once, at its end: then no look before has a part in it."""
    once = replay(finding.program, often=False).found
    same = once is not None and (once.cause, once.entry) == (finding.cause, finding.entry)
    return once if once is not None and same else finding


def _smaller(finding: Finding) -> Iterator[Finding]:
    for program in _candidates(finding.program):
        found = replay(program, finding.often).found
        if found is not None and found.entry is finding.entry and _like(found, finding):
            yield found


def _like(found: Finding, finding: Finding) -> bool:
    if finding.often or finding.difference.kind in ("raises", "accepts", "class"):
        return found.cause == finding.cause
    # Looked at once, the line that was last may have had no part in it.
    kind, _, about = found.cause
    return (kind, about) == (finding.difference.kind, finding.difference.about)


def _candidates(program: tuple[Line, ...]) -> Iterator[tuple[Line, ...]]:
    """Programs that are one step smaller, large steps first."""
    size = len(program) // 2
    while size:
        for start in range(0, len(program), size):
            shorter = program[:start] + program[start + size :]
            if shorter:
                yield shorter
        size //= 2
    for number, line in enumerate(program):
        for simpler in _simpler(line, program[:number]):
            yield (*program[:number], simpler, *program[number + 1 :])


def _simpler(line: Line, before: tuple[Line, ...]) -> Iterator[Line]:
    if line.mode:
        yield replace(line, mode="")
    for form in FORMS.get(line.form, ()):
        yield replace(line, form=form, fills=line.fills[: len(holes(form))])
    names = [name for each in before for name in each.targets]
    for at, hole in enumerate(line.holes):
        fill = line.fills[at]
        choices = SIMPLE.get(hole, [])
        if hole in OPERANDS:
            choices = names
        if fill in choices:
            choices = choices[: choices.index(fill)]
        for choice in choices:
            yield replace(line, fills=(*line.fills[:at], choice, *line.fills[at + 1 :]))


def renamed(program: tuple[Line, ...]) -> tuple[Line, ...]:
    """The same with names from t0 on, and from u0, s0 and so on."""
    names = dict.fromkeys(name for line in program for name in line.targets)
    count: Counter[str] = Counter()
    new = {}
    for name in names:
        new[name] = f"{name[0]}{count[name[0]]}"
        count[name[0]] += 1
    swap: Callable[[str], str] = lambda text: re.sub(  # noqa: E731
        NAMED, lambda m: new.get(m[0], m[0]), text
    )
    return tuple(
        replace(line, fills=tuple(map(swap, line.fills)), targets=tuple(map(swap, line.targets)))
        for line in program
    )
