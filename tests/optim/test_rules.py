"""Every optimizer against torch's, step by step from the same weights."""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import pickle
from typing import Any

import numpy
import pytest

import ag_visual as ag
from tests.oracle import torch
from tests.programs import agree, raised

RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.05}),
    "momentum": ("SGD", {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.01}),
    "nesterov": ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True}),
    "dampening": ("SGD", {"lr": 0.001, "momentum": 0.9, "dampening": 0.3}),
    "adam": ("Adam", {"lr": 0.05}),
    "adam, decayed": ("Adam", {"lr": 0.05, "weight_decay": 0.1, "betas": (0.8, 0.9), "eps": 1e-3}),
    "adam, decoupled": ("Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "amsgrad": ("Adam", {"lr": 0.2, "betas": (0.5, 0.6), "amsgrad": True}),
    "adamw": ("AdamW", {"lr": 0.05, "weight_decay": 0.3}),
    "rmsprop": ("RMSprop", {"lr": 0.02}),
    "centered": ("RMSprop", {"lr": 0.02, "momentum": 0.5, "centered": True, "weight_decay": 0.1}),
    "adagrad": ("Adagrad", {"lr": 0.1}),
    "adagrad, decayed": (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.2},
    ),
    "adadelta": ("Adadelta", {}),
    "adadelta, decayed": ("Adadelta", {"rho": 0.7, "weight_decay": 0.1, "eps": 1e-3}),
    "adamax": ("Adamax", {"lr": 0.05}),
    "adamax, decayed": ("Adamax", {"betas": (0.5, 0.9), "weight_decay": 0.1}),
    "nadam": ("NAdam", {"lr": 0.05}),
    "nadam, decayed": ("NAdam", {"weight_decay": 0.1, "momentum_decay": 0.1}),
    "nadam, decoupled": ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "radam": ("RAdam", {"lr": 0.05}),
    "radam, soon": ("RAdam", {"lr": 0.05, "betas": (0.5, 0.9), "weight_decay": 0.1}),
    "radam, decoupled": ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "asgd": ("ASGD", {"lr": 0.02}),
    "asgd, averaging": ("ASGD", {"lr": 0.02, "t0": 3, "lambd": 0.1, "weight_decay": 0.1}),
    "rprop": ("Rprop", {"lr": 0.1}),
    "rprop, bounded": ("Rprop", {"etas": (0.3, 1.5), "step_sizes": (1e-3, 0.02)}),
}
NAMES = sorted({name for name, _ in RULES.values()})
STEPS = 25


def _trained(
    t: Any, values: list[Any], name: str, options: dict[str, Any], dtype: str = "float64"
) -> list[Any]:
    """The parameter after each of STEPS steps on |p^2 - 1|^2, and what the rule then knows."""
    p = t.tensor(values, requires_grad=True, dtype=getattr(t, dtype))
    untouched = t.ones(2, requires_grad=True)
    optimizer = getattr(t.optim, name)([{"params": [p, untouched]}], **options)
    seen = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        (p * p - 1).abs().pow(2).sum().backward()
        optimizer.step()
        seen.append(_parts(t, p))
    state = [[k, _parts(t, v)] for k, v in sorted(optimizer.state[p].items())]
    return [seen, state, untouched.detach()]


def _parts(t: Any, value: Any) -> Any:
    value = t.view_as_real(value.detach()) if value.is_complex() else value.detach()
    return value.double()


@pytest.mark.parametrize("rule", RULES)
def test_real_parameters(rule: str) -> None:
    agree(lambda t: _trained(t, [0.5, -2.0, 1.3], *RULES[rule]))


