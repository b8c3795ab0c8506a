"""Writes the lines of a program one after the other, with names of its own for what they make."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from .program import Line

NARROW = ["float16", "bfloat16"]
WILD = ["inf", "-inf", "nan"]


class Writer:
    """The lines by now, and a random source."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[Line] = []
        self.count: Counter[str] = Counter()
        self.once = False  # second derivatives would show digits, or NaN, of each step between

    def add(
        self,
        form: str,
        *fills: Any,
        letters: str = "u",
        targets: tuple[str, ...] = (),
        mode: str = "",
    ) -> list[str]:
        """A line; the names that it gives to its results: new ones of these letters, or targets."""
        names = list(targets)
        letters = "" if targets else letters
        for letter in letters:
            names.append(f"{letter}{self.count[letter]}")
            self.count[letter] += 1
        self.lines.append(Line(form, tuple(map(str, fills)), tuple(names), mode))
        return names

    def do(self, form: str, *fills: Any, mode: str = "") -> None:
        """A line whose result has no name."""
        self.add(form, *fills, letters="", mode=mode)

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def maybe(self, often: float) -> bool:
        return self.random.random() < often

    def size(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def numbers(self, shape: Any, dtype: str, wild: float = 0.0, grad: bool = False) -> str:
        """The name of a tensor of random numbers; wild: how often some are not finite."""
        options = f", wild={self.pick(*WILD)!r}" if self.maybe(wild) else ""
        self.once |= bool(options) or dtype in NARROW
        form = "numbers({number}, {size}, {dtype}{options})" + (".requires_grad_()" * grad)
        given = self.size(0, 99), tuple(shape), repr(dtype), options
        return self.add(form, *given)[0]

    def given(self, often: float = 0.5, **choices: list[Any]) -> str:
        """Text of keyword arguments: each so often one of its choices."""
        picked = [f"{k}={self.pick(*v)}" for k, v in choices.items() if self.maybe(often)]
        return ", ".join(picked)

    def slopes(self, outputs: list[str], inputs: list[str], twice: float, mode: str) -> None:
        """Gradients of the inputs, and of those gradients."""
        parts = " + ".join(f"({each} * weighed({each})).sum()" for each in outputs)
        among = ", ".join(inputs)
        again = self.maybe(twice) and not self.once
        options = ", create_graph=True" if again else self.pick("", ", retain_graph=True")
        form = "flat(torch.autograd.grad({outputs}, [{inputs}]{options}, allow_unused=True),"
        form += " [{inputs}])"
        (first,) = self.add(form, parts, among, options, among, mode=mode)
        if again:
            form = "flat(torch.autograd.grad(({outputs} * weighed({same})).sum(), [{inputs}],"
            self.add(form + " allow_unused=True), [{inputs}])", first, among, among, mode=mode)
