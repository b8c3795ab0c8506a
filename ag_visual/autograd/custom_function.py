"""Custom functions: `Function`, what `apply` does, and `once_differentiable`.

Source: https://pytorch.org/docs/2.8/autograd.html#function and notes/extending.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.arrays import backend as backends
from ag_visual.autograd import function_forward, function_levels
from ag_visual.autograd.function_node import BackwardCFunction, FunctionCtx
from ag_visual.autograd.given import Given, argument_name
from ag_visual.core import modes, saved, source, view
from ag_visual.core.diagnosis import errors
from ag_visual.core.node import ending
from ag_visual.core.saved import OwnOutput
from ag_visual.core.saved_packed import Packed
from ag_visual.core.source import warn
from ag_visual.core.tensor import (
    InferenceTensor,
    Tensor,
    check_inplace,
    rebase,
    wrote as count_write,
)
from ag_visual.dispatch.levels import unusual
from ag_visual.events import instrument
from ag_visual.events.spans import OP
from ag_visual.events.timed import Span


class FunctionMeta(type):
    """Gives each Function class the class of its nodes."""

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, object]) -> None:
        super().__init__(name, bases, body)
        # Its node says where it is from, as torch's does: no op of the package made it.
        own = {"_forward_cls": cls, "__module__": "torch.autograd.function"}
        cls._backward_cls = type(f"{name}Backward", (BackwardCFunction,), own)


class _SingleLevelFunction(FunctionCtx, metaclass=FunctionMeta):
    """What subclasses of Function define."""

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; override it."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Prepare ctx when `forward` does not take it; override it."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the inputs; override it (or `vjp`, its other name)."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Compute the tangents of the outputs; override it."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )


class Function(_SingleLevelFunction):
    """Base class of custom differentiable operations.

    Subclasses define `forward(ctx, *args)` and `backward(ctx, *grad_outputs)` as static methods, or
    `forward(*args)`, `setup_context(ctx, inputs, output)` and `backward`; `apply(*args)` calls.

    >>> import ag_visual as ag
    >>> class Square(ag.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> x = ag.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """Compute the outputs of a batch; override it."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or "
            "set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function on arguments and, where an input requires grad, record the call."""
        if instrument.spans is not None:
            with Span(cls.__name__, OP, args) as span:
                found = cls._applied(args, kwargs)
                first = found[0] if type(found) is tuple and found else found
                if isinstance(first, Tensor) and first._edge is not None:
                    span.seq = first._edge[0].seq
            return found
        return cls._applied(args, kwargs)

    @classmethod
    def _applied(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        separate = cls._separate()
        if separate or kwargs:
            args = _bound(cls, separate, args, kwargs)
        level = None
        if unusual():
            args = function_levels.settled(args)
            level = function_levels.level_of(args)
            if not separate and modes.state.levels:
                innermost = modes.state.levels[-1]
                if not innermost.old_form or level not in (None, innermost):
                    raise function_levels.old_form_error(cls)
                if level is not None:
                    return function_levels.pushed_below(cls, args, level)
            if level is not None and level.kind == "vmap":
                return function_levels.mapped(Function, cls, args, level)
        return cls._called(args, separate, level)

    @classmethod
    def _called(cls, args: tuple[Any, ...], separate: bool, level: Any) -> Any:
        """The call itself. level: the one that differentiates its arguments."""
        positions = tuple(i for i, a in enumerate(args) if isinstance(a, Tensor))
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        # A view without history may require grad because its base does: it has no edge.
        records = modes.grad_enabled() and any(needs)
        # Before the ctx: it must be younger than a node that a stale view gets only now.
        edges = tuple(args[i].gradient_edge() for i in positions) if records else ()
        ctx = cls._backward_cls()
        ctx.needs_input_grad = needs
        ctx._positions = positions
        ctx.next = edges
        if records:
            ctx._given = tuple(map(Given, args))
        tensors = [args[i] for i in positions]
        moves = function_forward.given(args) if modes.duals else None
        run: Any = modes.in_grad_mode
        if moves is not None:
            run = functools.partial(function_forward.hidden, run)
        if separate:
            if level is None:
                output = run(False, cls.forward, *args)
            else:
                output = function_levels.computed_below(cls, args, level)
            run(False, cls.setup_context, ctx, args, output)
        else:
            output = run(False, cls.forward, ctx, *args)
        return _wrapped(cls, ctx, tensors, output, records, moves)

    @classmethod
    def _separate(cls) -> bool:
        """Is forward free of ctx, which `setup_context` prepares?"""
        return cls.setup_context is not Function.setup_context

    @classmethod
    def _user_backward(cls) -> Callable[..., Any]:
        """The `backward` of a subclass, or its `vjp`."""
        backward, vjp = cls.backward, cls.vjp
        if vjp is Function.vjp:
            return backward
        if backward is not Function.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
                "should only implement one of them."
            )
        return vjp


def _bound(
    cls: type[Function], separate: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Positional arguments with keywords and defaults filled in."""
    signature = inspect.signature(cls.forward)
    if not separate:
        parameters = list(signature.parameters.values())[1:]
        signature = signature.replace(parameters=parameters)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def _wrapped(
    cls: type[Function],
    ctx: BackwardCFunction,
    tensors: list[Tensor],
    output: Any,
    records: bool,
    moves: function_forward.Given | None,
) -> Any:
    """The outputs of forward as part of the graph."""
    single = not isinstance(output, tuple)
    outputs = [output] if single else list(output)
    dirty = {id(t) for t in ctx.dirty_tensors}
    inputs = {id(t) for t in tensors}
    _check_dirty(dirty, inputs, outputs)
    fixed = {id(t) for t in ctx.non_differentiable}
    returned = [o for o in outputs if isinstance(o, Tensor)]
    if not returned:
        return output
    ctx._backend = backends.backend_for(returned[0].device)
    ctx._metas = tuple(
        (o._array.shape, o._array.dtype) if isinstance(o, Tensor) else None for o in outputs
    )
    carries = [
        isinstance(o, Tensor) and id(o) not in fixed and o._array.dtype.kind in "fcV"
        for o in outputs
    ]
    ctx._fixed = tuple(not each for each in carries)
    first = ctx._metas[0] or ((), numpy.dtype(numpy.float32))
    ctx.shape, ctx.dtype = first
    ctx.outs = None if len(outputs) == 1 else tuple(m or ((), first[1]) for m in ctx._metas)
    meta = view.MULTI_OUTPUT if sum(carries) > 1 else view.IN_FUNCTION
    results = []
    for number, o in enumerate(outputs):
        if not isinstance(o, Tensor):
            results.append(o)
            continue
        grows = records and carries[number]
        if id(o) in dirty:
            results.append(_dirty(cls, ctx, o, number, grows, len(returned)))
        elif not grows:
            results.append(_outside(o, id(o) in inputs))
            _set_origin(results[-1], ctx, records, fixed=id(o) in fixed)
        else:
            results.append(_grown(ctx, _as_view(o) if id(o) in inputs else o, number, meta))
    _save(ctx, outputs, results, records)
    if moves is not None:
        function_forward.follow(ctx, moves, outputs, results, dirty, fixed)
    else:
        ctx.saved_for_forward = ()
    if records and instrument.sink is not None:
        saved.report_node(ctx)
        names = (argument_name(cls, at) for at in ctx._positions)
        saved.report_breaks(ctx, zip(names, tensors, strict=True))
    return results[0] if single else tuple(results)


def _set_origin(o: Tensor, ctx: BackwardCFunction, records: bool, fixed: bool) -> None:
    """Remember at an output why it has no history, where an input required grad."""
    if not any(ctx.needs_input_grad):
        return
    kind = "inference" if modes.state.inference else "no_grad"
    if records:
        kind = "non_differentiable" if fixed else "dtype"
    o._origin = (kind, source.here(), weakref.ref(ctx) if records else None)


def _check_dirty(dirty: set[int], inputs: set[int], outputs: list[object]) -> None:
    if (dirty & {id(o) for o in outputs}) - inputs:
        warn(
            "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that "
            "have been mutated should be passed to ctx.mark_dirty()."
        )
    if dirty - {id(o) for o in outputs}:
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. "
            "The inputs that are modified inplace must all be outputs of the Function."
        )


def _outside(o: Tensor, is_input: bool) -> Tensor:
    """An output without history; an input keeps its own, the output is an alias without."""
    if is_input:
        if o.requires_grad:
            return o.detach()
        o = _as_view(o)
    if o._view is not None:
        o._view.meta = view.IN_FUNCTION
        return o
    return o.detach_() if o.requires_grad else o


def _grown(ctx: BackwardCFunction, o: Tensor, number: int, meta: int) -> Tensor:
    """An output with this call as its history."""
    o._edge = ctx.edge(number)
    o._rg = True
    if o._view is not None:
        o._view.meta = meta
        o._view.snapshot = o._storage.snapshot
    return o


def _dirty(
    cls: type[Function], ctx: BackwardCFunction, o: Tensor, number: int, grows: bool, count: int
) -> Tensor:
    """An input that forward wrote: it moves into the graph at this node."""
    name = cls.__name__
    if not grows:
        count_write(o, name)
        return o.detach() if o.requires_grad else o
    try:
        _may_be_written(o, name, count)
    finally:
        count_write(o, name)  # forward has written, whether it may or not
    rebase(o, ctx)
    if o._edge is not None and o._edge[0] is ctx:
        o._edge = ctx.edge(number)
    return o


def _may_be_written(o: Tensor, name: str, count: int) -> None:
    if o._edge is None and o.requires_grad:
        raise errors.leaf_inplace(o, name, view=False, used=True)
    if o._view is not None and count > 1:
        raise RuntimeError(
            "If your Function modifies inplace an input that is a view of another Tensor, "
            "your Function cannot return more than one Tensor. This is not supported by "
            "the current autograd engine. You should either make sure the input is not a "
            "view (using .clone() for example) or make your Function only return one "
            f"Tensor (potentially splitting it into two Functions): {name}"
        )
    o._grad = None  # of what it was before, also where torch refuses next what is a view
    check_inplace(o, name)


def _as_view(o: Tensor) -> Tensor:
    """An input that forward returned as it is: a view of it."""
    from ag_visual.dispatch.table import traced

    result: Tensor = modes.in_grad_mode(False, traced.view_as, o, o)
    if type(o) is not Tensor and type(result) is Tensor:
        result.__class__ = type(o)
    return result


def _save(ctx: BackwardCFunction, outputs: list[object], results: list[Any], records: bool) -> None:
    """Turn what save_for_backward was given into saved tensors of the node."""
    if not records:
        # Nobody will run this node; forward's temporaries should not live on in it.
        ctx.to_save = ()
        return
    kept: list[Tensor | OwnOutput | Packed | None] = []
    snapshots: list[tuple[int, int] | None] = []
    numbers = {id(o): i for i, o in enumerate(outputs)}
    pair = modes.state.saved_hooks[-1] if modes.state.saved_hooks else None
    for tensor in ctx.to_save:
        if tensor is None:
            kept.append(None)
            snapshots.append(None)
            continue
        if type(tensor) is InferenceTensor and not modes.state.levels:
            raise errors.cannot_be_saved()
        number = numbers.get(id(tensor))
        snapshots.append(tensor._storage.snapshot)
        if number is not None:
            tensor = results[number]
            snapshots[-1] = tensor._storage.snapshot
        if pair is not None:
            own = number if number is not None and tensor._rg else None
            kept.append(Packed(pair[0], pair[1], tensor, own))
        elif number is not None and tensor._rg:
            kept.append(OwnOutput(tensor._own(), tensor._storage, number, True))
        else:
            kept.append(tensor)
    ctx.s_saved_tensors, ctx.t_saved_tensors = tuple(kept), tuple(snapshots)
    ctx._saves = bool(kept)
    saved.guard(ctx, "saved_tensors")
    ctx.to_save = ()
    ctx.dirty_tensors = ctx.non_differentiable = ()


_ONCE = "trying to differentiate twice a function that was marked with @once_differentiable"


def _ended(values: tuple[Any, ...], tracked: list[Tensor]) -> tuple[Any, ...]:
    """Gradients whose own derivative is an error; `tracked` is what they are functions of."""
    given = [v.detach() if isinstance(v, Tensor) and v.dtype.category > 1 else None for v in values]
    nothing = ((), numpy.dtype(numpy.float32))
    node = ending(
        _ONCE,
        tuple(a.gradient_edge() for a in tracked),
        tuple(nothing if g is None else (g._array.shape, g._array.dtype) for g in given),
        tuple(given),
    )
    results = []
    for number, (value, g) in enumerate(zip(values, given, strict=True)):
        if g is not None:
            value = g.detach()
            value._edge, value._rg = node.edge(number), True
            g._rg = True
        results.append(value)
    return tuple(results)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward that cannot itself be differentiated: doing so raises an error."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with_graph = modes.grad_enabled()
        found = modes.in_grad_mode(False, function, ctx, *args)
        tracked = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
        if not with_graph or not tracked:
            return found
        results = _ended(found if isinstance(found, tuple) else (found,), tracked)
        return results if isinstance(found, tuple) else results[0]

    return wrapper
