"""Random functions under vmap: an error, other numbers for each slice, or the same for all."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag

from ..programs import agree, raised

B = 3
Draw = Callable[[Any, Any], Any]


def plain(t: Any) -> Any:
    return t.zeros(2, 4) + 0.5


FREE: dict[str, Draw] = {
    "rand": lambda t, a: t.rand(2, 4),
    "randn": lambda t, a: t.randn(2),
    "randint": lambda t, a: t.randint(0, 1000, (4,)),
    "randperm": lambda t, a: t.randperm(9),
    "normal": lambda t, a: t.normal(1.0, 2.0, (2,)),
    "rand_like": lambda t, a: t.rand_like(a),
    "randn_like": lambda t, a: t.randn_like(a),
    "randint_like": lambda t, a: t.randint_like(a, 3, 1000),
    "rand_like of one for all": lambda t, a: t.rand_like(plain(t)),
    "normal around one for all": lambda t, a: t.normal(plain(t), 1.0),
    "bernoulli of one for all": lambda t, a: t.bernoulli(plain(t)),
    "multinomial of one for all": lambda t, a: t.multinomial(plain(t), 3),
    "poisson of one for all": lambda t, a: t.poisson(plain(t) * 50),
    "binomial of one for all": lambda t, a: t.binomial(plain(t) * 100, plain(t)),
    "uniform_": lambda t, a: a.clone().uniform_(),
    "normal_": lambda t, a: a.clone().normal_(),
    "exponential_": lambda t, a: a.clone().exponential_(),
    "cauchy_": lambda t, a: a.clone().cauchy_(),
    "geometric_": lambda t, a: a.clone().geometric_(0.1),
    "log_normal_": lambda t, a: a.clone().log_normal_(),
    "random_": lambda t, a: a.clone().random_(2, 900),
    "bernoulli_": lambda t, a: a.clone().bernoulli_(0.5),
    "dropout of one for all": lambda t, a: t.nn.functional.dropout(plain(t)),
    "mask of dropout": lambda t, a: (t.nn.functional.dropout(a) != 0) * 1.0,
    "mask of alpha dropout": lambda t, a: (
        (t.nn.functional.alpha_dropout(a, 0.5, True) < -0.5) * 1.0
    ),
    "mask of native_dropout": lambda t, a: t.native_dropout(a, 0.5, True)[1] * 1.0,
}
OF_SLICES: dict[str, Draw] = {
    "normal around": lambda t, a: t.normal(a, 1.0),
    "normal within": lambda t, a: t.normal(1.0, a),
    "normal of both": lambda t, a: t.normal(a, a),
    "bernoulli": lambda t, a: t.bernoulli(a),
    "bernoulli with p": lambda t, a: t.bernoulli(a, 0.5),
    "multinomial": lambda t, a: t.multinomial(a, 3),
    "multinomial of a vector": lambda t, a: t.multinomial(a[0], 3),
    "poisson": lambda t, a: t.poisson(a * 50),
    "binomial": lambda t, a: t.binomial(a * 0 + 100, a),
    "bernoulli_ of chances": lambda t, a: a.clone().bernoulli_(a),
}


def told(t: Any, draw: Draw, randomness: str) -> Any:
    """The shape and dtype of a draw and whether all slices are the same, or the error."""
    x = (t.arange(24.0).reshape(B, 2, 4) + 6) / 32
    t.manual_seed(1)

    def mapped() -> Any:
        return t.vmap(lambda a: draw(t, a), randomness=randomness)(x)

    error, text = raised(mapped)
    if error:
        return [error, text[:58]]
    found = mapped()
    same = all(bool((each == found[0]).all()) for each in found)
    return [list(found.shape), str(found.dtype).removeprefix("torch."), same]


@pytest.mark.parametrize("randomness", ["error", "same", "different"])
@pytest.mark.parametrize("name", [*FREE, *OF_SLICES])
def test_what_is_drawn(name: str, randomness: str) -> None:
    draw = FREE.get(name) or OF_SLICES[name]
    seen = told(ag, draw, randomness)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(lambda t: told(t, draw, randomness))
    if randomness == "error" or (randomness == "same" and name in OF_SLICES):
        assert seen[0] == "RuntimeError"
    else:
        assert seen[2] is (randomness == "same")


@pytest.mark.parametrize("name", ["uniform_", "normal_", "bernoulli_", "random_"])
def test_one_tensor_takes_no_different_numbers(name: str) -> None:
    def program(t: Any) -> Any:
        given = (0.5,) if name == "bernoulli_" else ()

        def fill(a: Any) -> Any:
            return getattr(plain(t), name)(*given) + a

        kind, text = raised(lambda: t.vmap(fill, randomness="different")(t.ones(2, 2, 4)))
        same = t.vmap(fill, randomness="same")(t.zeros(2, 2, 4))
        return [kind, text[:66], bool((same[0] == same[1]).all())]

    agree(program)


def test_different_numbers_come_from_one_draw() -> None:
    """vmap(rand) is rand of the whole batch: the stream does not tell."""
    draws: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
        (lambda: ag.rand(2), lambda: ag.rand(B, 2)),
        (lambda: ag.randn(2, 4), lambda: ag.randn(B, 2, 4)),
        (lambda: ag.randint(9, (5,)), lambda: ag.randint(9, (B, 5))),
        (lambda: ag.randperm(5), lambda: ag.stack([ag.randperm(5) for _ in range(B)])),
        (lambda: ag.rand_like(ag.ones(2)), lambda: ag.rand(B, 2)),
    ]
    for slice_, whole in draws:
        ag.manual_seed(3)
        found = ag.vmap(lambda x, f=slice_: f(), randomness="different")(ag.zeros(B))
        ag.manual_seed(3)
        assert (found == whole()).all()


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_chunks_draw_as_one(randomness: str) -> None:
    ag.manual_seed(3)
    whole = ag.vmap(lambda x: x + ag.rand(2), randomness=randomness)(ag.zeros(5, 2))
    ag.manual_seed(3)
    parts = ag.vmap(lambda x: x + ag.rand(2), randomness=randomness, chunk_size=2)(ag.zeros(5, 2))
    assert (whole == parts).all()


def test_the_innermost_vmap_decides_and_the_outer_ones_after_it() -> None:
    def program(t: Any) -> Any:
        seen = []
        for outer in ("error", "same", "different"):
            for inner in ("error", "same", "different"):

                def f(a: Any, inner: str = inner) -> Any:
                    return t.vmap(lambda b: b * 0 + t.rand(4), randomness=inner)(a)

                def mapped(f: Any = f, outer: str = outer) -> Any:
                    return t.vmap(f, randomness=outer)(t.zeros(2, 3, 4))

                if raised(mapped)[0]:
                    seen.append(raised(mapped)[0])
                    continue
                x = mapped()
                seen.append([bool((x[0] == x[1]).all()), bool((x[:, 0] == x[:, 1]).all())])
        return seen

    agree(program)


def test_what_draws_nothing_is_no_error() -> None:
    def program(t: Any) -> Any:
        F, x = t.nn.functional, (t.arange(6.0) + 1).reshape(2, 3)
        return t.vmap(lambda a: (F.dropout(a, 0.0), F.dropout(a, 1.0), F.dropout(a, 0.5, False)))(x)

    agree(program)


def test_gradients_of_dropout_under_vmap() -> None:
    ag.manual_seed(5)
    x = ag.ones(3, 8)
    grad = ag.vmap(ag.func.grad(lambda a: ag.nn.functional.dropout(a).sum()), randomness="same")(x)
    assert (grad == grad[0]).all()
    assert set(grad.reshape(-1).tolist()) == {0.0, 2.0}
