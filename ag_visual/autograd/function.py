"""Custom functions: `Function` and the node (`ctx`) of each of its calls.

Source: https://pytorch.org/docs/2.8/autograd.html#function and notes/extending.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy

from ..arrays import backend as backends
from ..core import blame, modes, saved, seam, view
from ..core.node import Node, sequence
from ..core.source import here
from ..core.tensor import InferenceTensor, Tensor, cannot_be_saved, from_array, rebase
from ..core.tensor import wrote as count_write


class FunctionCtx:
    """What `forward`, `setup_context` and `backward` may call on their ctx."""

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for `backward`; read them as `ctx.saved_tensors`."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    "save_for_backward can only save variables, but argument "
                    f"{i} is of type {type(tensor).__name__}"
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for `jvp`."""
        for i, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    "save_for_forward can only save variables, but argument "
                    f"{i} is of type {type(tensor).__name__}"
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs `forward` modified in place; they must be outputs, too."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs carry no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (default) or None for outputs without gradient."""
        self.materialize_grads = value

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Deprecated and without effect, as in torch."""
        warnings.warn(
            "mark_shared_storage is deprecated. Tensors with shared storages are automatically "
            "tracked. Note that calls to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )


class BackwardCFunction(Node, FunctionCtx):
    """The node of one call of a custom Function, and its ctx."""

    _forward_cls: type[Function]
    saved_names = ("saved_tensors",)
    runs_undefined = True

    def __init__(self) -> None:
        self.next = ()
        self.seq = next(sequence)
        place = here()
        self.code, self.lasti = (None, 0) if place is None else place
        self.outs = None
        self.hooks = None
        self.freed = None
        self._metadata = None
        self.needs_input_grad: tuple[bool, ...] = ()
        self.materialize_grads = True
        self.to_save: tuple[Any, ...] = ()
        self.dirty_tensors: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.s_saved_tensors: Any = ()
        self.t_saved_tensors: Any = ()
        self._positions: tuple[int, ...] = ()
        self._backend: Any = None
        self._metas: tuple[Any, ...] = ()
        if modes.anomaly is not None:
            self.keep_stack()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given; raises when it was freed or modified since."""
        if self.s_saved_tensors is None:
            raise blame.freed_graph(self)
        return saved.traced_all(self, "saved_tensors", self.s_saved_tensors)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        if self.s_saved_tensors is None:
            raise blame.freed_graph(self)
        return tuple(_SavedItem(self, i) for i in range(len(self.s_saved_tensors)))

    def raw(self, F: Any, g: Any) -> list[Any]:
        given = [None if x is None else from_array(x) for x in (g if self.outs else [g])]
        found = self._run(given)
        return [None if x is None else x._array for x in found]

    def traced(self, g: Any) -> list[Any]:
        return self._run(list(g) if self.outs and g is not None else [g])

    def release(self) -> None:
        self.s_saved_tensors = None

    def _run(self, grads: list[Any]) -> list[Any]:
        count = len(self._metas)
        grads = grads if len(grads) == count else [None] * count
        if self.materialize_grads:
            xp = self._backend.xp
            grads = [
                from_array(xp.zeros(meta[0], dtype=meta[1])) if g is None and meta else g
                for g, meta in zip(grads, self._metas, strict=True)
            ]
        found = self.apply(*grads)
        return self._checked(found)

    def apply(self, *grads: Any) -> Any:
        """Call the user's backward (or vjp)."""
        cls = self._forward_cls
        backward, vjp = cls.backward, cls.vjp
        if backward is not Function.backward and vjp is not Function.vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
                "should only implement one of them."
            )
        return (vjp if vjp is not Function.vjp else backward)(self, *grads)

    def _checked(self, found: Any) -> list[Any]:
        """The user's gradients, one for each tensor input."""
        values = list(found) if isinstance(found, (tuple, list)) else [found]
        expected = len(self.needs_input_grad)
        if len(values) > expected and all(v is None for v in values[expected:]):
            values = values[:expected]
        if len(values) != expected:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{expected}, got {len(values)})"
            )
        results = []
        for index, position in enumerate(self._positions):
            value = values[position]
            if value is None:
                results.append(None)
                continue
            if not isinstance(value, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(value).__name__})")
            edge = self.next[index]
            if edge is None:
                results.append(None)
                continue
            node, number, shape, _ = edge
            if shape is None:
                shape = node.outs[number][0]
            if not _fits(value._array.shape, shape):
                raise RuntimeError(
                    f"Function {self.name()} returned an invalid gradient at index {position} - "
                    f"got {list(value._array.shape)} but expected shape compatible with "
                    f"{list(shape)}"
                )
            results.append(value)
        return results


