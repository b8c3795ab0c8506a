"""The checkers: each takes a call of an op and raises AssertionError where a property fails.

Gradients are torch's: of a real loss L the gradient is dL/da + i dL/db for z = a + ib. A loss is
made of outputs f with fixed cotangents g: L = Re sum(conj(g) f).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ag_visual.autograd.api import backward, grad
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch import op_node, table
from ag_visual.dispatch.memory_overlap import repeats
from ag_visual.dispatch.table import raw_numpy, traced
from ag_visual.events.live import whole

from ..near import assert_near
from .cases import Array, Call, arguments, carrying, cotangents, host, listed, run

STEP = 1e-6


def close(found: Any, expected: Any, what: str, rtol: float = 1e-5, atol: float = 1e-7) -> None:
    """Equal up to rounding, NaN where NaN is expected."""
    assert_near(found, expected, rtol, atol, what)


def _inner(a: Array, b: Array) -> float:
    """Re <a, b>, with 0 * inf = 0 left out (gradients at places that do not count)."""
    return float(numpy.vdot(a, b).real)


def forward(call: Call) -> list[Array]:
    """The differentiable outputs as arrays."""
    values, _ = call.tensors(grad=False)
    return [host(out) for out in carrying(call.op, run(call.op, values))]


def vjp(
    call: Call, gs: list[Array] | None = None, function: Callable[..., Any] | None = None
) -> dict[str, Array]:
    """The gradient of each leaf, by backward on arrays."""
    values, leaves = call.tensors()
    outputs = run(call.op, values, function)
    gs = cotangents(call.op, outputs) if gs is None else gs
    return gradients(call, outputs, leaves, gs)


def gradients(
    call: Call, outputs: list[Tensor], leaves: dict[str, Tensor], gs: list[Array]
) -> dict[str, Array]:
    pairs = [
        (out, from_array(g))
        for out, g in zip(carrying(call.op, outputs), gs, strict=True)
        if out.requires_grad
    ]
    if not pairs or not leaves:
        return {}
    found = grad(
        [out for out, _ in pairs],
        list(leaves.values()),
        [g for _, g in pairs],
        allow_unused=True,
    )
    return {
        label: numpy.zeros(leaf.shape, leaf.dtype.np) if each is None else host(each)
        for (label, leaf), each in zip(leaves.items(), found, strict=True)
    }


Loss = Callable[[dict[str, Array]], float]


def _difference(loss: Loss, leaves: dict[str, Array], label: str, move: Array) -> float:
    """The slope of a loss where one leaf moves along an array, by a central difference."""
    array = leaves[label]
    ends = (numpy.asarray(array + step * move) for step in (STEP, -STEP))
    high, low = (loss({**leaves, label: end}) for end in ends)
    return (high - low) / (2 * STEP)


def numeric(loss: Loss, leaves: dict[str, Array], label: str) -> Array:
    """The gradient of a loss by central differences, element by element."""
    array = leaves[label]
    slopes = numpy.zeros(array.shape, array.dtype)
    for at in numpy.ndindex(array.shape):
        for direction in (1, 1j) if array.dtype.kind == "c" else (1,):
            move = numpy.zeros(array.shape, array.dtype)
            move[at] = direction
            slopes[at] += direction * _difference(loss, leaves, label, move)
    return slopes


def check_slopes(
    loss: Loss, leaves: dict[str, Array], found: dict[str, Array], rtol: float, atol: float
) -> None:
    """Gradients agree with differences of a loss, along two random directions of each leaf.

    A wrong element shows along nearly every direction; the second one is for the others. Where a
    slope is not finite, a sum would hide all other elements: there each one is looked at.
    """
    for label, array in leaves.items():
        gradient = found[label]
        assert gradient.shape == array.shape, f"gradient of {label}"
        for seed in (9, 10):
            move = directions({label: array}, seed)[label]
            terms = (numpy.conj(gradient) * move).real
            slope = _difference(loss, leaves, label, move)
            if not numpy.isfinite([slope, terms.sum()]).all():
                close(gradient, numeric(loss, leaves, label), f"gradient of {label}", rtol, atol)
                break
            allowed = atol * max(1.0, array.size**0.5) + rtol * abs(terms).sum()
            assert abs(terms.sum() - slope) <= allowed, (
                f"gradient of {label}: {terms.sum()} along a direction, by differences {slope}"
            )


# Derivatives ------------------------------------------------------------------------------------


def check_vjp(call: Call) -> None:
    """The vjp agrees with finite differences."""
    values, _ = call.tensors()
    gs = cotangents(call.op, run(call.op, values))

    def loss(leaves: dict[str, Array]) -> float:
        return sum(_inner(g, f) for g, f in zip(gs, forward(call.replaced(leaves)), strict=True))

    leaves, found = call.leaves, vjp(call, gs)
    assert found.keys() <= leaves.keys()
    check_slopes(loss, leaves, found, rtol=2e-5, atol=1e-6)
    for label, array in leaves.items():
        assert found[label].dtype == array.dtype


def tangent(call: Call, moves: dict[str, Array]) -> list[Array]:
    """The directional derivative: by the record's jvp, on arrays and on Tensors alike, else by
    transposing the vjp.
    """
    op = call.op
    if op.jvp is None:
        return _transposed(call, moves)
    values, _ = call.tensors(grad=False)
    moved = _forward(op, call.values, _by_input(call, moves), raw_numpy)
    wrapped = {n: _wrapped(t) for n, t in _by_input(call, moves).items()}
    for array, tensor in zip(moved, _forward(op, values, wrapped, traced), strict=True):
        close(host(tensor), array, "jvp of Tensors and of arrays", rtol=1e-9, atol=1e-12)
    return moved


def _wrapped(tangent: Any) -> Any:
    return tuple(map(from_array, tangent)) if isinstance(tangent, list) else from_array(tangent)


def _forward(
    op: Any, values: dict[str, Any], tangents: dict[str, Any], namespace: Any
) -> list[Any]:
    positional, keyword = arguments(op, values)
    with numpy.errstate(all="ignore"):
        _, moved = table.jvp(op, tuple(positional), tangents, keyword, namespace=namespace)
    return list(moved) if isinstance(moved, (tuple, list)) else [moved]


def _by_input(call: Call, moves: dict[str, Array]) -> dict[str, Any]:
    """Tangents by the input's name: a list for a list of inputs."""
    tangents: dict[str, Any] = {}
    for label, move in moves.items():
        name, _, index = label.partition("[")
        if index:
            items = tangents.setdefault(name, [numpy.zeros_like(a) for a in call.values[name]])
            items[int(index[:-1])] = move
        else:
            tangents[name] = move
    return tangents


