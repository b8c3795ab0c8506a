"""`out=`: what a function computes, written into tensors that its caller gives.

Used by generic, build, table and the functions that make tensors. The result is computed first and
stored then, so that a call that raises leaves `out` as it was, and `out` may share memory with an
argument (where torch refuses that, `overlap.refuse_shared` says so).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from .. import dtypes, promotion
from ..core import modes
from ..core.tensor import Tensor, before_write, wrote
from ..errors import type_name
from .arguments import outside
from .memory import resize
from .overlap import refuse_internal, refuse_shared


def accepting_out(
    name: str, function: Callable[..., Any], elementwise: bool = False
) -> Callable[..., Any]:
    """`function` with a keyword `out`."""

    @functools.wraps(function)
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return function(*args, **kwargs)
        return into(name, out, function, args, kwargs, elementwise)

    return call


def into(
    name: str,
    out: Any,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    elementwise: bool = False,
) -> Any:
    """Call a function and store its results in `out`: a tensor, or a tuple of them for several.

    elementwise: the results may not overlap the arguments unless they are the same elements.
    """
    targets = out if isinstance(out, (tuple, list)) else (out,)
    for target in targets:
        if not isinstance(target, Tensor):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type_name(target)}")
    if modes.grad_enabled() and any(target.requires_grad for target in targets):
        raise _not_differentiable(name)
    result = function(*args, **kwargs)
    several = isinstance(result, tuple)
    if several is not isinstance(out, (tuple, list)):
        wanted = "tuple of Tensors" if several else "Tensor"
        raise TypeError(f"{name}(): argument 'out' must be {wanted}, not {type_name(out)}")
    results = result if several else (result,)
    if len(results) != len(targets):
        raise TypeError(f"expected tuple of {len(results)} elements but got {len(targets)}")
    if any(each.requires_grad for each in results):
        raise _not_differentiable(name)
    for each, target in zip(results, targets, strict=True):
        _check(name, each, target)
        for arg in (*args, *kwargs.values()) if elementwise else ():
            refuse_shared(target, arg, name)
    for each, target in zip(results, targets, strict=True):
        store(name, each._array, target)
    if not several:
        return out
    return type(result)(*targets) if hasattr(result, "_fields") else tuple(targets)


def made_into(name: str, out: Any, dtype: Any, device: Any, make: Callable[..., Any]) -> Tensor:
    """`into` for a function that makes tensors: dtype and device are those of `out`."""
    if isinstance(out, Tensor):
        device = out.device if device is None else device
        if dtype is None:
            dtype = out.dtype
        elif dtype is not out.dtype:
            raise RuntimeError(
                f"dtype {_told(dtype)} does not match dtype of out parameter ({_told(out.dtype)}). "
                "Leave out dtype=, or give one of them the other's."
            )
    made: Tensor = into(name, out, make, (), {"dtype": dtype, "device": device})
    return made


def store(name: str, array: Any, target: Tensor) -> None:
    """Write an array into a tensor, resized where its shape is another, and count the write."""
    before_write(target)
    if target._array.shape != array.shape:
        _resize(target, array)
    refuse_internal(target, name)
    wrote(target, f"{name}(out=)")
    target._array[...] = array


def _not_differentiable(name: str) -> RuntimeError:
    return RuntimeError(
        f"{name}(): functions with out=... arguments don't support automatic differentiation, but "
        "one of the arguments requires grad. Leave out=, or call it under no_grad()."
    )


def _told(dtype: Any) -> str:
    return dtypes.legacy_name(dtype).removesuffix("Tensor")


def _check(name: str, result: Tensor, target: Tensor) -> None:
    if not promotion.can_cast(result.dtype, target.dtype):
        raise RuntimeError(
            f"result type {_told(result.dtype)} can't be cast to the desired output type "
            f"{_told(target.dtype)}: {name}() with out="
        )
    if type(result._array) is not type(target._array):
        raise RuntimeError(
            f"{name}(): Expected all tensors to be on the same device, but the result is on "
            f"{result.device} and out on {target.device}. Move one with .to(device)."
        )


def _resize(target: Tensor, array: Any) -> None:
    """Give an output the shape of what is written into it."""
    have, need = list(target._array.shape), list(array.shape)
    if target._array.size:
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{have}, which does not match the required output shape {need}. This behavior is "
            "deprecated, and in a future PyTorch release outputs will not be resized unless they "
            "have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, "
            "to zero elements with t.resize_(0).",
            UserWarning,
            stacklevel=outside(),
        )
    resize(target, array.shape)


__all__ = ["accepting_out", "into", "made_into", "store"]