ADAFACTOR: dict[str, dict[str, Any]] = {
    "as it is": {},
    "decayed": {"lr": 0.3, "weight_decay": 0.1, "beta2_decay": -0.5, "d": 1.5},
    "bounded": {"lr": 0.5, "eps": (0.2, 0.7), "maximize": True, "foreach": False},
}


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 2), (1, 1)])
@pytest.mark.parametrize("case", ADAFACTOR)
def test_adafactor(case: str, shape: tuple[int, ...]) -> None:
    """Which looks at matrices as a whole, and has no complex parameters."""
    values = [0.5, -2.0, 1.3, 0.2, -0.7, 3.0, 1.1, -1.2, 0.9, 0.1, -0.3, 2.0]
    given = numpy.array(values[: int(numpy.prod(shape))]).reshape(shape).tolist()
    agree(lambda t: _trained(t, given, "Adafactor", ADAFACTOR[case]))


def test_what_adafactor_refuses() -> None:
    def stepped(t: Any) -> Any:
        p = t.ones(2, dtype=t.complex64, requires_grad=True)
        p.grad = t.ones(2, dtype=t.complex64)
        return raised(t.optim.Adafactor([p]).step)

    agree(stepped)
    for options in (
        *({name: -1.0} for name in ("lr", "weight_decay")),
        *({"beta2_decay": 0.5}, {"d": 0.5}, {"eps": (-1.0, 1.0)}, {"eps": (None, -1.0)}),
    ):
        agree(lambda t, o=options: raised(lambda: t.optim.Adafactor([t.ones(1)], **o)))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.06), ("float16", 0.01)]
)
def test_adafactor_in_other_precisions(dtype: str, tolerance: float) -> None:
    given = [[0.5, -2.0], [1.5, 0.25]]
    ours, _, _ = _trained(ag, given, "Adafactor", {"lr": 0.02}, dtype)
    theirs, _, _ = _trained(torch, given, "Adafactor", {"lr": 0.02}, dtype)
    for a, b in zip(ours, theirs, strict=True):
        assert abs(a.numpy() - b.numpy()).max() < tolerance


@pytest.mark.parametrize("name", NAMES)
def test_maximize(name: str) -> None:
    agree(lambda t: _trained(t, [0.5, -0.1], name, {"lr": 1e-3, "maximize": True}))


@pytest.mark.parametrize("rule", RULES)
def test_complex_parameters(rule: str) -> None:
    agree(lambda t: _trained(t, [0.5 + 1j, -1.0 - 0.3j], *RULES[rule], dtype="complex128"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 0.06), ("float16", 0.01)])
def test_half_precision(name: str, dtype: str, tolerance: float) -> None:
    """Within a few roundings of torch, which rounds at other places."""
    ours, _, _ = _trained(ag, [0.5, -2.0], name, {"lr": 0.02}, dtype)
    theirs, _, _ = _trained(torch, [0.5, -2.0], name, {"lr": 0.02}, dtype)
    for a, b in zip(ours, theirs, strict=True):
        assert abs(a.numpy() - b.numpy()).max() < tolerance


@pytest.mark.parametrize("name", NAMES)
def test_zero_dimensions(name: str) -> None:
    agree(lambda t: _trained(t, 0.5, name, {"lr": 0.02}))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_differentiable(name: str) -> None:
    """The graph goes through the steps, back to the first value.

    torch computes bias corrections in the dtype of `step`, which is the default one.
    """

    def program(t: Any) -> Any:
        t.set_default_dtype(t.float64)
        try:
            return through(t)
        finally:
            t.set_default_dtype(t.float32)

    def through(t: Any) -> Any:
        start = t.tensor([0.5, -2.0], dtype=t.float64, requires_grad=True)
        p = start.clone()
        p.requires_grad_()
        optimizer = getattr(t.optim, name)([p], lr=0.05, differentiable=True)
        # The second step of torch's Adamax writes over what its first one saved.
        for factor in (1.0,) if name == "Adamax" else (1.0, 3.0):
            p.grad = (p.detach() * factor).clone()
            optimizer.step()
        (p**2).sum().backward()
        return [p.detach(), start.grad]

    agree(program)


