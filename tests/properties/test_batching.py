"""Batching rules: an op on stacked inputs is the stack of the op on each slice, gradients too."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.core.tensor import from_array
from ag_visual.dispatch import table, vmap
from ag_visual.dispatch.record import Op

from .cases import Array, Maker, call_of, differentiable, every, host, settled
from .checks import close

SIZE = 3


class Slices(Maker):
    """The samples of one slice: the same shapes as those of every other."""

    def __init__(self, name: str, number: int) -> None:
        self.random = numpy.random.default_rng(zlib.crc32(f"{name} {number}".encode()))


def varied(value: Any, number: int) -> Any:
    """Integers (indices, masks) of one slice, in another order than those of the first."""
    if isinstance(value, (tuple, list)):
        return tuple(varied(item, number) for item in value)
    if isinstance(value, numpy.ndarray) and value.dtype.kind in "iub":
        return numpy.roll(value, number)
    return value


def stacks(op: Op) -> Iterator[list[dict[str, Any]]]:
    """For each sample of an op, the arguments of SIZE slices by name."""
    made = [list(op.samples(Slices(op.name, i))) for i in range(SIZE)]
    for samples in zip(*made, strict=True):
        calls = [call_of(op, sample).values for sample in samples]
        yield [
            {k: varied(v, i) if k in (*op.inputs, *op.lists) else v for k, v in call.items()}
            for i, call in enumerate(calls)
        ]


def is_array(value: Any) -> bool:
    return isinstance(value, numpy.ndarray)


def names_of(op: Op, values: dict[str, Any]) -> list[str]:
    """Which parameters of a call hold arrays."""
    return [n for n in (*op.inputs, *op.lists) if is_array(values[n]) or n in op.lists]


def patterns(op: Op, values: dict[str, Any]) -> Iterator[dict[str, int]]:
    """Where the batch is: in front of all, behind all, and in each input alone."""
    names = names_of(op, values)
    yield dict.fromkeys(names, 0)
    yield dict.fromkeys(names, -1)
    if len(names) > 1:
        for name in names:
            yield {name: 0}


def stacked(slices: list[dict[str, Any]], op: Op, where: dict[str, int]) -> Any:
    """The arguments of one batched call, with its in_dims."""
    values, dims = dict(slices[0]), dict.fromkeys(slices[0])
    for name, dim in where.items():
        if name in op.lists:
            items = list(zip(*(call[name] for call in slices), strict=True))
            values[name] = tuple(x[0] if x[0] is None else numpy.stack(x, dim) for x in items)
            dims[name] = tuple(None if x[0] is None else dim for x in items)
        else:
            values[name] = numpy.stack([call[name] for call in slices], dim)
            dims[name] = dim
    return values, dims


def tensors(op: Op, values: dict[str, Any], grad: bool) -> tuple[dict[str, Any], list[Any]]:
    leaves = []

    def given(name: str, value: Any) -> Any:
        if not is_array(value):
            return value
        made = from_array(value.copy())
        if grad and name in op.diff_inputs and value.dtype.kind in "fc":
            leaves.append(made.requires_grad_())
        return made

    made = {}
    for name, value in values.items():
        if name in op.lists:
            made[name] = tuple(given(name, item) for item in value)
        else:
            made[name] = given(name, value) if name in op.inputs else value
    return made, leaves


def listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def call(op: Op, values: dict[str, Any]) -> list[Any]:
    positional = [values[p] for p in op.params if p not in op.keyword]
    return listed(op.call(*positional, **{p: values[p] for p in op.keyword}))


def random(op: Op) -> bool:
    return vmap.draws(op)


def batched(op: Op, values: dict[str, Any], dims: dict[str, Any], **options: Any) -> list[Any]:
    positional = [p for p in op.params if p not in op.keyword]
    keyword = {p: values[p] for p in op.keyword}
    args, in_dims = (tuple(d[p] for p in positional) for d in (values, dims))
    return listed(table.batch(op, args, in_dims, keyword, **options))


def depends_on_values(op: Op) -> bool:
    """Whether slices have results of several shapes: of masked_select where each has its mask."""
    return vmap.rule_of(op) is vmap.data_dependent or op.name == "masked_select"


def has_rule(op: Op) -> bool:
    return not depends_on_values(op) and not random(op)


@every(lambda op: True)
def test_every_op_states_how_it_batches(op: Op) -> None:
    assert vmap.rule_of(op) is not None


def slices_of(op: Op, slices: list[dict[str, Any]], where: dict[str, int]) -> list[dict[str, Any]]:
    """What a loop over the slices calls: inputs without a batch are the first slice's."""
    return [{**slices[0], **{n: each[n] for n in where}} for each in slices]


def masks(op: Op, slices: list[dict[str, Any]], where: dict[str, int]) -> bool:
    """Whether a batch of boolean indices is asked for, whose results differ in shape."""
    given = [x for n in op.lists if n in where for x in slices[0][n]]
    return any(is_array(x) and x.dtype.kind == "b" for x in given)


