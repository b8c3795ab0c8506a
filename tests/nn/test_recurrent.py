"""Recurrent layers as one op: against torch, against their own steps, and where steps are taken."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.nn.utils.rnn import pack_sequence
from tests.programs import agree

KINDS = {
    "LSTM": {},
    "GRU": {},
    "RNN": {},
    "RNN of relu": {"nonlinearity": "relu"},
}
NODE = "MkldnnRnnLayerBackward0"


def layer(t: Any, kind: str, dtype: Any = None, **options: Any) -> Any:
    made = getattr(t.nn, kind.partition(" ")[0])(2, 3, **KINDS[kind], **options)
    made = made.to(dtype or t.float64)
    with t.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(t.arange(p.numel(), dtype=p.dtype).reshape(p.shape).sin() / 2 + i / 10)
    return made


def nodes(out: Any) -> list[str]:
    """The names of all nodes behind a tensor."""
    found, left = {}, [out.grad_fn]
    while left:
        node = left.pop()
        if node is not None and id(node) not in found:
            found[id(node)] = node
            left += [n for n, _ in node.next_functions]
    return sorted(node.name().rpartition("::")[2] for node in found.values())


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_the_graph_of_an_lstm_is_that_of_torch() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        for options in ({}, {"bias": False}, {"num_layers": 2, "bidirectional": True}):
            made = layer(t, "LSTM", t.float32, **options)
            x = t.ones(4, 2, 2, requires_grad=True)
            out, (h, c) = made(x)
            seen += [nodes(out), nodes(h), nodes(c)]
            node = h.grad_fn.next_functions[0][0]
            names = [n for n in dir(node) if n.startswith("_saved")]
            seen.append(names)
            seen += [
                getattr(node, n)
                for n in names
                if n not in ("_saved_result3", "_saved_weight2", "_saved_weight3")
            ]
            seen.append([None if n is None else n.name() for n, _ in node.next_functions])
        with t.backends.mkldnn.flags(enabled=False):
            seen.append(NODE in nodes(layer(t, "LSTM", t.float32)(x)[0]))
        return seen

    agree(program)


def _cases() -> Iterator[tuple[str, dict[str, Any], bool]]:
    for kind in KINDS:
        for packed in (False, True):
            yield kind, {"bidirectional": True, "num_layers": 2}, packed
    yield "LSTM", {"bias": False}, True
    yield "LSTM", {"proj_size": 2, "bidirectional": True}, True
    yield "GRU", {"bias": False, "batch_first": True}, False


CASES = list(_cases())


def _run(t: Any, kind: str, options: dict[str, Any], packed: bool) -> tuple[Any, ...]:
    """The layer's results, and all leaves."""
    made = layer(t, kind, **options)
    lengths = (2, 4, 1, 3)
    steps = [t.arange(2.0 * n, dtype=t.float64).reshape(n, 2).cos() for n in lengths]
    x = [s.requires_grad_() for s in steps]
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    sizes = [options.get("proj_size") or 3] + [3] * (kind == "LSTM")
    state = [
        t.linspace(-1, 1, count * 4 * n, dtype=t.float64).reshape(count, 4, n).requires_grad_()
        for n in sizes
    ]
    given = tuple(state) if kind == "LSTM" else state[0]
    if packed:
        sequence = t.nn.utils.rnn.pack_sequence(x, enforce_sorted=False)
    else:
        sequence = t.nn.utils.rnn.pad_sequence(x, batch_first=options.get("batch_first", False))
    out, last = made(sequence, given)
    last = last if isinstance(last, tuple) else (last,)
    return (out.data if packed else out), last, [*x, *state, *made.parameters()]


@pytest.mark.parametrize(("kind", "options", "packed"), CASES)
def test_values_and_gradients(kind: str, options: dict[str, Any], packed: bool) -> None:
    def program(t: Any) -> Any:
        seen = []
        for some in range(3):  # of the outputs alone, of the last states alone, of both
            out, last, leaves = _run(t, kind, options, packed)
            total = t.zeros((), dtype=t.float64)
            if some != 1:
                total = total + out.square().sum()
            if some:
                total = total + sum((s**3).sum() for s in last)
            total.backward()
            seen += [out, *last, *[p.grad for p in leaves]]
        return seen

    agree(program)


