"""Text of programs made fit for the wire: of bounded length, and valid Unicode.

A name may be 10 MB long or hold half a surrogate pair, which no kernel's JSON encoder takes. What
it means (markup, direction marks) is left alone: pages show it as text.
"""

from __future__ import annotations

from typing import Any, Final

LONGEST: Final = 4000
"""Characters of one text; a page keeps 4096."""

_LONG_FIELDS: Final = {"text": 4 * LONGEST, "rows": 2**21}
"""A problem's full message, and the repr of values, may be longer; so are columns in base64."""


def fit(text: str, longest: int = LONGEST) -> str:
    """The text as it can be sent; of a long one its beginning, with its full length."""
    if len(text) > longest:
        text = f"{text[:longest]}… ({len(text):,} characters)"
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def fit_all(value: Any, longest: int = LONGEST) -> Any:
    """The same JSON with every text in it fit to be sent."""
    if isinstance(value, str):
        return fit(value, longest)
    if isinstance(value, dict):
        return {
            fit(key): fit_all(part, _LONG_FIELDS.get(key, LONGEST)) for key, part in value.items()
        }
    # Histograms and pictures are lists of numbers, thousands of them.
    if isinstance(value, list) and any(isinstance(part, (str, dict, list)) for part in value[:1]):
        return [fit_all(part) for part in value]
    return value
