"""Everyday programs as a whole: each sees on ag_visual what it sees on torch, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from tests.programs import agree


def _given(t: Any, *shape: int, seed: int = 0) -> Any:
    return t.from_numpy(numpy.random.default_rng(seed).normal(size=shape))


def _filled(t: Any, module: Any) -> Any:
    """The module in float64 with the same parameters on either engine."""
    module = module.double()
    with t.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(_given(t, *p.shape, seed=i) * 0.3)
    return module


def adversaries_with_gradient_penalty(t: Any) -> Any:
    nn = t.nn
    maker = _filled(t, nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2)))
    judge = _filled(t, nn.Sequential(nn.Linear(2, 6), nn.LeakyReLU(0.2), nn.Linear(6, 1)))
    of_maker = t.optim.Adam(maker.parameters(), lr=0.02, betas=(0.5, 0.999))
    of_judge = t.optim.Adam(judge.parameters(), lr=0.02)
    loss = nn.BCEWithLogitsLoss()
    seen = []
    for step in range(3):
        real, made = _given(t, 5, 2, seed=step), maker(_given(t, 5, 3, seed=step))
        of_judge.zero_grad()
        told = judge(real)
        apart = loss(told, t.ones_like(told)) + loss(judge(made.detach()), t.zeros_like(told))
        mix = (0.3 * real + 0.7 * made.detach()).requires_grad_()
        (slope,) = t.autograd.grad(judge(mix).sum(), mix, create_graph=True)
        penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
        (apart + 10 * penalty).backward()
        of_judge.step()
        of_maker.zero_grad()
        fooled = loss(judge(made), t.ones_like(told))
        fooled.backward()
        of_maker.step()
        seen += [apart, penalty, fooled]
    return [seen, list(maker.parameters()), list(judge.parameters())]


def learning_to_learn(t: Any) -> Any:
    nn, call = t.nn, t.func.functional_call
    net = _filled(t, nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)))
    outer = t.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    x, y = _given(t, 6, 2), _given(t, 6, 1, seed=1)
    for _ in range(2):
        fast = dict(net.named_parameters())
        for _ in range(2):
            inner = ((call(net, fast, (x,)) - y) ** 2).mean()
            slopes = t.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = {n: p - 0.1 * g for (n, p), g in zip(fast.items(), slopes, strict=True)}
        outer.zero_grad()
        ((call(net, fast, x) - y) ** 2).mean().backward()
        outer.step()
    return [[p, p.grad] for p in net.parameters()]


def clipped_policy(t: Any) -> Any:
    nn = t.nn
    policy = _filled(t, nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)))
    critic = _filled(t, nn.Linear(4, 1))
    groups = [{"params": policy.parameters(), "lr": 0.01}, {"params": critic.parameters()}]
    optimizer = t.optim.AdamW(groups, lr=0.02)
    states, actions = _given(t, 8, 4), t.arange(8) % 3
    returns: list[Any] = []
    for reward in _given(t, 8, seed=1).flip(0):
        returns.insert(0, reward + 0.9 * (returns[0] if returns else 0))
    seen = []
    for _ in range(3):
        logp = policy(states).log_softmax(-1)
        taken = logp.gather(1, actions[:, None]).squeeze(1)
        advantage = t.stack(returns) - critic(states).squeeze(-1)
        ratio = (taken - taken.detach() - 0.1).exp()
        gain = t.min(ratio * advantage.detach(), ratio.clamp(0.8, 1.2) * advantage.detach())
        entropy = -(logp.exp() * logp).sum(-1).mean()
        loss = -gain.mean() + 0.5 * advantage.pow(2).mean() - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
        seen += [loss, norm]
    return [seen, list(policy.parameters()), list(critic.parameters())]


def truncated_sequence(t: Any) -> Any:
    cell, x = _filled(t, t.nn.GRUCell(3, 4)), _given(t, 6, 2, 3)
    h, total = t.zeros(2, 4, dtype=t.float64), 0
    for step in range(6):
        h = cell(x[step], h)
        total = total + h.sum()
        if step % 3 == 2:
            h = h.detach()
    total.backward()
    return [p.grad for p in cell.parameters()]


def moving_average(t: Any) -> Any:
    net, mean = (_filled(t, t.nn.Linear(2, 2)) for _ in range(2))
    mean.requires_grad_(False)
    optimizer = t.optim.RMSprop(net.parameters(), 0.1)
    for _ in range(3):
        net(_given(t, 3, 2)).pow(2).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        with t.no_grad():
            for a, b in zip(mean.parameters(), net.parameters(), strict=True):
                a.mul_(0.9).add_(b, alpha=0.1)
    return [list(mean.parameters()), [p.grad for p in net.parameters()]]


def causal_attention(t: Any) -> Any:
    layer = t.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True, norm_first=True)
    x = _given(t, 2, 5, 4).requires_grad_()
    hidden = t.ones(5, 5, dtype=t.bool).triu(1)
    y = _filled(t, layer)(x, src_mask=hidden)
    y.sin().sum().backward()
    return [y, x.grad, [p.grad for p in layer.parameters()]]


PROGRAMS = (
    adversaries_with_gradient_penalty,
    causal_attention,
    clipped_policy,
    learning_to_learn,
    moving_average,
    truncated_sequence,
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_an_everyday_program_sees_the_same(program: Callable[[Any], Any]) -> None:
    agree(program)
