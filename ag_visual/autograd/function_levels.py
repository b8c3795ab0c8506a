"""Custom Functions at levels: what grad, jvp and vmap make of one call of `apply`.

`forward` runs once, on the tensors below all levels; `setup_context` once for each differentiating
level, with that level's tensors. Source: https://pytorch.org/docs/2.8/notes/extending.func.html
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from ag_visual.core import dual, modes
from ag_visual.core.dual import ForwardLevel
from ag_visual.core.level import Batched, Level, Lifted, Wrapper, lift, settle, wrap
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.levels import below
from ag_visual.dispatch.table import traced
from ag_visual.dispatch.tangents import depth_of

VmapInfo = namedtuple("VmapInfo", ("batch_size", "randomness"))

_MORE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


def settled(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments without wrappers of levels that are closed."""
    return tuple(settle(a) if isinstance(a, Wrapper) else a for a in args)


def level_of(args: tuple[Any, ...]) -> Level | None:
    """The innermost level among the arguments."""
    depth = max(map(depth_of, args), default=0)
    level: Level | None = modes.state.levels[depth - 1] if depth else None
    return level


def old_form_error(cls: Any) -> RuntimeError:
    return RuntimeError(
        "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, "
        f"...), it must override the setup_context staticmethod. {_MORE}: {cls.__name__}.forward "
        "takes ctx."
    )


def _held(value: Any, level: Level) -> Any:
    return value.value if isinstance(value, Wrapper) and value.level is level else value


def computed_below(cls: Any, args: tuple[Any, ...], level: Level) -> Any:
    """What the call gives below a differentiating level, as tensors of that level.

    An input that forward wrote and returned stays the same tensor.
    """
    lower = tuple(_held(a, level) for a in args)
    same = {id(x): a for x, a in zip(lower, args, strict=True) if isinstance(a, Lifted)}
    output = modes.at_levels(*below(modes.state.levels, level.depth - 1), False, cls.apply, *lower)

    def lifted(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return same.get(id(x)) if id(x) in same else lift(level, x)

    return tuple(map(lifted, output)) if isinstance(output, tuple) else lifted(output)


def pushed_below(cls: Any, args: tuple[Any, ...], level: Level) -> Any:
    """What a call whose forward takes ctx gives at a level of jvp, as tensors of that level.

    It runs below, on views of what the level's tensors hold, with what their tangents hold.
    """

    def below_it() -> Any:
        inner = ForwardLevel(level.depth)
        outer: Any = None
        same: dict[int, Any] = {}
        lower = []
        for arg in args:
            if not isinstance(arg, Lifted) or arg.level is not level:
                lower.append(arg)
                continue
            x = traced.view_as(arg.value, arg.value)
            dual.give_own_tangents(x)
            known = dual.dual_of(arg)
            if known is not None:
                outer = known[0]
                inner.give(x, _held(known[1], level))
            same[id(x)] = arg
            lower.append(x)

        def lifted(out: Any) -> Any:
            if not isinstance(out, Tensor):
                return out
            result = same[id(out)] if id(out) in same else lift(level, out)
            known = dual.dual_of(out)
            if known is not None and dual.dual_of(result) is None:
                outer.give(result, lift(level, known[1]))
            return result

        try:
            output = cls._called(tuple(lower), False, None)
            return tuple(map(lifted, output)) if isinstance(output, tuple) else lifted(output)
        finally:
            inner.close()

    return modes.at_levels(*below(modes.state.levels, level.depth - 1), False, below_it)


def mapped(base: Any, cls: Any, args: tuple[Any, ...], level: Level) -> Any:
    """The call under a vmap: by the class's own rule, or by one that is made of its methods.

    base: Function.
    """
    own = cls.vmap is not base.vmap
    if cls.generate_vmap_rule and own:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and "
            "an overriden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
            f"overriden vmap staticmethod to avoid ambiguity. {_MORE}"
        )
    if not (own or cls.generate_vmap_rule):
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please "
            "override and implement the vmap staticmethod or set generate_vmap_rule=True. "
            f"{_MORE}"
        )
    lower = tuple(_held(a, level) for a in args)
    in_dims = tuple(0 if isinstance(a, Batched) and a.level is level else None for a in args)
    world = below(modes.state.levels, level.depth - 1)
    if own:
        info = VmapInfo(level.size, level.randomness)
        found = modes.at_levels(*world, False, cls.vmap, info, in_dims, *lower)
        if not (isinstance(found, tuple) and len(found) == 2):
            raise RuntimeError(
                "Expected the vmap staticmethod to have two returns, an output and out_dims with "
                f"pytree structure compatible with the output. Got a {type(found)} from "
                f"{cls.__name__}.vmap. {_MORE}"
            )
        output, out_dims = found
        _check_out_dims(output, out_dims)
    else:
        generated = generated_for(base, cls, in_dims, level)
        output = modes.at_levels(*world, False, generated.apply, *lower)
        dims = generated.out_dims
        out_dims = tuple(dims) if isinstance(output, tuple) else dims[0]
    return _rewrapped(output, out_dims, level)


