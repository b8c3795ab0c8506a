"""Where an array lives: `device("cpu")`, `device("cuda:1")`.

Layer 0: may import nothing of the package. Knows names only; what can really be used is the
backends' business, and they add the type of a further one with `add_type`.
"""

from __future__ import annotations

import enum
import re
from typing import Any, Final

_types: list[str] = ["cpu", "cuda"]
_NAMES: Final = (
    *("ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla"),
    *("lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone"),
)
"""Types that are only names here: a device of them can be named and compared, not used."""
_PATTERN: Final = re.compile(r"([a-z_]+)(?::(0|[1-9][0-9]*))?")
_known: dict[tuple[str, int | None], device] = {}


class DeviceType(enum.IntEnum):
    """Types of devices by torch's numbers, as a profile has them. CPU and CUDA occur here."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20

    __str__ = enum.Enum.__str__


default: device | None = None
"""Where new tensors are made when nobody says: set by `set_default_device`; None is the CPU."""


def add_type(name: str) -> None:
    """Let `name` be a device type (a backend that is neither cpu nor cuda calls this)."""
    if not re.fullmatch("[a-z_]+", name):
        raise ValueError(f"a device type is lower-case letters and '_', got {name!r}")
    if name not in _types:
        _types.append(name)


class device:
    """A device: `type` ('cpu' or 'cuda') and `index` (None means the current one).

    Accepts a string ('cuda:0'), a type with an index ('cuda', 0), an index alone (a cuda device) or
    another device. Equal ones are the same object.
    """

    __slots__ = ("_hash", "index", "type")

    type: str
    index: int | None
    _hash: int

    def __new__(cls, type: Any, index: int | None = None) -> device:
        if isinstance(type, device):
            if index is not None:
                raise TypeError(
                    f"device() takes no index with a device, got {type!r} and {index!r}"
                )
            return type
        if isinstance(type, int) and not isinstance(type, bool) and index is None:
            type, index = "cuda", type
        if not isinstance(type, str):
            raise TypeError(
                "device() takes a string such as 'cpu' or 'cuda:0', an index or a device, "
                f"got {type.__class__.__name__}: {type!r}"
            )
        kind, parsed = _parse(type)
        if index is not None:
            if parsed is not None:
                raise RuntimeError(
                    "type (string) must not include an index because index was passed explicitly: "
                    f"{type}"
                )
            if isinstance(index, bool) or not isinstance(index, int):
                raise TypeError(
                    f"a device index is an int, got {index.__class__.__name__}: {index!r}"
                )
            if index < 0:
                raise RuntimeError(f"Device index must not be negative, got {index}")
            parsed = index
        found = _known.get((kind, parsed))
        if found is None:
            made = object.__new__(cls)
            object.__setattr__(made, "type", kind)
            object.__setattr__(made, "index", parsed)
            object.__setattr__(made, "_hash", hash((kind, parsed)))
            found = _known.setdefault((kind, parsed), made)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a device cannot change: {name!r} is read-only")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a device cannot change: {name!r} is read-only")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, device) and other.type == self.type and other.index == self.index

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        if self.index is None:
            return f"device(type='{self.type}')"
        return f"device(type='{self.type}', index={self.index})"

    def __enter__(self) -> device:
        """Make this the default device of a block."""
        _outer.append(default)
        set_default(self)
        return self

    def __exit__(self, *_: Any) -> None:
        set_default(_outer.pop())

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type,) if self.index is None else (self.type, self.index)

    def __copy__(self) -> device:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> device:
        return self


def _parse(text: str) -> tuple[str, int | None]:
    if not text:
        raise RuntimeError("Device string must not be empty; use 'cpu' or 'cuda'")
    matched = _PATTERN.fullmatch(text)
    if matched is None:
        raise RuntimeError(
            f"Invalid device string: '{text}'; write a type ({', '.join(_types)}), "
            "optionally with an index such as 'cuda:0'"
        )
    kind, index = matched.groups()
    if kind not in _types and kind not in _NAMES:
        names = ", ".join(dict.fromkeys(("cpu", "cuda", *_NAMES, *_types)))  # in torch's order
        raise RuntimeError(f"Expected one of {names} device type at start of device string: {text}")
    return kind, None if index is None else int(index)


CPU: Final = device("cpu")
_outer: list[device | None] = []


def set_default(where: device | None) -> None:
    """Make new tensors on this device from now on."""
    global default
    default = None if where is CPU else where
