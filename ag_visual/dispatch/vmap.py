"""How an op runs on a batch: one call on stacked inputs instead of one for each of them.

A rule is a function of a `Batch`: the call with the batch dimension of each input moved to the
front, and with its arguments checked and completed for one slice. It answers with the results, the
batch in front, and reaches ops through the namespace it is given only: it runs on arrays, on
Tensors (whose gradients flow through it) and on wrappers of either. An in-place variant writes what
the rule computes; random ops draw for every slice or are refused, as the caller says. A declaration
names its family here, or a rule of its own; else it follows from the record (`rule_of`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ag_visual import promotion
from ag_visual.core.level import no_randomness
from ag_visual.dispatch.jvp import called
from ag_visual.dispatch.stated import Same

if TYPE_CHECKING:
    from ag_visual.dispatch.record import Op

Rule = Callable[["Batch"], Any]

DIMS = ("dim", "dims", "dim0", "dim1", "dim2", "dimension")
"""Arguments that number dimensions of the input, from its front: the batch shifts them by one."""
SIZES = ("size", "input_sizes", "sizes")
"""Arguments that are whole shapes: the batch is one more dimension in front."""


class Batch:
    """A call of an op on `size` slices at once.

    `batch[name]` is an input with the batch in front (if it has one: `name in batch`), or an
    argument; `rank` and `shape` are those of one slice.
    """

    __slots__ = ("F", "_has", "op", "size", "values")

    def __init__(
        self, F: Any, op: Op, size: int, values: dict[str, Any], has: dict[str, Any]
    ) -> None:
        self.F = F
        self.op = op
        self.size = size
        self.values = values
        self._has = has

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return bool(self._has[name])

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one slice."""
        shape = tuple(self.values[name].shape)
        return shape[1:] if self._has[name] else shape

    def rank(self, name: str) -> int:
        """The number of dimensions of one slice."""
        return len(self.shape(name))

    @property
    def tensors(self) -> list[str]:
        """The inputs that are tensors in this call: not numbers, not left out."""
        return [n for n in self.op.inputs if hasattr(self.values[n], "shape")]

    def full(self, name: str) -> Any:
        """The input with the batch in front, expanded to it if it has none."""
        return self.filled(self.values[name], self._has[name])

    def filled(self, x: Any, has: bool) -> Any:
        return x if has else self.F.expand(x, (self.size, *x.shape))

    def padded(self, name: str, rank: int) -> Any:
        """The input with dimensions of size one after the batch, so that a slice has `rank`."""
        x = self.values[name]
        if self._has[name]:
            for _ in range(rank - (x.ndim - 1)):
                x = self.F.unsqueeze(x, 1)
        return x

    def items(self, name: str) -> list[Any]:
        """The tensors of a list, each with the batch in front."""
        pairs = zip(self.values[name], self._has[name], strict=True)
        return [None if x is None else self.filled(x, has) for x, has in pairs]

    def batched(self, name: str) -> tuple[bool, ...]:
        """Which tensors of a list have the batch."""
        return tuple(self._has[name])

    def run(self, /, **changed: Any) -> Any:
        """The op itself, with some of this call's values changed."""
        return called(self.F, self.op, {**self.values, **changed})

    def changed(self, /, **values: Any) -> Batch:
        """This call with other values; those that are not None are batched, too, if tensors."""
        has = {n: hasattr(v, "shape") or None for n, v in values.items()}
        found = {**self.values, **values}
        return Batch(self.F, self.op, self.size, found, {**self._has, **has})

    def of_zeros(self) -> Batch:
        """This call with one slice of zeros in place of none."""

        def blank(x: Any, has: bool) -> Any:
            if not has:
                return x
            if self.F.traced and x._array.dtype.kind in "fc":
                return self.F.sum(x, 0, True)  # zeros whose history is that of the slices
            return self.F.zeros_of(x, (1, *x.shape[1:]))

        found = dict(self.values)
        for name, has in self._has.items():
            if isinstance(has, tuple):
                pairs = zip(found[name], has, strict=True)
                found[name] = tuple(blank(x, each) for x, each in pairs)
            else:
                found[name] = blank(found[name], has)
        return Batch(self.F, self.op, 1, found, self._has)

    def of(self, op: Op) -> Batch:
        """This call, of another op with the same parameters."""
        return Batch(self.F, op, self.size, self.values, self._has)

    def on(self, name: str) -> Any:
        """Another op of the same namespace."""
        return getattr(self.F, name)