def _transposed(call: Call, moves: dict[str, Array]) -> list[Array]:
    """J t from the vjp, which is linear in its gradient: backward through a recorded backward."""
    values, leaves = call.tensors()
    outputs = carrying(call.op, run(call.op, values))
    gs = [from_array(g, True) for g in cotangents(call.op, run(call.op, values))]
    found = grad(outputs, list(leaves.values()), gs, create_graph=True, allow_unused=True)
    pairs = [
        (each, from_array(moves[label]))
        for label, each in zip(leaves, found, strict=True)
        if each is not None and each.requires_grad
    ]
    if not pairs:
        return [numpy.zeros(g.shape, g.dtype.np) for g in gs]
    moved = grad([p[0] for p in pairs], gs, [p[1] for p in pairs], allow_unused=True)
    return [
        numpy.zeros(g.shape, g.dtype.np) if m is None else host(m)
        for g, m in zip(gs, moved, strict=True)
    ]


def directions(leaves: dict[str, Array], seed: int = 9) -> dict[str, Array]:
    """An array of each leaf's shape to move it along; the same in every run."""
    random = numpy.random.default_rng(seed)
    moves = {}
    for label, array in leaves.items():
        move = random.uniform(-1, 1, array.shape)
        if array.dtype.kind == "c":
            move = move + 1j * random.uniform(-1, 1, array.shape)
        moves[label] = numpy.asarray(move, dtype=array.dtype)
    return moves


def check_jvp(call: Call) -> None:
    """<g, J t> = <J^T g, t>, and J t agrees with a difference of the op's values along t."""
    leaves = call.leaves
    moves = directions(leaves)
    moved = tangent(call, moves)
    values, _ = call.tensors()
    gs = cotangents(call.op, run(call.op, values))
    back = vjp(call, gs)
    total = sum(_inner(g, numpy.asarray(m)) for g, m in zip(gs, moved, strict=True))
    close(
        total, sum(_inner(back[k], moves[k]) for k in back), "inner product", rtol=1e-8, atol=1e-9
    )
    ends = [
        forward(call.replaced({k: leaves[k] + step * moves[k] for k in leaves}))
        for step in (STEP, -STEP)
    ]
    for m, high, low in zip(moved, *ends, strict=True):
        close(m, (high - low) / (2 * STEP), "jvp", rtol=2e-5, atol=1e-6)


