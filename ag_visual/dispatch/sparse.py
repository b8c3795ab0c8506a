"""What ops do with sparse tensors: a rule for some, and for all others an error that says so.

Nodes here have one rule for both namespaces of backward: gradients are arrays and `Coo`s, or
Tensors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ag_visual import dtypes
from ag_visual.arrays.backend import backend_of
from ag_visual.arrays.coo import Coo, no_sparse_rule
from ag_visual.core import modes, saved
from ag_visual.core.level import Batched, Lifted, lift
from ag_visual.core.node import Node
from ag_visual.core.saved_packed import Packed
from ag_visual.core.sparse import SparseTensor, tensor_of
from ag_visual.core.tensor import Tensor, before_write, check_inplace, from_array, rebase, wrote
from ag_visual.dispatch.arguments import NUMBERS
from ag_visual.dispatch.codegen.scope import slow_path_types
from ag_visual.dispatch.dims import broadcast
from ag_visual.dispatch.record import Op
from ag_visual.events import instrument
from ag_visual.promotion import result_type, scalar_dtype

slow_path_types.add(SparseTensor)


class SparseFirst(RuntimeError):
    """That a dense tensor was to be added to a sparse one, where torch wants it the other way."""

    def __init__(self) -> None:
        super().__init__("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")


# History ----------------------------------------------------------------------------------------


class SparseNode(Node):
    """A node of an operation on sparse tensors: `kept` is what its rule needs to know."""

    __slots__ = ("kept",)
    kept: Any

    def back(self, g: Any, *values: Any) -> tuple[Any, ...]:
        """The gradients of the inputs, whatever the gradient is of: sparse or dense, array or
        Tensor; values: what was saved, of the same kind, None where it is not needed.
        """
        raise NotImplementedError

    def raw(self, F: Any, g: Any) -> tuple[Any, ...]:
        return self.back(g, *(saved.raw(self, name) for name in self.saved_names))

    def traced(self, g: Any) -> tuple[Any, ...]:
        return self.back(g, *(saved.traced(self, name) for name in self.saved_names))

    def save(self, values: tuple[Any, ...]) -> None:
        """Keep tensors, which must not be written until backward has had them."""
        for name, value in zip(self.saved_names, values, strict=True):
            setattr(self, f"t_{name}", saved.stamp_of(value))
            if value is not None and modes.state.saved_hooks:
                value = Packed(*modes.state.saved_hooks[-1], value)
            setattr(self, f"s_{name}", value)
            saved.guard(self, name)

    def release(self) -> None:
        for name in self.saved_names:
            setattr(self, f"s_{name}", None)


def node_kind(
    name: str, back: Callable[..., tuple[Any, ...]], saves: tuple[str, ...] = ()
) -> type[SparseNode]:
    """The class of nodes with torch's name for them; back: what was kept, the gradient.

    saves: names of tensors that come first in what is kept, and that `back` gets last.
    """
    slots = tuple(f"{kind}_{each}" for each in saves for kind in "st")
    body = {"__slots__": slots, "__module__": "torch.autograd.graph", "saved_names": saves}
    rule = {"back": lambda self, g, *values: back(self.kept, g, *values)}
    return type(name, (SparseNode,), {**body, **rule})


def with_history(kind: type[SparseNode], inputs: tuple[Any, ...], result: Any, kept: Any) -> Any:
    """The result, with a node behind it where an input requires grad."""
    node = _history(kind, inputs, result, kept)
    if node is not None:
        result._edge = node.edge()
        result._rg = True
    return result


def _history(
    kind: type[SparseNode], inputs: tuple[Any, ...], result: Any, kept: Any
) -> SparseNode | None:
    if not modes.grad_enabled() or result._array.dtype.kind not in "fcV":
        return None
    edges = tuple(x.gradient_edge() if isinstance(x, Tensor) else None for x in inputs)
    if all(edge is None for edge in edges):
        return None
    node = kind().start(edges, ((result._array.shape, result._array.dtype),))
    count = len(node.saved_names)
    node.kept = kept[count:] if count else kept
    if count:
        node.save(kept[:count])
    if instrument.sink is not None:
        saved.report_node(node)
    return node


def is_sparse(x: Any) -> bool:
    """Whether a gradient or a tensor is in coordinate form."""
    return type(x) is Coo or type(x) is SparseTensor


def values_at(g: Any, where: Coo) -> Any:
    """The elements of a gradient, or of a tensor, at some positions."""
    if type(g) is Coo:
        return g.values_at(where)
    if not isinstance(g, Tensor):
        return g[tuple(where.indices)]
    if type(g) is not SparseTensor:
        return g[tuple(map(from_array, where.indices))]
    own = coalesced(g)
    at, found = own._array.picked(where)
    if not own._array.nnz:
        return from_array(where.values * 0)
    rows = values_of(own)[from_array(at)]
    shape = (where.nnz,) + (1,) * len(where.dense_shape)
    return rows * from_array(found.reshape(shape).astype(rows._array.dtype))


def _dense(g: Any) -> Any:
    if type(g) is Coo:
        return g.dense()
    return to_dense(g) if type(g) is SparseTensor else g


def like(where: Coo, values: Any) -> Any:
    """A gradient at these positions, of values that are an array or a Tensor."""
    if isinstance(values, Tensor):
        return assembled(where.indices, values, where.shape, where.coalesced_, where.csr)
    return where.with_values(values)


def _masked(kept: tuple[Coo, bool], g: Any) -> tuple[Any]:
    """Of to_dense: the gradient where elements were named, or (masked=False) everywhere."""
    where, masked = kept
    if not masked:
        return (g,)
    own = where.coalesced()
    return (like(own, values_at(g, own)),)


Assemble = node_kind(
    "SparseCooTensorWithDimsAndTensorsBackward0", lambda where, g: (values_at(g, where),)
)
ToDense = node_kind("ToDenseBackward0", _masked)
ToSparse = node_kind("ToSparseBackward0", lambda _, g: (_dense(g),))
ToSparseBy = node_kind("ToSparseBackward1", lambda _, g: (_dense(g),))
Coalesce = node_kind("CoalesceBackward0", lambda _, g: (g,))
Values = node_kind("ValuesBackward0", lambda where, g: (like(where, g),))
Clone = node_kind("CloneBackward0", lambda _, g: (g,))
Cast = node_kind("ToCopyBackward0", lambda dtype, g: (_cast(g, dtype),))
Neg = node_kind("NegBackward0", lambda _, g: (-g,))
Mul = node_kind("MulBackward0", lambda number, g: (g * number,))
Div = node_kind("DivBackward0", lambda number, g: (g / number,))
Add = node_kind("AddBackward0", lambda alpha, g: (g, g if alpha == 1 else g * alpha))
Sub = node_kind("SubBackward0", lambda alpha, g: (g, g * -alpha))


def _cast(g: Any, dtype: Any) -> Any:
    return g.to(dtypes.of_numpy(dtype)) if isinstance(g, Tensor) else g.astype(dtype)


# Forms ------------------------------------------------------------------------------------------


def assembled(
    indices: Any,
    values: Tensor,
    shape: tuple[int, ...],
    is_coalesced: bool = False,
    csr: bool = False,
) -> Tensor:
    """A sparse tensor of indices (an array) and values, which may have a history."""
    if isinstance(values, Batched):
        raise no_sparse_rule("view")
    if isinstance(values, Lifted):
        if values.requires_grad:
            raise NotImplementedError(
                "a sparse gradient inside of a function transform cannot be differentiated "
                "again: leave sparse=True out"
            )
        return lift(values.level, assembled(indices, values.value, shape, is_coalesced, csr))
    held = Coo(indices, values._array, shape, is_coalesced, csr)
    return with_history(Assemble, (values,), tensor_of(held), held)  # type: ignore[no-any-return]


def to_dense(x: SparseTensor, masked_grad: bool | None = None) -> Tensor:
    """All elements of a sparse tensor."""
    held = x._array
    result = from_array(held.dense())
    masked = True if masked_grad is None else masked_grad
    return with_history(ToDense, (x,), result, (held, masked))  # type: ignore[no-any-return]


def to_sparse(x: Tensor, sparse_dim: int | None = None) -> Tensor:
    """The elements of a dense tensor that are not zero."""
    array = x._array
    count = array.ndim if sparse_dim is None else sparse_dim
    some = array != 0
    if count < array.ndim:
        some = some.any(axis=tuple(range(count, array.ndim)))
    xp = backend_of(array).xp
    indices = xp.stack(xp.nonzero(some)) if count else xp.zeros((0, 1), xp.int64)
    values = array[tuple(indices)] if count else array[None].copy()
    kind = ToSparse if sparse_dim is not None else ToSparseBy
    result = tensor_of(Coo(indices, values, array.shape, True))
    return with_history(kind, (x,), result, None)  # type: ignore[no-any-return]


def on_positions(x: Tensor, where: Coo) -> Tensor:
    """The elements of a dense tensor at some positions, and wherever else one is not zero."""
    array = x._array.copy()
    array[tuple(where.indices)] = 1
    held: Coo = to_sparse(from_array(array), where.sparse_dim)._array
    held = held.with_values(x._array[tuple(held.indices)])
    return with_history(ToSparse, (x,), tensor_of(held), None)  # type: ignore[no-any-return]


def coalesced(x: SparseTensor) -> SparseTensor:
    """The same with sorted positions, each once: itself where it is so already."""
    held = x._array
    if held.coalesced_:
        return x
    return with_history(Coalesce, (x,), tensor_of(held.coalesced()), None)  # type: ignore[no-any-return]


def _rows_back(csr: bool, g: Any) -> tuple[Any]:
    if type(g) is Coo:
        return (g.in_rows(csr),)
    return (in_rows(g, csr) if type(g) is SparseTensor else g,)


Rows = node_kind("ToSparseBackward1", _rows_back)


def in_rows(x: SparseTensor, csr: bool = True) -> SparseTensor:
    """The same matrix known by compressed rows, or by coordinates."""
    held = x._array
    if held.csr == csr:
        return x
    result: SparseTensor = with_history(Rows, (x,), tensor_of(held.in_rows(csr)), held.csr)
    return result


def values_of(x: SparseTensor) -> Tensor:
    """The values of a sparse tensor that is coalesced."""
    held = x._array
    return with_history(Values, (x,), from_array(held.values), held)  # type: ignore[no-any-return]


# Ops --------------------------------------------------------------------------------------------

Rule = Callable[[dict[str, Any]], Any]
"""From the arguments: the kind of node, its inputs, the result as an array, what is kept. Or the
result as a Tensor, made of other operations.
"""

_rules: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def declare(rule: Rule) -> Rule:
        _rules.update(dict.fromkeys(names, rule))
        return rule

    return declare


def among(op: Op, given: list[Any]) -> bool:
    """Whether an op was given a sparse tensor."""
    for value in given:
        if type(value) is SparseTensor:
            return True
        if type(value) in (list, tuple) and any(type(x) is SparseTensor for x in value):
            return True
    return False


def _found(op: Op, given: list[Any], name: str) -> Any:
    rule = _rules.get(op.name)
    if rule is not None:
        return rule(dict(zip(op.params, given, strict=True)))
    if op.zero_preserving:
        return _of_values(given[0], op.call)
    raise no_sparse_rule(name)


def call(op: Op, given: list[Any]) -> Any:
    """One call of an op with a sparse tensor among what it was given."""
    found = _found(op, given, op.public_name)
    if isinstance(found, Tensor) or op.multi:
        return found
    kind, inputs, held, kept = found
    result = tensor_of(held) if type(held) is Coo else from_array(held)
    return with_history(kind, inputs, result, kept)


def write(op: Op, name: str, given: list[Any]) -> Any:
    """One call of an in-place op; a sparse target gets new indices and values."""
    target = given[0]
    if not isinstance(target, Tensor):
        raise no_sparse_rule(name)
    before_write(target)
    found = _found(op, given, name)
    if isinstance(found, Tensor):
        raise no_sparse_rule(name)
    kind, inputs, held, kept = found
    if type(held) is not type(target._array):
        raise no_sparse_rule(name)
    if held.shape != target._array.shape:
        raise RuntimeError(
            f"output with shape {list(target._array.shape)} doesn't match the broadcast shape "
            f"{list(held.shape)} in {name}"
        )
    if modes.grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        check_inplace(target, name)
    node = _history(kind, inputs, target, kept)
    if type(held) is Coo:
        target._array = held
        target._storage.wrote(name, None, held.values)
    else:
        target._array[...] = held
        wrote(target, name)
    if node is not None:
        rebase(target, node)
    return target


def _scalar(value: Any) -> Any:
    """A number, or the one that a tensor of one element without history is; else None."""
    if isinstance(value, NUMBERS):
        return value
    if isinstance(value, Tensor) and value._array.ndim == 0 and not is_sparse(value):
        return None if value.requires_grad else value.item()
    return None


def _promoted(held: Coo, number: Any, least: Any = None) -> Coo:
    """Indices and values in the dtype that they have with a number."""
    kind = result_type((dtypes.of_numpy(held.dtype), 2), (scalar_dtype(number), 0))
    if least is not None and kind.category < 2:
        kind = least
    return held if kind.np == held.dtype else held.astype(kind.np)


def _sum(given: dict[str, Any], sign: int) -> tuple[type[SparseNode], Any, Any, Any]:
    one, other, alpha = given["self"], given["other"], given["alpha"]
    name = "add" if sign > 0 else "sub"
    if is_sparse(one) and not is_sparse(other):
        raise SparseFirst
    if not isinstance(one, Tensor):
        raise no_sparse_rule(name)
    a, b = one._array, other._array
    if a.shape != b.shape:
        if type(a) is Coo:
            raise RuntimeError(
                f"add: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != "
                f"{list(b.shape)}"
            )
        raise RuntimeError(
            f"add: Expected size of 'self' to match that of the sparse 'other', but got "
            f"{list(a.shape)} and {list(b.shape)}. Sparse tensors are not broadcast."
        )
    factor = sign * alpha
    scaled = b if factor == 1 else b * factor
    return (Add if sign > 0 else Sub), (one, other), a + scaled, alpha


@rule("add")
def _add(given: dict[str, Any]) -> Any:
    return _sum(given, 1)


@rule("sub")
def _sub(given: dict[str, Any]) -> Any:
    return _sum(given, -1)


@rule("mul")
def _mul(given: dict[str, Any]) -> Any:
    one, other = given["self"], given["other"]
    if not is_sparse(one):
        one, other = other, one
    number = _scalar(other)
    if number is not None:
        return Mul, (one,), _promoted(one._array, number) * number, number
    a, b = one._array, other._array
    if a.shape != b.shape and (is_sparse(other) or broadcast(a.shape, b.shape) != a.shape):
        raise RuntimeError(
            f"mul: a sparse tensor of shape {list(a.shape)} is not broadcast to {list(b.shape)}. "
            "Call .to_dense() first."
        )
    inputs = (one, other) if one is given["self"] else (other, one)
    # A leaf gets the elements that count alone; what made a dense factor wants all.
    whole = tuple(not is_sparse(x) and not x.is_leaf for x in inputs)
    return Product, inputs, a * b, (*needed(*inputs), *whole)


def needed(one: Tensor, other: Tensor) -> tuple[Any, Any]:
    """Of two factors those that the gradient of the other one asks for."""
    return one if other.requires_grad else None, other if one.requires_grad else None


def _factors(whole: tuple[bool, bool], g: Any, one: Any, other: Any) -> tuple[Any, Any]:
    by_one = None if other is None else g * other
    by_other = None if one is None else g * one
    return _dense(by_one) if whole[0] else by_one, _dense(by_other) if whole[1] else by_other


Product = node_kind("MulBackward0", _factors, ("self", "other"))


@rule("conj_values")
def _conj(given: dict[str, Any]) -> Any:
    x = given["self"]
    return Conj, (x,), x._array.with_values(x._array.values.conj()), None


Conj = node_kind("ConjBackward0", lambda _, g: (g.conj(),))


@rule("true_divide")
def _div(given: dict[str, Any]) -> Any:
    one, number = given["self"], _scalar(given["other"])
    if number is None or not is_sparse(one):
        raise no_sparse_rule("div")
    held = _promoted(one._array, number, dtypes.get_default_dtype())
    return Div, (one,), held / number, number


@rule("neg")
def _neg(given: dict[str, Any]) -> Any:
    return Neg, (given["self"],), -given["self"]._array, None


@rule("clone_in")
def _clone(given: dict[str, Any]) -> Any:
    return Clone, (given["self"],), given["self"]._array.copy(), None


@rule("cast")
def _to(given: dict[str, Any]) -> Any:
    held = given["self"]._array
    return Cast, (given["self"],), held.astype(given["dtype"]), held.dtype


@rule("to_copy")
def _moved(given: dict[str, Any]) -> Any:
    x = given["self"]
    held = x._array
    return Move, (x,), _placed(held, given["dtype"], given["device"]), (held.dtype, x.device)


def _placed(array: Any, dtype: Any, device: Any) -> Any:
    """An array of either kind in a dtype and on a device."""
    if type(array) is Coo:
        indices = _placed(array.indices, array.indices.dtype, device)
        values = _placed(array.values, dtype, device)
        return Coo(indices, values, array.shape, array.coalesced_, array.csr)
    return from_array(array).to(device=device, dtype=dtypes.of_numpy(dtype))._array


def _back(kept: tuple[Any, Any], g: Any) -> tuple[Any]:
    dtype, device = kept
    if isinstance(g, Tensor):
        return (g.to(device=device, dtype=dtypes.of_numpy(dtype)),)
    return (_placed(g, dtype, device),)


Move = node_kind("ToCopyBackward0", _back)


@rule("copy_values")
def _copied(given: dict[str, Any]) -> Any:
    target, source = (given[name] for name in tuple(given)[:2])
    if not (is_sparse(target) and is_sparse(source)):
        raise no_sparse_rule("copy_")
    return Clone, (source,), source._array.copy(), None


@rule("pow_number")
def _pow(given: dict[str, Any]) -> Any:
    x, number = given.values()
    number = _scalar(number)
    if not is_sparse(x) or number is None or isinstance(number, complex) or number <= 0:
        raise no_sparse_rule("pow")
    return _of_values(x, operator.pow, number)


@rule("sum_all")
def _total(given: dict[str, Any]) -> Any:
    held = given["self"]._array
    return Total, (given["self"],), held.xp.asarray(held.values.sum()), held.shape


@rule("vector_norm")
def _norm(given: dict[str, Any]) -> Any:
    x, dim = given["self"], given["dim"]
    if isinstance(dim, int) or len(dim or ()) not in (0, x.ndim):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty "
            "or contain all dimensions of the input"
        )
    order = given["ord"]
    if (x.requires_grad and modes.grad_enabled()) or given["keepdim"] or not order > 0:
        raise no_sparse_rule("norm")
    values = from_array(x._array.coalesced().values)
    return Clone, (), values.norm(order)._array, None


Total = node_kind("SumBackward0", lambda shape, g: (_everywhere(g, shape),))


def _everywhere(g: Any, shape: tuple[int, ...]) -> Any:
    if isinstance(g, Tensor):
        return g.expand(shape)
    return backend_of(g).xp.broadcast_to(g, shape).copy()


def _of_values(x: Any, function: Callable[..., Any], *args: Any) -> Any:
    """A function that is zero at zero: computed of the values, after coalescing."""
    if x.requires_grad and modes.grad_enabled():
        own = coalesced(x)
        return like(own._array, function(values_of(own), *args))
    held = x._array.coalesced()
    values = function(from_array(held.values), *args)
    return Clone, (), held.with_values(values._array), None