class _SavedItem:
    """One of `ctx._raw_saved_tensors`."""

    def __init__(self, node: BackwardCFunction, index: int) -> None:
        self._node, self._index = node, index

    def register_hooks(self, *hooks: Any) -> None:
        node, index = self._node, self._index
        if node.s_saved_tensors is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved "
                "intermediate values of the graph are freed when you call .backward() or "
                "autograd.grad(). Specify retain_graph=True if you need to backward through the "
                "graph a second time or if you need to access saved tensors after calling backward."
            )
        items = list(node.s_saved_tensors)
        if items[index] is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor with value None is forbidden"
            )
        if isinstance(items[index], saved.Packed):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. "
                "Hint: only one pair of hooks is allowed at a time."
            )
        pack_hook, unpack_hook = saved.two_hooks(hooks)
        tensor = saved.traced_all(node, "saved_tensors", tuple(items))[index]
        own = items[index]
        number = own.number if isinstance(own, saved.OwnOutput) and own.differentiable else None
        items[index] = saved.Packed(pack_hook, unpack_hook, tensor, number)
        node.s_saved_tensors = tuple(items)


def _fits(have: tuple[int, ...], want: tuple[int, ...]) -> bool:
    """Can a gradient of shape `have` be summed or broadcast to `want`?"""
    if have == want:
        return True
    try:
        joined = numpy.broadcast_shapes(have, want)
    except ValueError:
        return False
    return joined in (have, want)


class FunctionMeta(type):
    """Gives each Function class the class of its nodes."""

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> None:
        super().__init__(name, bases, body)
        cls._backward_cls = type(f"{name}Backward", (BackwardCFunction,), {"_forward_cls": cls})


