"""Runs programs line by line on both engines, until the first difference."""

from __future__ import annotations

import math
import warnings
from ast import literal_eval
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from types import CodeType
from typing import Any

import ag_visual
from ag_visual.core import modes

from ...oracle import torch
from .compare import (
    Births,
    Difference,
    align,
    errors,
    of_values,
    stops,
    tensors,
    version,
)
from .fill import Filler, room
from .grammar import EAGER, FAMILIES, Family
from .kinds import LINES as OF_LINES, NAMES, drawn, program as program_of
from .known import DIGITS, REFUSED, SIGNED, Known, known, second
from .program import PRELUDE, Line, Program

LINES = (4, 14)  # how many a random program has
ENGINES = {"ag_visual": ag_visual, "torch": torch}


@dataclass(frozen=True)
class Finding:
    """A program whose last line is the first one after which the engines differ."""

    program: tuple[Line, ...]
    difference: Difference
    raising: tuple[int, ...]  # numbers of the lines before it that raise on both
    often: bool  # was every tensor looked at after every line, or at the end alone?
    entry: Known | None = None  # where it is one of those that stay

    @property
    def cause(self) -> tuple[str, str, str]:
        """What findings are grouped by: kind of difference, the guilty line's form, detail."""
        return self.difference.kind, self.program[-1].form, self.difference.about


@lru_cache(4096)
def _compiled(source: str) -> CodeType:
    return compile(source, "<program>", "exec")


class Engine:
    """One engine and the names that a program has made on it."""

    def __init__(self, module: Any, prelude: dict[str, Any]) -> None:
        self.names: dict[str, Any] = dict(prelude)
        self.tensor = module.Tensor

    def do(self, line: Line) -> BaseException | None:
        try:
            exec(_compiled(line.source), self.names)
        except Exception as error:
            error.__traceback__ = None  # its frames would keep tensors alive
            return error
        return None

    def live(self) -> dict[str, Any]:
        """Name -> tensor, or None where a call returned it."""
        kinds = (self.tensor, type(None))
        return {k: v for k, v in self.names.items() if k[0] in "tu" and isinstance(v, kinds)}

    def texts(self) -> dict[str, str]:
        """Name -> text that both engines have to give."""
        return {k: v for k, v in self.names.items() if k[0] == "s" and isinstance(v, str)}


@lru_cache(2)
def _prelude(module: Any) -> dict[str, Any]:
    scope = {"torch": module}
    for text in PRELUDE.values():
        exec(text, scope)
    return scope


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings, in one thread: what programs of a few elements are fastest with."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)


def left_open() -> str:
    """What a line has left behind of levels and modes."""
    state = modes.state
    counted = (modes.duals, modes.special, modes.slowed, state.slow)
    seen = (state.levels, state.differentiating, *counted)
    return "" if seen == ((), None, 0, 0, 0, 0) and state.grad and state.forward else str(seen)