# Families ---------------------------------------------------------------------------------------


def elementwise(batch: Batch) -> Any:
    """Inputs that broadcast: their slices get equally many dimensions, then the batches align."""
    rank = max((batch.rank(n) for n in batch.tensors), default=0)
    changed = {n: batch.padded(n, rank) for n in batch.tensors}
    return batch.run(**_promoted(batch, changed))


def _promoted(batch: Batch, changed: dict[str, Any]) -> dict[str, Any]:
    """Inputs in the dtype of their slices: a batch of 0-d tensors counts as 0-d ones."""
    op, F = batch.op, batch.F
    taking = [n for n in changed if n not in op.no_promotion]
    if op.policy == "keep" or not F.traced or not any(batch.rank(n) == 0 for n in taking):
        return changed
    operands = [(changed[n].dtype, 2 if batch.rank(n) else 1) for n in taking]
    if all(kind is operands[0][0] for kind, _ in operands):
        return changed
    numbers = [batch[n] for n in op.inputs if n not in op.no_promotion and n not in changed]
    operands += [(promotion.scalar_dtype(x), 0) for x in numbers if x is not None]
    if op.check is not None:
        op.check(*[changed[n] if n in changed else batch.values.get(n) for n in op.params])
    target = promotion.result_type(*operands)
    return {n: F.cast(x, target.np) if n in taking else x for n, x in changed.items()}


def along(batch: Batch) -> Any:
    """Ops over dimensions, and views: dimension numbers shift, shapes get the batch in front."""
    op, F = batch.op, batch.F
    names = batch.tensors
    whole = {n: batch.full(n) for n in names}
    rank = batch.rank(names[0])
    numbered = [a for a in op.arguments if a in DIMS]
    shapes = [a for a in op.arguments if a in SIZES and isinstance(batch[a], (tuple, list))]
    flat = rank == 0 and bool(numbered) and not shapes
    if flat:
        # A 0-d slice takes dimension 0 as if it had one.
        whole = {n: x if batch.rank(n) else F.unsqueeze(x, 1) for n, x in whole.items()}
        rank = 1
    for name in numbered:
        value = batch[name]
        if isinstance(value, int):
            whole[name] = value + 1
        elif value is None:
            return _of_everything(batch, whole, name)
        elif len(value) == 0 and "keepdim" in op.params:
            whole[name] = tuple(range(1, rank + 1))
        else:
            whole[name] = tuple(d + 1 for d in value)
    for name in shapes:
        whole[name] = (batch.size, *batch[name])
    result = batch.run(**whole)
    return each(lambda x: F.squeeze(x, 1) if x.ndim > 1 else x, result) if flat else result


def _of_everything(batch: Batch, whole: dict[str, Any], dim: str) -> Any:
    """Without a dimension an op takes all elements in a row: each slice becomes one."""
    F = batch.F
    rows = {n: F.reshape(whole[n], (batch.size, -1)) for n in batch.tensors}
    result = batch.run(**{**whole, **rows, dim: 1})
    if not batch.values.get("keepdim"):
        return result
    rank = batch.rank(batch.tensors[0])
    return each(lambda x: F.reshape(x, (batch.size, *(1,) * rank)), result)


def leading(**cores: int) -> Rule:
    """Ops on the last dimensions of their inputs; all dimensions before are batches already.

    cores: of how many last dimensions each of several inputs consists.
    """

    def rule(batch: Batch) -> Any:
        names = batch.tensors
        if len(names) < 2:
            return batch.run()
        before = {n: batch.rank(n) - cores[n] for n in names}
        most = max(before.values())
        return batch.run(**{n: batch.padded(n, most + cores[n]) for n in names})

    return rule


