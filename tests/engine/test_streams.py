"""A backward through several streams: where each node runs, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.core import modes


class Stream:
    """A stream that notes for whom it waited; `now` is the current one."""

    now: Stream
    waits: list[tuple[str, str]]

    def __init__(self, name: str) -> None:
        self.name = name

    def wait_stream(self, other: Stream) -> None:
        Stream.waits.append((self.name, other.name))

    def __repr__(self) -> str:
        return self.name


HOME, DEFAULT, SIDE = Stream("home"), Stream("default"), Stream("side")


class Chosen:
    """Nodes of `exp` were made in the stream `side`, all others in the default one."""

    def made(self, node: Any) -> None:
        return

    def of_node(self, node: Any) -> Stream:
        return SIDE if node.name() == "ExpBackward0" else DEFAULT

    def current(self) -> Stream:
        return Stream.now

    @contextmanager
    def inside(self, stream: Stream) -> Iterator[None]:
        before, Stream.now = Stream.now, stream
        yield
        Stream.now = before


@pytest.fixture(autouse=True)
def streams(monkeypatch: pytest.MonkeyPatch) -> None:
    Stream.now, Stream.waits = HOME, []
    monkeypatch.setattr(modes, "streams", Chosen())


def test_nodes_run_in_their_streams_which_wait_for_each_other() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    met: list[str] = []

    def noting(tensor: Any) -> Any:
        tensor.register_hook(lambda g: met.append(repr(Stream.now)))
        return tensor

    y = noting(noting(noting(x * 2).exp()) * 3)
    y.sum().backward()
    assert met == ["default", "side", "default"]
    assert Stream.now is HOME
    assert x.grad.tolist() == (6 * (x * 2).exp()).tolist()
    at = Stream.waits.index
    # Each waits for who made what it takes, and the caller for all of them at the end.
    assert at(("default", "home")) < at(("side", "default")) < at(("default", "side"))
    assert ("home", "default") in Stream.waits
    assert Stream.waits[-4:] == [
        ("home", "default"),
        ("home", "side"),
        ("default", "home"),
        ("side", "home"),
    ]


def test_what_meets_is_added_after_both_are_there() -> None:
    x = ag.tensor([1.0], requires_grad=True)
    z = x * 2
    (z.exp() + z.sin()).sum().backward()
    # The second gradient of z is made in the stream that did not make the first.
    assert Stream.waits.count(("default", "side")) + Stream.waits.count(("side", "default")) >= 3
    assert x.grad.item() == pytest.approx(2 * (z.exp() + z.cos()).item())


def test_a_hook_that_raises_leaves_the_callers_stream() -> None:
    x = ag.tensor([1.0], requires_grad=True)
    y = x.exp()

    def refuse(g: Any) -> None:
        assert Stream.now is SIDE
        raise ValueError("no")

    y.register_hook(refuse)
    with pytest.raises(ValueError, match="no"):
        y.backward()
    assert Stream.now is HOME


def test_gradients_are_returned_and_differentiated_again() -> None:
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    (g,) = ag.autograd.grad(x.exp().sum(), x, create_graph=True)
    (gg,) = ag.autograd.grad(g.sum(), x)
    assert gg.tolist() == x.exp().tolist()
    assert Stream.now is HOME
