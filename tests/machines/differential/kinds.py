"""Whole programs of kinds that the grammar of lines has no words for: optimizers and layers.

Names say what is compared: of `u..` values, shape, dtype, requires_grad and gradient (how a layer
is put together, which nodes and strides show, is its engine's own affair), of `s..` texts, of all
others nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from .layers import attention, convolutions, recurrent, rows
from .many import many
from .optimizers import optimizers
from .program import Line
from .writer import Writer

LINES = "lines"
KINDS: dict[str, Callable[[Writer], None]] = {
    "optimizers": optimizers,
    "recurrent": recurrent,
    "attention": attention,
    "convolutions": convolutions,
    "rows": rows,
    "many": many,
}
NAMES = (LINES, *KINDS)
SHARE = 0.1  # how many programs are none of lines


def drawn(seed: str, among: tuple[str, ...]) -> str:
    """The kind of the program that a seed makes."""
    random = Random(f"kind/{seed}")
    others = [each for each in among if each != LINES]
    if LINES in among and (not others or random.random() > SHARE):
        return LINES
    return random.choice(others)


def program(kind: str, random: Random) -> list[Line]:
    """A random program of one of `KINDS`."""
    writer = Writer(random)
    KINDS[kind](writer)
    return writer.lines