def in_rows(batch: Batch) -> Any:
    """As `leading`, for ops that want row-major memory: the batch may have been moved."""
    (name,) = batch.tensors
    return batch.run(**{name: batch.F.contiguous(batch[name])})


def folded(*names: str, sizes: tuple[str, ...] = (), least: int = 0) -> Rule:
    """Ops whose named inputs have a batch of their own in front: both become one.

    sizes: arguments that are shapes with that batch in front. least: of how many dimensions an
    input with its own batch consists (one with fewer gets one of size 1 first).
    """

    def rule(batch: Batch) -> Any:
        for name in batch.tensors:
            if name not in names and name in batch:
                raise no_rule(batch.op, f"with a batch of {name!r}")
        F = batch.F
        given = [n for n in names if n in batch.tensors]
        short = batch.rank(given[0]) < least
        inner = 1 if short else batch.shape(given[0])[0]
        changed: dict[str, Any] = {}
        for name in given:
            x = batch.full(name)
            changed[name] = x if short else F.reshape(x, (batch.size * inner, *x.shape[2:]))
        for name in sizes:
            if not short:
                changed[name] = (batch.size * batch[name][0], *batch[name][1:])
            else:
                changed[name] = (batch.size, *batch[name])
        result = batch.run(**changed)
        if short:
            return result
        return each(lambda x: F.reshape(x, (batch.size, inner, *x.shape[1:])), result)

    return rule


def whole(batch: Batch) -> Any:
    """Ops that want every input with the batch in front, as those that do not broadcast."""
    return batch.run(**{n: batch.full(n) for n in batch.tensors})


def joined(batch: Batch) -> Any:
    """A list of tensors joined along a dimension."""
    (name,) = batch.op.lists
    items = batch.items(name)
    most = max(x.ndim for x in items)
    # Empty vectors may be joined to anything; a batch of them may not.
    items = [x for x in items if x.ndim == most or tuple(x.shape[1:]) != (0,)]
    return batch.run(**{name: items, "dim": batch["dim"] + 1})


def over_all(name: str) -> Rule:
    """A reduction of everything is the op `name` over every dimension but the batch."""

    def rule(batch: Batch) -> Any:
        (x,) = (batch[n] for n in batch.op.inputs)
        x = x if x.ndim > 1 else batch.F.unsqueeze(x, 1)
        return batch.on(name)(x, tuple(range(1, x.ndim)), False)

    dims = lambda rank: tuple(range(1, rank + 1))  # noqa: E731
    return Same(name, dim=dims, keepdim=False, when=lambda rank: rank, otherwise=rule)


def flattened(name: str, *rest: Any, output: int | None = None) -> Rule:
    """A reduction of everything is the op `name` along the one dimension of flattened slices."""

    def rule(batch: Batch) -> Any:
        (x,) = (batch[n] for n in batch.op.inputs)
        result = batch.on(name)(batch.F.reshape(x, (batch.size, -1)), 1, *rest)
        return result if output is None else result[output]

    return rule


def reduced(pointwise: Rule) -> Rule:
    """A loss: without a reduction by `pointwise`, then reduced over every slice."""

    def rule(batch: Batch) -> Any:
        return collected(batch, pointwise(batch.changed(reduction=0)))

    return rule


def collected(batch: Batch, values: Any) -> Any:
    """The losses of every slice as its `reduction` says: all, their mean, their sum."""
    reduction = batch["reduction"]
    if reduction == 0 or values.ndim == 1:
        return values
    total = batch.F.sum(values, tuple(range(1, values.ndim)))
    return total if reduction == 2 else total / math.prod(values.shape[1:])


def reduced_back(pointwise: Rule, like: str = "self") -> Rule:
    """The gradient of a loss: that of its elements, to which the reduction's is spread."""

    def rule(batch: Batch) -> Any:
        reduction, F = batch["reduction"], batch.F
        if reduction == 0:
            return pointwise(batch)
        g = batch.full("grad_output")
        names = [n for n in batch.tensors if n != "grad_output"]
        shapes = [batch.shape(n) for n in names]
        shape = numpy.broadcast_shapes(*shapes)
        g = F.expand(F.reshape(g, (batch.size, *(1,) * len(shape))), (batch.size, *shape))
        g = g if reduction == 2 else g / math.prod(shape)
        return pointwise(batch.changed(grad_output=g, reduction=0))

    return rule


