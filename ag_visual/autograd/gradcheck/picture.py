"""Two Jacobians and their difference as heat maps, in HTML with SVG that needs nothing else.

What stands in it comes from the program that is checked: every text is escaped.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final

import numpy

from ag_visual.arrays.quiet import silent
from ag_visual.autograd.gradcheck.mismatch import (
    COLUMNS,
    Mismatch,
    details,
    entry,
    matrices,
    number,
    worst,
)
from ag_visual.autograd.gradcheck.problem import Numbers, close

CELLS: Final = 32
"""Cells along each side; a longer side is drawn in blocks, each as its largest element."""

_WIDTH: Final = 240
_POSITIVE, _NEGATIVE, _WRONG = "#c2410c", "#1d4ed8", "#be185d"


@silent
def page(text: str, found: Mismatch | None) -> str:
    """The error as HTML: torch's first line, the three pictures, the worst entries."""
    first = escape(text.partition("\n")[0].rstrip(","))
    if found is None:
        return f"<div><b>{first}</b><pre>{escape(text.partition(chr(10))[2].strip())}</pre></div>"
    numerical, analytical = matrices(found)
    wrong = ~close(analytical, numerical, found.atol, found.rtol)
    difference = analytical - numerical
    scale = max(_largest(numerical), _largest(analytical))
    right = numpy.zeros_like(wrong)
    pictures = "".join(
        _picture(found, name, values, framed, limit)
        for name, values, framed, limit in (
            ("numerical", numerical, right, scale),
            ("analytical", analytical, right, scale),
            ("difference", difference, wrong, _largest(difference)),
        )
    )
    lines = [line for line in details(found, table=False) if line.strip()]
    return (
        f"<div><b>{first}</b>"
        f'<div style="display:flex;flex-wrap:wrap;gap:16px;margin:8px 0">{pictures}</div>'
        f"{_table(found)}<pre>{escape(chr(10).join(lines))}</pre></div>"
    )


def _largest(values: Numbers) -> float:
    sizes = numpy.abs(values)
    finite = sizes[numpy.isfinite(sizes)]
    return float(finite.max()) if finite.size else 0.0


def _picture(found: Mismatch, name: str, values: Numbers, wrong: Any, limit: float) -> str:
    """A heat map with rows for the input's elements and columns for the output's."""
    rows, columns = _blocks(values.shape[0]), _blocks(values.shape[1])
    size = _WIDTH / max(len(rows), len(columns), 1)
    cells = "".join(
        _cell(found, values, wrong, limit, (row, column), (x * size, y * size, size))
        for y, row in enumerate(rows)
        for x, column in enumerate(columns)
    )
    width, height = size * max(len(columns), 1), size * max(len(rows), 1)
    label = f"{name}: {values.shape[0]} x {values.shape[1]}, largest {limit:.3g}"
    return (
        f'<figure style="margin:0"><svg role="img" aria-label="{escape(label)}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.2f} {height:.2f}">'
        f"{cells}</svg><figcaption>{escape(label)}</figcaption></figure>"
    )


def _blocks(size: int) -> list[slice]:
    """The elements that share a row of cells."""
    step = -(-size // CELLS) or 1
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def _cell(
    found: Mismatch,
    values: Numbers,
    wrong: Any,
    limit: float,
    block: tuple[slice, slice],
    place: tuple[float, float, float],
) -> str:
    part = values[block]
    at = numpy.unravel_index(
        int(numpy.nan_to_num(numpy.abs(part), nan=numpy.inf).argmax()), part.shape
    )
    value = part[at]
    name = entry(found, block[0].start + int(at[0]), block[1].start + int(at[1]))
    frame = f' stroke="{_WRONG}" stroke-width="{place[2] / 12:.2f}"' if wrong[block].any() else ""
    x, y, size = place
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{size * 0.94:.2f}" height="{size * 0.94:.2f}" '
        f"{_colour(value, limit)}{frame}>"
        f"<title>{escape(f'{name}: {number(value)}')}</title></rect>"
    )


def _colour(value: Any, limit: float) -> str:
    """Orange for positive numbers, blue for negative ones, the fainter the smaller; grey: none."""
    if not numpy.isfinite(value):
        return 'fill="gray"'
    strength = abs(value) / limit if limit else 0.0
    colour = _NEGATIVE if value.real < 0 else _POSITIVE
    return f'fill="{colour}" fill-opacity="{0.04 + 0.96 * strength:.3f}"'


def _table(found: Mismatch) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in worst(found)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
