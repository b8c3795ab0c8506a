"""What a node of torch's has saved, read without running a hook of the user's.

What can be known of a class of nodes is found out once and kept in its `Kind`.
"""

from __future__ import annotations

import itertools
import re
import weakref
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from ag_visual.bridge.arrays import Memory, dtypes, memory_of, shape_of
from ag_visual.bridge.releases import TELLS

VERSIONS: Final = re.compile(r"is at version (\d+); expected version (\d+) instead")


class Kind:
    """What is known of one class of torch's nodes.

    name: how its nodes call themselves, None where one has to ask each. single: whether they have
    one output where their operation returns one tensor. tensors, values: what they may have saved,
    (name, raw attribute, attribute) and (name, attribute). custom: written in Python. shape,
    dtype, outputs, listed: of the last node that was looked at.
    """

    __slots__ = (
        *("custom", "dtype", "leaf", "listed", "name", "outputs", "shape", "single", "tensors"),
        "values",
    )

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
        self.shape: Any = None
        self.dtype: torch.dtype | None = None
        self.outputs: Any = None
        self.listed: torch.dtype | None = None


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
    name: str = function.name()  # for some asking takes longer than all else that is asked
    if name.rpartition("::")[2] == type(function).__name__ and not kind.custom:
        kind.name = name
    return name


def stand_in(kind: Kind, name: str) -> type:
    """A class with the name of nodes that have none of their own in Python: of all of torch's
    `_foreach` functions, scripted graphs and extensions in C++ it is one.
    """
    found = _stand_ins.get(name)
    if found is None:
        found = type(name, (), {})
        kinds[found] = Kind(name=name, tensors=kind.tensors, values=kind.values)
        _stand_ins[name] = found
    return found


_stand_ins: Final[dict[str, type]] = {}

KEY: Final = "ag_visual"
"""Of a node's metadata: a `node.Birth` until somebody looks, then its `TorchNode`."""


class Kept(NamedTuple):
    """Which tensor was saved: its memory, where in it, and of which leaf or view."""

    shape: Any
    dtype: torch.dtype
    memory: Memory | None
    offset: int
    leaf: bool
    base: weakref.ref[Any] | None


def kept(tensor: Any) -> Kept:
    """what distinguishes a tensor from others."""
    base = tensor._base
    leaf = tensor.is_leaf and tensor.requires_grad
    if base is not None:
        leaf = leaf or (base.is_leaf and base.requires_grad)
    offset = tensor.storage_offset() if tensor.layout is torch.strided else 0
    what = shape_of(tensor), tensor.dtype, memory_of(tensor), offset, bool(leaf)
    return Kept(*what, None if base is None else weakref.ref(base))


class Saved(NamedTuple):
    """One saved tensor as it was when it was first looked at. version: the one it was saved at.

    tensor: which one it was, where torch shows it nobody once it was written (`TELLS`).
    """

    name: str
    kind: str  # tensor or packed
    shape: tuple[int, ...]
    dtype: Any
    memory: Memory | None
    version: int
    own: bool
    now: int
    tensor: Kept | None = None


def read_saved(function: Any, unpacked: int | None = None) -> list[Saved]:
    """What a node of torch's has saved and not yet given back; runs no hook of the user's.

    unpacked: what its birth says, of a node that has no record yet.
    """
    if torch._C._len_torch_dispatch_stack():
        with torch._C._DisableTorchDispatch():  # modes of the program's would see it
            return _read_saved(function, unpacked)
    return _read_saved(function, unpacked)


def _read_saved(function: Any, unpacked: int | None) -> list[Saved]:
    found: list[Saved] = []
    for name, raw_name, attribute in kinds[type(function)].tensors:
        try:
            raw = getattr(function, raw_name)
        except RuntimeError:
            return []  # it has given everything back
        if type(raw) is tuple:
            for index, part in enumerate(raw):
                if packed(function, part, unpacked):
                    found.append(_as_packed(f"{name}[{index}]"))
                else:
                    _read_part(function, f"{name}[{index}]", part, attribute, index, found)
        elif packed(function, raw, unpacked):
            found.append(_as_packed(name))
        else:
            try:
                value = getattr(function, attribute)
                if value is None:
                    continue
                now = value._version
                own = value.grad_fn is function
                shape = value.shape if type(value) is Tensor else shape_of(value)
                what = name, "tensor", shape, dtypes[value.dtype], memory_of(value)
            except RuntimeError:
                _read_part(function, name, raw, attribute, None, found)
            else:
                found.append(_new(Saved, (*what, now, own, now, None if TELLS else kept(value))))
    return found