def check_double(call: Call) -> None:
    """The gradient of the gradient, recorded, agrees with finite differences of the gradient."""
    values, leaves = call.tensors()
    outputs = carrying(call.op, run(call.op, values))
    arrays = cotangents(call.op, run(call.op, values))
    gs = [from_array(g, True) for g in arrays]
    found = grad(outputs, list(leaves.values()), gs, create_graph=True, allow_unused=True)
    seconds = directions(call.leaves)

    def loss(moved: dict[str, Array]) -> float:
        inner = {k: v for k, v in moved.items() if not k.startswith("g ")}
        outer = [moved[f"g {i}"] for i in range(len(arrays))]
        first = vjp(call.replaced(inner), outer)
        return sum(_inner(seconds[k], first[k]) for k in first)

    variables = {**leaves, **{f"g {i}": g for i, g in enumerate(gs)}}
    pairs = [
        (each, from_array(seconds[label]))
        for label, each in zip(leaves, found, strict=True)
        if each is not None and each.requires_grad
    ]
    analytic: Any = [None] * len(variables)
    if pairs:
        analytic = grad(
            [p[0] for p in pairs],
            list(variables.values()),
            [p[1] for p in pairs],
            allow_unused=True,
        )
    arrays_of = {label: variable.detach().numpy() for label, variable in variables.items()}
    twice = {
        label: numpy.zeros_like(array) if each is None else host(each)
        for (label, array), each in zip(arrays_of.items(), analytic, strict=True)
    }
    check_slopes(loss, arrays_of, twice, rtol=1e-4, atol=2e-6)


# Paths ------------------------------------------------------------------------------------------


def saved_of(outputs: list[Tensor]) -> list[Any]:
    """What the nodes of outputs saved, comparable: names, kinds, shapes, values."""
    found: list[Any] = []
    for node in {id(o.grad_fn): o.grad_fn for o in outputs if o.grad_fn is not None}.values():
        arrays = {name: (own, array) for name, own, array in node.saved_arrays(1 << 20)}
        assert set(arrays) == {f.name for f in node.saved_fields() if f.kind == "tensor"}
        for field in node.saved_fields():
            array = node.saved_array(field.name)
            if field.name in arrays:
                own, same = arrays[field.name]
                assert own == field.own_output
                assert same is whole(array)
            kept = None if array is None or not hasattr(array, "shape") else array.tolist()
            found.append((type(node), *field[:5], field.own_output, repr(field.value), repr(kept)))
    return found


def check_paths(call: Call) -> None:
    """The built wrapper and the built backward do what the reference path does."""
    op = call.op
    results = []
    for function in (op.call, op.compute):
        values, leaves = call.tensors()
        outputs = run(op, values, function)
        gs = cotangents(op, outputs)
        results.append((outputs, saved_of(outputs), gradients(call, outputs, leaves, gs)))
    (built, saved, grads), (plain, expected_saved, expected) = results
    assert len(built) == len(plain)
    for a, b in zip(built, plain, strict=True):
        numpy.testing.assert_array_equal(host(a), host(b))
        assert (a.dtype, a.requires_grad, a._is_view()) == (b.dtype, b.requires_grad, b._is_view())
    assert saved == expected_saved
    for label, array in expected.items():
        numpy.testing.assert_array_equal(grads[label], array, err_msg=label)
    _check_backward_paths(call)