@pytest.mark.parametrize("name", NAMES)
def test_a_tensor_as_rate(name: str) -> None:
    def program(t: Any) -> Any:
        p = t.tensor([0.5, -2.0], dtype=t.float64, requires_grad=True)
        lr = t.tensor(0.05, dtype=t.float64)
        optimizer = getattr(t.optim, name)([p], lr=lr, foreach=False)
        seen = []
        for _ in range(3):
            optimizer.zero_grad()
            (p**3).sum().backward()
            optimizer.step()
            seen.append(p.detach().clone())
        return [seen, optimizer.param_groups[0]["lr"] is lr]

    agree(program)


@pytest.mark.parametrize("name", NAMES)
def test_state_goes_on_in_another_optimizer(name: str) -> None:
    def program(t: Any) -> Any:
        p = t.tensor([0.5, -2.0], dtype=t.float64, requires_grad=True)
        first = getattr(t.optim, name)([p], lr=0.1)
        for _ in range(2):
            first.zero_grad()
            (p**3).sum().backward()
            first.step()
        second = getattr(t.optim, name)([p], lr=0.7)
        second.load_state_dict(first.state_dict())
        second.step()
        return [p.detach(), second.param_groups[0]["lr"]]

    agree(program)


@pytest.mark.parametrize("name", [*NAMES, "LBFGS"])
def test_arguments_and_groups_are_torchs(name: str) -> None:
    """The same parameters in the same order, and the same keys in what is saved."""
    ours, theirs = getattr(ag.optim, name), getattr(torch.optim, name)
    pairs = [
        {k: (p.default, p.kind) for k, p in inspect.signature(cls).parameters.items()}
        for cls in (ours, theirs)
    ]
    assert pairs[0] == pairs[1]

    def program(t: Any) -> Any:
        params = [t.ones(2, requires_grad=True)]
        made = [getattr(t.optim, name)(params)]
        if name != "LBFGS":
            made.append(getattr(t.optim, name)(params, foreach=True))
        return [[each.state_dict()["param_groups"], each.defaults] for each in made]

    agree(program)


@pytest.mark.parametrize("foreach", [True, False])
def test_an_option_of_another_rule_changes_nothing(foreach: bool) -> None:
    def program(t: Any) -> Any:
        p = t.tensor([0.5, -2.0], requires_grad=True)
        group = {"params": [p], "weight_decay": 0.9}
        optimizer = t.optim.Rprop([group], lr=0.01, foreach=foreach)
        p.grad = t.tensor([-0.1, 0.1])
        optimizer.step()
        return [p, optimizer.param_groups[0]["weight_decay"]]

    agree(program)


def test_the_first_average_of_an_infinite_parameter_is_infinite() -> None:
    def program(t: Any) -> Any:
        p = t.tensor([0.5, -2.0], requires_grad=True)
        optimizer = t.optim.ASGD([p])
        for _ in range(2):
            p.grad = t.tensor([math.inf, 1.0])
            optimizer.step()
        return optimizer.state[p]["ax"]

    agree(program)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": -1.0}),
        ("SGD", {"momentum": -1.0}),
        ("SGD", {"weight_decay": -1.0}),
        ("SGD", {"nesterov": True}),
        ("SGD", {"fused": True, "differentiable": True}),
        ("Adam", {"lr": -1.0}),
        ("Adam", {"eps": -1.0}),
        ("Adam", {"betas": (1.0, 0.9)}),
        ("Adam", {"betas": (0.9, -0.1)}),
        ("AdamW", {"weight_decay": -1}),
        ("NAdam", {"momentum_decay": -1.0}),
        ("Adamax", {"betas": (0.9, 2.0)}),
        ("RAdam", {"eps": -1.0}),
        ("RMSprop", {"alpha": -1.0}),
        ("RMSprop", {"momentum": -1.0}),
        ("Adagrad", {"lr_decay": -1.0}),
        ("Adagrad", {"initial_accumulator_value": -1.0}),
        ("Adadelta", {"rho": 1.5}),
        ("Rprop", {"etas": (1.5, 0.5)}),
        ("ASGD", {"lr": -0.1}),
        ("LBFGS", {"lr": -0.1}),
    ],
)
def test_bad_options(name: str, options: dict[str, Any]) -> None:
    agree(lambda t: raised(lambda: getattr(t.optim, name)([t.ones(1)], **options)))


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.optim.SGD([]),
        lambda t: t.optim.SGD([t.ones(1, requires_grad=True) * 2]),
        lambda t: t.optim.SGD([{"params": {t.ones(1)}}]),
        lambda t: t.optim.SGD(["w"]),
        lambda t: t.optim.SGD([t.ones(1), ("b", t.ones(1))]),
        lambda t: t.optim.SGD((lambda p: [{"params": [p]}, {"params": [p]}])(t.ones(1))),
        lambda t: t.optim.SGD([{"params": [("a", t.ones(1))]}, {"params": [t.ones(1)]}]),
        lambda t: t.optim.SGD([t.ones(1)]).add_param_group([t.ones(1)]),
    ],
)
def test_bad_groups(make: Any) -> None:
    def program(t: Any) -> Any:
        kind, text = raised(lambda: make(t))
        return [kind, text.partition(": a generator")[0]]  # what to do is said here only

    agree(program)