class Function(metaclass=FunctionMeta):
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
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

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

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function on arguments and, where an input requires grad, record the call."""
        separate = cls.setup_context is not Function.setup_context
        if separate or kwargs:
            args = _bound(cls, separate, args, kwargs)
        ctx = cls._backward_cls()
        positions = tuple(i for i, a in enumerate(args) if isinstance(a, Tensor))
        edges = tuple(args[i].gradient_edge() for i in positions)
        records = modes.grad_enabled() and any(e is not None for e in edges)
        known = dict(zip(positions, edges, strict=True))
        ctx.needs_input_grad = tuple(records and known.get(i) is not None for i in range(len(args)))
        ctx._positions = positions
        ctx.next = edges
        tensors = [args[i] for i in positions]
        previous = modes.set_grad(False)
        try:
            if separate:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args)
        finally:
            modes.set_grad(previous)
        return _wrapped(cls, ctx, tensors, output, records)


def _bound(cls: type[Function], separate: bool, args: Any, kwargs: Any) -> tuple[Any, ...]:
    """Positional arguments with keywords and defaults filled in."""
    signature = inspect.signature(cls.forward)
    if not separate:
        parameters = list(signature.parameters.values())[1:]
        signature = signature.replace(parameters=parameters)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def _wrapped(
    cls: type[Function], ctx: BackwardCFunction, tensors: list[Any], output: Any, records: bool
) -> Any:
    """The outputs of forward as part of the graph."""
    single = not isinstance(output, (tuple, list))
    outputs = [output] if single else list(output)
    dirty = {id(t) for t in ctx.dirty_tensors}
    inputs = {id(t) for t in tensors}
    if dirty - inputs:
        raise RuntimeError(
            "ctx.mark_dirty() received a tensor that was not an input. Only input Tensors that "
            "have been mutated should be passed to ctx.mark_dirty()."
        )
    if dirty - {id(o) for o in outputs}:
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. "
            "The inputs that are modified inplace must all be outputs of the Function."
        )
    fixed = {id(t) for t in ctx.non_differentiable}
    returned = [o for o in outputs if isinstance(o, Tensor)]
    if not returned:
        return output
    ctx._backend = backends.backend_of(returned[0]._array)
    ctx._metas = tuple(
        (o._array.shape, o._array.dtype) if isinstance(o, Tensor) else None for o in outputs
    )
    first = ctx._metas[0] or ((), numpy.dtype(numpy.float32))
    ctx.shape, ctx.dtype = first
    ctx.outs = None if len(outputs) == 1 else tuple(m or ((), first[1]) for m in ctx._metas)
    results = []
    for number, o in enumerate(outputs):
        if not isinstance(o, Tensor):
            results.append(o)
            continue
        grows = records and id(o) not in fixed and o._array.dtype.kind in "fcV"
        if id(o) in dirty:
            results.append(_dirty(cls, ctx, o, number, grows, len(returned)))
            continue
        if id(o) in fixed and o.requires_grad:
            o = o.detach()
        elif id(o) in inputs:
            o = _as_view(o)
            o._view.meta = view.MULTI_OUTPUT if len(returned) > 1 else view.IN_FUNCTION
        elif grows and o._view is not None:
            o._view.meta = view.MULTI_OUTPUT if len(returned) > 1 else view.IN_FUNCTION
        o._edge = ctx.edge(number) if grows else None
        o._rg = grows
        if o._view is not None:
            o._view.stamp = o._storage.stamp
        results.append(o)
    _save(ctx, outputs, results, records)
    if records and seam.sink is not None:
        saved.report_node(ctx)
    return results[0] if single else type(output)(results)


def _dirty(
    cls: type[Function], ctx: BackwardCFunction, o: Tensor, number: int, grows: bool, count: int
) -> Tensor:
    """An input that forward wrote: it moves into the graph at this node."""
    name = cls.__name__
    if grows:
        if o._view is not None:
            if count > 1:
                raise RuntimeError(
                    "If your Function modifies inplace an input that is a view of another Tensor, "
                    "your Function cannot return more than one Tensor. This is not supported by "
                    "the current autograd engine. You should either make sure the input is not a "
                    "view (using .clone() for example) or make your Function only return one "
                    f"Tensor (potentially splitting it into two Functions): {name}"
                )
            if o._view.base._rg and o._view.base._edge is None:
                raise blame.leaf_inplace(o, name, view=True, used=True)
        elif o._rg and o._edge is None:
            raise blame.leaf_inplace(o, name, view=False, used=True)
    count_write(o, name)
    if grows:
        rebase(o, ctx)
        if o._edge is not None and o._edge[0] is ctx:
            o._edge = ctx.edge(number)
    return o


def _as_view(o: Tensor) -> Tensor:
    """An input that forward returned as it is: a view of it."""
    from ..ops.table import traced

    previous = modes.set_grad(False)
    try:
        result: Tensor = traced.view_as(o, o)
    finally:
        modes.set_grad(previous)
    return result


def _save(ctx: BackwardCFunction, outputs: list[Any], results: list[Any], records: bool) -> None:
    """Turn what save_for_backward was given into saved tensors of the node."""
    if not records:
        # Nobody will run this node; forward's temporaries should not live on in it.
        ctx.to_save = ()
        return
    kept: list[Any] = []
    stamps: list[Any] = []
    numbers = {id(o): i for i, o in enumerate(outputs)}
    pair = modes.state.saved_hooks[-1] if modes.state.saved_hooks else None
    for tensor in ctx.to_save:
        if tensor is None:
            kept.append(None)
            stamps.append(None)
            continue
        if type(tensor) is InferenceTensor:
            raise cannot_be_saved()
        number = numbers.get(id(tensor))
        stamps.append(tensor._storage.stamp)
        if number is not None:
            tensor = results[number]
            stamps[-1] = tensor._storage.stamp
        if pair is not None:
            own = number if number is not None and tensor._rg else None
            kept.append(saved.Packed(pair[0], pair[1], tensor, own))
        elif number is not None and tensor._rg:
            kept.append(saved.OwnOutput(tensor._array, tensor._storage, number, True))
        else:
            kept.append(tensor)
    ctx.s_saved_tensors, ctx.t_saved_tensors = tuple(kept), tuple(stamps)
    saved.guard(ctx, "saved_tensors")
    ctx.to_save = ()
    ctx.dirty_tensors = ctx.non_differentiable = ()


class _Twice(Node):
    """History of a gradient that was computed by a once_differentiable backward."""

    def name(self) -> str:
        return "Error"

    def raw(self, F: Any, g: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )

    traced = raw


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward that cannot itself be differentiated: doing so raises an error."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with_graph = modes.grad_enabled()
        previous = modes.set_grad(False)
        try:
            found = function(ctx, *args)
        finally:
            modes.set_grad(previous)
        tracked = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
        if not with_graph or not tracked:
            return found
        values = found if isinstance(found, tuple) else (found,)
        edges = tuple(a.gradient_edge() for a in tracked)

        def marked(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            result = value.detach()
            node = _Twice().start(edges, ((value._array.shape, value._array.dtype),))
            result._edge, result._rg = node.edge(), True
            return result

        results = tuple(marked(v) for v in values)
        return results if isinstance(found, tuple) else results[0]

    return wrapper


class InplaceFunction(Function):
    """A Function with an `inplace` flag (kept for code of the 0.4 era)."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def _flatten(value: Any, found: list[Any]) -> Any:
    """The structure of nested tuples, lists and dicts, their tensors collected in `found`."""
    if isinstance(value, Tensor):
        found.append(value)
        return _LEAF
    if isinstance(value, (tuple, list)):
        return type(value)(_flatten(v, found) for v in value)
    if isinstance(value, dict):
        return {k: _flatten(v, found) for k, v in value.items()}
    return value


