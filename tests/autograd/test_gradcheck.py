"""gradcheck finds planted errors of every kind, passes what is right, and leaves no trace."""

from __future__ import annotations

import contextlib
import itertools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from hypothesis import given, settings, strategies as st

import ag_visual as ag
from ag_visual.autograd import gradcheck, gradgradcheck
from ag_visual.autograd.gradcheck import (
    GradcheckError,
    get_analytical_jacobian,
    get_numerical_jacobian,
    get_numerical_jacobian_wrt_specific_input,
)
from tests.oracle import torch
from tests.programs import agree

ONCE = {"check_undefined_grad": False}


def custom(t: Any, **methods: Any) -> Any:
    """A custom function that doubles, but for the methods that are given."""
    whole = {"forward": lambda c, x: x * 2, "backward": lambda c, g: g * 2, **methods}
    kinds = {name: staticmethod(method) for name, method in whole.items()}
    return type("Fn", (t.autograd.Function,), kinds).apply


def leaf(t: Any, *shape: int) -> Any:
    """Numbers from 0.3 to 1.7 in float64 that require grad."""
    many = int(numpy.prod(shape))
    return t.linspace(0.3, 1.7, many, dtype=t.float64).reshape(shape).requires_grad_()


def complex_leaf(t: Any) -> Any:
    return t.tensor([1 + 2j, 3 - 1j], dtype=t.complex128, requires_grad=True)


