"""What a card says of an op in words: what it does, and what its derivative means.

The first is the beginning of its docstring, whose later paragraphs say what raises and which dtypes
there are; the second follows from what the op declares.
"""

from __future__ import annotations

from typing import Final

from ag_visual.dispatch import vmap
from ag_visual.dispatch.record import LINEAR, Op
from ag_visual.dispatch.table import functions, moved, ops
from ag_visual.observe.formulas.notation import sign_of

LONGEST: Final = 240

_NOT_FOR_READERS: Final = ("Raises ", "Source: ")

_GRADIENTS: Final = ("backward", "back", "scattered", "grad")
"""How ops are named that compute another op's gradient."""

MOVES: Final = "Each element's gradient goes back to where the element came from."
SCALES: Final = "Its gradient is what arrives times the slope there, element by element."
SCALES_EACH: Final = "Each input's gradient is what arrives times the slope in that input."
PASSES: Final = "What arrives goes on to each input, as it is or times a constant."
SHARES: Final = "Each element gets its share of the gradient of the sum that it went into."
COUNTS: Final = "Each element gets what arrives times how much the result depends on it."
CROSSES: Final = "Each factor's gradient is what arrives times the other factor."


def summary_of(op: Op) -> str:
    """What an op does, for who reads a card; empty where nothing says it."""
    name = op.public_name
    public = functions.get(name) or functions.get(name.replace(".", "_"))
    docs = [op.doc, getattr(public, "__doc__", None)]
    text = next(filter(None, docs if op.name == name else docs[::-1]), "")
    of, ending = op.name.rpartition("_")[::2]
    if ending in _GRADIENTS:
        spoken = of.removesuffix("_of").removesuffix("_dense").replace("_", " ").strip()
        text = f"The gradient of {spoken}, as a function that has a derivative of its own."
    first = " ".join(text.strip().partition("\n\n")[0].replace("`", "").split())
    for ending in _NOT_FOR_READERS:
        first = first.partition(f" {ending}")[0]
    return first if len(first) <= LONGEST else first[:LONGEST] + "..."


def derivative_in_words(op: Op) -> str:
    """What its derivative does with the gradient that arrives; empty for ops of no known kind."""
    inputs = len(op.diff_inputs)
    if op.view or op.name in moved:
        return MOVES
    if sign_of(op.name) == "@":
        return CROSSES
    if _reduces(op):
        return SHARES if op.jvp == LINEAR else COUNTS
    if vmap.rule_of(op) is vmap.elementwise:
        if op.jvp == LINEAR:
            return PASSES
        return SCALES if inputs == 1 else SCALES_EACH
    return ""


def _reduces(op: Op) -> bool:
    """Whether it makes one element of many: what takes `keepdim`, or is that of all elements."""
    alike = [each for each in ops.values() if each.public_name == op.public_name]
    return "keepdim" in op.arguments or (
        op.params == ("self",) and any("keepdim" in each.arguments for each in alike)
    )


def described(op: Op) -> str:
    """Both, as they stand in a card."""
    return " ".join(filter(None, (summary_of(op), derivative_in_words(op))))


def undescribed() -> list[str]:
    """The differentiable ops that no docstring says anything about."""
    return [op.name for op in ops.values() if op.rules and not summary_of(op)]
