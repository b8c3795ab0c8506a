"""Calls of modules: which nodes they made, how they lie within each other, what a ring keeps."""

from __future__ import annotations

import threading

import pytest

import ag_visual as ag
from ag_visual.observe.wire import store

from .reading import rows


class Block(ag.nn.Module):
    def __init__(self):
        super().__init__()
        self.grow = ag.nn.Linear(2, 3)
        self.shrink = ag.nn.Linear(3, 2)

    def forward(self, x):
        return x + self.shrink(ag.relu(self.grow(x)))


class Net(ag.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = ag.nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.sum()


def paths(recorder):
    """Class name of each node with the names of the calls around it, the outermost first."""
    found = rows(recorder)
    calls = {row["call"]: row for row in found.get("calls", ())}
    scopes = {row["seq"]: row["call"] for row in found.get("scopes", ())}

    def path(call):
        row = calls.get(call)
        return () if row is None else (*path(row["parent"]), row["name"])

    return [(row["name"], path(scopes.get(row["seq"]))) for row in found["nodes"]]


def test_nodes_know_the_modules_that_made_them(recorder):
    net, x = Net(), ag.ones(1, 2)
    recorder.start()
    (net(x) * 2).backward()
    recorder.stop()
    found = paths(recorder)
    assert ("AddmmBackward0", ("Net", "layers.0", "grow")) in found
    assert ("AddmmBackward0", ("Net", "layers.1", "shrink")) in found
    assert ("ReluBackward0", ("Net", "layers.1")) in found
    assert ("SumBackward0", ("Net",)) in found
    assert found[-1] == ("MulBackward0", ())


def test_a_call_that_is_drained_in_the_middle_goes_on(recorder):
    net = Block()
    net.grow.register_forward_hook(lambda *given: recorder.drain())
    recorder.start()
    net(ag.ones(1, 2))
    recorder.stop()
    assert ("ReluBackward0", ("Block",)) in paths(recorder)


def test_a_forward_that_raises_ends_its_call(recorder):
    net, w = Block(), ag.ones(2, requires_grad=True)
    recorder.start()
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes"):
        net(ag.ones(1, 5, requires_grad=True))
    w * 2
    recorder.stop()
    assert paths(recorder)[-1] == ("MulBackward0", ())


def test_a_module_of_its_own_inside_another_is_a_call_by_its_class(recorder):
    other = Block()

    class Borrows(ag.nn.Module):
        def forward(self, x):
            return other(x)

    recorder.start()
    Borrows()(ag.ones(1, 2))
    recorder.stop()
    assert ("ReluBackward0", ("Borrows", "Block")) in paths(recorder)


def test_threads_do_not_mix(recorder):
    net, w = Block(), ag.ones(2, requires_grad=True)

    def beside(*given):
        thread = threading.Thread(target=lambda: w * 2)
        thread.start()
        thread.join()

    net.grow.register_forward_hook(beside)
    recorder.start()
    net(ag.ones(1, 2))
    recorder.stop()
    assert ("MulBackward0", ()) in paths(recorder)


def test_thinning_keeps_the_calls_around_what_lives(recorder):
    net = Net()
    recorder.start()
    kept = net(ag.ones(1, 2))
    recorder.stop()
    [chunk] = recorder.chunks()
    alive = recorder.alive()
    thinned, _ = store.thin(chunk, alive)
    assert thinned.rows("calls") == chunk.rows("calls") == 7
    gone, _ = store.thin(chunk, alive[:0])
    assert (gone.rows("calls"), gone.rows("scopes")) == (0, 0)
    assert kept.grad_fn is not None
