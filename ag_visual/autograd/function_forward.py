"""Forward mode of custom Functions: `jvp` gives the outputs of a call their tangents.

`custom_function` asks `given` before forward, which sees no tangents, and `follow` after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ag_visual.core import dual, modes
from ag_visual.core.dual import ForwardLevel
from ag_visual.core.level import Wrapper
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch import tangents
from ag_visual.dispatch.table import traced

if TYPE_CHECKING:
    from ag_visual.autograd.function_node import BackwardCFunction


class Given:
    """The tangents of the arguments of a call: those of the innermost level among them."""

    __slots__ = ("args", "level", "tangents")

    def __init__(self, args: tuple[Any, ...], found: list[Any]) -> None:
        self.args = args
        self.level: ForwardLevel = next(known[0] for known in found if known is not None)
        self.tangents: list[Tensor | None] = [k if k is None else k[1] for k in found]


def given(args: tuple[Any, ...]) -> Given | None:
    """The tangents of the arguments of a call; None where there are none."""
    if not modes.forward_enabled() or modes.state.primal:
        return None
    depth = max((a.level.depth for a in args if isinstance(a, Wrapper)), default=0)
    found = [
        dual.dual_of(a) if isinstance(a, Tensor) and tangents.depth_of(a) == depth else None
        for a in args
    ]
    return Given(args, found) if any(known is not None for known in found) else None


def follow(
    ctx: BackwardCFunction,
    given: Given,
    outputs: list[Any],
    results: list[Any],
    dirty: set[int],
    fixed: set[int],
) -> None:
    """Call jvp, and give the results of a call their tangents.

    outputs: what forward returned; results: what the caller gets in their places. dirty, fixed:
    the ids of the outputs that are marked as written and as not differentiable.
    """
    name = ctx._forward_cls.__name__
    directions = [_direction(ctx, *pair) for pair in zip(given.args, given.tangents, strict=True)]
    moves = _moves(ctx, directions, outputs, results)
    if len(moves) != len(outputs):
        raise RuntimeError(
            "Function's jvp returned an invalid number of forward gradients (expected "
            f"{len(outputs)} but got {len(moves)}): {name}.jvp returns one for each output of "
            "forward."
        )
    for number, (out, result, move) in enumerate(zip(outputs, results, moves, strict=True)):
        carries = isinstance(out, Tensor) and id(out) not in fixed and _differentiable(out)
        if not carries:
            if move is not None:
                raise RuntimeError(
                    f"Function's jvp returned a gradient at position {number}, but the "
                    "corresponding forward output is not a differentiable Tensor.You should "
                    f"return None at that position instead. ({name}.jvp)"
                )
            continue
        label = f"({name}.jvp, output {number})"
        if id(out) in dirty:
            _give_written(given, label, out, result, move)
        else:
            _give(given, label, out, result, move, directions)


def _give_written(
    given: Given, label: str, out: Tensor, result: Tensor, move: Tensor | None
) -> None:
    """A tangent of an input that forward wrote: jvp wrote the input's, if it has one."""
    at = _place(out, given.args)
    if at is None or given.tangents[at] is None:
        tangents.set_tangent(traced, result, _checked(label, out, move), given.level)
        return
    if move is None or move is not given.tangents[at]:
        raise RuntimeError(
            "An inplace custom Function is not modifying the forward mode gradients inplace. If "
            "the forward is modifying an input inplace, then the jvp function must modify the "
            f"corresponding gradient inplace. {label}"
        )
    if result is not out:
        given.level.give(result, move)


def _give(
    given: Given,
    label: str,
    out: Tensor,
    result: Tensor,
    move: Tensor | None,
    directions: list[Tensor | None],
) -> None:
    """A tangent of another output."""
    at = _looks_into(out, given.args)
    if at is not None and move is not None:
        _check_view(label, move, directions[at])
    move = _checked(label, out, move)
    if any(move is each for each in given.tangents):
        move = move.clone()
    given.level.give(result, dual.laid_as(result, move))