@pytest.mark.parametrize("of", ["outputs", "last states", "both"])
@pytest.mark.parametrize(("kind", "options", "packed"), CASES)
def test_second_derivatives(kind: str, options: dict[str, Any], packed: bool, of: str) -> None:
    """Those of the one node are those of the steps, whichever of its results a loss uses."""

    def program() -> list[Any]:
        out, last, leaves = _run(ag, kind, options, packed)
        total = out.square().sum() if of != "last states" else 0
        if of != "outputs":
            total = total + sum((s**3).sum() for s in last)
        grads = ag.autograd.grad(total, leaves, create_graph=True)
        second = ag.autograd.grad(sum((g**2).sum() for g in grads), leaves)
        return [x.detach().numpy() for x in (*grads, *second)]

    whole = program()
    with ag.backends.mkldnn.flags(enabled=False):
        steps = program()
    for a, b in zip(whole, steps, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_which_layers_are_one_node() -> None:
    x = ag.ones(3, 2, 2, dtype=ag.float64)
    for kind, packed in itertools.product(KINDS, (False, True)):
        given = pack_sequence([ag.ones(2, 2), ag.ones(1, 2)]).to(ag.float64) if packed else x
        out = layer(ag, kind)(given)[0]
        found = nodes(out.data if packed else out)
        assert found.count(NODE) == 1
        assert set(found) == {NODE, "AccumulateGrad"}
    # What torch's layer cannot do, either, is done by steps; so is what transforms look into.
    assert NODE not in nodes(layer(ag, "LSTM", proj_size=2)(x)[0])
    with ag.backends.mkldnn.flags(enabled=False):
        assert NODE not in nodes(layer(ag, "GRU")(x)[0])
    made = layer(ag, "GRU")
    mapped = ag.func.vmap(lambda y: made(y)[0])(ag.stack([x, x]))
    numpy.testing.assert_allclose(mapped[1].tolist(), made(x)[0].tolist())
    tangent = ag.func.jvp(lambda y: made(y)[0].sum(), (x,), (x,))[1]
    y = x.clone().requires_grad_()
    (slope,) = ag.autograd.grad(made(y)[0].sum(), y)
    assert abs(tangent.item() - slope.sum().item()) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_extremes(kind: str) -> None:
    """Gates that are wide open or shut, infinities and NaN; nothing is warned of."""

    def program(t: Any) -> Any:
        made = layer(t, kind)
        x = t.tensor([[[1e4, 0.0]], [[-1e4, 1.0]], [[float("inf"), 1.0]], [[0.0, float("nan")]]])
        x = x.double().requires_grad_()
        out = made(x)[0]
        out[:3].sum().backward()
        return [out, x.grad]

    agree(program)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_that_are_not_finite(kind: str) -> None:
    """What is shut lets none of them through, what is open does, from either end."""

    def program(t: Any) -> Any:
        made = layer(t, kind, bidirectional=True)
        for p in made.parameters():
            p.detach().abs_()
        x = (
            t.tensor([2.0, 1.0, -99.0, 1.0, -99.0], dtype=t.float64)
            .reshape(5, 1, 1)
            .repeat(1, 1, 2)
        )
        x.requires_grad_()
        start = t.zeros(2, 1, 3, dtype=t.float64, requires_grad=True)
        out = made(x, (start, start) if kind == "LSTM" else start)[0]
        odd = t.zeros_like(out)
        odd[0], odd[2, :, 1], odd[4] = float("nan"), float("inf"), float("nan")
        out.backward(odd)
        return [out, x.grad, start.grad]

    agree(program)


def test_sixteen_bits() -> None:
    """Computed in float32, rounded at the end."""
    made = layer(ag, "GRU", ag.bfloat16)
    wide = layer(ag, "GRU", ag.bfloat16).float()
    x = ag.ones(4, 2, 2)
    a, b = made(x.bfloat16())[0], wide(x)[0]
    assert a.dtype is ag.bfloat16
    assert a.tolist() == b.bfloat16().tolist()
    a.sum().backward()
    b.sum().backward()
    for p, q in zip(made.parameters(), wide.parameters(), strict=True):
        numpy.testing.assert_allclose(p.grad.float().tolist(), q.grad.tolist(), rtol=1e-2)


def test_a_saved_tensor_that_was_written_is_refused() -> None:
    made = layer(ag, "LSTM")
    out = made(ag.ones(3, 2, 2, dtype=ag.float64))[0]
    out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
