"""Training loops of tutorials and of torch 0.4, and everyday tensor work.

Each sees on ag_visual what it sees on torch.
"""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from tests.programs import agree_in_words, idiom, idioms_of, told


@idiom
def old_variable_loop(t: Any) -> Any:
    from_var = t.autograd.Variable
    x = from_var(t.Tensor([[1.0, 2.0], [3.0, 4.0]]))
    y = from_var(t.Tensor([[1.0], [0.0]]), requires_grad=False)
    w = from_var(t.Tensor([[0.1], [0.2]]), requires_grad=True)
    for _i in range(5):
        out = t.sigmoid(x.mm(w))
        loss = -(y * t.log(out) + (1 - y) * t.log(1 - out)).mean()
        if w.grad is not None:
            w.grad.data.zero_()
        loss.backward()
        w.data.add_(-0.5, w.grad.data)
    return [w.data, loss.data.item(), w.grad.data]


@idiom
def old_add_with_alpha(t: Any) -> Any:
    v = t.zeros(3)
    g = t.ones(3)
    v.mul_(0.9).add_(g)
    v.add_(-0.1, g)
    v.addcmul_(0.5, g, g)
    v.addcdiv_(2, g, g + 1)
    return [v, t.add(v, 2, g), t.addcmul(v, 2, g, g)]


@idiom
def tutorial_polynomial(t: Any) -> Any:
    x = t.linspace(-math.pi, math.pi, 200, dtype=t.float64)
    y = t.sin(x)
    a, b, c, d = [t.tensor(v, dtype=t.float64, requires_grad=True) for v in (0.1, 0.2, 0.3, 0.4)]
    for _i in range(20):
        p = a + b * x + c * x**2 + d * x**3
        loss = (p - y).pow(2).sum()
        loss.backward()
        with t.no_grad():
            for w in (a, b, c, d):
                w -= 1e-6 * w.grad
                w.grad = None
    return [a, b, c, d, loss, f"{a.item():.6f}"]


@idiom
def tutorial_autograd_basics(t: Any) -> Any:
    a = t.tensor([2.0, 3.0], requires_grad=True)
    b = t.tensor([6.0, 4.0], requires_grad=True)
    Q = 3 * a**3 - b**2
    Q.backward(gradient=t.tensor([1.0, 1.0]))
    x = t.rand(5, 5)
    z = t.rand((5, 5), requires_grad=True)
    eye = t.eye(4, 5, requires_grad=True)
    out = (eye + 1).pow(2).t()
    out.backward(t.ones_like(out), retain_graph=True)
    f = eye.grad.clone()
    out.backward(t.ones_like(out), retain_graph=True)
    s = eye.grad.clone()
    eye.grad.zero_()
    out.backward(t.ones_like(out))
    return [
        9 * a**2 == a.grad,
        -2 * b == b.grad,
        (x + z).requires_grad,
        f,
        s,
        eye.grad,
        repr(a),
        repr(Q),
        str(Q.grad_fn)[:16],
        repr(a.grad),
    ]


@idiom
def module_training(t: Any) -> Any:
    t.manual_seed(0)
    net = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.ReLU(), t.nn.Linear(4, 1)).double()
    with t.no_grad():
        for _i, p in enumerate(net.parameters()):
            p.copy_(t.arange(p.numel(), dtype=t.float64).view_as(p) * 0.1 - 0.2)
    o = t.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    sch = t.optim.lr_scheduler.StepLR(o, 2, 0.5)
    x = t.arange(12.0, dtype=t.float64).view(4, 3) / 10
    losses = []
    for _i in range(4):
        o.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        n = t.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        o.step()
        sch.step()
        losses.append((loss.item(), n.item(), sch.get_last_lr()[0]))
    return [losses, list(net.parameters()), str(net), list(net.state_dict())]


@idiom
def freeze(t: Any) -> Any:
    net = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Linear(2, 1))
    for p in net[0].parameters():
        p.requires_grad = False
    net(t.ones(1, 2)).backward()
    e = told(lambda: setattr(net(t.ones(1, 2)), "requires_grad", False))
    return [
        [p.grad is None for p in net.parameters()],
        e,
        net.requires_grad_(False)[1].weight.requires_grad,
    ]


@idiom
def detach_share(t: Any) -> Any:
    x = t.ones(3, requires_grad=True)
    y = x.detach()
    y[0] = 5
    x * x
    d = x.data
    d[1] = 7
    w = x * 1
    w.detach_()
    return [
        x,
        y.requires_grad,
        w.is_leaf,
        w.grad_fn is None,
        told(lambda: x[0:1].detach_()),
        x._version,
        y._version,
    ]


@idiom
def views_and_base(t: Any) -> Any:
    x = t.arange(4.0, requires_grad=True)
    y = x * 1
    v = y.view(2, 2)
    v.mul_(3)
    (y**2).sum().backward()
    return [
        x.grad,
        y.grad_fn.name(),
        v.grad_fn.name(),
        v._is_view(),
        v._base is y,
        y._version,
        v.is_leaf,
    ]


@idiom
def deepcopy_pickle(t: Any) -> Any:
    x = t.ones(2, requires_grad=True)
    y = copy.deepcopy(x)
    p = pickle.loads(pickle.dumps(t.nn.Parameter(t.ones(2))))
    b = io.BytesIO()
    t.save({"a": x, "n": 3}, b)
    b.seek(0)
    loaded = t.load(b)
    z = x * 2
    q = pickle.loads(pickle.dumps(z))
    b = io.BytesIO()
    t.save(z, b)
    b.seek(0)
    zz = t.load(b)
    return [
        y,
        y.requires_grad,
        p,
        type(p).__name__,
        loaded["a"],
        loaded["a"].requires_grad,
        told(lambda: copy.deepcopy(z)),
        q.requires_grad,
        q.is_leaf,
        zz.requires_grad,
        zz.is_leaf,
    ]


