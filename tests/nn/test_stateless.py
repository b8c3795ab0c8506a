"""functional_call: a module with other tensors in the places of its parameters."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import ag_visual as ag
from tests.programs import agree, raised

WEIGHT = numpy.arange(4.0).reshape(2, 2) / 3
DATA = numpy.array([[1.0, -2.0], [0.5, 3.0]])


def net(t: Any) -> Any:
    layers = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Tanh(), t.nn.BatchNorm1d(2)).double()
    for parameter in layers.parameters():
        parameter.data = t.ones_like(parameter) / 2
    return layers


def test_gradients_of_a_step_flow_through_the_parameters() -> None:
    """One inner step of learning to learn: the outer gradient goes through the inner one."""

    def program(t: Any) -> Any:
        layers, x = net(t), t.tensor(DATA)
        call = t.func.functional_call
        names = dict(layers.named_parameters())
        inner = (call(layers, names, (x,)) * t.tensor(WEIGHT)).pow(2).sum()
        grads = t.autograd.grad(inner, tuple(names.values()), create_graph=True)
        moved = {n: p - 0.1 * g for (n, p), g in zip(names.items(), grads, strict=True)}
        outer = call(layers, moved, (x,)).pow(3).sum()
        outer.backward()
        return [outer, [p.grad for p in layers.parameters()], list(layers.state_dict().values())]

    agree(program)


def test_the_module_is_as_it_was() -> None:
    layers = net(ag)
    before = dict(layers.named_parameters())
    ag.func.functional_call(layers, {"0.weight": ag.tensor(WEIGHT)}, ag.tensor(DATA))
    with pytest.raises(TypeError, match="is not an instance"):
        ag.func.functional_call(layers, {"0.bias": ag.zeros(2), "0.weight": 3}, ag.tensor(DATA))
    after = dict(layers.named_parameters())
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)


def test_tied_weights_and_buffers() -> None:
    def program(t: Any) -> Any:
        class Tied(t.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.a = t.nn.Linear(2, 2, bias=False)
                self.w = self.a.weight
                self.register_buffer("shift", t.ones(2))

            def forward(self, x: Any) -> Any:
                return self.a(x) + x @ self.w + self.shift

        module, call, x = Tied(), t.func.functional_call, t.ones(1, 2)
        zeros, ones = t.zeros(2, 2), t.ones(2, 2)
        return [
            call(module, {"a.weight": zeros}, (x,)),
            raised(lambda: call(module, {"a.weight": zeros, "w": ones}, (x,))),
            call(module, {"a.weight": zeros, "w": ones}, (x,), tie_weights=False),
            call(module, [{"w": zeros}, {"shift": t.zeros(2)}], x),
            call(module, {"a.weight": zeros, "w": zeros}, (x,), tie_weights=False),
        ]

    agree(program)


def test_attributes_and_absent_parameters_are_replaced() -> None:
    def program(t: Any) -> Any:
        class Scaled(t.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.scale = t.tensor(2.0)
                self.later = None
                self.inner = t.nn.Linear(2, 1)
                self.register_parameter("shift", None)

            def forward(self, x: Any) -> Any:
                more = [each for each in (self.later, self.shift) if each is not None]
                return sum(more, self.scale * x.sum())

        module, x = Scaled(), t.ones(2)
        call = t.func.functional_call
        given = [{}, {"scale": t.tensor(5.0)}, {"later": x}, {"shift": 3 * x}, {"new": x}]
        found = [call(module, each, (x,)) for each in given]
        slope = t.func.grad(lambda scale: call(module, {"scale": scale}, (x,)))(t.tensor(1.0))
        bare = call(module.inner, {"weight": t.ones(1, 2), "bias": None}, x)
        after = [module.later, module.shift, module.inner.bias is None, hasattr(module, "new")]
        return [found, slope, bare, module.scale, after]

    agree(program)


def test_the_older_name_warns() -> None:
    def program(t: Any) -> Any:
        call = t.nn.utils.stateless.functional_call
        with pytest.warns(FutureWarning, match="Please use `torch.func.functional_call` instead"):
            return call(net(t), {"0.weight": t.zeros(2, 2).double()}, (t.tensor(DATA),))

    agree(program)


@pytest.mark.parametrize(
    ("tensors", "strict"),
    [
        (lambda t: {"0.weight": t.ones(2, 2), "zz": t.ones(1)}, True),
        (lambda t: {"0.weight": t.ones(2, 2)}, True),
        (lambda t: [{"0.weight": t.ones(2, 2)}, {"0.weight": t.ones(2, 2)}], False),
        (lambda t: 3, False),
    ],
)
def test_what_is_wrong_is_told_as_torch_does(tensors: Any, strict: bool) -> None:
    def program(t: Any) -> Any:
        call = t.func.functional_call
        return raised(lambda: call(net(t), tensors(t), t.tensor(DATA), strict=strict))

    agree(program)


def test_averages_of_lists_of_tensors() -> None:
    def program(t: Any) -> Any:
        swa = t.optim.swa_utils
        seen = []
        for rule in (swa.get_ema_multi_avg_fn(0.9), swa.get_swa_multi_avg_fn()):
            model = net(t)
            averaged = swa.AveragedModel(model, multi_avg_fn=rule)
            for _ in range(3):
                for parameter in model.parameters():
                    parameter.data = parameter.data * 2
                averaged.update_parameters(model)
            seen.append([list(averaged.parameters())])
        return seen

    agree(program)
