"""Lines that are noted by torch's sequence numbers, which each thread counts for itself.

Before PyTorch 2.10 (`releases.TELLS`) they are always noted in the nodes themselves, so that those
of nodes that live are not forgotten; what nobody saw being made is not read, so it has no note.
"""

from __future__ import annotations

import _thread
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest

import ag_visual as ag
from ag_visual.bridge import forward, threads
from ag_visual.bridge.forward import Forward, Numbered
from ag_visual.bridge.node import TorchNode
from ag_visual.bridge.releases import TELLS
from ag_visual.bridge.saved import KEY
from ag_visual.bridge.walk import discover
from ag_visual.core import source
from ag_visual.events import live

from ..oracle import torch
from . import test_blame, test_ten_mistakes
from .test_threads import lines, run

ALONE = Numbered if TELLS else Forward
"""The mode where one thread alone makes graphs."""


def mode() -> Any:
    return live.engines[0]._mode


def noted(error: Any) -> str:
    return "".join(getattr(error.value, "__notes__", ()))


def assert_unseen(error: Any) -> None:
    """What saved the tensor was not seen, and no line is given by chance."""
    if TELLS:
        assert "not watched, or is forgotten" in noted(error)
    else:
        assert noted(error) == ""


def line_of(tensor: Any) -> str:
    return source.resolve_call_site(live.engines[0].node_of(tensor).call_site).text


