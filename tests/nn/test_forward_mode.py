"""Dual tensors in modules, losses, activations and indexing, as in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

from ..autograd.forward import said
from ..programs import agree

Maker = Callable[..., Any]


def lin(t: Any, *shape: int) -> Any:
    count = int(numpy.prod(shape))
    return t.linspace(-1, 1.5, count, dtype=t.float64).reshape(shape)


def dual(t: Any, *shape: int) -> Any:
    x = lin(t, *shape)
    return t.autograd.forward_ad.make_dual(x, x.flip(-1) * 2)


def filled(t: Any, module: Any) -> Any:
    module.double()
    with t.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(lin(t, *p.shape) + 0.1 * i)
    return module


def seen(t: Any, value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [seen(t, each) for each in value]
    if not isinstance(value, t.Tensor):
        return value
    primal, tangent = t.autograd.forward_ad.unpack_dual(value)
    if tangent is None:
        return [primal, None]
    return [primal, str(tangent.dtype), tangent, list(tangent.stride())]


def in_level(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def inside(t: Any) -> Any:
        with t.autograd.forward_ad.dual_level():
            return seen(t, program(t))

    return inside


MODULES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda t: filled(t, t.nn.Linear(3, 2))(dual(t, 4, 3)),
    "layer norm": lambda t: filled(t, t.nn.LayerNorm(3))(dual(t, 4, 3)),
    "group norm": lambda t: filled(t, t.nn.GroupNorm(2, 4))(dual(t, 2, 4, 3)),
    "instance norm": lambda t: filled(t, t.nn.InstanceNorm1d(3, affine=True))(dual(t, 2, 3, 4)),
    "rms norm": lambda t: filled(t, t.nn.RMSNorm(3))(dual(t, 4, 3)),
    "batch norm of two dimensions": lambda t: filled(t, t.nn.BatchNorm2d(3))(dual(t, 2, 3, 2, 2)),
    "batch norm, evaluated": lambda t: filled(t, t.nn.BatchNorm1d(3)).eval()(dual(t, 4, 3)),
    "convolution": lambda t: filled(t, t.nn.Conv2d(2, 3, 2))(dual(t, 1, 2, 3, 3)),
    "transposed": lambda t: filled(t, t.nn.ConvTranspose2d(2, 3, 2))(dual(t, 1, 2, 3, 3)),
    "gru": lambda t: filled(t, t.nn.GRU(2, 3))(dual(t, 4, 1, 2)),
    "attention": lambda t: filled(t, t.nn.MultiheadAttention(4, 2))(*[dual(t, 3, 1, 4)] * 3),
    "weight norm": lambda t: filled(t, t.nn.utils.parametrizations.weight_norm(t.nn.Linear(2, 2)))(
        dual(t, 3, 2)
    ),
    "dropout of nothing": lambda t: t.nn.Dropout(0.5).eval()(dual(t, 3, 2)),
    "max pooling": lambda t: t.nn.functional.max_pool2d(dual(t, 1, 1, 4, 4), 2),
    "average pooling": lambda t: t.nn.functional.avg_pool2d(dual(t, 1, 1, 4, 4), 2),
    "adaptive pooling": lambda t: t.nn.functional.adaptive_max_pool1d(dual(t, 1, 1, 5), 2),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_of_duals(name: str) -> None:
    agree(in_level(MODULES[name]))


def test_parameters_replaced_by_duals() -> None:
    def program(t: Any) -> Any:
        make_dual = t.autograd.forward_ad.make_dual
        m = filled(t, t.nn.Linear(2, 1))
        refused = said(lambda: setattr(m, "weight", make_dual(lin(t, 1, 2), lin(t, 1, 2))))
        for name, p in [*m.named_parameters()]:
            delattr(m, name)
            setattr(m, name, make_dual(p, t.ones_like(p)))
        y = m(lin(t, 3, 2))
        called = t.func.functional_call(
            filled(t, t.nn.Linear(2, 1)), {"weight": dual(t, 1, 2)}, (lin(t, 3, 2),)
        )
        return [refused, y, y.requires_grad, [*m._parameters], [*m.state_dict()], called]

    agree(in_level(program))


def test_running_statistics_get_no_tangents() -> None:
    def program(t: Any) -> Any:
        m = filled(t, t.nn.BatchNorm1d(3))
        y = m(dual(t, 4, 3))
        return [y, m.running_mean, m.running_var, m.num_batches_tracked]

    agree(in_level(program))


def test_gradients_of_parameters_in_a_level_and_a_step() -> None:
    def program(t: Any) -> Any:
        m = filled(t, t.nn.Linear(2, 1))
        sgd = t.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
        adam = t.optim.Adam(m.parameters(), lr=0.1)
        (m(dual(t, 3, 2)) ** 2).sum().backward()
        found = [m.weight.grad]
        for optimizer in (sgd, adam):
            optimizer.step()
            found += [m.weight, m.bias]
        return [seen(t, each) for each in found]

    agree(in_level(program))


def test_losses_of_duals() -> None:
    def program(t: Any) -> Any:
        F = t.nn.functional
        x, y = dual(t, 3, 4), lin(t, 3, 4).sigmoid()
        target, sign = t.tensor([0, 1, 3]), (y > 0.5) * 2.0 - 1
        return [
            F.cross_entropy(x, target),
            F.cross_entropy(x, y),
            F.nll_loss(x.log_softmax(-1), target),
            F.mse_loss(x, y),
            F.l1_loss(x, y),
            F.smooth_l1_loss(x, y),
            F.huber_loss(x, y),
            F.binary_cross_entropy_with_logits(x, y),
            F.binary_cross_entropy(x.sigmoid(), y),
            F.kl_div(x.log_softmax(-1), y, reduction="sum"),
            F.hinge_embedding_loss(x, sign),
            F.cosine_embedding_loss(x, y, t.ones(3)),
            F.margin_ranking_loss(x, y, t.ones(3, 4)),
            F.triplet_margin_loss(x, y, y * 2),
            F.poisson_nll_loss(x, y),
            F.gaussian_nll_loss(x, y, y),
        ]

    agree(in_level(program))


def test_activations_of_duals() -> None:
    names = (
        "relu relu6 elu selu celu gelu silu mish softplus softsign tanh sigmoid hardtanh hardswish "
        "hardsigmoid hardshrink softshrink tanhshrink logsigmoid leaky_relu glu"
    )

    def program(t: Any) -> Any:
        F, x = t.nn.functional, dual(t, 3, 4)
        found = [getattr(F, name)(x) for name in names.split()]
        found += [F.softmax(x, -1), F.log_softmax(x, 0), F.prelu(x, t.tensor([0.2]).double())]
        return [*found, F.normalize(x), F.pad(x, (1, 1)), F.unfold(dual(t, 1, 1, 3, 3), 2)]

    agree(in_level(program))


def test_indexing_of_duals() -> None:
    def program(t: Any) -> Any:
        x, at = dual(t, 3, 4), t.tensor([0, 2])
        found = [x[0], x[:, 1], x[at], x[x > 0], x[..., None], x[::2, 1:], x.diagonal(), x.T]
        found += [x.gather(0, t.tensor([[0, 1, 2, 0]])), x.take(at), x.index_select(1, at)]
        found += [x.masked_fill(x > 0, 2.0), t.where(x > 0, x, lin(t, 3, 4)), x.roll(1), x.flip(0)]
        found += [
            x.repeat(2, 1),
            x.expand(2, 3, 4),
            x.unfold(1, 2, 1),
            x.cumsum(0),
            x.sort().values,
        ]
        y = t.zeros(3, 4, dtype=t.float64)
        y[at] = x[:2]
        y[:, 1] += x[:, 0]
        y.index_add_(0, at[:1], x[:1])
        y.scatter_(1, t.tensor([[0]]), x[2:3, :1])
        z = x.clone()
        z[0] = 1.0
        z[z > 1] = 0.0
        w = t.zeros(2, 2, dtype=t.float64)
        w.diagonal().copy_(x[2, :2])
        return [*found, y, z, w]

    agree(in_level(program))


def test_hooks_of_modules_see_duals() -> None:
    def program(t: Any) -> Any:
        m, met = filled(t, t.nn.Linear(2, 1)), []
        m.register_forward_hook(lambda module, args, out: met.append([*args, out]))
        m(dual(t, 3, 2))
        return met

    agree(in_level(program))
