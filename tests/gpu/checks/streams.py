"""Streams and events: work runs where it was told to, and backward where its forward ran."""

from __future__ import annotations

from typing import Any

import ag_visual as ag

from ..page import Machine, check


def _noted(tensor: Any, streams: list[Any]) -> Any:
    """Note the stream that is the current one when the gradient of a tensor has come."""
    tensor.register_hook(lambda g: streams.append(ag.cuda.current_stream()))
    return tensor


@check("streams")
def the_current_stream_is_that_of_the_block(machine: Machine) -> None:
    """Blocks nest; another thread's stream, and the one outside, are untouched."""
    first = ag.cuda.current_stream()
    assert first == ag.cuda.default_stream()
    one, two = ag.cuda.Stream(), ag.cuda.Stream()
    assert one != two
    with ag.cuda.stream(one):
        assert ag.cuda.current_stream() == one
        with ag.cuda.stream(two), ag.cuda.stream(None):
            assert ag.cuda.current_stream() == two
        assert ag.cuda.current_stream() == one
    assert ag.cuda.current_stream() == first
    one.synchronize()
    assert one.query()


@check("streams")
def backward_runs_in_the_stream_of_its_forward(machine: Machine) -> None:
    """As torch promises: each node in the stream of its op, the caller's stream after it."""
    outside, side = ag.cuda.current_stream(), ag.cuda.Stream()
    x = ag.ones(64, 64, device=machine.device, requires_grad=True)
    met: dict[str, list[Any]] = {"before": [], "inside": [], "after": []}
    y = _noted(x * 2, met["before"])
    z = y * 3
    side.wait_stream(outside)
    with ag.cuda.stream(side):
        w = z.exp()
        inside = _noted(w * 5, met["inside"])
        out = inside + 1
    outside.wait_stream(side)
    total = _noted(out * 2, met["after"]).sum()
    # A hook runs where the gradient was made: that of `inside` by the node of the addition.
    for _ in range(2):
        total.backward(retain_graph=True)
    assert met["after"] == [outside] * 2, met
    assert met["inside"] == [side] * 2, met
    assert met["before"] == [outside] * 2, met
    assert ag.cuda.current_stream() == outside
    with ag.cuda.stream(side):
        total.backward()
        assert ag.cuda.current_stream() == side
    assert met["inside"][-1] == side
    assert met["after"][-1] == outside


@check("streams")
def gradients_are_whole_when_backward_returns(machine: Machine) -> str:
    """Long kernels in two streams, whose gradients meet; the caller waits for nothing by hand."""
    size, rounds = (1024, 20) if machine.real else (8, 2)
    outside = ag.cuda.current_stream()
    streams = [ag.cuda.Stream() for _ in range(2)]
    w = (ag.randn(size, size, device=machine.device) / size**0.5).requires_grad_()

    def branch(h: Any) -> Any:
        for _ in range(4):
            h = (h @ w).tanh()
        return h

    def loss(apart: bool) -> Any:
        ends = []
        for at, stream in enumerate(streams):
            if apart:
                stream.wait_stream(outside)
            with ag.cuda.stream(stream if apart else None):
                ends.append(branch(w * (at + 1)))
            if apart:
                outside.wait_stream(stream)
        return (ends[0] * ends[1]).sum()

    (wanted,) = ag.autograd.grad(loss(False), w)
    for at in range(rounds):
        (found,) = ag.autograd.grad(loss(True), w)
        # A kernel that came too early would have read what was not there yet.
        assert ag.allclose(found, wanted, rtol=1e-4, atol=1e-5), f"round {at}"
        w.grad = None
        loss(True).backward()
        assert ag.allclose(w.grad, wanted, rtol=1e-4, atol=1e-5), f"round {at}, in .grad"
    return f"{rounds} rounds"


@check("streams")
def events_tell_time(machine: Machine) -> str:
    """Recorded, waited for, and the milliseconds between them."""
    begun, ended = (ag.cuda.Event(enable_timing=True) for _ in range(2))
    begun.record()
    x = ag.ones(512, 512, device=machine.device)
    for _ in range(5):
        x = x @ x / 512
    ended.record()
    ended.synchronize()
    assert ended.query()
    took = begun.elapsed_time(ended)
    assert took >= 0
    side = ag.cuda.Stream()
    side.wait_event(ended)
    side.record_event().wait()
    ag.cuda.synchronize()
    return f"5 products in {took:.3f} ms" if machine.real else ""