@pytest.fixture
def older() -> Iterator[Any]:
    """A thread that was there before torch is watched."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        yield pool


def test_one_thread_notes_by_number_and_touches_no_node() -> None:
    with ag.watch(torch):
        assert type(mode()) is ALONE
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        assert (y.grad_fn.metadata == {}) is TELLS
        assert line_of(y) == "x.exp()"


@pytest.mark.parametrize("problems_only", [False, True])
def test_an_older_thread_draws_the_same_numbers(older: Any, problems_only: bool) -> None:
    x = torch.ones(3, requires_grad=True)
    number = older.submit(lambda: x.exp().grad_fn._sequence_nr()).result()
    with ag.watch(torch, problems_only=problems_only):
        assert type(mode()) is Forward
        here: dict[int, Any] = {}
        while number + 1 not in here:
            y = x.sin()
            here[y.grad_fn._sequence_nr()] = y
            if y.grad_fn._sequence_nr() > number + 1:
                number = older.submit(lambda: x.exp().grad_fn._sequence_nr()).result()
        there = older.submit(lambda: x.exp()).result()
        assert there.grad_fn._sequence_nr() in here
        there.add_(1)
        with pytest.raises(RuntimeError, match="inplace") as error:
            there.sum().backward()
    assert "x.sin()" not in noted(error)
    assert_unseen(error)


@pytest.mark.parametrize("problems_only", [False, True])
def test_a_new_thread_ends_it_when_it_computes(problems_only: bool) -> None:
    x = torch.ones(3, requires_grad=True)
    with ag.watch(torch, problems_only=problems_only):
        first = x.exp()
        run(lambda: None)
        assert type(mode()) is ALONE
        made: list[Any] = []
        run(lambda: made.append(x.tanh()))
        assert type(mode()) is Forward
        later = x.sin()
        for made_at, tensor in (("x.tanh()", made[0]), ("x.sin()", later)):
            result = tensor.exp()
            result.add_(1)
            with pytest.raises(RuntimeError, match="inplace") as error:
                result.sum().backward()
            assert "tensor.exp()" in noted(error)
            assert made_at in line_of(tensor)
        first.add_(1)
        with pytest.raises(RuntimeError, match="inplace") as error:
            first.sum().backward()
    # What was recorded was looked at in time; else nothing led to the nodes that there were.
    assert ("x.exp()" in noted(error)) is not (problems_only and TELLS)


@pytest.mark.parametrize("problems_only", [False, True])
def test_a_thread_that_is_begun_without_threading_is_given_no_line(problems_only: bool) -> None:
    x = torch.ones(3, requires_grad=True)
    there: list[Any] = []
    over = _thread.allocate_lock()
    before = _thread.start_new_thread

    def compute(last: int) -> None:
        try:
            while not there or there[-1].grad_fn._sequence_nr() < last:
                there.append(x.exp())
        finally:
            over.release()

    with ag.watch(torch, problems_only=problems_only):
        here = [x.sin() for _ in range(3)]
        over.acquire()
        last = here[-1].grad_fn._sequence_nr()
        _thread.start_new_thread(compute, (last,))
        with over:
            assert type(mode()) is Forward
        assert there[-1].grad_fn._sequence_nr() == last
        there[-1].add_(1)
        with pytest.raises(RuntimeError, match="inplace") as error:
            there[-1].sum().backward()
    assert "x.sin()" not in noted(error)
    assert_unseen(error)
    assert _thread.start_new_thread is before


def test_what_was_made_unseen_between_two_operations_has_no_line() -> None:
    x = torch.ones(3, requires_grad=True)
    with ag.watch(torch, problems_only=True):
        before = x.sin()
        with torch._C.DisableTorchFunction():
            y = x.exp()
        after = x.cos()
        y.add_(1)
        with pytest.raises(RuntimeError, match="inplace") as error:
            (before + y + after).sum().backward()
    assert_unseen(error)
    assert "x.sin()" not in noted(error)
    assert "x.cos()" not in noted(error)


def test_lines_are_bounded_and_one_that_is_forgotten_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forward, "MOST_LINES", 50)
    x = torch.ones(3, requires_grad=True)
    with ag.watch(torch, problems_only=True):
        y = x.tanh()
        z = x.exp()
        for _ in range(48):
            z.neg()
        for tensor, made_at, known in ((z, "x.exp()", True), (y, "x.tanh()", not TELLS)):
            tensor.add_(1)
            with pytest.raises(RuntimeError, match="inplace") as error:
                tensor.sum().backward()
            assert (made_at in noted(error)) is known
            assert ("is forgotten" in noted(error)) is not known
        assert len(mode().notes) <= 50


def test_a_write_before_an_operation_is_not_guilty() -> None:
    with ag.watch(torch, problems_only=True):
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        y.mul_(3)
        z = y.exp()
        y.sub_(1)
        z.div_(2)
        with pytest.raises(RuntimeError, match="inplace") as error:
            z.sum().backward()
    assert "z.div_(2)" in noted(error)
    assert "y.mul_(3)" not in noted(error)


@pytest.mark.parametrize("problems_only", [False, True])
def test_both_lines_where_several_threads_compute(
    problems_only: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "alone", lambda: False)
    for case in test_blame.CASES[::4]:
        test_blame.test_the_note_names_both_lines(case, problems_only, tmp_path)
    for name in list(test_ten_mistakes.PROGRAMS)[::3]:
        test_ten_mistakes.test_both_lines_are_named(name, problems_only, tmp_path)


def test_operations_of_several_nodes_and_results_have_their_line() -> None:
    x = torch.ones(4, 3, requires_grad=True)
    with ag.watch(torch) as watched:
        a, b = x.exp().split(2)
        c = torch.nn.functional.gelu(a @ b.T)
        c.max(dim=0)[0].sum().backward()
    told = lines(watched)
    assert "split(2)" in told["SplitBackward0"]
    assert "a @ b.T" in told["MmBackward0"]
    assert "gelu(a @ b.T)" in told["GeluBackward0"]
    assert "max(dim=0)" in told["MaxBackward0"]


def test_what_is_known_is_not_walked_again() -> None:
    class Known:
        metadata: ClassVar[Any] = {KEY: TorchNode()}

        def _sequence_nr(self) -> int:
            return 3

        @property
        def next_functions(self) -> Any:
            raise AssertionError("a chain would be walked again at each look")

    assert discover((), [(Known(), None)], 0) == ([], {})


def test_an_output_that_is_none_is_no_write() -> None:
    with ag.watch(torch):
        x = torch.ones(3, 2, requires_grad=True)
        assert line_of(torch.nn.functional.normalize(x)) == "torch.nn.functional.normalize(x)"
        assert line_of(torch.add(x, x, out=None)) == "torch.add(x, x, out=None)"
        assert line_of(torch.norm(x, dim=0)) == "torch.norm(x, dim=0)"
