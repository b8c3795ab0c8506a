"""Padding: a constant, zeros, or the input itself reflected, repeated or wrapped around."""

from __future__ import annotations

from typing import Any

from ag_visual.nn import functional
from ag_visual.nn.module import Module
from ag_visual.nn.tuples import each


class _Pad(Module):
    """Base: `count` spatial dimensions, the last one first in `padding`."""

    count: int
    mode: str
    value: Any = None

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = each(padding, 2 * self.count)

    def forward(self, input: Any) -> Any:
        return functional.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Pads with one value."""

    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    """Pads with zeros."""

    mode, value = "constant", 0.0


_KINDS = {
    "ConstantPad": (_ConstantPad, {}, "one value"),
    "ZeroPad": (_ZeroPad, {}, "zeros"),
    "ReflectionPad": (_Pad, {"mode": "reflect"}, "its reflection, the border itself left out"),
    "ReplicationPad": (_Pad, {"mode": "replicate"}, "its border repeated"),
    "CircularPad": (_Pad, {"mode": "circular"}, "what is on the other side"),
}
_SHAPES = {1: "(N, C, L)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}


def _pad(kind: str, count: int) -> Any:
    base, body, what = _KINDS[kind]
    doc = f"Pads {_SHAPES[count]} with {what}."
    return type(
        f"{kind}{count}d", (base,), {**body, "count": count, "__doc__": doc, "__module__": __name__}
    )


ConstantPad1d, ConstantPad2d, ConstantPad3d = (_pad("ConstantPad", n) for n in (1, 2, 3))
ZeroPad1d, ZeroPad2d, ZeroPad3d = (_pad("ZeroPad", n) for n in (1, 2, 3))
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = (_pad("ReflectionPad", n) for n in (1, 2, 3))
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = (
    _pad("ReplicationPad", n) for n in (1, 2, 3)
)
CircularPad1d, CircularPad2d, CircularPad3d = (_pad("CircularPad", n) for n in (1, 2, 3))
