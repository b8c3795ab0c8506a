"""What does not fit into memory raises torch's classes, in the words that programs look for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ag_visual as ag
from ag_visual.errors import OutOfMemoryError, out_of_memory

HUGE = 10**15
WORDS = "DefaultCPUAllocator: can't allocate memory: you tried to allocate "


def wide() -> ag.Tensor:
    """10^15 elements in the memory of one."""
    return ag.ones(1).expand(HUGE)


@pytest.mark.parametrize(
    ("call", "size", "named"),
    [
        (lambda: ag.empty(HUGE), 4 * HUGE, "a new tensor"),
        (lambda: ag.arange(HUGE), 8 * HUGE, "a new tensor"),
        (lambda: ag.randn(HUGE), 4 * HUGE, "random numbers"),
        (lambda: ag.nn.Linear(10**8, 10**7), 4 * HUGE, "a new tensor"),
        (lambda: wide().clone(), 4 * HUGE, "clone()"),
        (lambda: wide() + 1.0, 4 * HUGE, "add()"),
        (lambda: wide().double(), 8 * HUGE, "cast()"),
        (lambda: ag.zeros(10**8, 1) @ ag.zeros(1, 10**7), 4 * HUGE, "mm()"),
    ],
)
def test_it_says_how_much_and_who_asked(call: Callable[[], object], size: int, named: str) -> None:
    with pytest.raises(RuntimeError) as raised:
        call()
    assert isinstance(raised.value, ag.cuda.OutOfMemoryError)
    assert isinstance(raised.value, MemoryError)
    first, second = str(raised.value).split("\n")
    assert first == f"{WORDS}{size} bytes."
    assert second.startswith(f"{named}: Unable to allocate ")


def test_a_backward_names_its_node_and_leaves_gradients_alone() -> None:
    x = ag.ones(2, requires_grad=True)
    seen = ag.ones(1).expand(HUGE).requires_grad_()
    total = seen[3] + (x * x).sum()
    with pytest.raises(ag.OutOfMemoryError, match="SelectBackward0: Unable to allocate"):
        total.backward()
    assert seen.grad is None
    (x * x).sum().backward()  # no backward counts as running
    assert x.grad is not None


def test_what_a_hook_raises_stays_its_own() -> None:
    x = ag.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: np.empty(HUGE))
    with pytest.raises(MemoryError) as raised:
        y.sum().backward()
    assert not isinstance(raised.value, RuntimeError)


def test_a_gpu_says_it_in_cudas_words() -> None:
    kind = type("OutOfMemoryError", (MemoryError,), {"__module__": "cupy.cuda.memory"})
    told = out_of_memory(kind("Out of memory allocating 512 bytes"), "mm()")
    assert str(told).startswith("CUDA out of memory.\nmm(): Out of memory allocating 512 bytes")
    assert type(told) is OutOfMemoryError
    assert out_of_memory(told, "add()") is told