@idiom
def accumulate_and_zero(t: Any) -> Any:
    w = t.ones(2, requires_grad=True)
    for i in range(3):
        (w * i).sum().backward()
    g = w.grad
    w.grad.zero_()
    r = [g.clone(), w.grad is g]
    (w * w).sum().backward(create_graph=False)
    r.append(w.grad is g)
    w.grad = None
    (w * w).sum().backward(create_graph=True)
    return [*r, w.grad, w.grad.requires_grad]


@idiom
def rnn_bptt(t: Any) -> Any:
    W = (t.eye(3, dtype=t.float64) * 0.5).requires_grad_()
    h = t.zeros(3, dtype=t.float64)
    tot = 0
    for i in range(6):
        h = t.tanh(W @ h + i * 0.1)
        tot = tot + h.sum()
        if i % 3 == 2:
            h = h.detach()
    tot.backward()
    return [tot, W.grad]


@idiom
def meta_learning(t: Any) -> Any:
    w = t.tensor([1.0, 2.0], dtype=t.float64, requires_grad=True)
    lr = t.tensor(0.1, dtype=t.float64, requires_grad=True)
    fast = w
    for _ in range(3):
        (g,) = t.autograd.grad((fast**3).sum(), fast, create_graph=True)
        fast = fast - lr * g
    (fast**2).sum().backward()
    return [w.grad, lr.grad]


@idiom
def printing(t: Any) -> Any:
    x = t.tensor([1.0, -2.5e-5], requires_grad=True)
    return [
        repr(x),
        repr(x * 2),
        repr((x * 2).grad_fn)[:14],
        repr(t.nn.Parameter(t.ones(2))),
        str(x.detach()),
        repr(x.sum()),
        repr(t.ones(2, 3, dtype=t.int64)),
        f"{x.sum():.3f}",
        repr(t.zeros(0)),
        repr(t.tensor(3.0)),
        repr(x.dtype),
        repr(x.shape),
        repr(t.tensor([True])),
        repr(t.tensor([1e10, 1.0])),
        repr(t.tensor([1 + 1j])),
        repr(t.autograd.graph.get_gradient_edge(x))[:20],
    ]


@idiom
def register_on_module(t: Any) -> Any:
    m = t.nn.Linear(2, 2, bias=False)
    with t.no_grad():
        m.weight.copy_(t.eye(2))
    log = []
    m.register_forward_hook(lambda m, i, o: log.append("f"))
    m.register_full_backward_hook(lambda m, gi, go: log.append(("b", go[0].tolist())))
    m.register_forward_pre_hook(lambda m, i: log.append("p"))
    m.register_full_backward_pre_hook(lambda m, go: log.append("bp"))
    m(t.ones(1, 2, requires_grad=True)).sum().backward()
    return log


@idiom
def wrong_shapes(t: Any) -> Any:
    return [
        told(lambda: t.ones(2) @ t.ones(3)),
        told(lambda: t.ones(2, 3) @ t.ones(2, 3)),
        told(lambda: t.ones(2) + t.ones(3)),
        told(lambda: t.cat([t.ones(2), t.ones(2, 2)])),
        told(lambda: t.ones(2).view(3)),
        told(lambda: t.stack([t.ones(2), t.ones(3)])),
        told(lambda: t.nn.Linear(2, 3)(t.ones(4, 5))),
        told(lambda: t.ones(2)[3]),
        told(lambda: t.ones(2, 3).t().view(6)),
        told(lambda: t.ones(3).reshape(2, -1)),
        told(lambda: t.ones(2).expand(3)),
    ]


@idiom
def no_grad_views(t: Any) -> Any:
    x = t.ones(2, 2, requires_grad=True)
    with t.no_grad():
        x[0] = 5
        x.mul_(2)
    y = x.clone()
    y[:, 0] = 0
    y[1] += x[0]
    y.sum().backward()
    return [x, x.grad, x._version]


@idiom
def masked_loss(t: Any) -> Any:
    x = t.tensor([[1.0, float("nan")], [2.0, 3.0]], requires_grad=True)
    m = ~t.isnan(x)
    loss = t.where(m, x, t.zeros_like(x)).pow(2).sum()
    loss.backward()
    g = x.grad.clone()
    x.grad = None
    x[m].sum().backward()
    return [loss, g, x.grad, t.nansum(x), x.masked_fill(~m, 0).max(), x.nan_to_num().topk(1)]


@idiom
def embedding_ce(t: Any) -> Any:
    e = t.nn.Embedding(5, 3, padding_idx=0).double()
    with t.no_grad():
        e.weight.copy_(t.arange(15.0, dtype=t.float64).view(5, 3) / 10)
    out = e(t.tensor([[1, 2], [0, 3]])).sum(1)
    loss = t.nn.functional.cross_entropy(out, t.tensor([0, 2]))
    loss.backward()
    return [
        loss,
        e.weight.grad,
        told(lambda: e(t.tensor([7]))),
        told(lambda: t.nn.functional.cross_entropy(out, t.tensor([0, 5]))),
        told(lambda: t.nn.functional.cross_entropy(out, t.tensor([0.0, 1.0]))),
    ]


@pytest.mark.parametrize("program", idioms_of(globals()), ids=lambda each: each.__name__)
def test_an_idiom_sees_what_it_sees_on_torch(program: Callable[[Any], Any]) -> None:
    agree_in_words(program)