def constant(batch: Batch) -> Any:
    """A result that says nothing of its input's values."""
    return each(lambda x: batch.filled(x, False), batch.run())


def random(rule: Rule, same: Rule | None = None) -> Rule:
    """A draw: refused, or different for each slice by `rule`, as `randomness` says.

    same: a rule that draws once for all slices; without one that is refused.
    """

    def drawn(batch: Batch) -> Any:
        if batch["randomness"] == "error":
            raise no_randomness()
        if batch["randomness"] == "different":
            return rule(batch)
        if same is None:
            raise RuntimeError(
                "Vmap does not currently support same randomness with a batched tensor input. "
                f"{batch.op.public_name}: draw outside of the batch, or pass "
                "randomness='different'."
            )
        return same(batch)

    drawn.draws_once = same is not None  # type: ignore[attr-defined]
    return drawn


def draws(op: Op) -> bool:
    """Whether an op is random: asked at every level, whatever its inputs are."""
    return hasattr(op.batch, "draws_once")


def drawn_once(batch: Batch) -> Any:
    """What a random op draws for one slice, for all of them."""
    (name,) = batch.tensors
    blank = batch.F.zeros_of(batch[name], batch.shape(name))
    return batch.filled(batch.run(**{name: blank}), False)


def slice_by_slice(batch: Batch) -> Any:
    """One call for each slice, their results stacked: for ops that no call does for all of them."""
    F = batch.F
    names = [n for n in batch.tensors if n in batch]
    found = [batch.run(**{n: F.select(batch[n], 0, i) for n in names}) for i in range(batch.size)]
    if not isinstance(found[0], (tuple, list)):
        return F.stack(found)
    return tuple(F.stack(list(parts)) for parts in zip(*found, strict=True))


def data_dependent(batch: Batch) -> Any:
    """No rule: the shape of the result depends on values, and so differs between slices."""
    raise dynamic_shape(batch.op.aten or batch.op.public_name)


def dynamic_shape(name: str) -> RuntimeError:
    """The error of an op whose result differs in shape between slices."""
    return RuntimeError(
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to "
        f"vmap over aten::{name}. Use an op whose result has the same shape for "
        "every slice (torch.where, a mask that multiplies), or loop."
    )


def boolean_mask() -> RuntimeError:
    """The error of indexing with a mask that differs between slices."""
    return RuntimeError(
        "vmap: We do not support batching operators that can support dynamic shape. Attempting to "
        "batch over indexing with a boolean mask. Use torch.where(mask, x, 0), or masked_fill."
    )


def no_rule(op: Op, what: str = "") -> RuntimeError:
    return RuntimeError(
        f"vmap: Batching rule not implemented for {op.public_name} {what}".rstrip()
        + ". Loop over the "
        "slices, or batch another of its inputs."
    )


# Running ----------------------------------------------------------------------------------------


def each(change: Callable[[Any], Any], result: Any) -> Any:
    """One result changed, or every one of several."""
    if isinstance(result, (tuple, list)):
        return tuple(change(x) for x in result)
    return change(result)


def rule_of(op: Op) -> Rule | None:
    """The batching rule of a record: the declared one, or what follows from its parameters.

    Where an op names dimensions or a shape, they shift; a promoting op that names neither, and no
    reduction, is elementwise. The property tests hold each such conclusion against a loop.
    """
    if op.batch is not None:
        return op.batch
    if op.lists or not op.inputs:
        return None
    if any(a in DIMS or a in SIZES for a in op.arguments):
        return along
    if op.policy != "keep" and "reduction" not in op.params:
        return elementwise
    return None