def verdict(call: Callable[[], Any]) -> list[str]:
    """True, False, or the error with torch's part of the text, and the warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = [str(call())]
        except Exception as error:
            kind = type(error).__name__
            if isinstance(error, RuntimeError) and kind != "GradcheckError":
                kind = "RuntimeError"
            found = [kind, str(error).partition("\n")[0]]
    mine = [each for each in told if issubclass(each.category, UserWarning)]
    return [*found, *(str(each.message) for each in mine)]


# What is right ------------------------------------------------------------------------------------

RIGHT: dict[str, Callable[[Any, Callable[..., Any]], Any]] = {
    "one input": lambda t, check: check(t.sin, leaf(t, 3)),
    "a matrix product": lambda t, check: check(
        lambda a, b: (a @ b).tanh(), (leaf(t, 2, 3), leaf(t, 3, 2))
    ),
    "a list of inputs": lambda t, check: check(t.mul, [leaf(t, 3), leaf(t, 3)]),
    "a list of outputs": lambda t, check: check(lambda x: [x * 2, x.sin()], leaf(t, 3)),
    "arguments of other kinds": lambda t, check: check(lambda x, k: x**k, (leaf(t, 3), 2)),
    "one requires no grad": lambda t, check: check(t.mul, (leaf(t, 3), leaf(t, 3).detach())),
    "outputs without grad": lambda t, check: check(lambda x: (x.detach() * 0, x * 2), leaf(t, 2)),
    "the input itself": lambda t, check: check(lambda x: x, leaf(t, 2)),
    "a view of it": lambda t, check: check(lambda x: (x[0], x.t()), leaf(t, 2, 2)),
    "the same tensor twice": lambda t, check: check(t.mul, (x := leaf(t, 2), x)),
    "not a leaf": lambda t, check: check(t.sin, leaf(t, 3) * 2),
    "not contiguous": lambda t, check: check(t.sin, leaf(t, 2, 3).t()),
    "no element": lambda t, check: check(lambda x: x[:0], leaf(t, 3)),
    "no dimension": lambda t, check: check(t.exp, t.tensor(2.0).double().requires_grad_()),
    "one input is unused": lambda t, check: check(lambda a, b: a * 2, (leaf(t, 2), leaf(t, 2))),
    "complex to complex": lambda t, check: check(lambda z: z**3, complex_leaf(t)),
    "complex to real": lambda t, check: check(lambda z: z.abs(), complex_leaf(t)),
    "real to complex": lambda t, check: check(lambda x: x * (1 + 2j), leaf(t, 2)),
    "complex and real": lambda t, check: check(
        lambda z, x: (z * x, z.real * x), (complex_leaf(t), leaf(t, 2))
    ),
    "a custom function": lambda t, check: check(custom(t), leaf(t, 2)),
    "written inside": lambda t, check: check(lambda x: (x * 2).mul_(x).exp_(), leaf(t, 3)),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("fast", [False, True])
def test_what_is_right_passes(name: str, fast: bool) -> None:
    def check(function: Any, inputs: Any) -> bool:
        return gradcheck(function, inputs, fast_mode=fast, check_batched_grad=True)

    assert RIGHT[name](ag, check) is True


@pytest.mark.parametrize("name", sorted(RIGHT.keys() - {"a custom function"}))
def test_second_derivatives_that_are_right_pass(name: str) -> None:
    for fast, strided in itertools.product((False, True), (False, True)):

        def check(function: Any, inputs: Any, fast: bool = fast, strided: bool = strided) -> bool:
            return gradgradcheck(
                function, inputs, fast_mode=fast, gen_non_contig_grad_outputs=strided
            )

        assert RIGHT[name](ag, check) is True


@settings(max_examples=30)
@given(data=st.data())
def test_random_functions_pass_and_a_planted_factor_is_found(data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.sampled_from(["sin", "exp", "tanh", "square"]), max_size=2))
    shape = data.draw(st.lists(st.integers(1, 3), max_size=2))
    fast = data.draw(st.booleans())
    draw = numpy.random.default_rng(data.draw(st.integers(0, 99)))
    x = ag.tensor(draw.uniform(0.5, 1, shape), requires_grad=True)

    def function(x: Any) -> Any:
        for step in steps:
            x = getattr(x, step)()
        return x * x.sum()

    assert gradcheck(function, x, fast_mode=fast)
    wrong = custom(ag, backward=lambda c, g: g * 2.1)
    assert not gradcheck(lambda x: wrong(function(x)), x, fast_mode=fast, raise_exception=False)


# What is wrong ------------------------------------------------------------------------------------


def _undefined_first(c: Any, g: Any, h: Any) -> Any:
    if g is None:
        raise RuntimeError("undefined")
    return g * 2, h * 2


def _both(t: Any, backward: Any) -> Any:
    def forward(c: Any, x: Any, y: Any) -> Any:
        c.set_materialize_grads(False)
        return x * 2, y * 2

    return custom(t, forward=forward, backward=backward)


def _quiet(t: Any, backward: Any) -> Any:
    def forward(c: Any, x: Any) -> Any:
        c.set_materialize_grads(False)
        return x * 2

    return custom(t, forward=forward, backward=backward)


def _ones_for_zeros(t: Any) -> Any:
    return lambda c, g: g * 2 if bool((g != 0).any()) else t.ones_like(g)


def _grows(x: Any) -> Any:
    """Another shape when the input is changed."""
    return x * 2 if float(x[0].detach()) <= 0.3 else (x * 2)[:1]


def _narrows(x: Any) -> Any:
    return x * 2 if float(x[0].detach()) <= 0.3 else (x * 2).float()


# id of the error texts, or a name: the cause, which runs on both engines
WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "X1": lambda t, g: g.gradcheck(3, t.tensor(1.0)),
    "X2": lambda t, g: g.gradcheck(t.sin, t.tensor(1.0)),
    "X3": lambda t, g: g.gradcheck(t.sin, t.tensor(1.0, dtype=t.float64)),
    "X4": lambda t, g: g.gradcheck(t.sin, leaf(t, 2).detach().float().requires_grad_()),
    "X5": lambda t, g: g.gradcheck(t.sin, t.ones(2, requires_grad=True)),
    "X6": lambda t, g: g.gradcheck(t.sin, 3),
    "X7": lambda t, g: g.gradcheck(
        t.sin, leaf(t, 3), check_forward_ad=False, check_backward_ad=False
    ),
    "X8": lambda t, g: g.gradcheck(
        t.sin, leaf(t, 3), check_backward_ad=False, check_batched_grad=True
    ),
    "X9": lambda t, g: g.gradcheck(t.sin, leaf(t, 3), check_batched_forward_grad=True),
    "X10": lambda t, g: g.gradcheck(
        t.sin, leaf(t, 3), check_undefined_grad=True, check_backward_ad=False
    ),
    "X11": lambda t, g: g.gradcheck(lambda x: 3, leaf(t, 3)),
    "X12": lambda t, g: g.gradcheck(lambda x: (x, 3), leaf(t, 3)),
    "X14": lambda t, g: g.gradcheck(
        lambda x: x.detach() * 1.0 + t.tensor(0.0, requires_grad=True), leaf(t, 3)
    ),
    "X15": lambda t, g: g.gradcheck(lambda x: x * x.detach(), leaf(t, 3)),
    "X16": lambda t, g: g.gradcheck(lambda x: x * x.detach(), leaf(t, 3), fast_mode=True),
    "X19": lambda t, g: g.gradcheck(lambda x: x * x.detach(), complex_leaf(t)),
    "X20": lambda t, g: g.gradcheck(lambda x: (x * x.detach()).real, complex_leaf(t)),
    "X21": lambda t, g: g.gradcheck(lambda x: (x * x.detach()).to(t.complex128), leaf(t, 2)),
    "X22": lambda t, g: g.gradcheck(lambda x: (x * x.detach()).to(t.complex128) * 1j, leaf(t, 2)),
    "X23": lambda t, g: g.gradcheck(lambda x: x * x.detach(), complex_leaf(t), fast_mode=True),
    "X24": lambda t, g: g.gradcheck(lambda x: x * t.rand(()), leaf(t, 2)),
    "X25": lambda t, g: g.gradcheck(
        custom(t, backward=lambda c, g: g * 2 + t.rand(()) * 1e-7), leaf(t, 2)
    ),
    "X26": lambda t, g: g.gradcheck(
        custom(t, backward=lambda c, g: g * 2 + t.rand(()) * 1e-7), leaf(t, 2), fast_mode=True
    ),
    "X27": lambda t, g: g.gradcheck(custom(t, backward=lambda c, g: None), leaf(t, 2)),
    "X30": lambda t, g: g.gradcheck(_quiet(t, lambda c, g: g * 2), leaf(t, 2)),
    "X31": lambda t, g: g.gradcheck(
        _both(t, lambda c, g, h: (g * 2, h * 2)), (leaf(t, 2), leaf(t, 2))
    ),
    "X32": lambda t, g: g.gradcheck(lambda x: t.cat([x, x]).view(2, -1), leaf(t, 1).expand(3)),
    "X33": lambda t, g: g.gradcheck(t.sin, leaf(t, 1).detach().expand(3).requires_grad_()),
    "X36": lambda t, g: g.gradcheck(lambda x: x * x.detach(), leaf(t, 3), masked=True),
    "X41": lambda t, g: g.gradcheck(t.sin, leaf(t, 3), eps=0.0),
    "X42": lambda t, g: g.gradcheck(lambda x: x.sum(), t.linspace(0.1, 0.8, 3, requires_grad=True)),
    "X43": lambda t, g: g.gradcheck(t.sin, leaf(t, 3), check_undefined_grad=3, nope=1),
    "X46": lambda t, g: g.gradgradcheck(
        custom(
            t,
            forward=lambda c, x: (c.save_for_backward(x), x**2)[1],
            backward=lambda c, g: g * 2 * c.saved_tensors[0].detach(),
        ),
        leaf(t, 3),
    ),
    "X47": lambda t, g: g.gradgradcheck(
        t.sin, leaf(t, 3), grad_outputs=t.ones(2, dtype=t.float64, requires_grad=True)
    ),
    "X51": lambda t, g: g.gradcheck(
        t.sin,
        leaf(t, 3),
        check_forward_ad=True,
        check_backward_ad=False,
        check_undefined_grad=False,
        check_batched_grad=True,
    ),
    "X52": lambda t, g: g.gradcheck(lambda a: 1 / 0, leaf(t, 3), raise_exception=False),
    "X53": lambda t, g: g.gradcheck(lambda a: (a * 2, a * a.detach()), leaf(t, 3)),
    "X54": lambda t, g: g.gradcheck(lambda a, b: a * b * b.detach(), (leaf(t, 3), leaf(t, 3))),
    "X55": lambda t, g: g.gradcheck(lambda a: None, leaf(t, 2)),
    "X57": lambda t, g: g.gradcheck(
        t.sin, leaf(t, 3).detach().as_strided((2, 2), (1, 1)).requires_grad_()
    ),
    "X62": lambda t, g: g.gradgradcheck(lambda a: a**3, (leaf(t, 3),), check_rev_over_rev=False),
    "X63": lambda t, g: g.gradgradcheck(
        lambda a: a**3, (leaf(t, 3),), check_fwd_over_rev=True, check_rev_over_rev=False
    ),
    "X64": lambda t, g: g.gradgradcheck(
        lambda a: a**3,
        (leaf(t, 3),),
        check_batched_grad=True,
        check_undefined_grad=False,
        check_fwd_over_rev=True,
        check_rev_over_rev=False,
    ),
    "X65": lambda t, g: g.gradgradcheck(lambda a: a * a.detach(), (leaf(t, 3),)),
    "conj is dropped": lambda t, g: g.gradcheck(
        custom(
            t,
            forward=lambda c, z: (c.save_for_backward(z), z**2)[1],
            backward=lambda c, g: g * 2 * c.saved_tensors[0],
        ),
        complex_leaf(t),
    ),
    "transposed": lambda t, g: g.gradcheck(
        custom(
            t,
            forward=lambda c, a, b: (c.save_for_backward(a), a @ b)[1],
            backward=lambda c, g: (None, c.saved_tensors[0] @ g),
        ),
        (leaf(t, 2, 2).detach(), leaf(t, 2)),
    ),
    "one entry": lambda t, g: g.gradcheck(
        custom(t, backward=lambda c, g: g * t.tensor([2.0, 2.0, 2.1]).double()), leaf(t, 3)
    ),
    "wrong and not reentrant": lambda t, g: g.gradcheck(
        custom(t, backward=lambda c, g: g * 3 + t.rand(())), leaf(t, 2)
    ),
    "adds to zeros": lambda t, g: g.gradcheck(
        custom(t, backward=lambda c, g: g * 2 + t.rand(()) * 1e-7), leaf(t, 2), nondet_tol=1e-6
    ),
    "changes its shape": lambda t, g: g.gradcheck(_grows, leaf(t, 2)),
    "changes its dtype": lambda t, g: g.gradcheck(_narrows, leaf(t, 2)),
    "rounds": lambda t, g: g.gradcheck(lambda x: x.float() * 2, leaf(t, 2)),
    "not a number": lambda t, g: g.gradcheck(lambda x: x * float("nan"), leaf(t, 2)),
    "a non-smooth point": lambda t, g: g.gradcheck(
        t.relu, t.tensor([0.0, 1.0], dtype=t.float64, requires_grad=True)
    ),
    "the second of two that require grad": lambda t, g: g.gradcheck(
        lambda a, b, c: a * c * c.detach() * b,
        (leaf(t, 2), leaf(t, 2).detach(), leaf(t, 2)),
    ),
    "False": lambda t, g: g.gradcheck(lambda a: a * a.detach(), leaf(t, 3), raise_exception=False),
    "False of second derivatives": lambda t, g: g.gradgradcheck(
        lambda a: a * a.detach(), leaf(t, 3), raise_exception=False
    ),
    "a dict": lambda t, g: g.gradcheck(lambda x: x, {"a": leaf(t, 3)}),
}
# torch's first line goes on where ours ends.
BEGINS: dict[str, Callable[[Any, Any], Any]] = {
    "X13": lambda t, g: g.gradcheck(lambda x: x.detach(), leaf(t, 3)),
    "X13 in fast mode": lambda t, g: g.gradcheck(lambda x: x.detach(), leaf(t, 3), fast_mode=True),
    "under no_grad": lambda t, g: t.no_grad()(lambda: g.gradcheck(t.sin, leaf(t, 3)))(),
    "X28": lambda t, g: g.gradcheck(custom(t, backward=_ones_for_zeros(t)), leaf(t, 2)),
    "X29": lambda t, g: g.gradcheck(
        _quiet(t, lambda c, g: t.ones(2, dtype=t.float64) * 2 if g is None else g * 2),
        leaf(t, 2),
    ),
    "undefined is refused": lambda t, g: g.gradcheck(
        _quiet(t, lambda c, g: _undefined_first(c, g, g)[0]), leaf(t, 2)
    ),
    "X56": lambda t, g: g.gradcheck(lambda a: a.mul_(2), leaf(t, 2)),
    "X59": lambda t, g: g.gradcheck(
        custom(t, backward=lambda c, g: t.ones(3, dtype=t.float64)), leaf(t, 2)
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_torchs(name: str) -> None:
    cause = WRONG[name]
    ours = verdict(lambda: cause(ag, ag.autograd))
    theirs = verdict(lambda: cause(torch, torch.autograd))
    assert ours == theirs


@pytest.mark.parametrize("name", BEGINS)
def test_errors_begin_as_torchs(name: str) -> None:
    kind, text = verdict(lambda: BEGINS[name](ag, ag.autograd))[:2]
    expected, clause = verdict(lambda: BEGINS[name](torch, torch.autograd))[:2]
    assert kind == expected
    assert text.startswith(clause.partition(" - ")[0].partition(".")[0])


def test_a_gradient_of_another_kind_is_refused_by_the_engine() -> None:
    """X60: torch's text is that of a failed assertion."""
    wrong = custom(ag, backward=lambda c, g: g.to(ag.complex128) * 2)
    with pytest.raises(RuntimeError):
        gradcheck(wrong, leaf(ag, 2))