def test_repr_and_named_parameters() -> None:
    def program(t: Any) -> Any:
        a, b = t.ones(1, requires_grad=True), t.ones(2, requires_grad=True)
        optimizer = t.optim.SGD([("a", a), ("b", b)], lr=0.5)
        return [repr(optimizer), optimizer.param_groups[0]["param_names"]]

    agree(program)


def test_hooks_in_order() -> None:
    def program(t: Any) -> Any:
        seen: list[Any] = []
        p = t.ones(2, requires_grad=True)
        p.grad = t.ones(2)
        optimizer = t.optim.SGD([p], lr=0.5)
        optimizer.register_step_pre_hook(lambda o, a, k: seen.append(("before", p.tolist())))
        handle = optimizer.register_step_post_hook(lambda o, a, k: seen.append(("after", k)))
        base = importlib.import_module(f"{t.__name__}.optim.optimizer")
        everywhere = base.register_optimizer_step_pre_hook(
            lambda o, a, k: seen.append(("all", type(o).__name__))
        )
        optimizer.step()
        handle.remove()
        everywhere.remove()
        optimizer.step()
        optimizer.register_state_dict_pre_hook(lambda o: seen.append("saving"))
        optimizer.register_state_dict_post_hook(lambda o, d: {**d, "more": 1})
        optimizer.register_load_state_dict_pre_hook(lambda o, d: seen.append(sorted(d)))
        optimizer.register_load_state_dict_post_hook(lambda o: seen.append("first"), prepend=True)
        optimizer.load_state_dict(optimizer.state_dict())
        return [list(map(list, seen[:4])), seen[4:]]

    agree(program)


