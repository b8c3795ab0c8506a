"""torch.autograd.forward_ad: tensors with tangents.

Source: https://pytorch.org/docs/2.8/autograd.html#forward-mode-automatic-differentiation
"""

from __future__ import annotations

from typing import NamedTuple

from ag_visual.autograd.grad_mode import _DecoratorContextManager
from ag_visual.core import dual, modes, source
from ag_visual.core.dual import ForwardLevel
from ag_visual.core.level import Wrapper
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import traced
from ag_visual.errors import type_name
from ag_visual.events import instrument, ranges
from ag_visual.names import only as _only

_open: ForwardLevel | None = None
_current_level = -1
"""The number of the level that is open in the process; -1 for none."""


def enter_dual_level() -> int:
    """Open the level of forward mode, and return its number (0); `dual_level` is safer.

    Raises RuntimeError where it is open already: levels do not nest, but `func.jvp` does.
    """
    global _open, _current_level
    if _open is not None or any(level.kind == "jvp" for level in modes.state.levels):
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _open = ForwardLevel(0)
    _current_level = 0
    if instrument.sink is not None:
        _open.range = ranges.enter_level("forward mode", 1, 0, source.here())
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level of forward mode: all tensors lose their tangents.

    Raises RuntimeError where `level` is not the number of the open one, or none is open.
    """
    global _open, _current_level
    if level is not None and level != _current_level:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This "
            "is not supported."
        )
    if _open is None:
        raise RuntimeError("Dual level must be a positive number.")
    closing, _open, _current_level = _open, None, -1
    closing.close()
    if closing.range:
        ranges.leave(closing.range)


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns: a tensor, and its tangent or None."""

    primal: Tensor
    tangent: Tensor | None


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of `tensor` with a tangent: what is computed from it has a tangent, too.

    tangent: of the same shape, floating point or complex. It is kept as it is where it lies in
    memory as `tensor` does, else a copy; a write to the dual tensor writes to it, too. Both can be
    differentiated by backward.

    >>> import ag_visual as ag
    >>> import ag_visual.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(ag.tensor(3.), ag.tensor(1.))
    ...     fwAD.unpack_dual(x * x)
    UnpackedDualTensor(primal=tensor(9.), tangent=tensor(6.))
    """
    number = _current_level if level is None else level
    if number < 0 or (number == 0 and _open is None):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    check_kinds(tensor, tangent)
    if _open is None or number != _open.number:
        raise RuntimeError("Invalid level given to _make_dual")
    check_sizes(tensor, tangent)
    if _dual_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the "
            f"same level {number} is not supported. Take its primal first: unpack_dual(x).primal."
        )
    if _dual_of(tangent) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level"
            f"{number} is not supported. For derivatives of derivatives use func.jvp, which nests."
        )
    result = _apart(tensor)
    if not modes.state.inference:
        _open.give(result, modes.without_tangents(dual.laid_as, result, tangent))
    return result


def check_kinds(tensor: Tensor, tangent: Tensor) -> None:
    """Raise where a tensor, or what would be its tangent, is no function of anything."""
    for what, x in (("primal", tensor), ("tangent", tangent)):
        if not (x.is_floating_point() or x.is_complex()):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {x.dtype}")


def check_sizes(tensor: Tensor, tangent: Tensor) -> None:
    """Raise where a tangent has another shape than its tensor."""
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )


def checked_tangent(primal: Tensor, tangent: Tensor) -> None:
    """Raise where a tensor cannot have this tangent."""
    check_kinds(primal, tangent)
    check_sizes(primal, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """A view of a dual tensor without its tangent, and the tangent: None where it has none.

    Outside of any level it gives the tensor itself and None; inside of `func.jvp` the tangent.
    level: the number of the open one.
    """
    number = _current_level if level is None else level
    if number < 0:
        known = dual.dual_of(tensor) if level is None and isinstance(tensor, Wrapper) else None
        if known is None:
            return UnpackedDualTensor(tensor, None)
        return UnpackedDualTensor(_apart(tensor), known[1])
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"_unpack_dual(): argument 'dual' (position 1) must be Tensor, not {type_name(tensor)}"
        )
    known = _dual_of(tensor)
    if known is not None and number != known[0].number:
        raise RuntimeError("Invalid level given to _fw_primal")
    primal = _apart(tensor)
    return UnpackedDualTensor(primal, None if known is None else known[1])


def _dual_of(tensor: Tensor) -> tuple[ForwardLevel, Tensor] | None:
    """Level and tangent of a tensor, if the level is the one of this module."""
    known = dual.dual_of(tensor) if modes.forward_enabled() else None
    return known if known is not None and known[0] is _open else None


def _apart(tensor: Tensor) -> Tensor:
    """A view of a tensor that has its own tangent, or none."""
    result: Tensor = modes.without_tangents(traced.view_as, tensor, tensor)
    dual.give_own_tangents(result)
    return result


class dual_level(_DecoratorContextManager):
    """The level of forward mode for a block, or (as a decorator) for each call of a function.

    Duals are made and unpacked inside of it; at its end, also by an exception, all tensors lose
    their tangents. Entered with `as`, it gives the number of the level.

    >>> import ag_visual as ag
    >>> import ag_visual.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(ag.tensor([1., 2.]), ag.tensor([1., 0.]))
    ...     print(fwAD.unpack_dual(x.prod()).tangent)
    tensor(2.)
    """

    def __enter__(self) -> int:  # type: ignore[override]
        return enter_dual_level()

    def __exit__(self, *_: object) -> None:
        exit_dual_level()


def _is_fwd_grad_enabled() -> bool:
    """Whether ops hand tangents on in this thread."""
    return modes.state.forward


class _set_fwd_grad_enabled(_DecoratorContextManager):
    """Switch in this thread whether ops hand tangents on: at once, and back where a block ends."""

    def __init__(self, mode: bool) -> None:
        self.prev = modes.state.forward
        modes.set_forward(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        modes.set_forward(self.prev)


__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]
__dir__ = _only(__all__, __name__)
