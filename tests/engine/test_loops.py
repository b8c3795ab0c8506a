"""The plain loop and the full loop give the same, wherever one takes over from the other."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.engine import full_loop, input_buffer, run
from ag_visual.events import instrument

SEEDS = range(60)


class _Swapped(ag.autograd.Function):
    """Two outputs, of which one may get no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return y * 2, x * y

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        x, y = ctx.saved_tensors
        return h * y, 2 * g + h * x


class Program:
    """A random graph, random hooks on it and a random way to run it backward."""

    def __init__(self, seed: int, *, hooked: bool) -> None:
        self.chance = random.Random(seed)
        self.seen: list[Any] = []
        dtype = self.chance.choice([ag.float32, ag.float64, ag.complex64])
        self.leaves = [
            (ag.arange(6).reshape(shape).to(dtype) / 7 + i).requires_grad_()
            for i, shape in enumerate([(2, 3), (2, 3), (6, 1, 1)])
        ]
        self.leaves[2] = self.leaves[2].detach()[:1].requires_grad_()  # of shape (1, 1, 1)
        self.made: list[Any] = list(self.leaves)
        for _ in range(self.chance.randint(2, 14)):
            self.grow()
        self.roots = [self.made[-1].sum(), *self.chance.sample(self.made, 2)]
        if hooked:
            for _ in range(self.chance.randint(1, 5)):
                self.hook()

    def pick(self) -> Any:
        return self.chance.choice(self.made[-4:] if self.chance.random() < 0.7 else self.made)

    def grow(self) -> None:
        x, y = self.pick(), self.pick()
        makes: list[Callable[[], Any]] = [
            lambda: x * y,
            lambda: x + y,
            lambda: x - y.mean(),
            lambda: ag.tanh(x),
            lambda: x.reshape(-1).clone().reshape(x.shape),
            lambda: ag.cat([x, x]).chunk(2)[self.chance.randint(0, 1)],
            lambda: ag.stack(x.unbind(0)[::-1]),
            lambda: _Swapped.apply(x, x * 1)[self.chance.randint(0, 1)],
            lambda: sum(_Swapped.apply(x, y.mean() * x)),
        ]
        self.made.append(self.chance.choice(makes)())

    def told(self, name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        """A hook that says what it was given."""

        def hook(*given: Any) -> Any:
            self.seen.append((name, plain(given)))
            return answer(*given)

        return hook

    def hook(self) -> None:
        x, number = self.pick(), len(self.made)
        nothing = lambda *given: None  # noqa: E731
        twice = lambda g: g * 2  # noqa: E731
        before = lambda grads: tuple(None if g is None else g / 2 for g in grads)  # noqa: E731
        after = lambda grads, given: before(grads)  # noqa: E731

        def no_grad(g: Any) -> None:
            ag.set_grad_enabled(False)

        def gate(g: Any) -> None:
            come = instrument.gate is None
            instrument.gate = (lambda task, node, grads: grads) if come else None

        kind = self.chance.choice(["tensor", "pre", "post", "retain", "accumulated"])
        if kind == "tensor":
            answer = self.chance.choice([nothing, twice, no_grad, gate])
            x.register_hook(self.told(f"tensor {number}", answer))
        elif kind == "retain":
            x.retain_grad()
        elif kind == "accumulated":
            leaf = self.chance.choice(self.leaves)
            leaf.register_post_accumulate_grad_hook(self.told("accumulated", nothing))
        elif x.grad_fn is not None and kind == "pre":
            x.grad_fn.register_prehook(self.told("pre", self.chance.choice([nothing, before])))
        elif x.grad_fn is not None:
            x.grad_fn.register_hook(self.told("post", self.chance.choice([nothing, after])))

    def run(self) -> list[Any]:
        """Everything that can be seen of two backwards."""
        chance = self.chance
        create = chance.random() < 0.3
        inputs = chance.choice([None, None, chance.sample(self.made, 2)])
        roots = self.roots[: chance.randint(1, 3)]
        ones = [ag.ones_like(root) for root in roots]
        for _ in range(2):
            retain = chance.random() < 0.7
            try:
                if inputs is not None and chance.random() < 0.5:
                    options = {"create_graph": create, "allow_unused": True}
                    found = ag.autograd.grad(roots, inputs, ones, retain_graph=retain, **options)
                    self.seen.append(plain(found))
                    if create and found[0] is not None and found[0].requires_grad:
                        found[0].sum().backward()
                else:
                    ag.autograd.backward(roots, ones, retain, create, inputs=inputs)
            except Exception as error:
                self.seen.append(f"{type(error).__name__}: {error}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tensors that keep no .grad
            self.seen.append(plain([x.grad for x in self.made]))
            self.seen.append([x.grad is not None and x.grad._version for x in self.made])
        return self.seen


def plain(value: Any) -> Any:
    """Tensors as bytes with all that matters of them."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, ag.Tensor):
        array = value.detach().numpy()
        name = value.grad_fn and value.grad_fn.name()
        return array.shape, str(array.dtype), array.tobytes(), value.requires_grad, name
    return value


def seen(seed: int, *, hooked: bool, anomaly: bool) -> list[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of create_graph, and of anomaly mode
            with ag.autograd.set_detect_anomaly(anomaly, check_nan=False):
                return Program(seed, hooked=hooked).run()
    finally:
        instrument.gate = None
        ag.set_grad_enabled(True)


def both(seed: int, *, hooked: bool, anomaly: bool = False) -> tuple[list[Any], list[Any]]:
    """What a program sees, and what it sees where the full loop does all."""
    first = seen(seed, hooked=hooked, anomaly=anomaly)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "plain_loop", lambda task, place: None)
        return first, seen(seed, hooked=hooked, anomaly=False)


@pytest.mark.parametrize("anomaly", [False, True])
@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_both_loops_give_the_same(seed: int, hooked: bool, anomaly: bool) -> None:
    first, again = both(seed, hooked=hooked, anomaly=anomaly)
    assert first == again


def test_the_programs_meet_both_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """They end in the plain loop, and in the full one, and one takes over from the other."""
    met: list[str] = []

    def watched(name: str) -> Callable[..., None]:
        original = getattr(run, name)

        def loop(task: Any, place: Any) -> None:
            before = task.order
            original(task, place)
            if task.order > before:
                met.append(name)

        return loop

    for name in ("plain_loop", "full_loop"):
        monkeypatch.setattr(run, name, watched(name))
    for seed in SEEDS:
        seen(seed, hooked=True, anomaly=False)
    turns = list(itertools.pairwise(met))
    assert met.count("plain_loop") > 20
    assert met.count("full_loop") > 20
    assert turns.count(("plain_loop", "full_loop")) > 10
    assert turns.count(("full_loop", "plain_loop")) > 10


def _forgets_a_sum(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(full_loop, "gathered", lambda task, edge, g: g)


def _runs_the_oldest_first(patch: pytest.MonkeyPatch) -> None:
    def push(heap: Any, entry: Any) -> None:
        heap.append((-entry[0], *entry[1:]))
        heap.sort(key=lambda e: e[0])

    patch.setattr(full_loop, "heappush", push)


def _fits_nothing(patch: pytest.MonkeyPatch) -> None:
    original = input_buffer.fitted

    def fitted(node: Any, edge: Any, g: Any, like: Any) -> Any:
        return original(node, edge, g, like) * 2

    patch.setattr(full_loop, "fitted", fitted)


@pytest.mark.parametrize("plant", [_forgets_a_sum, _runs_the_oldest_first, _fits_nothing])
def test_a_planted_difference_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    pairs = [both(seed, hooked=True) for seed in SEEDS]
    assert any(first != again for first, again in pairs)