def _place(out: Tensor, args: tuple[Any, ...]) -> int | None:
    """Which argument an output is."""
    return next((i for i, arg in enumerate(args) if arg is out), None)


def _direction(ctx: BackwardCFunction, arg: Any, tangent: Tensor | None) -> Tensor | None:
    """What jvp gets for an argument."""
    if tangent is not None or not ctx.materialize_grads or not isinstance(arg, Tensor):
        return tangent
    if not _differentiable(arg):
        return None
    zeros: Tensor = traced.zeros_of(arg.detach(), tuple(arg.shape))
    return zeros


def _differentiable(tensor: Tensor) -> bool:
    return tensor._array.dtype.kind in "fcV"


def _moves(
    ctx: BackwardCFunction, directions: list[Any], outputs: list[Any], results: list[Any]
) -> tuple[Any, ...]:
    """What the user's jvp returns: tensors and None."""
    places = {id(out): result for out, result in zip(outputs, results, strict=True)}
    kept = tuple(places.get(id(x), x) for x in ctx.saved_for_forward)
    before = ctx.s_saved_tensors, ctx.t_saved_tensors
    try:
        # What `ctx.saved_tensors` reads.
        ctx.s_saved_tensors = kept
        ctx.t_saved_tensors = tuple(None if x is None else x._storage.snapshot for x in kept)
        found = hidden(ctx._forward_cls.jvp, ctx, *directions)
    finally:
        ctx.s_saved_tensors, ctx.t_saved_tensors = before
        ctx.saved_for_forward = ()
    moves = found if isinstance(found, tuple) else (found,)
    for number, move in enumerate(moves):
        if move is not None and not isinstance(move, Tensor):
            raise RuntimeError(
                f"expected Variable or None (got {type(move).__name__}) for grad output {number}."
            )
    return moves


def hidden(function: Any, *args: Any) -> Any:
    """`function(*args)` where tensors have no tangents."""
    state = modes.state
    previous = state.forward
    try:
        state.forward = False
        return function(*args)
    finally:
        state.forward = previous


def _checked(label: str, out: Tensor, move: Tensor | None) -> Tensor:
    """What jvp returned for an output; raises where it cannot be its tangent."""
    if move is None or not _differentiable(move):
        kind = "None" if move is None else f"a tensor of {move.dtype}"
        raise RuntimeError(
            "(new_grad_base.is_floating_point() || new_grad_base.is_complex()) && "
            "(self_base.is_floating_point() || self_base.is_complex()) INTERNAL ASSERT FAILED: "
            "Expected both tensor and its forward grad to be floating point or complex, but jvp "
            f"returned {kind} for an output that is differentiable: return its tangent, or call "
            f"ctx.mark_non_differentiable in forward. {label}"
        )
    if tuple(move.shape) != tuple(out.shape):
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(out.shape)} while the given "
            f"forward gradient is of size {list(move.shape)}. {label}"
        )
    if dual.dual_of(move) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level0 is not "
            f"supported. {label}"
        )
    return move


def _looks_into(out: Tensor, args: tuple[Any, ...]) -> int | None:
    """Which argument an output is, or looks into."""
    at = _place(out, args)
    if at is not None or out._view is None:
        return at
    base = out._view.base
    for number, arg in enumerate(args):
        if isinstance(arg, Tensor) and (arg is base or (arg._view and arg._view.base is base)):
            return number
    return None


def _check_view(label: str, move: Tensor, direction: Tensor | None) -> None:
    """Raise unless the tangent of a view is a view of the tangent."""
    if move is direction or move._view is None:
        raise RuntimeError(
            "A custom Function's forward is returning a view (or an input as-is) but the jvp is "
            f"not returning a view. {label}"
        )
    if direction is None:
        return
    base = direction if direction._view is None else direction._view.base
    if move._view.base is not base:
        raise RuntimeError(
            "A custom Function is returning a view but the jvp is not returning a view of the "
            f"given grad input. {label}"
        )