_LEAF = object()


def _unflatten(structure: Any, values: Any) -> Any:
    if structure is _LEAF:
        return next(values)
    if isinstance(structure, (tuple, list)):
        return type(structure)(_unflatten(s, values) for s in structure)
    if isinstance(structure, dict):
        return {k: _unflatten(s, values) for k, s in structure.items()}
    return structure


class NestedIOFunction(Function):
    """A Function whose inputs and outputs may be nested (kept for code of the 0.4 era).

    Subclasses define `forward_extended(ctx, *nested)` and `backward_extended(ctx, *nested_grads)`
    as static methods and are called with `apply_nested`.
    """

    @classmethod
    def apply_nested(cls, *args: Any) -> Any:
        found: list[Any] = []
        structure = _flatten(args, found)
        box: list[Any] = []
        flat = cls.apply(structure, box, *found)
        flat = flat if isinstance(flat, tuple) else (flat,)
        return _unflatten(box[0], iter(flat))

    @staticmethod
    def forward(ctx: Any, structure: Any, box: list[Any], *flat: Any) -> Any:
        cls = ctx._forward_cls
        ctx.nested_inputs = structure
        result = cls.forward_extended(ctx, *_unflatten(structure, iter(flat)))
        found: list[Any] = []
        box.append(_flatten(result, found))
        ctx.nested_outputs = box[0]
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        cls = ctx._forward_cls
        nested = _unflatten(ctx.nested_outputs, iter(grads))
        given = nested if isinstance(nested, (tuple, list)) else (nested,)
        result = cls.backward_extended(ctx, *given)
        found: list[Any] = []
        _flatten(result if isinstance(result, tuple) else (result,), found)
        return (None, None, *found)

    @staticmethod
    def forward_extended(ctx: Any, *args: Any) -> Any:
        """User-defined forward on nested inputs; override it."""
        raise NotImplementedError("forward_extended is not implemented")

    @staticmethod
    def backward_extended(ctx: Any, *grads: Any) -> Any:
        """User-defined backward on nested gradients; override it."""
        raise NotImplementedError("backward_extended is not implemented")
