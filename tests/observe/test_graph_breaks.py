"""Inputs that had left another graph: told with their node and the line, and only those."""

from __future__ import annotations

import pytest

import ag_visual as ag
from ag_visual.events import instrument
from ag_visual.events.log import EventLog
from ag_visual.observe.record.recorder import Recorder

from .reading import rows


@pytest.fixture
def recorder():
    recorder = Recorder()
    recorder.start()
    yield recorder
    recorder.stop()


def breaks(recorder: Recorder) -> list[tuple[int, str, str]]:
    return [(row["seq"], row["name"], row["kind"]) for row in rows(recorder).get("breaks", ())]


@pytest.mark.parametrize(
    ("detached", "kind"),
    [
        (lambda w: w.detach(), "detach"),
        (lambda w: w.data, "data"),
        (lambda w: ag.no_grad()(lambda: w * 1)(), "no_grad"),
        (lambda w: (w * 1).detach_(), "detach_"),
    ],
)
def test_each_way_out_of_the_graph(recorder, detached, kind):
    x = ag.ones(3, requires_grad=True)
    w = ag.ones(3, requires_grad=True)
    gone = detached(w)
    product = x * gone
    other = gone + x  # an op that saves nothing
    assert breaks(recorder) == [
        (product.grad_fn.seq, "other", kind),
        (other.grad_fn.seq, "self", kind),
    ]
    row = rows(recorder)["breaks"][0]
    place = recorder.encoder.sites.found[row["site"]]
    assert place.file == __file__
    assert row["flags"] == (kind in ("detach", "data"))


def test_the_node_that_made_it_is_known(recorder):
    x = ag.ones(3, requires_grad=True)
    made = x.exp()
    loss = (x * made.detach()).sum()
    (row,) = rows(recorder)["breaks"]
    assert (row["maker"], row["flags"]) == (made.grad_fn.seq, 0)
    assert loss.requires_grad


def test_lists_and_the_slow_path_tell_theirs(recorder):
    x = ag.ones(3, requires_grad=True)
    gone = x.detach()
    joined = ag.cat([x, gone])
    written = x * 1
    written.mul_(gone)
    assert breaks(recorder) == [
        (joined.grad_fn.seq, "tensors", "detach"),
        (written.grad_fn.seq, "other", "detach"),
    ]


def test_constants_are_no_cuts(recorder):
    x = ag.ones(3, requires_grad=True)
    constant = ag.ones(3)
    (x * constant + 2 - constant.detach()).sum().backward()
    assert breaks(recorder) == []


def test_a_constant_may_become_a_cut_later(recorder):
    x, w = ag.ones(3, requires_grad=True), ag.ones(3)
    (x * w).sum().backward()
    w.requires_grad_()
    w.detach_()
    again = x * w
    assert breaks(recorder) == [(again.grad_fn.seq, "other", "detach_")]


def test_nothing_is_told_while_nobody_records():
    x = ag.ones(3, requires_grad=True)
    log = EventLog()
    assert instrument.sink is None
    (x * x.detach()).sum()
    assert not log.events


class Product(ag.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, *more):
        return a * b

    @staticmethod
    def backward(ctx, g):
        return (g, *[None] * (len(ctx.needs_input_grad) - 1))


def test_a_view_of_what_was_detached(recorder):
    x = ag.ones(3, requires_grad=True)
    product = x * x.detach()[1:2]
    assert breaks(recorder) == [(product.grad_fn.seq, "other", "detach")]


def test_inputs_of_a_custom_function(recorder):
    x = ag.ones(3, requires_grad=True)
    out = Product.apply(x, x.detach(), 3, x.data[:1])
    seq = out.grad_fn.seq
    assert breaks(recorder) == [(seq, "b", "detach"), (seq, "input[3]", "data")]


def test_a_backward_that_returns_none(recorder):
    x, w = (ag.ones(3, requires_grad=True) for _ in range(2))
    out = Product.apply(x, w)
    for _ in range(2):
        out.sum().backward(retain_graph=True)
    assert breaks(recorder) == [(out.grad_fn.seq, "b", "none")]
    (row,) = rows(recorder)["breaks"]
    assert row["maker"] == w.gradient_edge()[0].seq
    assert recorder.encoder.sites.found[row["site"]].function == "Product.backward"


def test_each_recording_is_told_of_a_backward_that_returned_none():
    x, w = (ag.ones(3, requires_grad=True) for _ in range(2))
    out = Product.apply(x, w)
    out.sum().backward(retain_graph=True)  # nobody hears this one
    for _ in range(2):
        recorder = Recorder()
        recorder.start()
        out.sum().backward(retain_graph=True)
        recorder.stop()
        assert breaks(recorder) == [(out.grad_fn.seq, "b", "none")]


def test_an_output_that_was_marked(recorder):
    class Marked(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            copy = x * 1
            ctx.mark_non_differentiable(copy)
            return x * 2, copy

        @staticmethod
        def backward(ctx, g, other):
            return g * 2

    x = ag.ones(3, requires_grad=True)
    double, copy = Marked.apply(x)
    product = double * copy
    assert breaks(recorder) == [(product.grad_fn.seq, "other", "non_differentiable")]
    assert rows(recorder)["breaks"][0]["maker"] == double.grad_fn.seq
