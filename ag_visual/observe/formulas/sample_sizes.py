"""A formula of a sample, without the sample's own sizes: it stands for calls of any size.

Two samples that differ in their sizes alone say which numbers come from these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from ag_visual.observe.formulas.notation import Math, element, leaf, linear

OF_SAMPLE: Final = "Sizes and dims in it are those of a small example."

_OF_RULES: Final = 3
"""Smaller numbers are mostly those of the rule itself."""

_LETTERS: Final = "nmkpqrst"


class _OtherFormError(Exception):
    """The formulas differ in more than numbers, or in too many of them."""


def without_sizes(
    one: dict[str, Any], larger: dict[str, Any] | None, counted: bool
) -> dict[str, Any]:
    """A `CardDerivative` of a sample with letters for the numbers that its sizes give.

    larger: the same of larger tensors. counted: the op has whole numbers as arguments. Where larger
    is None or of another form, and where numbers may come from an argument or the number of dims,
    the card says whose they are.
    """
    lines = [one["math"], *one["where"]]
    letters: dict[tuple[str, str], str] = {}
    try:
        if larger is None:
            raise _OtherFormError
        others = [larger["math"], *larger["where"]]
        lines = [_merged(line, other, letters) for line, other in _pairs(lines, others)]
        least = _OF_RULES if counted else math.inf
    except _OtherFormError:
        letters.clear()
        least = 0
    sentences = [one["says"]] if one["says"] else []
    if letters:
        verb = "depends" if len(letters) == 1 else "depend"
        sentences.append(f"{' and '.join(letters.values())} {verb} on the sizes.")
    if any(_of_sample(part, least) for part in _leaves(lines)):
        sentences.append(OF_SAMPLE)
    text = "; ".join([linear(lines[0]), *(f"where {linear(line)}" for line in lines[1:])])
    return one | {"math": lines[0], "where": lines[1:], "text": text, "says": " ".join(sentences)}


def _merged(one: Math, other: Math, letters: dict[tuple[str, str], str]) -> Math:
    """The formula that both are, with a letter for each number in which they differ."""
    if one == other:
        return one
    if one["tag"] == other["tag"] == "mn":
        pair = one["text"], other["text"]
        if pair not in letters:
            if len(letters) == len(_LETTERS):
                raise _OtherFormError
            letters[pair] = _LETTERS[len(letters)]
        return leaf("mi", letters[pair])
    if one["tag"] != other["tag"] or "children" not in one or "children" not in other:
        raise _OtherFormError
    both = _pairs(one["children"], other["children"])
    return element(one["tag"], *(_merged(a, b, letters) for a, b in both))


def _pairs(some: list[Math], others: list[Math]) -> Iterator[tuple[Math, Math]]:
    if len(some) != len(others):
        raise _OtherFormError
    return zip(some, others, strict=True)


def _of_sample(part: Math, least: float) -> bool:
    """Is this a dim, or a whole number from `least` on?"""
    text = part["text"]
    return text.startswith("dim ") or (
        part["tag"] == "mn" and text.isdigit() and int(text) >= least
    )


def _leaves(lines: list[Math]) -> Iterator[Math]:
    for line in lines:
        if "children" in line:
            yield from _leaves(line["children"])
        else:
            yield line