def test_nothing_to_differentiate_twice_is_a_type_error() -> None:
    """X44, X48: torch's text is that of a call without arguments."""
    for function in (lambda x: x.detach(), lambda x: x.long()):
        for engine in (ag, torch):
            with pytest.raises(TypeError):
                engine.autograd.gradgradcheck(function, leaf(engine, 3))


def test_once_differentiable_says_so() -> None:
    """X45: torch finds a Jacobian of zeros; here the second backward says why there is none."""
    once = ag.autograd.function.once_differentiable(lambda c, g: g * 2)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradgradcheck(custom(ag, backward=once), leaf(ag, 3))


def test_a_batch_that_is_not_its_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """X37, X49: what a backward does to a batch differs from what it does to each row."""
    from ag_visual.autograd.gradcheck import backward_checks

    run = backward_checks.grad

    def planted(*args: Any, **flags: Any) -> Any:
        found = run(*args, **flags)
        return tuple(g * 2 for g in found) if flags.get("is_grads_batched") else found

    monkeypatch.setattr(backward_checks, "grad", planted)
    with pytest.raises(
        GradcheckError, match=r"For output 0 and input 0:(.|\n)*Got:(.|\n)*Expected"
    ):
        gradcheck(ag.sin, leaf(ag, 2), check_batched_grad=True)

    def refused(*args: Any, **flags: Any) -> Any:
        if flags.get("is_grads_batched"):
            raise RuntimeError("no rule")
        return run(*args, **flags)

    monkeypatch.setattr(backward_checks, "grad", refused)
    with pytest.raises(GradcheckError, match="While computing batched gradients, got: no rule"):
        gradcheck(ag.sin, leaf(ag, 2), check_batched_grad=True)


