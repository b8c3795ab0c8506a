"""`out=`: what a function computes, written into tensors that its caller gives.

Used by interpreted, codegen, table and the functions that make tensors. The result is computed
first and stored then, so that a call that raises leaves `out` as it was, and `out` may share memory
with an argument (where torch refuses that, `memory_overlap` says so).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ag_visual import promotion
from ag_visual.core import modes
from ag_visual.core.dual import dual_of
from ag_visual.core.level import is_batchedtensor
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor, before_write, wrote
from ag_visual.dispatch.dtype_errors import in_macros
from ag_visual.dispatch.geometry import resize
from ag_visual.dispatch.memory import offset_of
from ag_visual.dispatch.memory_overlap import check_internal_overlap, check_operand_overlap, shared
from ag_visual.errors import type_name

WORDS = frozenset(
    {"any_dtype", "broadcasts", "casts", "check_overlap", "exact", "no_overlap", "single"}
)
"""What torch does with an out of another dtype, or on the memory of an argument, does not follow
from what a function computes: each was asked (tests/properties/test_out.py), and its declaration
says `out="casts check_overlap"`. An elementwise op does the first three without saying so.

casts: a result is cast into the dtype of out; single: one is, two are not; exact: an elementwise
op that does not. any_dtype: fills an out of whatever dtype. check_overlap: refuses an out that
overlaps an argument in part; no_overlap: any overlap, as arguments are read in another order.
broadcasts: arguments, as elementwise ops do.
"""


def words_of(name: str, out: bool | str) -> frozenset[str]:
    """The words of a declaration's `out`; an unknown one fails at import."""
    words = frozenset(out.split()) if isinstance(out, str) else frozenset()
    if not words <= WORDS:
        raise TypeError(
            f"{name}: out={out!r} has words that are none of {', '.join(sorted(WORDS))}"
        )
    return words


def accepting_out(
    name: str, function: Callable[..., Any], elementwise: bool, out: bool | str
) -> Callable[..., Any]:
    """`function` with a keyword `out`, which it treats as its declaration says."""
    words = words_of(name, out)

    @functools.wraps(function)
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return function(*args, **kwargs)
        return into(name, out, function, args, kwargs, elementwise, words)

    return call


def into(
    name: str,
    out: Any,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    elementwise: bool = False,
    words: frozenset[str] = frozenset(),
) -> Any:
    """Call a function and store its results in `out`: a tensor, or a tuple of them for several.

    elementwise: the results are cast into the dtype of `out`, and may not overlap the arguments
    unless they are the same elements. words: see WORDS.
    """
    targets = out if isinstance(out, (tuple, list)) else (out,)
    for target in targets:
        if not isinstance(target, Tensor):
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type_name(target)}")
    if modes.state.levels and any(
        map(is_batchedtensor, leaves_of((*targets, *args, *kwargs.values())))
    ):
        raise RuntimeError(
            f"Batching rule not implemented for aten::{name}.out; the fallback path doesn't work "
            "on out= or view ops. Leave out=: a mapped function returns its results."
        )
    if modes.duals and modes.forward_enabled():
        _check_no_duals(name, [*targets, *args, *kwargs.values()])
    if modes.grad_enabled() and any(target.requires_grad for target in targets):
        raise _not_differentiable(name)
    # As in torch, mixed precision casts nothing for a call that says where its result goes.
    result = modes.without_autocast(function, *args, **kwargs)
    several = isinstance(result, tuple)
    if several is not isinstance(out, (tuple, list)):
        wanted = "tuple of Tensors" if several else "Tensor"
        raise TypeError(f"{name}(): argument 'out' must be {wanted}, not {type_name(out)}")
    results = result if several else (result,)
    if len(results) != len(targets):
        raise TypeError(f"expected tuple of {len(results)} elements but got {len(targets)}")
    if any(each.requires_grad for each in results):
        raise _not_differentiable(name)
    casts = "exact" not in words if elementwise else "casts" in words
    casts = casts and not (several and "single" in words)
    no_overlap = "no_overlap" in words
    watched = no_overlap or elementwise or "check_overlap" in words
    for each, target in zip(results, targets, strict=True):
        _check(name, each, target, casts, "any_dtype" in words)
        if no_overlap:
            check_internal_overlap(target, name)
        looked_at = _as_it_will_be(target, each._array.shape)
        if elementwise:
            check_internal_overlap(target, name)
        if elementwise or "broadcasts" in words:
            _check_shape(name, each._array.shape, target, args)
        for arg in (*args, *kwargs.values()) if watched else ():
            for part in arg if isinstance(arg, (tuple, list)) else (arg,):
                if no_overlap and part is target:
                    raise shared(name, target, target)
                check_operand_overlap(looked_at, part, name, no_overlap=no_overlap)
                if elementwise and looked_at is not target:  # as it is, too
                    check_operand_overlap(target, part, name)
    for each, target in zip(results, targets, strict=True):
        store(name, each._array, target)
    if not several:
        return out
    return type(result)(*targets) if hasattr(result, "_fields") else tuple(targets)


