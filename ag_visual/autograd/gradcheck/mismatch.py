"""What is known of two Jacobians that differ, and how people read it: entries, numbers, lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy

from ag_visual.autograd.gradcheck.problem import Numbers, close, numbers
from ag_visual.core import source
from ag_visual.core.tensor import Tensor

COLUMNS: Final = ("entry", "numerical", "analytical", "difference")
SHOWN: Final = 5
"""Entries of a Jacobian that are shown side by side, the worst ones first."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Two Jacobians of one output by one input that should agree and do not.

    Both are matrices: a row for each element of the input, a column for each of the output.
    """

    numerical: Tensor
    analytical: Tensor
    output_index: int
    """Among the outputs that require grad, as torch counts; `input_index` likewise."""
    input_index: int
    mode: str
    """'backward' or 'forward'."""
    part: str
    """'real' or 'imaginary' where one part of complex numbers was checked, else ''."""
    atol: float
    rtol: float
    output_shape: tuple[int, ...]
    input_shape: tuple[int, ...]
    output_name: str
    input_name: str
    node_name: str
    """The node that made the output."""
    site: source.Site
    """The line that made it."""
    hint: str
    """What the wrong Jacobian looks like, where it looks like something."""


def matrices(found: Mismatch) -> tuple[Numbers, Numbers]:
    """The numerical and the analytical Jacobian."""
    shape = tuple(found.numerical.shape)
    return numbers(found.numerical).reshape(shape), numbers(found.analytical).reshape(shape)


def details(found: Mismatch, *, table: bool = True) -> list[str]:
    """What torch does not say: the subjects, the worst entries, the line, and a guess."""
    lines = [f"  output      {found.output_name}"]
    if found.site is not source.UNKNOWN:
        lines.append(f"  made at     {found.site.with_text(after=f'({found.node_name})')}")
    lines.append(f"  input       {found.input_name}")
    numerical, analytical = matrices(found)
    wrong = int((~close(analytical, numerical, found.atol, found.rtol)).sum())
    lines.append(
        f"  wrong       {wrong} of {numerical.size} entries "
        f"(atol={found.atol:g}, rtol={found.rtol:g})"
    )
    rows = worst(found) if table else []
    if rows:
        lines += ["", *_table([COLUMNS, *rows])]
    if wrong > len(rows) > 0:
        lines.append(f"    and {wrong - len(rows)} more")
    if found.hint:
        lines += ["", f"  looks like  {found.hint}"]
    return lines


def worst(found: Mismatch) -> list[tuple[str, str, str, str]]:
    """The entries that differ most, the worst first: name, both numbers, their difference."""
    numerical, analytical = matrices(found)
    wrong = ~close(analytical, numerical, found.atol, found.rtol)
    difference = numpy.abs(analytical - numerical)
    height = numpy.where(numpy.isnan(difference), numpy.inf, difference)
    order = numpy.argsort(-height, axis=None, kind="stable")
    places = [numpy.unravel_index(flat, wrong.shape) for flat in order]
    return [
        (
            entry(found, int(row), int(column)),
            number(numerical[row, column]),
            number(analytical[row, column]),
            number(difference[row, column]),
        )
        for row, column in places
        if wrong[row, column]
    ][:SHOWN]


def entry(found: Mismatch, row: int, column: int) -> str:
    """The name of one derivative: d output[1] / d input[0, 2]."""
    return f"d output{_at(found.output_shape, column)} / d input{_at(found.input_shape, row)}"


def _at(shape: tuple[int, ...], number: int) -> str:
    places = [str(int(place)) for place in numpy.unravel_index(number, shape)] if shape else []
    return f"[{', '.join(places)}]" if places else ""


def number(value: Any) -> str:
    """Six digits of a real or complex number."""
    return f"{value.real:.6g}{value.imag:+.6g}j" if numpy.iscomplexobj(value) else f"{value:.6g}"


def _table(rows: list[tuple[str, str, str, str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        "    "
        + row[0].ljust(widths[0])
        + "".join(f"  {cell.rjust(width)}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]