class _Halving(ag.optim.Optimizer):
    """A user's rule with a step of its own."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {})

    def step(self, closure: Any = None) -> Any:
        with ag.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    p.mul_(0.5)
        return "halved"


def test_a_wrapper_needs_no_init_of_the_base() -> None:
    """As Opacus wraps an optimizer: its step is called as it is."""

    class Wrapper(ag.optim.Optimizer):
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def step(self, closure: Any = None) -> Any:
            return self.inner.step(closure)

    p = ag.ones(2, requires_grad=True)
    p.grad = ag.ones(2)
    Wrapper(ag.optim.SGD([p], lr=0.5)).step()
    assert p.tolist() == [0.5, 0.5]


def test_a_gradient_that_is_a_view_is_set_to_zero() -> None:
    layer = ag.nn.Linear(2, 1, bias=False)
    clears: list[Any] = [ag.optim.SGD(layer.parameters(), lr=0.1).zero_grad, layer.zero_grad]
    for clear in clears:
        rows = ag.ones(3, 1, 2)
        layer.weight.grad = rows[1]
        clear(set_to_none=False)
        assert rows.flatten().tolist() == [1, 1, 0, 0, 1, 1]


def test_a_users_own_step_has_hooks() -> None:
    p, seen = ag.ones(1, requires_grad=True), []
    optimizer = _Halving([p])
    optimizer.register_step_post_hook(lambda o, a, k: seen.append(p.item()))
    assert optimizer.step() == "halved"
    assert seen == [0.5]


def test_closure_runs_with_grad() -> None:
    def program(t: Any) -> Any:
        p = t.tensor([2.0], requires_grad=True)
        optimizer = t.optim.Adam([p], lr=0.5)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (p**2).sum()
            loss.backward()
            return loss

        with t.no_grad():
            loss = optimizer.step(closure)
        return [loss.item(), p.detach()]

    agree(program)


def test_a_step_counts_one_write_at_the_users_line() -> None:
    w = ag.ones(2, requires_grad=True)
    for name in NAMES:
        optimizer = getattr(ag.optim, name)([w])
        loss = (w * w.detach()).sum()
        w.grad = ag.ones(2)
        before = w._version
        optimizer.step()
        assert w._version == before + 1
        message = raised(loss.backward)[1]
        assert "modified by an inplace operation" in message
        assert f"optimizer.step()  ({name}.step)" in message


def test_state_is_written_as_tensors() -> None:
    p = ag.ones(2, requires_grad=True)
    p.grad = ag.ones(2)
    optimizer = ag.optim.Adam([p])
    optimizer.step()
    mean = optimizer.state[p]["exp_avg"]
    kept = mean.clone().requires_grad_() * mean
    optimizer.step()
    assert "modified by an inplace operation" in raised(kept.sum().backward)[1]
    assert optimizer.state[p]["step"].item() == 2.0


def test_copies_and_pickles() -> None:
    p = ag.tensor([1.0, 2.0], requires_grad=True)
    optimizer = ag.optim.Adam([p], lr=0.1)
    p.grad = ag.ones(2)
    optimizer.step()
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        twin = other.param_groups[0]["params"][0]
        assert twin is not p
        twin.grad = ag.ones(2)
        other.step()
        assert twin.tolist() != p.tolist()
        assert other.state[twin]["step"].item() == 2.0


def test_loading_fits_dtype_and_refuses_other_groups() -> None:
    p = ag.ones(2, dtype=ag.float64, requires_grad=True)
    p.grad = ag.ones(2, dtype=ag.float64)
    one = ag.optim.Adam([p])
    one.step()
    q = ag.ones(2, requires_grad=True)
    two = ag.optim.Adam([q])
    two.load_state_dict(one.state_dict())
    assert two.state[q]["exp_avg"].dtype is ag.float32
    assert two.state[q]["exp_avg"] is not one.state[p]["exp_avg"]
    with pytest.raises(ValueError, match="doesn't match the size"):
        ag.optim.Adam([p, q]).load_state_dict(one.state_dict())
    with pytest.raises(ValueError, match="different number of parameter groups"):
        ag.optim.Adam([{"params": [p]}, {"params": [q]}]).load_state_dict(one.state_dict())


def test_a_gradient_of_another_shape_is_refused_before_anything_is_written() -> None:
    p = ag.nn.Parameter(ag.ones(4))
    optimizer = ag.optim.Adam([p])
    p.grad, p.data = ag.ones(4), ag.ones(2)
    before = p._version
    with pytest.raises(
        RuntimeError, match=r"size of tensor a \(2\) must match the size of tensor b"
    ):
        optimizer.step()
    assert (p._version, p.tolist()) == (before, [1.0, 1.0])


def test_sums_of_adagrad_go_into_shared_memory() -> None:
    w = ag.ones(3, requires_grad=True)
    optimizer = ag.optim.Adagrad([w], lr=0.1, initial_accumulator_value=2.0)
    optimizer.share_memory()
    total = optimizer.state[w]["sum"]
    assert total.is_shared()
    w.sum().backward()
    optimizer.step()
    assert total.tolist() == [3, 3, 3]