def batch(
    F: Any,
    op: Op,
    args: tuple[Any, ...],
    in_dims: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    randomness: str = "error",
) -> Any:
    """An op on stacked inputs: its results, with the batch in front.

    args: one value for each parameter of the record (kwargs: those by keyword). in_dims: for each
    value the dimension that is the batch, or None; for a list a tuple of them.
    """
    bound = op.signature.bind(*args, **(kwargs or {}))
    dims = dict(zip(bound.arguments, in_dims, strict=False))
    bound.apply_defaults()
    return batch_values(F, op, dict(bound.arguments), dims, randomness)


def batch_values(
    F: Any, op: Op, given: dict[str, Any], dims: dict[str, Any], randomness: str = "error"
) -> Any:
    """The same, with the value of every parameter, and the dimensions of some, by name."""
    values: dict[str, Any] = {}
    has: dict[str, Any] = {}
    sizes = set()
    for name in op.params:
        value, dim = given[name], dims.get(name)
        if name in op.lists:
            parts = dim if isinstance(dim, (tuple, list)) else (dim,) * len(value)
            values[name] = tuple(_front(F, x, d) for x, d in zip(value, parts, strict=True))
            has[name] = tuple(d is not None for d in parts)
            sizes |= {x.shape[0] for x, d in zip(values[name], parts, strict=True) if d is not None}
        else:
            values[name] = _front(F, value, dim)
            has[name] = dim is not None
            if dim is not None:
                sizes.add(values[name].shape[0])
    if len(sizes) != 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sorted(sizes)} for the mapped dimension"
            if sizes
            else "vmap: no input has a batch dimension"
        )
    return run_rule(F, op, sizes.pop(), values, has, randomness)


def run_rule(
    F: Any, op: Op, size: int, values: dict[str, Any], has: dict[str, Any], randomness: str
) -> Any:
    """What the rule of an op gives for values that have the batch in front where `has` says so."""
    rule = rule_of(op)
    if rule is None:
        raise no_rule(op)
    call = Batch(F, op, size, values, has)
    if op.normalize is not None:
        stand_ins = [_stand_in(call, n) for n in op.params]
        values.update(zip(op.arguments, op.normalize(*stand_ins), strict=True))
    values["randomness"] = randomness
    if call.size:
        return rule(call)
    try:
        return rule(call)
    except (RuntimeError, ValueError, IndexError, ZeroDivisionError):
        # Not every op takes nothing: the shapes are those of one slice of zeros.
        return each(lambda x: F.narrow(x, 0, 0, 0), rule(call.of_zeros()))


def batch_inplace(
    F: Any,
    op: Op,
    args: tuple[Any, ...],
    in_dims: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    randomness: str = "error",
) -> Any:
    """The in-place variant of an op on stacked inputs: computed by the rule, then written.

    Its first argument must have the batch: one tensor cannot hold the results of several slices.
    """
    target, dim = args[0], in_dims[0]
    if dim is None:
        raise RuntimeError(
            f"vmap: {op.public_name}_(self, *extra_args) is not possible because there exists a "
            "Tensor in extra_args that has more elements than self: it has a batch, and self has "
            "none. "
            f"Use the out-of-place operator {op.public_name} instead, or batch self, too."
        )
    result = batch(F, op, args, in_dims, kwargs, randomness)
    front = _front(F, target, dim)
    if F.traced:
        op.table.of("copy_values").write(front, result)
    else:
        front[...] = result
    return target


def _front(F: Any, x: Any, dim: int | None) -> Any:
    if dim is None:
        return x
    dim = dim + x.ndim if dim < 0 else dim
    return F.movedim(x, dim, 0) if dim else x


def _stand_in(call: Batch, name: str) -> Any:
    """What `normalize` gets for a slice: an array of zeros of its shape and dtype."""
    value = call[name]
    if name in call.op.lists:
        pairs = zip(value, call.batched(name), strict=True)
        return tuple(None if x is None else _zeros(x, x.shape[has:]) for x, has in pairs)
    if name not in call.op.inputs or not hasattr(value, "shape"):
        return value
    return _zeros(value, call.shape(name))


def _zeros(x: Any, shape: Any) -> Any:
    return numpy.zeros(tuple(shape), getattr(x, "_array", x).dtype)