def packed(function: Any, saved: Any, unpacked: int | None = None) -> bool:
    """Whether a hook packed this one, or may have where torch does not show it."""
    if TELLS:
        return saved.unpack_hook is not None
    if unpacked is None:
        known = function.metadata.get(KEY)
        unpacked = known[UNPACKED] if type(known) is tuple else getattr(known, "unpacked", 0)
    return unpacked != Trusted.number


def which_saved(function: Any, name: str, saved: Any) -> Kept | None:
    """Which tensor was saved under this name, also where it was written since."""
    if TELLS:
        return None if saved.data is None else kept(saved.data)
    known = getattr(function.metadata.get(KEY), "saved", ())
    return next((each.tensor for each in known if each.name == name), None)


UNPACKED: Final = 5
"""Where in a `node.Birth` the number is that `Trusted` had."""


def saved_value(function: Any, name: str) -> Any:
    """The tensor that a node saved under a name; None where it gave it back, or it was written.

    Also None where a hook packed it.
    """
    if torch._C._len_torch_dispatch_stack():
        with torch._C._DisableTorchDispatch():  # modes of the program's would see it
            return _saved_value(function, name)
    return _saved_value(function, name)


def _saved_value(function: Any, name: str) -> Any:
    whole, _, index = name.partition("[")
    for own, raw_name, attribute in kinds[type(function)].tensors:
        if own != whole:
            continue
        try:
            raw = getattr(function, raw_name)
            if packed(function, raw[int(index[:-1])] if index else raw):
                return None
            value = getattr(function, attribute)
        except RuntimeError:
            return None
        return value[int(index[:-1])] if index else value
    return None


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


class Last:
    """What was looked at last, as long as nodes are being found.

    value: the tensor that was read last, and what is known of it: weights and constants are saved
    by many nodes.

    saved: as what nodes have saved it, by name.
    """

    __slots__ = ("facts", "kind", "maker", "of", "saved", "trusted", "value")

    def __init__(self) -> None:
        self.of: Any = None  # the class of the node that was looked at last, and its kind
        self.kind: Any = None
        self.trusted = Trusted.number
        self.value: Any = None
        self.facts: Any = None
        self.maker: Any = None
        self.saved: dict[str, tuple[Saved]] = {}

    def read(self, value: Any) -> None:
        """Another one."""
        self.value = None
        shape = value.shape if type(value) is Tensor else shape_of(value)
        self.facts = shape, dtypes[value.dtype], memory_of(value), value._version
        self.maker = value.grad_fn
        self.saved = {}
        self.value = value

    def saved_as(self, name: str, function: Any) -> tuple[Saved]:
        """What a node has saved it as."""
        which = None if TELLS else kept(self.value)
        own = self.maker is function
        found = (_new(Saved, (name, "tensor", *self.facts, own, self.facts[3], which)),)
        if not own:
            self.saved[name] = found
        return found


def read_unpacked(function: Any, kind: Kind, last: Last) -> Sequence[Saved]:
    """The same of a node of which nothing was packed by a hook: in half the time."""
    found: tuple[Saved, ...] = ()
    try:
        for name, _, attribute in kind.tensors:
            value = getattr(function, attribute)
            if value is not None:
                if value is not last.value:
                    last.read(value)
                saved = last.saved
                alone = saved[name] if name in saved else last.saved_as(name, function)
                found = found + alone if found else alone
    except (RuntimeError, AttributeError):  # written, given back, without versions; several
        return read_saved(function, Trusted.number)
    return found


_new: Final = tuple.__new__


def _as_packed(name: str) -> Saved:
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
        own, then = index is None and _is_own(name), int(version[2])
        if not TELLS:
            found.append(Saved(name, "tensor", (), None, None, then, own, int(version[1])))
            return
        value = raw.data
    else:
        own = value is not None and value.grad_fn is function
    if value is None:
        return
    now = _version(value)
    what = shape_of(value), dtypes[value.dtype], memory_of(value)
    which = None if TELLS else kept(value)
    found.append(Saved(name, "tensor", *what, now if then is None else then, own, now, which))


def _is_own(name: str) -> bool:
    """Whether torch calls so what is the node's own output; where that can't be asked any more."""
    return name.startswith(("result", "output"))


def _version(tensor: Any) -> int:
    try:
        return int(tensor._version)
    except RuntimeError:  # inference tensors count no versions
        return 0
