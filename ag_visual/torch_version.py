"""torch.torch_version: a version that compares with strings and tuples. Layer 0."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ag_visual.names import only as _only


def _key(value: Any) -> tuple[Any, ...] | None:
    """What orders versions: the numbers, then whether it is a final release; None: not one."""
    if isinstance(value, (tuple, list)):
        value = ".".join(map(str, value))
    found = re.match(r"v?(\d+(?:\.\d+)*)([^+]*)(\+.*)?", str(value))
    if found is None:
        return None
    numbers = [int(part) for part in found[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    before = found[2].strip(".-_")
    after = not before or before.startswith("post")
    return tuple(numbers), after, before, found[3] or ""


def _compared(name: str) -> Callable[[Any, Any], Any]:
    def compare(self: Any, other: Any) -> Any:
        mine, others = _key(self), _key(other)
        if mine is None or others is None:
            return getattr(str, name)(self, other)
        return getattr(tuple, name)(mine, others)

    compare.__name__ = name
    return compare


class TorchVersion(str):
    """A version as a string: `torch.__version__ >= (2, 1)` and `>= "2.1"` compare numbers."""

    __slots__ = ()
    __lt__ = _compared("__lt__")
    __le__ = _compared("__le__")
    __gt__ = _compared("__gt__")
    __ge__ = _compared("__ge__")
    __eq__ = _compared("__eq__")
    __ne__ = _compared("__ne__")
    __hash__ = str.__hash__


__dir__ = _only(["TorchVersion"], __name__)
