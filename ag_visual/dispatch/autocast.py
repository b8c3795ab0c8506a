"""Mixed precision: in which dtype an op runs while autocast is on.

What is done for an op stands in its declaration (`autocast` of a record); here is how. The words:
LOWER, all floating-point inputs in the lower precision; FLOAT32, all in float32; RESULT, a float32
result, where the caller asks for no dtype; WIDEST, all in the widest of theirs; KEEP, as they are,
with all that a composite is made of; BANNED, an error. float64 is never touched.

Source: https://pytorch.org/docs/2.8/amp.html#autocast-op-reference
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy

from ag_visual import dtypes
from ag_visual.core import modes
from ag_visual.core.tensor import InferenceTensor, Tensor

LOWER, FLOAT32, RESULT, WIDEST = "lower", "float32", "result", "widest"
KEEP, BANNED = "keep", "banned"
DEVICES: Final = ("cpu", "cuda")
"""The types of devices that have mixed precision."""
_TOUCHED: Final = frozenset((dtypes.float16, dtypes.bfloat16, dtypes.float32))
_WORDS: Final = {LOWER, FLOAT32, RESULT, WIDEST, KEEP, BANNED}


class _Cache(threading.local):
    """The lower copies of leaves, so that a weight that is used twice is cast once.

    Each with the leaf, which must live as long, and the state of its memory when it was copied.
    """

    on: bool = True

    def __init__(self) -> None:
        self.copies: dict[int, tuple[Tensor, Any, Any, Tensor]] = {}


cache = _Cache()


def casts_of(text: str) -> dict[str, str] | None:
    """What a declaration says, by device type: "lower", "cpu float32, cuda result"."""
    if not text:
        return None
    found = {}
    for part in text.split(", "):
        *device, word = part.split()
        if word not in _WORDS or not set(device) <= set(DEVICES):
            raise TypeError(f"autocast={text!r}: {part!r} is not known")
        found.update(dict.fromkeys(device or DEVICES, word))
    return found


def casting(casts: dict[str, str], body: Callable[..., Any]) -> Callable[..., Any]:
    """A composite's body that looks whether mixed precision is on."""

    @functools.wraps(body)
    def cast(F: Any, *args: Any, **kwargs: Any) -> Any:
        if not modes.special or modes.state.autocast is None:
            return body(F, *args, **kwargs)
        call = functools.partial(body, F)
        return run(casts, call, args, kwargs, composite=True)

    vars(cast)["casts"] = casts
    return cast


def precision(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The declaration of a plain function that torch has among the ops it casts for."""
    casts = casts_of(text)

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def cast(*args: Any, **kwargs: Any) -> Any:
            if not modes.special or modes.state.autocast is None:
                return function(*args, **kwargs)
            return run(casts, function, args, kwargs, composite=True)

        vars(cast)["casts"] = casts
        return cast

    return declare


def run(
    casts: dict[str, str] | None,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    composite: bool = False,
) -> Any:
    """A call while mixed precision is on, which is off inside.

    composite: the ops of one that nothing is said of on this device are looked at one by one.
    """
    if casts is None:
        return modes.without_autocast(function, *args, **kwargs)
    if modes.state.autocast is None:
        return function(*args, **kwargs)
    device = _device(args, kwargs)
    lower = modes.state.autocast.get(device)
    word = casts.get(device) if lower is not None else KEEP
    if word is None and composite:
        return function(*args, **kwargs)
    return modes.without_autocast(_cast, word, lower, device, function, args, kwargs)


def _cast(
    word: str | None,
    lower: Any,
    device: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    if word is None or word == KEEP:
        return function(*args, **kwargs)
    if word == BANNED:
        raise RuntimeError(
            "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast."
            "\nMany models use a sigmoid layer right before the binary cross entropy layer.\nIn "
            "this case, combine the two layers using torch.nn.functional."
            "binary_cross_entropy_with_logits\nor torch.nn.BCEWithLogitsLoss. "
            "binary_cross_entropy_with_logits and BCEWithLogits are\nsafe to autocast."
        )
    if word == RESULT:
        first = args[0] if args else next(iter(kwargs.values()), None)
        if _eligible(first, device):
            args, kwargs = _with_dtype(function, args, kwargs)
        return function(*args, **kwargs)
    target = lower if word == LOWER else dtypes.float32
    if word == WIDEST:
        target = _widest(lower, device, args, kwargs)

    def cast(value: Any) -> Any:
        if isinstance(value, Tensor):
            if value.dtype is target or not _eligible(value, device):
                return value
            return _lowered(value, target) if target is lower else value.to(target)
        if isinstance(value, list | tuple):
            found = [cast(each) for each in value]
            changed = any(a is not b for a, b in zip(found, value, strict=True))
            return found if changed else value
        return value

    if not kwargs:
        return function(*map(cast, args))
    return function(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Tensor]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (each for each in value if isinstance(each, Tensor))


def _device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The type of device of a call: a number in host memory may join any other."""
    for tensor in _tensors(args, kwargs):
        if (found := _type_of(tensor)) != "cpu":
            return found
    return "cpu"


def _type_of(tensor: Tensor) -> str:
    """`tensor.device.type`, in a third of the time for those in host memory."""
    if type(tensor._array) is numpy.ndarray:
        return "cpu"
    found: str = tensor.device.type
    return found


def _eligible(value: Any, device: str) -> bool:
    return isinstance(value, Tensor) and value.dtype in _TOUCHED and _type_of(value) == device


def _widest(lower: Any, device: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    found = lower
    for tensor in _tensors(args, kwargs):
        if not _eligible(tensor, device):
            continue
        if tensor.dtype is dtypes.float32 or found is dtypes.float32:
            found = dtypes.float32
        elif tensor.dtype is not lower:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return found


def _with_dtype(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with a float32 result, where it asks for no other."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    if bound.arguments.get("dtype") is None:
        bound.arguments["dtype"] = dtypes.float32
    return bound.args, bound.kwargs


def _lowered(tensor: Tensor, target: Any) -> Tensor:
    """A tensor in lower precision; a leaf that requires grad is cast once in a block.

    Not so where nothing is recorded: the copy would have no history for who records later. And a
    leaf that was written since is cast again.
    """
    state = modes.state
    usual = cache.on and state.grad and not state.levels and not modes.duals
    if (
        not usual
        or tensor.dtype is not dtypes.float32
        or not tensor._rg
        or tensor._edge is not None
        or tensor._view is not None
        or isinstance(tensor, InferenceTensor)
    ):
        plain: Tensor = tensor.to(target)
        return plain
    known = cache.copies.get(id(tensor))
    now = tensor._array, tensor._store.snapshot
    if known is not None and known[1] is now[0] and known[2] == now[1] and known[3].dtype is target:
        return known[3]
    made: Tensor = tensor.to(target)
    cache.copies[id(tensor)] = tensor, *now, made
    return made
