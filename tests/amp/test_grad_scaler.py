"""GradScaler: the scale after random overflows, its errors and its state, as torch's."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

import ag_visual as ag
from tests.oracle import torch


def story(t: Any, seed: int) -> list[Any]:
    """A random program of steps, of which some overflow; what can be seen after each."""
    chance = random.Random(seed)
    a, b = (t.full((2,), 1.0, requires_grad=True) for _ in range(2))
    optimizers = [t.optim.SGD([a], lr=0.1), t.optim.Adam([b], lr=0.1)]
    options = {"init_scale": 2.0 ** chance.randrange(120, 128), "growth_interval": 2}
    scaler = t.amp.GradScaler("cpu", **options, growth_factor=chance.choice([2.0, 4.0]))
    seen: list[Any] = []
    for _ in range(12):
        bad = chance.random() < 0.3
        loss = (a * (float("inf") if bad else 1e-30)).sum() + (b * 1e-30).sum()
        scaler.scale([loss])[0].backward()
        if chance.random() < 0.3:
            scaler.unscale_(optimizers[0])
            seen.append(a.grad.tolist() == a.grad.tolist() and a.grad.abs().max().item() < 1)
        for optimizer in optimizers:
            if chance.random() < 0.9:
                scaler.step(optimizer)
            optimizer.zero_grad()
        act = chance.random()
        try:
            if act < 0.05:
                scaler.update(8.0)
            elif act < 0.1:
                scaler.update(t.full((), 16.0))
            elif act < 0.15:
                again = t.amp.GradScaler("cpu")
                scaler.update()
                again.load_state_dict(scaler.state_dict())
                scaler = again
            elif act < 0.2:
                scaler.update()
                scaler = pickle.loads(pickle.dumps(scaler))
            else:
                scaler.update()
        except AssertionError as error:
            seen.append(str(error))
        seen += [scaler.get_scale(), scaler._get_growth_tracker(), a.tolist(), scaler.state_dict()]
        seen += [round(x, 5) for x in b.tolist()]
    return seen


@pytest.mark.oracle
def test_random_programs_go_as_in_torch() -> None:
    for seed in range(25):
        ours, theirs = story(ag, seed), story(torch, seed)
        assert repr(ours) == repr(theirs)


ERRORS = """
s.step(o)
s.update()
s.unscale_(o)
s.scale(l).backward(); s.unscale_(o); s.unscale_(o)
s.scale(l).backward(); s.step(o); s.step(o)
s.scale(l).backward(); s.step(o); s.unscale_(o)
s.scale(l); s.update()
s.scale(l); s.step(o)
s.scale(l); s.step(o, closure=lambda: 0)
s.scale(3)
s.scale([l, {'a': 1}])
s.load_state_dict({})
s.scale(l); s.update(t.ones(2))
h.sum().backward(); s.scale(l); s.step(t.optim.SGD([h], lr=1.0))
s.scale(l).backward(); s.step(o); __import__('pickle').dumps(s)
off.step(o); off.update(); off.unscale_(o); l * off.get_scale(); off.load_state_dict({})
"""


@pytest.mark.oracle
@pytest.mark.parametrize("program", ERRORS.strip().splitlines())
def test_errors_are_those_of_torch(program: str) -> None:
    def outcome(t: Any) -> tuple[str, str]:
        p = t.ones(2, requires_grad=True)
        scope = {"t": t, "o": t.optim.SGD([p], lr=0.1), "l": (p * 2).sum()}
        scope["h"] = t.ones(2, dtype=t.float16, requires_grad=True)
        scope |= {"s": t.amp.GradScaler("cpu"), "off": t.amp.GradScaler("cpu", enabled=False)}
        try:
            exec(program, scope)
        except Exception as error:
            return type(error).__name__, str(error)
        return "", ""

    assert outcome(ag) == outcome(torch)


def test_sparse_gradients_are_unscaled() -> None:
    layer = ag.nn.Embedding(4, 2, sparse=True)
    optimizer, scaler = ag.optim.SGD(layer.parameters(), lr=1.0), ag.amp.GradScaler("cpu")
    before = layer.weight.detach().clone()
    scaler.scale(layer(ag.tensor([1, 1])).sum()).backward()
    scaler.step(optimizer)
    assert (before - layer.weight.detach()).tolist()[1] == pytest.approx([2.0, 2.0])
