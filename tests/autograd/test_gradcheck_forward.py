"""gradcheck and functional through forward mode and vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import ag_visual as ag
from ag_visual.autograd import forward_ad
from tests.autograd.test_functional import FUNCTIONS, SCALARS, arguments
from tests.autograd.test_gradcheck import RIGHT, complex_leaf, custom, leaf, verdict
from tests.oracle import torch
from tests.programs import agree, close, plain

# A tensor that comes twice is changed twice, but has one tangent: torch finds that wrong, too.
OTHERS = {"a custom function", "written inside", "the same tensor twice"}
SMOOTH = sorted(RIGHT.keys() - OTHERS)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("fast", [False, True])
def test_what_is_right_passes(name: str, fast: bool) -> None:
    def check(function: Any, inputs: Any) -> bool:
        both = ag.autograd.gradcheck(
            function,
            inputs,
            check_forward_ad=True,
            check_batched_forward_grad=True,
            fast_mode=fast,
        )
        alone = ag.autograd.gradcheck(
            function, inputs, check_forward_ad=True, check_backward_ad=False, fast_mode=fast
        )
        return both and alone

    assert RIGHT[name](ag, check) is True


@pytest.mark.parametrize("name", ["one input", "a matrix product", "complex to complex"])
def test_forward_over_reverse(name: str) -> None:
    def check(function: Any, inputs: Any) -> bool:
        return ag.autograd.gradgradcheck(function, inputs, check_fwd_over_rev=True)

    assert RIGHT[name](ag, check) is True


ALONE = {"check_forward_ad": True, "check_backward_ad": False}
WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "X17": lambda t, g: g.gradcheck(lambda x: x * x.detach(), leaf(t, 3), **ALONE),
    "X18": lambda t, g: g.gradcheck(lambda x: x * x.detach(), leaf(t, 3), fast_mode=True, **ALONE),
    "X58": lambda t, g: g.gradcheck(lambda z: z * z.detach(), complex_leaf(t), **ALONE),
    "forward after backward": lambda t, g: g.gradcheck(
        lambda x: x * x.detach(), leaf(t, 3), check_forward_ad=True
    ),
}


def _undefined_doubles(c: Any, s: Any, u: Any) -> Any:
    return s if u is None else u * 2 if s is None else s + u


def _add(c: Any, a: Any, b: Any) -> Any:
    c.set_materialize_grads(False)
    return a + b


def _functions_have_tangents() -> bool:
    """Whether forward mode asks custom functions for their jvp, as the causes below need."""
    point = ag.ones(1)
    with forward_ad.dual_level():
        found = custom(ag, jvp=lambda c, u: u * 3)(forward_ad.make_dual(point, point))
        return bool(forward_ad.unpack_dual(found).tangent == 3)


if _functions_have_tangents():
    WRONG |= {
        "X38": lambda t, g: g.gradcheck(custom(t), leaf(t, 2), check_forward_ad=True),
        "X39": lambda t, g: g.gradcheck(
            custom(t, jvp=lambda c, u: u * 3), leaf(t, 2), check_forward_ad=True
        ),
        "X40": lambda t, g: g.gradcheck(
            custom(t, jvp=lambda c, u: u * 3), leaf(t, 2), check_forward_ad=True, fast_mode=True
        ),
        "X61": lambda t, g: g.gradcheck(
            custom(t, forward=_add, backward=lambda c, g: (g, g), jvp=_undefined_doubles),
            (leaf(t, 2), leaf(t, 2)),
            check_forward_ad=True,
        ),
    }


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_torchs(name: str) -> None:
    ours = verdict(lambda: WRONG[name](ag, ag.autograd))
    theirs = verdict(lambda: WRONG[name](torch, torch.autograd))
    assert ours[0] == theirs[0]
    assert ours[1].partition("tensor(")[0] == theirs[1].partition("tensor(")[0]


def _sees_batches(t: Any) -> Any:
    """A custom function whose derivatives differ for batches."""

    def derivative(c: Any, g: Any) -> Any:
        return g * (3 if "Batched" in repr(g) else 2)

    return custom(t, backward=derivative, jvp=derivative)


def _asks_for_a_number(t: Any) -> Any:
    return custom(t, backward=lambda c, g: g * float(2 * bool(g.sum() == g.sum())))


BATCHED: dict[str, Callable[[Any, Any], Any]] = {
    "X37": lambda t, g: g.gradcheck(_asks_for_a_number(t), leaf(t, 2), check_batched_grad=True),
    "X49": lambda t, g: g.gradcheck(_sees_batches(t), leaf(t, 3), check_batched_grad=True),
    "X50": lambda t, g: g.gradcheck(
        _sees_batches(t), leaf(t, 3), check_forward_ad=True, check_batched_forward_grad=True
    ),
}


@pytest.mark.parametrize("name", BATCHED)
def test_what_fails_on_batches_is_found(name: str) -> None:
    """As by torch, whose text goes on with what its vmap lacks: there X49 and X50 fail for that."""
    ours = verdict(lambda: BATCHED[name](ag, ag.autograd))
    theirs = verdict(lambda: BATCHED[name](torch, torch.autograd))
    assert ours[0] == theirs[0] == "GradcheckError"
    got = theirs[1].partition(":")[0] if name == "X37" else "For output 0 and input 0:"
    assert ours[1].startswith(got)


def test_a_batch_of_tangents_that_is_not_its_lanes_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """X50: what a jvp does to a batch differs from what it does to each tangent."""
    from ag_visual import func

    run = func.vmap

    def doubled(function: Any) -> Any:
        return lambda *values: tuple(each * 2 for each in run(function)(*values))

    def refused(function: Any) -> Any:
        raise RuntimeError("no rule")

    both = {"check_forward_ad": True, "check_batched_forward_grad": True}
    for planted, told in ((doubled, "For output 0 and input 0:"), (refused, "got: no rule")):
        monkeypatch.setattr(func, "vmap", planted)
        with pytest.raises(RuntimeError, match=told):
            ag.autograd.gradcheck(ag.sin, leaf(ag, 2), **both)


def test_an_undefined_tangent_that_counts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from ag_visual.autograd.gradcheck import forward

    run = forward.tangents

    def planted(problem: Any, given: list[Any]) -> Any:
        factor = 2 if any(each is None for each in given) else 1
        return [None if each is None else each * factor for each in run(problem, given)]

    monkeypatch.setattr(forward, "tangents", planted)
    with pytest.raises(RuntimeError, match="Mismatch in tangent values for output with index"):
        ag.autograd.gradcheck(ag.mul, (leaf(ag, 2), leaf(ag, 2)), check_forward_ad=True)


# functional ---------------------------------------------------------------------------------------

BY_COLUMNS = sorted(FUNCTIONS.keys() - {"custom"})


@pytest.mark.parametrize("name", BY_COLUMNS)
def test_jacobians_by_columns(name: str) -> None:
    function, kind = FUNCTIONS[name]

    def program(t: Any) -> Any:
        return t.autograd.functional.jacobian(
            lambda *a: function(t, *a),
            arguments(t, kind, False),
            vectorize=True,
            strategy="forward-mode",
        )

    close(plain(_numbers(program(ag))), plain(_numbers(program(torch))))


@pytest.mark.parametrize("name", SCALARS)
def test_hessians_by_columns(name: str) -> None:
    function, kind = SCALARS[name]

    def program(t: Any) -> Any:
        return t.autograd.functional.hessian(
            lambda *a: function(t, *a),
            arguments(t, kind, False),
            vectorize=True,
            outer_jacobian_strategy="forward-mode",
        )

    close(plain(_numbers(program(ag))), plain(_numbers(program(torch))))


def _numbers(value: Any) -> Any:
    """Structure, dtype and numbers. torch gives lists where its documentation says tuples."""
    if isinstance(value, (tuple, list)):
        return ["tuple", *map(_numbers, value)]
    return [str(value.dtype), list(value.shape), value.detach().numpy()]


def test_inside_of_transforms_they_are_refused() -> None:
    """F47."""

    def program(t: Any) -> Any:
        def inner(x: Any) -> Any:
            return t.autograd.functional.jacobian(t.sin, x)

        return [
            verdict(lambda: t.func.grad(inner)(t.tensor(1.0))),
            verdict(lambda: t.func.vmap(inner)(t.ones(2))),
        ]

    agree(program)