# What stays behind --------------------------------------------------------------------------------


def test_the_function_is_called_as_often_as_by_torch() -> None:
    def program(t: Any) -> Any:
        counts = []
        for check, flags in itertools.product(
            (t.autograd.gradcheck, t.autograd.gradgradcheck),
            ({}, {"fast_mode": True}, {"check_undefined_grad": False}),
        ):
            seen = [0]

            def function(x: Any, seen: list[int] = seen) -> Any:
                seen[0] += 1
                return x.sin()

            check(function, leaf(t, 3), **flags)
            counts.append(seen[0])
        return counts

    agree(program)


def test_a_function_with_several_outputs_is_called_as_often_as_by_torch() -> None:
    def program(t: Any) -> int:
        seen = [0]

        def function(x: Any) -> Any:
            seen[0] += 1
            return x.sin(), x.cos(), x.long()

        with contextlib.suppress(IndexError):  # torch's own, when it has called as often
            t.autograd.gradcheck(function, leaf(t, 3))
        return seen[0]

    assert program(ag) == 1 + 6 + 1 + 2


@pytest.mark.parametrize("fast", [False, True])
def test_tolerances_are_torchs(fast: bool) -> None:
    def program(t: Any) -> Any:
        seen = []
        for absolute, relative in ((1e-5, 0.0), (0.0, 1e-3), (1e-5, 1e-3)):
            for part in (0.5, 0.9, 1.1, 2.0):
                wrong = 3.0 + part * (absolute + 3.0 * relative)

                def backward(c: Any, g: Any, wrong: float = wrong) -> Any:
                    return g * wrong

                function = custom(t, forward=lambda c, x: x * 3, backward=backward)
                flags = {"atol": absolute, "rtol": relative, "fast_mode": fast}
                flags["raise_exception"] = False
                seen.append(t.autograd.gradcheck(function, leaf(t, 1), eps=1e-3, **flags))
        return seen

    agree(program, [True, True, False, False] * 3)


