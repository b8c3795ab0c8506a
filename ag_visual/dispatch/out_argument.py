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

from ag_visual import dtypes, promotion
from ag_visual.core import modes
from ag_visual.core.tensor import Tensor, before_write, wrote
from ag_visual.dispatch.arguments import outside
from ag_visual.dispatch.dtype_errors import in_macros
from ag_visual.dispatch.memory import resize
from ag_visual.dispatch.memory_overlap import refuse_internal, refuse_shared, shared
from ag_visual.errors import type_name


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What torch does with an out of another dtype, or on the memory of an argument, does not follow
# from what a function computes: these names were asked, one by one (tests/properties/test_out.py).
_CASTS = _names(
    """
    addr bernoulli cat cholesky cholesky_inverse cholesky_solve clamp clamp_max clamp_min
    column_stack concat copysign cumprod cumsum div dstack fft_fft fft_fft2 fft_fftn
    fft_hfft fft_hfft2 fft_hfftn fft_ifft2 fft_ifftn fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2
    fft_irfftn fft_rfft fft_rfft2 fft_rfftn fmod geqrf hash_tensor hstack kron lerp
    linalg_cond linalg_eig linalg_eigvals linalg_householder_product linalg_lstsq
    linalg_matrix_power linalg_matrix_rank linalg_pinv linalg_tensorinv linalg_tensorsolve
    logical_not logsumexp lu matrix_power max mean min nanmean nansum normalize orgqr outer
    polygamma pow prod remainder special_ndtr special_polygamma square stack std sum var
    vstack
    """
)
"""The functions that are not elementwise here and cast a result into out, as elementwise ones."""
_EXACT = _names("frac gelu hardshrink heaviside linalg_cross softplus softshrink")
"""The elementwise functions that do not."""
_WATCHED = _names(
    """
    abs addbmm addmm addmv addr aminmax baddbmm bernoulli bitwise_not ceil clamp clamp_max
    clamp_min conj_physical copysign cumprod cumsum diff div floor fmod frexp index_add
    index_copy index_reduce kron lerp logcumsumexp max min mode msort nan_to_num neg
    normalize outer polygamma pow remainder renorm round scatter scatter_add scatter_reduce sgn
    sign sort special_polygamma square topk triangular_solve trunc where
    """
)
"""The functions that are not elementwise here and refuse an out that overlaps an argument in part,
as elementwise ones."""
_BROADCASTS = _names("clamp clamp_max clamp_min copysign div fmod lerp pow remainder where")
"""The functions that are not elementwise here and broadcast their arguments as those do."""
_TWO = frozenset({"max", "min"})
"""The functions that cast one result, but not two."""
_APART = _names(
    """
    cat column_stack concat cross dstack gather hstack index_select kthvalue linalg_cross
    masked_select stack take take_along_dim vstack
    """
)
"""The functions that refuse any overlap: they read their argument in another order."""
_FILLS = _names("bernoulli")
"""The functions that fill an out of whatever dtype."""


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

    elementwise: the results are cast into the dtype of `out`, and may not overlap the arguments
    unless they are the same elements.
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
    key = name.replace(".", "_")
    casts = key not in _EXACT if elementwise else key in _CASTS
    casts = casts and not (several and key in _TWO)
    apart = key in _APART
    watched = apart or elementwise or key in _WATCHED
    for each, target in zip(results, targets, strict=True):
        _check(name, each, target, casts)
        if apart:
            refuse_internal(target, name)
        looked_at = _as_it_will_be(target, each._array.shape)
        if elementwise:
            refuse_internal(target, name)
        if elementwise or key in _BROADCASTS:
            _refuse_another_shape(name, each._array.shape, target, args)
        for arg in (*args, *kwargs.values()) if watched else ():
            for part in arg if isinstance(arg, (tuple, list)) else (arg,):
                if apart and part is target:
                    raise shared(name, target, target)
                refuse_shared(looked_at, part, name, apart=apart)
                if elementwise and looked_at is not target:  # as it is, too
                    refuse_shared(target, part, name)
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
    made: Tensor = into(name, out, make, (), {"dtype": dtype, "device": device}, True)
    return made


def store(name: str, array: Any, target: Tensor) -> None:
    """Write an array into a tensor, resized where its shape is another, and count the write."""
    before_write(target)
    if target._array.shape != array.shape:
        _resize(target, array)
    refuse_internal(target, name)
    wrote(target, f"{name}(out=)")
    target._array[...] = array


def _as_it_will_be(target: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The memory that an output of this shape takes up: of a slice that grows, more of its base."""
    if target._view is None or target._array.shape == shape:
        return target
    grown = target.detach()
    resize(grown, shape)
    return grown


def _not_differentiable(name: str) -> RuntimeError:
    return RuntimeError(
        f"{name}(): functions with out=... arguments don't support automatic differentiation, but "
        "one of the arguments requires grad. Leave out=, or call it under no_grad()."
    )


def _told(dtype: Any) -> str:
    return dtypes.legacy_name(dtype).removesuffix("Tensor")


def _check(name: str, result: Tensor, target: Tensor, casts: bool) -> None:
    if not casts and result.dtype is not target.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {in_macros(result.dtype)}, but got "
            f"{in_macros(target.dtype)} instead\n{name}() does not cast its result."
        )
    if name not in _FILLS and not promotion.can_cast(result.dtype, target.dtype):
        raise RuntimeError(
            f"result type {_told(result.dtype)} can't be cast to the desired output type "
            f"{_told(target.dtype)}: {name}() with out="
        )
    if type(result._array) is not type(target._array):
        raise RuntimeError(
            f"{name}(): Expected all tensors to be on the same device, but the result is on "
            f"{result.device} and out on {target.device}. Move one with .to(device)."
        )


def _refuse_another_shape(name: str, shape: Any, target: Tensor, args: tuple[Any, ...]) -> None:
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