def _check_backward_paths(call: Call) -> None:
    """A node's built `raw` against the interpreted rules, and these against the recorded ones."""
    values, _ = call.tensors()
    outputs = carrying(call.op, run(call.op, values))
    node = outputs[0].grad_fn
    if not isinstance(node, op_node.OpNode):
        return
    gs = cotangents(call.op, run(call.op, values))
    g: Any = gs if node.outs is not None else gs[0]
    F = call.op.table.raw(numpy)
    with numpy.errstate(all="ignore"):
        built = node.raw(F, g)
        plain = op_node.OpNode.raw(node, F, g)
    for a, b in zip(built, plain, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            numpy.testing.assert_array_equal(a, b)


def check_traced(call: Call) -> None:
    """A recorded backward gives the gradients of an unrecorded one."""
    values, leaves = call.tensors()
    outputs = run(call.op, values)
    gs = cotangents(call.op, outputs)
    expected = gradients(call, run(call.op, values), leaves, gs)
    found = grad(
        carrying(call.op, outputs),
        list(leaves.values()),
        [from_array(g) for g in gs],
        create_graph=True,
        allow_unused=True,
    )
    for label, each in zip(leaves, found, strict=True):
        got = numpy.zeros_like(expected[label]) if each is None else host(each)
        close(got, expected[label], f"recorded backward of {label}", rtol=1e-9, atol=1e-12)
        assert each is None or each.dtype == leaves[label].dtype


# Memory -----------------------------------------------------------------------------------------


def _arrays_in(values: dict[str, Any], op: Any) -> list[Array]:
    found = []
    for name in (*op.inputs, *op.lists):
        for item in listed(values[name]) if not isinstance(values[name], list) else values[name]:
            if isinstance(item, Tensor):
                found.append(item._array)
    return found


def check_memory(call: Call) -> None:
    """An output shares memory with an input if and only if the op is declared a view."""
    values, _ = call.tensors(grad=False)
    before = [a.copy() for a in _arrays_in(values, call.op)]
    outputs = run(call.op, values)
    inputs = _arrays_in(values, call.op)
    for array, kept in zip(inputs, before, strict=True):
        numpy.testing.assert_array_equal(array, kept, err_msg="an input was changed")
    for out in outputs:
        array = out._array
        if array.size:
            shared = any(numpy.shares_memory(array, each) for each in inputs)
            expected = call.op.view or call.op.may_donate
            assert shared == expected, "shares memory" if shared else "copies"
        assert out._is_view() == call.op.view
        assert min(array.strides, default=0) >= 0
        if call.op.view:
            assert out._storage is values[call.op.params[0]]._storage
    for i, out in enumerate(outputs):
        for other in outputs[i + 1 :]:
            assert call.op.view or not numpy.shares_memory(out._array, other._array)


def inplace_fits(call: Call) -> bool:
    """Whether the result has the shape and dtype of what it would be written into."""
    values, _ = call.tensors(grad=False)
    target = values[call.op.params[0]]
    result = run(call.op, values)[0]
    return isinstance(target, Tensor) and (result.shape, result.dtype) == (
        target.shape,
        target.dtype,
    )


def check_inplace(call: Call) -> None:
    """In-place variants give the same values and gradients, one version more, the same tensor."""
    op = call.op
    first = op.params[0]
    values, leaves = call.tensors()
    plain = run(op, values)
    gs = cotangents(op, plain)
    expected = gradients(call, plain, leaves, gs)
    values, leaves = call.tensors()
    target = values[first].clone()
    version = target._version
    (written,) = run(op, {**values, first: target}, op.write)
    assert written is target
    assert target._version == version + 1
    numpy.testing.assert_array_equal(host(target), host(plain[0]))
    if op.rules:
        recorded = op.inplace_variants[0] if op.inplace_variants else op
        assert type(target.grad_fn) is recorded.node_class
        for label, array in gradients(call, [target], leaves, gs).items():
            numpy.testing.assert_array_equal(array, expected[label], err_msg=label)
        _check_inplace_on_view(call, expected, gs)


def _check_inplace_on_view(call: Call, expected: dict[str, Array], gs: list[Array]) -> None:
    """Written through a view, the base's gradient is the op's in the view and 1 elsewhere."""
    op = call.op
    first = op.params[0]
    values, leaves = call.tensors()
    base = traced.stack([values[first], values[first]])
    view = base.select(0, 1)
    run(op, {**values, first: view}, op.write)
    assert base._version == 1
    assert base.grad_fn is not None
    assert "CopySlices" in base.grad_fn.name()
    both = numpy.stack([numpy.zeros_like(gs[0]), gs[0]])
    found = grad(base, list(leaves.values()), from_array(both), allow_unused=True)
    for (label, leaf), each in zip(leaves.items(), found, strict=True):
        got = numpy.zeros(leaf.shape) if each is None else host(each)
        close(got, expected[label], f"through a view: {label}", rtol=1e-12, atol=0)


# Elsewhere --------------------------------------------------------------------------------------


def strided(array: Array) -> Array:
    """The same values in memory with gaps and in another order."""
    if array.ndim == 0:
        return array
    wide = numpy.zeros((*array.shape[::-1], 2), array.dtype)[..., 1]
    turned = wide.transpose(*range(array.ndim)[::-1])
    turned[...] = array
    return turned


def check_met(call: Call) -> None:
    """What hooks, retain_grad, .grad and `grad` give are arrays that may be written."""
    values, leaves = call.tensors()
    met: list[tuple[str, Tensor | None]] = []

    def watch(what: str, tensor: Tensor) -> Tensor:
        tensor.register_hook(lambda g: met.append((f"{what} in a hook", g)))
        tensor.grad_fn.register_hook(
            lambda grad_inputs, grads: met.extend((f"{what} in a node's hook", g) for g in grads)
        )
        tensor.retain_grad()
        return tensor

    inner = {id(leaf): watch(label, traced.clone(leaf)) for label, leaf in leaves.items()}

    def moved(value: Any) -> Any:
        return tuple(map(moved, value)) if type(value) is tuple else inner.get(id(value), value)

    outputs = run(call.op, {name: moved(value) for name, value in values.items()})
    gs = cotangents(call.op, outputs)
    pairs = [
        (watch("a result", traced.clone(out)), g)
        for out, g in zip(carrying(call.op, outputs), gs, strict=True)
        if out.requires_grad
    ]
    if not pairs:
        return
    roots, seeds = [out for out, _ in pairs], [from_array(g.copy()) for _, g in pairs]
    for _ in range(2):
        backward(roots, seeds, retain_graph=True)
    kept = [*leaves.values(), *inner.values(), *roots]
    met += [(".grad", tensor.grad) for tensor in kept]
    wanted = [*leaves.values(), *inner.values()]
    met += [("grad()", g) for g in grad(roots, wanted, seeds, allow_unused=True)]
    for what, g in met:
        if g is not None:
            assert isinstance(g._array, numpy.ndarray), f"{what}: {type(g._array)}"
            writeable = g._array.flags.writeable
            assert repeats(g._array) is not writeable, f"{what}: writeable is {writeable}"


def check_strided(call: Call) -> None:
    """Non-contiguous inputs give the same values and gradients."""
    other = call.mapped(strided)
    values, leaves = other.tensors(lambda a: from_array(strided(a)))
    outputs = run(call.op, values)
    gs = cotangents(call.op, outputs)
    for found, expected in zip(carrying(call.op, outputs), forward(call), strict=True):
        close(host(found), expected, "noncontiguous", rtol=1e-10, atol=1e-12)
    if call.op.rules:
        expected_grads = vjp(call, gs)
        for label, array in gradients(call, outputs, leaves, gs).items():
            close(array, expected_grads[label], f"noncontiguous {label}", rtol=1e-10, atol=1e-12)


def check_float32(call: Call) -> None:
    """In float32 the values are those of float64 rounded, and gradients are float32."""
    narrow = {"f": numpy.float32, "c": numpy.complex64}
    small = call.mapped(lambda a: a.astype(narrow[a.dtype.kind]))
    values, leaves = small.tensors()
    outputs = run(call.op, values)
    wide, _ = call.tensors(grad=False)
    exacts = run(call.op, wide)
    for out, exact in zip(outputs, exacts, strict=True):
        kind = exact._array.dtype.kind
        assert out.dtype.np == narrow.get(kind, exact.dtype.np)
    pairs = zip(carrying(call.op, outputs), carrying(call.op, exacts), strict=True)
    for out, exact in pairs:
        close(host(out), host(exact), "float32", rtol=1e-3, atol=1e-4)
    if call.op.rules:
        gs = cotangents(call.op, outputs)
        exact = vjp(call, [g.astype(numpy.result_type(g, numpy.float64)) for g in gs])
        for label, array in gradients(small, outputs, leaves, gs).items():
            assert array.dtype == leaves[label].dtype.np
            close(array, exact[label], f"float32 {label}", rtol=5e-3, atol=1e-3)


def check_backend(call: Call, backend: Any) -> None:
    """On another array library: the same values and gradients, by arrays of that library alone."""
    wrap: Callable[[Array], Any] = lambda a: from_array(backend.from_numpy(a))  # noqa: E731
    values, leaves = call.tensors(wrap)
    outputs = run(call.op, values)
    plain_values, plain_leaves = call.tensors()
    plain = run(call.op, plain_values)
    for found, expected in zip(outputs, plain, strict=True):
        assert type(found._array) is backend.array_type
        if call.smooth:
            close(backend.to_numpy(found._array), host(expected), backend.name, 1e-9, 1e-11)
        assert found.dtype is expected.dtype
    if not call.op.rules or not leaves:
        return
    gs = cotangents(call.op, plain)
    expected_grads = gradients(call, plain, plain_leaves, gs)
    pairs = [
        (out, wrap(g))
        for out, g in zip(carrying(call.op, outputs), gs, strict=True)
        if out.requires_grad
    ]
    found = grad(
        [p[0] for p in pairs], list(leaves.values()), [p[1] for p in pairs], allow_unused=True
    )
    for label, each in zip(leaves, found, strict=True):
        assert each is None or type(each._array) is backend.array_type
        if each is not None and call.smooth:
            got = backend.to_numpy(each._array)
            close(got, expected_grads[label], f"{backend.name} {label}", 1e-9, 1e-11)