def test_inputs_and_random_numbers_are_as_before() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        x, y = leaf(t, 2, 2), leaf(t, 2, 2).detach() * 1
        points = y.requires_grad_().t()
        for flags in ({}, {"fast_mode": True}):  # batches of torch draw random numbers
            for function in (lambda a, b: a @ b, lambda a, b: a * b.detach(), lambda a, b: 1 / 0):
                t.manual_seed(3)
                first = t.rand(2)
                t.manual_seed(3)
                with contextlib.suppress(Exception):
                    t.autograd.gradcheck(function, (x, points), **flags)
                seen.append([x, points, x._version, points._version, x.grad is None])
                seen.append(bool((t.rand(2) == first).all()))
        return seen

    agree(program)


@pytest.mark.parametrize("call", range(1, 8))
def test_inputs_are_put_back_when_the_function_fails(call: int) -> None:
    for flags in ({}, {"fast_mode": True}):
        x = leaf(ag, 2)
        before, left = x.detach().numpy().copy(), [call]

        def function(x: Any, left: list[int] = left) -> Any:
            left[0] -= 1
            if not left[0]:
                raise KeyError("planted")
            return x.exp()

        with contextlib.suppress(KeyError):
            gradcheck(function, x, **flags)
        assert numpy.array_equal(x.detach().numpy(), before)
        assert x._version == 0


