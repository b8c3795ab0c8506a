"""Operations of other Python threads have their lines, and torch is as it was after them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.session.session import current

from ..oracle import torch
from .test_record import rows


def run(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def lines(watched: Any) -> dict[str, str]:
    """Name of each node, and the text of its line."""
    found = watched.recording
    sites = current().recorder.encoder.sites.found
    told = {}
    for node in rows(found, "nodes"):
        at = int(node["site"])
        told[found.strings[int(node["name"])]] = sites[at].text if at < len(sites) else ""
    return told


def test_each_thread_names_its_own_lines() -> None:
    x = torch.ones(3, requires_grad=True)
    made: list[Any] = []
    with ag.watch(torch) as watched:
        run(lambda: made.append(x.exp()))
        with ThreadPoolExecutor(2) as pool:
            made += pool.map(lambda f: f(x), [torch.sin, torch.cos])
        total = made[0] * made[1] * made[2]
        run(lambda: total.sum().backward())
    told = lines(watched)
    assert "x.exp()" in told["ExpBackward0"]
    assert "f(x)" in told["SinBackward0"]
    assert "f(x)" in told["CosBackward0"]
    assert "total.sum()" in told["SumBackward0"]
    threads = {int(node["thread"]) for node in rows(watched.recording, "nodes")}
    assert len(threads) > 1  # numbers of threads that have ended are used again


def test_a_write_in_a_thread_is_named_in_the_error() -> None:
    with ag.watch(torch, problems_only=True):
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        run(lambda: y.add_(1))
        with pytest.raises(RuntimeError, match="inplace") as error:
            y.sum().backward()
    assert "y.add_(1)" in error.value.__notes__[0]


def test_a_result_of_a_thread_that_has_ended_is_in_the_recording() -> None:
    x, made = torch.ones(3, requires_grad=True), []
    with ag.watch(torch) as watched:
        run(lambda: made.append(x.tanh()))
        assert "x.tanh()" in lines(watched)["TanhBackward0"]


def test_hooks_and_custom_functions_of_a_backward_in_a_thread_have_lines() -> None:
    class Cubed(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 3 * x.square()

    x = torch.ones(3, requires_grad=True)
    with ag.watch(torch) as watched:

        def work() -> None:
            (g,) = torch.autograd.grad(Cubed.apply(x).sum(), x, create_graph=True)
            g.sum().backward()

        run(work)
    told = lines(watched)
    assert "Cubed.apply(x)" in told["CubedBackward"]
    assert "x.square()" in told["PowBackward0"]


def test_threads_end_as_they_began_and_one_that_goes_on_is_left_alone() -> None:
    before = threading.Thread.__dict__["_bootstrap_inner"]
    stopped, went = threading.Event(), threading.Event()
    x = torch.ones(3, requires_grad=True)
    results: list[Any] = []

    def work() -> None:
        results.append(x * 2)
        went.set()
        stopped.wait()
        for _ in range(3000):
            results.append(x * 3)

    watched = ag.watch(torch)
    thread = threading.Thread(target=work)
    thread.start()
    went.wait()
    watched.stop()
    assert threading.Thread.__dict__["_bootstrap_inner"] is before
    stopped.set()
    thread.join()
    assert "ag_visual" in results[0].grad_fn.metadata
    assert not results[-1].grad_fn.metadata
    assert watched._watcher._modes == [watched._watcher._mode]
    assert not watched._watcher._ended


@pytest.mark.parametrize("how", ["alone", "first", "second", "many"])
def test_a_node_leads_to_one_that_another_thread_made_with_a_higher_number(how: str) -> None:
    """torch numbers the nodes of each thread by itself, from 0 on."""
    x = torch.ones(3, requires_grad=True)
    made: list[Any] = []

    def work() -> None:
        h = x
        for _ in range(50):
            h = h * 1.5
        made.append(h)

    def program() -> None:
        far = made[0]
        near = far if how == "alone" else x + 1.5
        joined = {
            "alone": lambda: far.exp(),
            "first": lambda: far * near,
            "second": lambda: near * far,
            "many": lambda: torch.cat([near, far, near]),
        }[how]()
        joined.sum().backward()

    with ag.watch(torch) as watched:
        run(work)
        run(program)
    found = watched.recording
    seqs = {int(node["seq"]) for node in rows(found, "nodes")}
    seqs |= {int(leaf["seq"]) for leaf in rows(found, "leaves")}
    ends = [int(edge["dst"]) for edge in rows(found, "edges")]
    reached = {end for end in ends if end in seqs}
    assert len(seqs - reached) == 1  # the sum: all others have a consumer