@every(has_rule)
def test_a_batch_is_the_stack_of_its_slices(op: Op) -> None:
    for slices in stacks(op):
        for where in patterns(op, slices[0]):
            if masks(op, slices, where):
                refused(op, slices, where)
                continue
            loop = slices_of(op, slices, where)
            expected = [call(op, tensors(op, each, False)[0]) for each in loop]
            values, dims = stacked(slices, op, where)
            found = batched(op, tensors(op, values, False)[0], dims)
            assert len(found) == len(expected[0])
            for i, out in enumerate(found):
                want = numpy.stack([host(outs[i]) for outs in expected])
                assert out.shape == want.shape, where
                assert out.dtype is expected[0][i].dtype
                close(host(out), want, f"{op.name} {where}", 1e-9, 1e-11)


@every(lambda op: has_rule(op) and differentiable(op))
def test_gradients_flow_through_a_batch(op: Op) -> None:
    random_ = numpy.random.default_rng(3)
    for slices in stacks(op):
        for where in patterns(op, slices[0]):
            if masks(op, slices, where):
                continue
            loop = slices_of(op, slices, where)
            values, dims = stacked(slices, op, where)
            inputs, leaves = tensors(op, values, True)
            outs = batched(op, inputs, dims)
            wanted = [i for i, out in enumerate(outs) if out.requires_grad]
            if not wanted or not leaves:
                continue
            gs = [random_.uniform(-1, 1, outs[i].shape).astype(outs[i].dtype.np) for i in wanted]
            gs = [settled(op, i, outs[i], g) for i, g in zip(wanted, gs, strict=True)]
            found = ag.autograd.grad(
                [outs[i] for i in wanted], leaves, [from_array(g) for g in gs], allow_unused=True
            )
            compare_gradients(op, loop, where, wanted, gs, found)


def compare_gradients(
    op: Op,
    loop: list[dict[str, Any]],
    where: dict[str, int],
    wanted: list[int],
    gs: list[Array],
    found: Any,
) -> None:
    expected = []
    for number, values in enumerate(loop):
        inputs, leaves = tensors(op, values, True)
        outs = call(op, inputs)
        grads = ag.autograd.grad(
            [outs[i] for i in wanted],
            leaves,
            [from_array(numpy.asarray(g[number])) for g in gs],
            allow_unused=True,
        )
        expected.append(
            [
                numpy.zeros(leaf.shape, leaf.dtype.np) if g is None else host(g)
                for g, leaf in zip(grads, leaves, strict=True)
            ]
        )
    labels = [
        name
        for name in op.params
        if name in op.diff_inputs
        for item in (loop[0][name] if name in op.lists else (loop[0][name],))
        if is_array(item) and item.dtype.kind in "fc"
    ]
    for i, (name, g) in enumerate(zip(labels, found, strict=True)):
        parts = [grads[i] for grads in expected]
        want = numpy.stack(parts, where[name]) if name in where else sum(parts)
        got = numpy.zeros_like(want) if g is None else host(g)
        close(got, want, f"{op.name} {where}: gradient of {name}", 1e-7, 1e-9)


@every(lambda op: has_rule(op) and op.inplace)
def test_an_inplace_variant_writes_the_results_of_all_slices(op: Op) -> None:
    first = op.params[0]
    for slices in stacks(op):
        if masks(op, slices, dict.fromkeys(op.lists, 0)):
            continue
        values, dims = stacked(slices, op, dict.fromkeys(names_of(op, slices[0]), -1))
        expected = batched(op, tensors(op, values, False)[0], dims)[0]
        inputs, _ = tensors(op, values, False)
        target = inputs[first]
        if not isinstance(target, ag.Tensor) or expected.dtype is not target.dtype:
            continue
        if expected.shape != target.movedim(-1, 0).shape:
            continue
        (written,) = batched(op, inputs, dims, inplace=True)
        assert written is target
        numpy.testing.assert_array_equal(host(target.movedim(-1, 0)), host(expected))
        dims[first] = None
        with pytest.raises(RuntimeError, match="is not possible because"):
            batched(op, inputs, dims, inplace=True)


@every(depends_on_values)
def test_a_result_whose_shape_depends_on_values_is_refused(op: Op) -> None:
    for slices in stacks(op):
        refused(op, slices, dict.fromkeys(names_of(op, slices[0]), 0))


def refused(op: Op, slices: list[dict[str, Any]], where: dict[str, int]) -> None:
    values, dims = stacked(slices, op, where)
    with pytest.raises(RuntimeError, match=r"dynamic shape|differently shaped|boolean mask"):
        batched(op, tensors(op, values, False)[0], dims)


@every(random)
def test_random_ops_ask_what_randomness_is_meant(op: Op) -> None:
    slices = next(stacks(op))
    values, dims = stacked(slices, op, dict.fromkeys(names_of(op, slices[0]), 0))
    inputs, _ = tensors(op, values, False)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        batched(op, inputs, dims)
    if op.batch.draws_once:  # type: ignore[union-attr]
        (first, *_) = batched(op, inputs, dims, randomness="same")
        assert first.shape[0] == SIZE
    else:
        with pytest.raises(RuntimeError, match="same randomness"):
            batched(op, inputs, dims, randomness="same")
    one = call(op, tensors(op, slices[0], False)[0])
    for out, alone in zip(batched(op, inputs, dims, randomness="different"), one, strict=True):
        assert out.shape == (SIZE, *alone.shape)
        assert out.dtype is alone.dtype
