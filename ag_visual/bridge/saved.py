"""What a node of torch's has saved, read without running a hook of the user's.

What can be known of a class of nodes is found out once and kept in its `Kind`.
"""

from __future__ import annotations

import itertools
import re
from types import CodeType
from typing import Any, Final, NamedTuple

import torch

from ag_visual.bridge.arrays import Memory, dtypes, memory_of

VERSIONS: Final = re.compile(r"is at version (\d+); expected version (\d+) instead")


class Kind:
    """What is known of one class of torch's nodes.

    name: how its nodes call themselves, None where one has to ask each. single: whether they have
    one output where their operation returns one tensor. tensors, values: what they may have saved,
    (name, raw attribute, attribute) and (name, attribute). custom: written in Python. site,
    outputs: those of the last node that was looked at.
    """

    __slots__ = ("custom", "leaf", "name", "outputs", "single", "site", "tensors", "values")

    def __init__(
        self,
        *,
        leaf: bool = False,
        name: str | None = None,
        tensors: tuple[tuple[str, str, str], ...] = (),
        values: tuple[tuple[str, str], ...] = (),
        custom: bool = False,
    ) -> None:
        self.leaf = leaf
        self.name = name
        self.single = False
        self.tensors = tensors
        self.values = values
        self.custom = custom
        self.site: tuple[CodeType | None, int] = (None, 0)
        self.outputs: tuple[tuple[Any, Any], ...] = (((), None),)


_custom: Final = Kind(
    tensors=(("saved_tensors", "_raw_saved_tensors", "saved_tensors"),), custom=True
)


class _Kinds(dict[type, Kind]):
    def __missing__(self, kind: type) -> Kind:
        if issubclass(kind, torch.autograd.function.BackwardCFunction):
            return _custom  # classes of the user's: not kept
        names = [name.removeprefix("_saved_") for name in dir(kind) if name.startswith("_saved_")]
        raw = {name for name in names if hasattr(kind, f"_raw_saved_{name}")}
        self[kind] = found = Kind(
            leaf=kind.__name__ == "AccumulateGrad",
            tensors=tuple((n, f"_raw_saved_{n}", f"_saved_{n}") for n in names if n in raw),
            values=tuple((n, f"_saved_{n}") for n in names if n not in raw),
        )
        return found


kinds = _Kinds()


def learned_name(kind: Kind, function: Any) -> str:
    """The name of a node, which others of its class have, too, where it is that of the class."""
    name: str = function.name()
    if name == type(function).__name__ and not kind.custom:
        kind.name = name
    return name


class Saved(NamedTuple):
    """One saved tensor as it was when it was first looked at. version: the one it was saved at."""

    name: str
    kind: str  # tensor or packed
    shape: tuple[int, ...]
    dtype: Any
    memory: Memory | None
    version: int
    own: bool
    now: int


def read_saved(function: Any) -> list[Saved]:
    """What a node of torch's has saved and not yet given back; runs no hook of the user's."""
    found: list[Saved] = []
    for name, raw_name, attribute in kinds[type(function)].tensors:
        try:
            raw = getattr(function, raw_name)
        except RuntimeError:
            return []  # it has given everything back
        if type(raw) is tuple:
            for index, part in enumerate(raw):
                if part.unpack_hook is not None:
                    found.append(_packed(f"{name}[{index}]"))
                else:
                    _read_part(function, f"{name}[{index}]", part, attribute, index, found)
        elif raw.unpack_hook is not None:
            found.append(_packed(name))
        else:
            try:
                value = getattr(function, attribute)
                if value is None:
                    continue
                now = value._version
                own = value.grad_fn is function
                what = name, "tensor", value.shape, dtypes[value.dtype], memory_of(value)
            except RuntimeError:
                _read_part(function, name, raw, attribute, None, found)
            else:
                found.append(_new(Saved, (*what, now, own, now)))
    return found


class Trusted:
    """`number`: what a birth says of whose node nothing can have been packed since; never 0.

    Another watching draws another one, and so does who packs a saved tensor by hand.
    """

    _numbers = itertools.count(1)
    number = next(_numbers)

    @classmethod
    def renew(cls) -> None:
        """Trust no birth up to now."""
        cls.number = next(cls._numbers)


def read_unpacked(function: Any, kind: Kind) -> list[Saved]:
    """The same of a node of which nothing was packed by a hook: in half the time."""
    found: list[Saved] = []
    try:
        for name, _, attribute in kind.tensors:
            value = getattr(function, attribute)
            if value is not None:
                now = value._version
                own = value.grad_fn is function
                what = name, "tensor", value.shape, dtypes[value.dtype], memory_of(value)
                found.append(_new(Saved, (*what, now, own, now)))
    except (RuntimeError, AttributeError):  # written, given back, without versions; several
        return read_saved(function)
    return found


_new: Final = tuple.__new__


def _packed(name: str) -> Saved:
    return Saved(name, "packed", (), None, None, 0, False, 0)


def _read_part(
    function: Any, name: str, raw: Any, attribute: str, index: int | None, found: list[Saved]
) -> None:
    """One of several tensors, or one that was written or that counts no versions."""
    then: int | None = None
    try:
        value = getattr(function, attribute)
        if index is not None and value is not None:
            value = value[index]
    except RuntimeError as error:
        version = VERSIONS.search(str(error))
        if version is None:
            return
        value, then = raw.data, int(version[2])
        own = index is None and _is_own(name)
    else:
        own = value is not None and value.grad_fn is function
    if value is None:
        return
    now = _version(value)
    kept = value.shape, dtypes[value.dtype], memory_of(value)
    found.append(Saved(name, "tensor", *kept, now if then is None else then, own, now))


def _is_own(name: str) -> bool:
    """Whether torch calls so what is the node's own output; where that can't be asked any more."""
    return name.startswith(("result", "output"))


def _version(tensor: Any) -> int:
    try:
        return int(tensor._version)
    except RuntimeError:  # inference tensors count no versions
        return 0