class Run:
    """A program as far as it has come, on both engines.

    aligned: after each line our tensors that agree with torch's are given its last digits.
    signs: and second derivatives, and those of slices, the signs of its zeros.
    """

    def __init__(self, often: bool, aligned: bool = False, signs: bool = False) -> None:
        self.often = often
        self.aligned = aligned
        self.signs = signs
        self.ours = Engine(ag_visual, _prelude(ag_visual))
        self.theirs = Engine(torch, _prelude(torch))
        self.program: list[Line] = []
        self.raising: list[int] = []
        self.births: dict[str, Births] = {}
        self.found: Finding | None = None
        self.kind = OF_LINES
        self.met: set[str] = set()  # names of the known differences that it went on from

    def step(self, line: Line, last: bool = False) -> Finding | None:
        """Run one more line; the first difference ends the program and is kept."""
        self.found = self._step(line, last)
        return self.found

    def _step(self, line: Line, last: bool) -> Finding | None:
        mine, error = self.ours.do(line), self.theirs.do(line)
        self.program.append(line)
        if left_open():
            return self.finding(Difference("modes", "", left_open(), "nothing"))
        difference = errors(mine, error)
        if difference is not None:
            found = self.finding(difference, known(difference, self.program))
            return found if found.entry is not None else self.explained(found)
        if self.aligned:
            self.align()
        for name in line.targets:
            each = self.ours.names.get(name), self.theirs.names.get(name)
            self.births[name] = version(each[0]), version(each[1])
        found = self.compared() if self.often or last else None
        if error is not None:
            self.raising.append(len(self.program) - 1)
            if found is not None and self.often and self.unchanged():
                return replace(found, entry=REFUSED)
            if found is not None and (entry := known(stops(mine, error), self.program)) is not None:
                return replace(found, entry=entry)
        return found if found is None or found.entry is not None else self.explained(found)

    def explained(self, found: Finding) -> Finding:
        """A finding with the difference that stays, where it has come from one."""
        if not self.often:
            again = replay(self.program, often=True).found
            if again is not None and again.entry is not None:
                return again
        if not self.aligned:
            again = replay(self.program, self.often, aligned=True).found
            if again is None or again.entry is not None:
                signed = again is not None and again.entry is SIGNED
                return replace(found, entry=SIGNED if signed else DIGITS)
        if not self.signs and any(second(name, self.program) for name in self.births):
            again = replay(self.program, self.often, aligned=True, signs=True).found
            if again is None or again.entry is not None:
                return replace(found, entry=SIGNED)
        return found

    def align(self) -> None:
        ours = self.ours.live()
        for name, expected in self.theirs.live().items():
            mine = ours.get(name)
            if mine is not None and expected is not None:
                signs = self.signs and second(name, self.program)
                align(mine, expected, signs)
                align(mine.grad, expected.grad, signs)

    def fits(self, line: Line) -> bool:
        """Has what a line resizes room for it? (A smaller program may make less memory.)"""
        if "smaller" not in line.holes:
            return True
        name, shape = line.fills
        tensor = self.theirs.live().get(name)
        return tensor is None or math.prod(literal_eval(shape)) <= room(tensor)

    def unchanged(self) -> bool:
        """Is all here as it was before the last line?"""
        before = Engine(ag_visual, _prelude(ag_visual))
        for line in self.program[:-1]:
            before.do(line)
        pairs = before.live(), self.ours.live()
        return not any(
            difference.kind != "base"
            for name, tensor in pairs[0].items()
            for difference in tensors(pairs[1].get(name), tensor, name, ({}, {}), (0, 0))
        )

    def finding(self, difference: Difference, entry: Known | None = None) -> Finding:
        return Finding(tuple(self.program), difference, tuple(self.raising), self.often, entry)

    def compared(self) -> Finding | None:
        """The first difference of the tensors that is not one of those that stay."""
        ours, theirs = self.ours.live(), self.theirs.live()
        names = tuple({id(t): name for name, t in live.items()} for live in (ours, theirs))
        for name, expected in theirs.items():
            births = self.births[name]
            for difference in tensors(ours.get(name), expected, name, names, births):
                if name[0] == "u" and not of_values(difference):
                    continue
                entry = known(difference, self.program)
                if entry is None or entry.ends:
                    if entry is None and difference.kind == "values":
                        entry = self.seen_elsewhere(name)
                    return self.finding(difference, entry)
                self.met.add(entry.name)
        mine = self.ours.texts()
        for name, text in self.theirs.texts().items():
            if mine.get(name) != text:
                return self.finding(Difference("text", name, str(mine.get(name)), text))
        return None

    def seen_elsewhere(self, name: str) -> Known | None:
        """The entry of values that differ in the memory of a tensor, seen as another dtype."""
        ours, theirs = self.ours.live(), self.theirs.live()
        for other, tensor in theirs.items():
            if tensor is None or tensor.dtype == theirs[name].dtype or ours.get(other) is None:
                continue
            if tensor.untyped_storage().data_ptr() == theirs[name].untyped_storage().data_ptr():
                for difference in tensors(ours[other], tensor, other, ({}, {}), self.births[other]):
                    entry = known(difference, self.program)
                    if difference.kind == "values" and entry is not None:
                        return entry
        return None


def replay(program: Program, often: bool, aligned: bool = False, signs: bool = False) -> Run:
    """A given program; its `found` is the first difference."""
    run = Run(often, aligned, signs)
    for number, line in enumerate(program):
        if not run.fits(line) or run.step(line, last=number == len(program) - 1):
            break
    return run


def alone(name: str, program: Program, often: bool) -> None:
    """A given program on one engine alone, with the looks that a comparison takes."""
    module = ENGINES[name]
    engine = Engine(module, _prelude(module))
    for number, line in enumerate(program):
        engine.do(line)
        if often or number == len(program) - 1:
            for name, tensor in engine.live().items():
                list(tensors(tensor, tensor, name, ({}, {}), (0, 0)))


def random_program(
    seed: str,
    note: Callable[..., None] | None = None,
    transforms: bool = True,
    kinds: tuple[str, ...] = NAMES,
    families: Sequence[Family] = FAMILIES,
) -> Run:
    """The program that a seed makes, up to the first difference.

    transforms: whether some lines transform functions. kinds: what the program may be of.
    families: of which its lines are.
    Before a line is done, it is noted: the run's `often` and `raising`, then the line.
    """
    random = Random(seed)
    run = Run(often=random.random() < 0.7)
    run.kind = drawn(seed, kinds)
    whole = [] if run.kind == OF_LINES else program_of(run.kind, random)
    filler = Filler(random, {}, families if transforms else EAGER)
    length = len(whole) or random.randint(*LINES)
    for number in range(length):
        if whole:
            line = whole[number]
        else:
            filler.scope = {k: t for k, t in run.theirs.live().items() if t is not None}
            line = filler.line()
        if note is not None:
            note(run.often, tuple(run.raising), line)
        if run.step(line, last=number == length - 1):
            break
    return run