def leaves_of(values: Iterable[Any]) -> Iterator[Any]:
    """Arguments, with those in lists one by one."""
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from leaves_of(value)
        else:
            yield value


def made_into(name: str, out: Any, dtype: Any, device: Any, make: Callable[..., Any]) -> Tensor:
    """`into` for a function that makes tensors: dtype and device are those of `out`."""
    if isinstance(out, Tensor):
        device = out.device if device is None else device
        if dtype is None:
            dtype = out.dtype
        elif dtype is not out.dtype:
            raise RuntimeError(
                f"dtype {dtype.scalar_name} does not match dtype of out parameter "
                f"({out.dtype.scalar_name}). Leave out dtype=, or give one of them the other's."
            )
    made: Tensor = into(name, out, make, (), {"dtype": dtype, "device": device}, True)
    return made


def store(name: str, array: Any, target: Tensor) -> None:
    """Write an array into a tensor, resized where its shape is another, and count the write."""
    before_write(target)
    if target._array.shape != array.shape:
        _resize(target, array)
    check_internal_overlap(target, name)
    wrote(target, f"{name}(out=)")
    target._array[...] = array


def _as_it_will_be(target: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The memory that an output of this shape takes up: of a slice that grows, more of its base."""
    if target._view is None or target._array.shape == shape:
        return target
    grown = target.detach()
    resize(grown, shape, offset_of(target))
    return grown


def _not_differentiable(name: str) -> RuntimeError:
    return RuntimeError(
        f"{name}(): functions with out=... arguments don't support automatic differentiation, but "
        "one of the arguments requires grad. Leave out=, or call it under no_grad()."
    )


def _check_no_duals(name: str, given: list[Any]) -> None:
    """Nobody would write the tangent of an out."""
    for each in given:
        for x in each if isinstance(each, (tuple, list)) else (each,):
            if isinstance(x, Tensor) and dual_of(x) is not None:
                raise NotImplementedError(
                    f"Trying to use forward AD with {name.replace('.', '_')}_out that does not "
                    "support it because it is an out= function. Leave out=."
                )


def _check(name: str, result: Tensor, target: Tensor, casts: bool, fills: bool) -> None:
    if not casts and result.dtype is not target.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {in_macros(result.dtype)}, but got "
            f"{in_macros(target.dtype)} instead\n{name}() does not cast its result."
        )
    if not fills and not promotion.can_cast(result.dtype, target.dtype):
        raise RuntimeError(
            f"result type {result.dtype.scalar_name} can't be cast to the desired output type "
            f"{target.dtype.scalar_name}: {name}() with out="
        )
    if type(result._array) is not type(target._array):
        raise RuntimeError(
            f"{name}(): Expected all tensors to be on the same device, but the result is on "
            f"{result.device} and out on {target.device}. Move one with .to(device)."
        )


def _check_shape(name: str, shape: Any, target: Tensor, args: tuple[Any, ...]) -> None:
    """An out that is an argument, too, cannot be resized."""
    if target._array.shape != shape and any(arg is target for arg in args):
        raise RuntimeError(
            f"output with shape {list(target._array.shape)} doesn't match the broadcast shape "
            f"{list(shape)}: {name}() reads its out, too."
        )


def _resize(target: Tensor, array: Any) -> None:
    """Give an output the shape of what is written into it."""
    have, need = list(target._array.shape), list(array.shape)
    if target._array.size:
        warn(
            "An output with one or more elements was resized since it had shape "
            f"{have}, which does not match the required output shape {need}. This behavior is "
            "deprecated, and in a future PyTorch release outputs will not be resized unless they "
            "have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, "
            "to zero elements with t.resize_(0)."
        )
    resize(target, array.shape)