def test_memory_that_is_closed_to_writes_is_checked_and_stays_as_it_is() -> None:
    numbers = numpy.array([0.5, 2.0])
    numbers.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        x = ag.from_numpy(numbers).requires_grad_()
    assert gradcheck(ag.sin, x)
    assert gradcheck(ag.sin, x, fast_mode=True)
    assert not gradcheck(lambda x: x * x.detach(), x, raise_exception=False)
    assert x.detach().numpy() is not None
    assert numpy.shares_memory(x._array, numbers)


def test_a_gradient_of_another_dtype_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine casts gradients to the dtypes of inputs: one that does not is planted."""
    from ag_visual.autograd.gradcheck import analytical

    run = analytical.grad
    monkeypatch.setattr(analytical, "grad", lambda *a, **k: tuple(g.float() for g in run(*a, **k)))
    with pytest.raises(GradcheckError, match="Gradient has dtype mismatch"):
        gradcheck(lambda x: x * 2, leaf(ag, 2), check_grad_dtypes=True)


# The functions that were never meant to be public -------------------------------------------------


def test_the_jacobians_by_themselves() -> None:
    def program(t: Any) -> Any:
        m = sys.modules[f"{t.__name__}.autograd.gradcheck"]
        x, y, z = leaf(t, 2), leaf(t, 2), complex_leaf(t)
        pair = (x, y)
        wrong = custom(t, backward=lambda c, g: g * 3 + t.rand(()))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            seen = [
                m.get_numerical_jacobian(lambda both: both[0] * both[1], pair),
                m.get_numerical_jacobian(lambda both: both[0] * both[1], pair, target=x),
                m.get_numerical_jacobian(lambda one: one[0].exp(), (x,), eps=1e-6),
                *m.get_analytical_jacobian(pair, x * y),
                *m.get_analytical_jacobian(pair, x.sin()),
                t.view_as_real(m.get_analytical_jacobian((z,), z.abs())[0][0]),
                m.get_analytical_jacobian((x,), wrong(x))[1:],
            ]
            texts = sorted({str(each.message) for each in told})
        specific = m.get_numerical_jacobian_wrt_specific_input
        seen.append(specific(lambda a, b: a * b, 0, pair, (x * y,), 1e-6))
        seen += [t.view_as_real(each) for each in specific(t.abs, 0, (z,), (z.abs(),), 1e-6)]
        return [*seen, texts]

    agree(program)


def test_what_they_refuse() -> None:
    def program(t: Any) -> Any:
        m = sys.modules[f"{t.__name__}.autograd.gradcheck"]
        x, z = leaf(t, 2), complex_leaf(t)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [
                verdict(lambda: m.get_numerical_jacobian(lambda a: a[0], (x,), None, 1e-3, 2.0)),
                verdict(lambda: m.get_analytical_jacobian((x,), x.sin(), grad_out=2.0)),
                verdict(lambda: m.get_analytical_jacobian((z,), z * 2)),
            ]

    agree(program)


def test_the_name_stands_for_a_function_and_a_module() -> None:
    """As in torch, so that both ways to write it go on working."""
    assert ag.autograd.gradcheck is gradcheck
    assert callable(ag.autograd.gradcheck)
    assert sys.modules["ag_visual.autograd.gradcheck"].gradcheck is gradcheck
    assert issubclass(GradcheckError, RuntimeError)
    assert all(map(callable, (get_numerical_jacobian, get_analytical_jacobian)))
    assert callable(get_numerical_jacobian_wrt_specific_input)
