"""ctc_loss against torch and against a sum over all alignments."""

from __future__ import annotations

import itertools
from typing import Any

import numpy
import pytest

import ag_visual as ag

from ..oracle import torch
from ..properties.checks import close


def scores(steps: int, rows: int, classes: int) -> Any:
    return numpy.random.default_rng(3).standard_normal((steps, rows, classes))


def collapsed(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    return tuple(c for c, _ in itertools.groupby(path) if c != blank)


def by_enumeration(log_probs: Any, target: tuple[int, ...], blank: int) -> float:
    """-log of the probability of all paths that collapse to the target."""
    steps, classes = log_probs.shape
    total = sum(
        numpy.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
        for path in itertools.product(range(classes), repeat=steps)
        if collapsed(path, blank) == target
    )
    return float(-numpy.log(total))


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("target", [(), (1,), (1, 1), (1, 3), (3, 1, 3)])
def test_the_sum_over_all_alignments(target: tuple[int, ...], blank: int) -> None:
    log_probs = ag.from_numpy(scores(5, 1, 4)).log_softmax(-1)
    targets = ag.tensor([list(target)], dtype=ag.int64).reshape(1, len(target))
    loss = ag.nn.functional.ctc_loss(
        log_probs, targets, [5], [len(target)], blank=blank, reduction="none"
    )
    close(loss.item(), by_enumeration(log_probs.numpy()[:, 0], target, blank), "ctc", 1e-10)


CASES: dict[str, tuple[Any, list[int], list[int], dict[str, Any]]] = {
    "padded": ([[1, 2, 2], [3, 1, 0], [2, 0, 0]], [6, 5, 4], [3, 2, 1], {}),
    "in one row": ([1, 2, 2, 3, 1, 2], [6, 5, 4], [3, 2, 1], {"reduction": "sum"}),
    "no target": ([[1, 2], [3, 1], [0, 0]], [6, 6, 6], [2, 2, 0], {"reduction": "none"}),
    "no input": ([[1, 2], [3, 1], [0, 0]], [6, 0, 0], [2, 2, 0], {"reduction": "none"}),
    "too long": ([[1, 1, 1], [3, 1, 2], [2, 0, 0]], [3, 5, 4], [3, 3, 1], {}),
    "too long, zero": (
        [[1, 1, 1], [3, 1, 2], [2, 0, 0]],
        [3, 5, 4],
        [3, 3, 1],
        {"zero_infinity": True},
    ),
    "last class blank": ([[1, 2, 2], [0, 1, 0], [2, 0, 0]], [6, 5, 4], [3, 2, 1], {"blank": 3}),
}


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_torchs_values_and_gradients(case: str, kind: str) -> None:
    targets, inputs, lengths, options = CASES[case]
    found = []
    for t in (ag, torch):
        x = t.tensor(scores(6, 3, 4).astype(kind)).log_softmax(-1).detach().requires_grad_()
        given = (t.tensor(inputs), t.tensor(lengths)) if case == "padded" else (inputs, lengths)
        loss = t.nn.functional.ctc_loss(x, t.tensor(targets), *given, **options)
        (loss * loss).sum().backward()
        found.append((loss.detach().numpy(), x.grad.numpy(), graph(loss.grad_fn)))
    tolerance = 1e-10 if kind == "float64" else 2e-5
    close(found[0][0], found[1][0], "values", tolerance, tolerance)
    close(found[0][1], found[1][1], "gradients", tolerance, tolerance)
    assert found[0][2] == found[1][2]


def graph(node: Any) -> list[str]:
    names = []
    while node is not None:
        names.append(node.name().rpartition("::")[2])
        node = node.next_functions[0][0] if node.next_functions else None
    return names


def test_the_gradient_behind_a_log_softmax_against_finite_differences() -> None:
    x = ag.from_numpy(scores(5, 2, 4)).requires_grad_()

    def loss(x: Any) -> Any:
        targets = ag.tensor([[1, 1], [2, 3]])
        return ag.nn.functional.ctc_loss(x.log_softmax(-1), targets, [5, 4], [2, 2])

    loss(x).backward()
    with ag.no_grad():
        for at in numpy.ndindex(5, 2, 4):
            high, low = x.detach().clone(), x.detach().clone()
            high[at] += 1e-6
            low[at] -= 1e-6
            slope = (loss(high) - loss(low)).item() / 2e-6
            close(x.grad[at].item(), slope, f"{at}", 1e-5, 1e-8)


def test_one_sequence_without_a_batch() -> None:
    x = ag.from_numpy(scores(5, 1, 4)).log_softmax(-1)
    options = {"reduction": "none"}
    batched = ag.nn.functional.ctc_loss(x, ag.tensor([[1, 2]]), [5], [2], **options)
    single = ag.nn.functional.ctc_loss(
        x[:, 0], ag.tensor([1, 2]), ag.tensor(5), ag.tensor(2), **options
    )
    assert single.shape == ()
    assert single.item() == batched.item()


def test_a_second_derivative_is_refused_as_in_torch() -> None:
    x = ag.from_numpy(scores(5, 2, 4)).log_softmax(-1).detach().requires_grad_()
    loss = ag.nn.functional.ctc_loss(x, ag.tensor([[1, 1], [2, 3]]), [5, 4], [2, 2])
    (g,) = ag.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(RuntimeError, match="derivative for '_ctc_loss_backward' is not impl"):
        g.sum().backward()