def _check_out_dims(output: Any, out_dims: Any) -> None:
    """Raise where the out_dims of a rule don't fit its outputs."""
    many = isinstance(output, tuple)
    fits = many and type(out_dims) is tuple and len(out_dims) == len(output)
    if isinstance(out_dims, (tuple, list)) and not fits:
        found = f"a tuple of {len(output)}" if many else f"a {type(output).__name__}"
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) "
            f"tuple. Expected out_dims={out_dims} to be compatible with the structure of `output`, "
            f"which is {found}. {_MORE}"
        )


def _rewrapped(output: Any, out_dims: Any, level: Level) -> Any:
    """Outputs of a rule as tensors of the level; out_dims: where each has the batch, or None."""
    if isinstance(output, tuple):
        dims = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(output)
        return tuple(_rewrapped(o, d, level) for o, d in zip(output, dims, strict=True))
    if out_dims is None or not isinstance(output, Tensor):
        return output
    return wrap(Batched, level, output.movedim(out_dims, 0) if out_dims else output)


# A rule made of the methods of the class --------------------------------------------------------


class _Inner:
    """The ctx that the methods of the class see, under the vmap; it keeps what is not theirs."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Any, ...] = ()
        self._kept: dict[str, Any] = {
            "backward": (),
            "forward": (),
            "dirty": (),
            "fixed": (),
            "materialize": True,
        }

    def save_for_backward(self, *tensors: Any) -> None:
        self._kept["backward"] = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self._kept["forward"] = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        self._kept["dirty"] = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self._kept["fixed"] = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self._kept["materialize"] = value


class _Slices:
    """Stands in an attribute of ctx for the slices of a tensor; of: what says under which vmap."""

    __slots__ = ("of", "whole")

    def __init__(self, of: object, whole: Any) -> None:
        self.of = of
        self.whole = whole


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    """An attribute of ctx with `change` made of everything in it, from the inside out."""
    kind = type(value)
    if kind is list or kind is tuple:
        return kind([_each(change, item) for item in value])
    if kind is dict:
        return {key: _each(change, item) for key, item in value.items()}
    if kind is _Slices:
        value = _Slices(value.of, _each(change, value.whole))
    return change(value)


def generated_for(base: Any, cls: Any, in_dims: tuple[Any, ...], level: Level) -> Any:
    """A Function of whole batches whose methods are those of the class under a vmap."""
    size, randomness = level.size, level.randomness
    out_dims: list[Any] = []

    def under(function: Callable[..., Any]) -> tuple[Any, Level]:
        inner = Level("vmap", size, randomness)
        return inner.run(function, inner), inner

    def slices(inner: Level, values: Any, dims: Any) -> list[Any]:
        pairs = zip(values, dims, strict=True)
        return [x if d is None or x is None else wrap(Batched, inner, x) for x, d in pairs]

    def taken(inner: Level, value: Any) -> tuple[Any, Any]:
        """A value without the level, and where it has the batch."""
        if isinstance(value, Batched) and value.level is inner:
            return value.value, 0
        return value, None

    def forward(*args: Any) -> Any:
        output, inner = under(lambda inner: cls.forward(*slices(inner, args, in_dims)))
        single = not isinstance(output, tuple)
        parts = [taken(inner, o) for o in ((output,) if single else output)]
        out_dims[:] = [d for _, d in parts]
        return parts[0][0] if single else tuple(x for x, _ in parts)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        kept = _Inner(ctx.needs_input_grad)
        single = not isinstance(output, tuple)
        given: dict[int, Any] = {}

        def body(inner: Level) -> None:
            wrapped = slices(inner, inputs, in_dims)
            outs = slices(inner, (output,) if single else output, out_dims)
            originals = (*inputs, *((output,) if single else output))
            given.update({id(w): o for w, o in zip((*wrapped, *outs), originals, strict=True)})
            ctx._wrapped = wrapped, outs  # alive as long as their ids are asked for
            cls.setup_context(kept, tuple(wrapped), outs[0] if single else tuple(outs))

        _, inner = under(body)

        def original(t: Any) -> Any:
            return given.get(id(t), taken(inner, t)[0])

        def hidden(value: Any) -> Any:
            whole, dim = taken(inner, value)
            return value if dim is None else _Slices(out_dims, whole)

        facts = kept.__dict__.pop("_kept")
        ctx.save_for_backward(*map(original, facts["backward"]))
        ctx.save_for_forward(*map(original, facts["forward"]))
        ctx.mark_dirty(*map(original, facts["dirty"]))
        ctx.mark_non_differentiable(*map(original, facts["fixed"]))
        ctx.set_materialize_grads(facts["materialize"])
        ctx._dims = {
            name: [taken(inner, t)[1] for t in facts[name]] for name in ("backward", "forward")
        }
        ctx._attributes = {
            name: _each(hidden, value)
            for name, value in kept.__dict__.items()
            if name not in ("needs_input_grad", "saved_tensors")
        }
        ctx._out_dims = list(out_dims)
        del ctx._wrapped

    def again(ctx: Any, inner: Level, which: str, tensors: Any) -> _Inner:
        kept = _Inner(ctx.needs_input_grad)
        kept.saved_tensors = tuple(slices(inner, tensors, ctx._dims[which]))

        def shown(value: Any) -> Any:
            mine = type(value) is _Slices and value.of is out_dims
            return wrap(Batched, inner, value.whole) if mine else value

        for name, value in ctx._attributes.items():
            setattr(kept, name, _each(shown, value))
        return kept

    def backward(ctx: Any, *grads: Any) -> Any:
        def body(inner: Level) -> Any:
            kept = again(ctx, inner, "backward", ctx.saved_tensors)
            found = cls._user_backward()(kept, *slices(inner, grads, ctx._out_dims))
            return found if isinstance(found, tuple) else (found,)

        found, inner = under(body)
        results: list[Any] = []
        for g, dim in zip(found, in_dims, strict=True):
            value, has = taken(inner, g)
            if value is None:
                results.append(None)
            elif dim is None:
                results.append(value.sum(0) if has == 0 else value * size)
            else:
                results.append(inner.whole(g))
        return tuple(results)

    def jvp(ctx: Any, *tangents: Any) -> Any:
        def body(inner: Level) -> Any:
            kept = again(ctx, inner, "forward", ctx.saved_for_forward)
            return cls.jvp(kept, *slices(inner, tangents, in_dims))

        found, inner = under(body)
        single = not isinstance(found, tuple)
        parts = [
            None if t is None else inner.whole(t) if d == 0 else taken(inner, t)[0]
            for t, d in zip((found,) if single else found, ctx._out_dims, strict=True)
        ]
        return parts[0] if single else tuple(parts)

    methods = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "jvp": staticmethod(jvp),
        "out_dims": out_dims,
        "generate_vmap_rule": True,
    }
    return type(f"Vmapped{cls.__name__}", (base,), methods)
