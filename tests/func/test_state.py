"""What transforms leave behind after errors, abandoned generators and in threads: nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.core import modes
from ag_visual.func import grad, jvp, vjp, vmap

ONE = ag.tensor(1.0)
RUNS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "grad": lambda f: grad(f)(ONE),
    "vjp": lambda f: vjp(f, ONE),
    "jvp": lambda f: jvp(f, (ONE,), (ONE,)),
    "vmap": lambda f: vmap(f)(ag.ones(3)),
    "grad of grad": lambda f: grad(grad(f))(ONE),
    "vmap of grad": lambda f: vmap(grad(f))(ag.ones(3)),
    "grad of vmap": lambda f: grad(lambda x: vmap(f)(x.expand(3)).sum())(ONE),
    "jvp of vmap": lambda f: jvp(lambda x: vmap(f)(x), (ag.ones(3),), (ag.ones(3),)),
    "no_grad": lambda f: ag.no_grad()(grad(f))(ONE),
    "inference mode": lambda f: ag.inference_mode()(grad(f))(ONE),
}


class Raised(Exception):
    pass


def fail(x: Any) -> Any:
    raise Raised


def fail_later(x: Any) -> Any:
    y = (x * 2).sin()
    y.register_hook(fail)
    return y


def fail_inside(x: Any) -> Any:
    with ag.no_grad():
        return vmap(fail)(ag.ones(2) * x)


@pytest.mark.parametrize("function", [fail, fail_inside])
@pytest.mark.parametrize("name", RUNS)
def test_after_an_error(name: str, function: Callable[[Any], Any]) -> None:
    before = modes.snapshot(), modes.special, modes.duals
    with pytest.raises(Raised):
        RUNS[name](function)
    assert (modes.snapshot(), modes.special, modes.duals) == before
    assert grad(ag.sin)(ag.tensor(0.0)).item() == 1


def test_after_an_error_in_the_backward() -> None:
    with pytest.raises(Raised):
        grad(fail_later)(ONE)
    with pytest.raises(Raised):
        vmap(grad(fail_later))(ag.ones(2))


def test_a_wrong_output_is_no_open_level() -> None:
    for wrong in (lambda x: 3, lambda x: (x, 3), lambda x: None):
        for run in RUNS.values():
            with pytest.raises((RuntimeError, ValueError)):
                run(wrong)


@pytest.mark.parametrize("name", ["grad", "jvp", "vmap", "vmap of grad"])
def test_an_abandoned_generator(name: str) -> None:
    """It is left in the middle of a transform inside of which another one runs."""

    def steps(x: Any) -> Iterator[Any]:
        with ag.no_grad():
            yield x * 2

    kept: list[Any] = []

    def function(x: Any) -> Any:
        made = steps(x)
        next(made)
        kept.append(made)
        return x * 3

    RUNS[name](function)
    kept.clear()
    # What the generator changed it puts back when it is gone.
    assert ag.is_grad_enabled()


def test_levels_are_of_one_thread() -> None:
    inside, go = threading.Event(), threading.Event()
    seen: list[Any] = []
    errors: list[str] = []

    def waits(x: Any) -> Any:
        seen.append(x)
        inside.set()
        assert go.wait(600)
        return (x**2).sum()

    other = threading.Thread(target=lambda: seen.append(vmap(grad(waits))(ag.ones(2, 3))))
    other.start()
    assert inside.wait(600)
    assert modes.state.levels == ()
    assert grad(lambda x: (x * 2).sum())(ag.ones(2)).tolist() == [2.0, 2.0]
    try:
        seen[0] + 1
    except RuntimeError as error:
        errors.append(str(error))
    go.set()
    other.join(600)
    assert "may have escaped" in errors[0]
    assert seen[1].tolist() == [[2.0] * 3] * 2


def test_two_threads_transform_at_once() -> None:
    found: dict[int, list[Any]] = {0: [], 1: []}

    def work(number: int) -> None:
        for n in range(20):
            x = ag.tensor([1.0 + number, 2.0 + n])
            outer = (vmap, grad)[number]
            f = (lambda y: grad(lambda z: z**3)(y)) if outer is vmap else (lambda y: (y**3).sum())
            found[number].append(outer(f)(x).tolist())

    threads = [threading.Thread(target=work, args=(n,)) for n in found]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for number, results in found.items():
        assert results == [[3.0 * (1 + number) ** 2, 3.0 * (2 + n) ** 2] for n in range(20)]


def test_a_closed_level_of_the_same_size_is_not_the_open_one() -> None:
    """(torch takes such a tensor for a slice of the next vmap.)"""
    kept: list[Any] = []
    vmap(lambda x: kept.append(x) or x)(ag.ones(3))
    with pytest.raises(RuntimeError, match="may have escaped"):
        vmap(lambda x: x + kept[0])(ag.ones(3))
