"""Healthy training loops of many kinds raise no finding; one whose gradient vanishes does.

All loops are in one recording, and one page shows what is said of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

import ag_visual

from ..oracle import torch

STEPS = 6

Loss = Callable[[], Any]


def fit(t: Any, parameters: Any, loss: Loss, optimizer: str = "Adam", **options: Any) -> None:
    """A training loop: zero, forward, backward, step."""
    steps = getattr(t.optim, optimizer)(list(parameters), **{"lr": 1e-3, **options})
    for _ in range(STEPS):
        steps.zero_grad()
        loss().backward()
        steps.step()


def mlp(t: Any) -> None:
    nn = t.nn
    net = nn.Sequential(*(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU()))
    head = nn.Linear(16, 3)
    x, y = t.randn(32, 8), t.arange(32) % 3
    both = [*net.parameters(), *head.parameters()]
    fit(t, both, lambda: nn.functional.cross_entropy(head(net(x)), y))


def convolutions(t: Any) -> None:
    nn = t.nn
    parts = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)]
    net = nn.Sequential(*parts, nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))
    x, y = t.randn(8, 1, 10, 10), t.arange(8) % 3
    fit(t, net.parameters(), lambda: nn.functional.cross_entropy(net(x), y))


def recurrent(t: Any, kind: str) -> None:
    nn = t.nn
    net, head = getattr(nn, kind)(4, 8, num_layers=2), nn.Linear(8, 1)
    x, y = t.randn(20, 4, 4), t.randn(4, 1)
    both = [*net.parameters(), *head.parameters()]
    fit(t, both, lambda: (head(net(x)[0][-1]) - y).square().mean())


def transformer(t: Any) -> None:
    nn = t.nn
    words, head = nn.Embedding(200, 16), nn.Linear(16, 200)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    x = t.arange(40).reshape(4, 10)
    mask = nn.Transformer.generate_square_subsequent_mask(10)
    all_of = [p for part in (words, net, head) for p in part.parameters()]
    fit(
        t,
        all_of,
        lambda: nn.functional.cross_entropy(
            head(net(words(x), mask=mask)).reshape(-1, 200), x.reshape(-1)
        ),
    )


def adversaries(t: Any, kept: bool = True) -> None:
    nn = t.nn
    make = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    judge = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    making, judging = (t.optim.Adam(net.parameters(), 1e-3) for net in (make, judge))
    says = nn.functional.binary_cross_entropy_with_logits
    real, yes, no = t.randn(16, 2), t.ones(16, 1), t.zeros(16, 1)
    for _ in range(STEPS):
        judging.zero_grad()
        fake = make(t.randn(16, 4))
        cut = fake.detach() if kept else make(t.randn(16, 4)).detach()
        (says(judge(real), yes) + says(judge(cut), no)).backward()
        judging.step()
        making.zero_grad()
        says(judge(fake), yes).backward()  # leaves gradients in the judge, until its next step
        making.step()


def variational(t: Any) -> None:
    nn = t.nn
    code, decode = nn.Linear(8, 8), nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
    x = t.rand(16, 8)

    def loss() -> Any:
        mean, log_variance = code(x).chunk(2, dim=1)
        z = mean + t.randn(16, 4) * (0.5 * log_variance).exp()
        fits = nn.functional.binary_cross_entropy_with_logits(decode(z), x)
        return fits - 0.01 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()

    fit(t, [*code.parameters(), *decode.parameters()], loss)


def residual(t: Any) -> None:
    nn = t.nn
    blocks = [nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)) for _ in range(8)]
    head = nn.Linear(8, 1)
    x, y = t.randn(16, 8), (t.arange(16) % 2).float().reshape(16, 1)

    def loss() -> Any:
        h = x
        for block in blocks:
            h = h + block(h)
        return nn.functional.binary_cross_entropy(t.sigmoid(head(h)), y)

    fit(t, [p for part in (*blocks, head) for p in part.parameters()], loss)


def regression(t: Any) -> None:
    w, b = t.zeros(3, 1, requires_grad=True), t.zeros(1, requires_grad=True)
    x = t.randn(64, 3)
    y = x @ t.tensor([[30.0], [-20.0], [5.0]]) + 100
    loss = lambda: (x @ w + b - y).square().mean()  # noqa: E731
    fit(t, [w, b], loss, "SGD", lr=0.05, momentum=0.9)


def deep_relu(t: Any) -> None:
    nn = t.nn
    layers = [nn.Linear(32, 32) for _ in range(20)]
    for layer in layers:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    net = nn.Sequential(*(part for layer in layers for part in (layer, nn.ReLU())))
    x = t.randn(64, 32)
    fit(t, net.parameters(), lambda: (net(x) - 1).square().mean(), lr=1e-4)


def several_passes_a_step(t: Any) -> None:
    w = t.randn(4, 4, requires_grad=True)
    optimizer = t.optim.SGD([w], 0.01)
    for _ in range(STEPS):
        for _ in range(3):
            (w @ t.randn(4, 2)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


def weights_that_begin_at_zero(t: Any) -> None:
    nn = t.nn
    block, gate, head = nn.Linear(4, 4), t.zeros(1, requires_grad=True), nn.Linear(4, 1)
    x, y = t.randn(8, 4), t.randn(8, 1)
    all_of = [*block.parameters(), gate, *head.parameters()]
    fit(t, all_of, lambda: (head(x + gate * block(x).tanh()) - y).square().mean(), lr=0.1)


def safe_logs(t: Any) -> None:
    w = t.randn(4, 3, requires_grad=True)
    x = t.randn(8, 4).abs()

    def loss() -> Any:
        p = t.softmax(x @ w, 1)
        return -(p * (p + 1e-8).log()).sum() + (x * w.square().sum()).sqrt().mean()

    fit(t, [w], loss)


def gradient_penalty(t: Any) -> None:
    nn = t.nn
    make = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    judge = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    making, judging = (t.optim.RMSprop(net.parameters(), 1e-3) for net in (make, judge))
    for _ in range(STEPS):
        real, fake = t.randn(16, 2), make(t.randn(16, 4)).detach()
        between = (0.5 * real + 0.5 * fake).requires_grad_(True)  # its gradient is zero
        (slope,) = t.autograd.grad(judge(between).sum(), between, create_graph=True)
        judging.zero_grad()
        # The gradients of both terms cancel in the last bias.
        loss = judge(fake).mean() - judge(real).mean()
        (loss + 10 * (slope.norm(dim=1) - 1).square().mean()).backward()
        judging.step()
        making.zero_grad()
        (-judge(make(t.randn(16, 4))).mean()).backward()
        making.step()


def policy(t: Any) -> None:
    nn = t.nn
    acts = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    values = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def loss() -> Any:
        states = t.randn(8, 4)
        chosen = t.distributions.Categorical(logits=acts(states))
        value = values(states).squeeze(1)
        returned = t.randn(8)
        better = (returned - value).detach()
        gained = (chosen.log_prob(chosen.sample()) * better).sum()
        return (value - returned).square().sum() - gained - 0.01 * chosen.entropy().sum()

    fit(t, [*acts.parameters(), *values.parameters()], loss)


def quantized(t: Any) -> None:
    nn = t.nn
    code, decode, book = nn.Linear(8, 4), nn.Linear(4, 8), nn.Embedding(6, 4)
    x = t.randn(16, 8)

    def loss() -> Any:
        z = code(x)
        nearest = book(t.cdist(z, book.weight).argmin(1))
        straight = z + (nearest - z).detach()
        kept = (nearest - z.detach()).square().mean() + 0.25 * (
            z - nearest.detach()
        ).square().mean()
        return (decode(straight) - x).square().mean() + kept

    fit(t, [p for part in (code, decode, book) for p in part.parameters()], loss)


def cut_through_time(t: Any) -> None:
    nn = t.nn
    cell, head = nn.LSTMCell(3, 8), nn.Linear(8, 1)
    optimizer = t.optim.Adam([*cell.parameters(), *head.parameters()], 1e-3)
    state = t.zeros(4, 8), t.zeros(4, 8)
    for _ in range(STEPS):
        loss = t.zeros(())
        for _ in range(3):
            state = cell(t.randn(4, 3), state)
            loss = loss + head(state[0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = state[0].detach(), state[1].detach()


def several_tasks(t: Any) -> None:
    nn = t.nn
    body, tasks = nn.Linear(8, 16), "abc"
    heads = nn.ModuleDict({name: nn.Linear(16, 3) for name in tasks})
    net = nn.ModuleList([body, heads])
    x, y, steps = t.randn(32, 8), t.arange(32) % 3, iter(tasks * STEPS)
    loss = lambda: nn.functional.cross_entropy(heads[next(steps)](body(x).relu()), y)  # noqa: E731
    fit(t, net.parameters(), loss)


def several_passes_over_zeros(t: Any) -> None:
    nn = t.nn
    block, last, head = nn.Linear(4, 4), nn.Linear(4, 4, bias=False), nn.Linear(4, 1)
    nn.init.zeros_(last.weight)
    all_of = [p for part in (block, last, head) for p in part.parameters()]
    optimizer = t.optim.SGD(all_of, 0.1)
    for _ in range(STEPS):
        for _ in range(3):
            x = t.randn(8, 4)
            head(x + last(block(x).tanh())).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


LOOPS: tuple[Callable[[Any], None], ...] = (
    *(mlp, convolutions, transformer, adversaries, variational, residual, regression, deep_relu),
    *(several_passes_a_step, weights_that_begin_at_zero, safe_logs),
    *(gradient_penalty, policy, quantized, cut_through_time, several_tasks),
    several_passes_over_zeros,
    lambda t: adversaries(t, kept=False),
    lambda t: recurrent(t, "RNN"),
    lambda t: recurrent(t, "LSTM"),
    lambda t: recurrent(t, "GRU"),
)


def shown(context: BrowserContext, path: Path, title: str) -> Page:
    page = context.new_page()
    page.goto(path.as_uri())
    page.get_by_role("tab", name=re.compile(title)).click()
    return page


@pytest.mark.parametrize("engine", ["ag_visual", "torch"])
def test_healthy_loops_raise_nothing(context: BrowserContext, tmp_path: Path, engine: str) -> None:
    t = ag_visual if engine == "ag_visual" else torch
    t.manual_seed(0)
    with ag_visual.watch(torch) if t is torch else ag_visual.record() as recorded:
        for loop in LOOPS:
            loop(t)
    page = shown(context, recorded.save(tmp_path / "loops.html"), "Problems")
    expect(page.locator(".agv-side")).to_contain_text("No problems")
    assert page.locator(".agv-finding").all_inner_texts() == []  # nothing under Worth a look
    expect(page.locator(".agv-count")).to_have_count(0)


def test_twenty_sigmoids_vanish(context: BrowserContext, tmp_path: Path) -> None:
    t, nn = ag_visual, ag_visual.nn
    t.manual_seed(0)
    net = nn.Sequential(*(part for _ in range(20) for part in (nn.Linear(16, 16), nn.Sigmoid())))
    x = t.randn(16, 16)
    with ag_visual.record() as recorded:
        fit(t, net.parameters(), lambda: net(x).square().mean())
    page = shown(context, recorded.save(tmp_path / "sigmoids.html"), "Problems")
    card = page.locator(".agv-finding")
    expect(card).to_have_count(1)
    expect(card).to_contain_text("The gradient vanishes on its way to net.0.weight")
    expect(card).to_contain_text("since pass 1 · 6 of 6 passes")
    expect(card).to_contain_text("ReLU in place of sigmoid")
