"""Hooks, saved tensors, edges, modes and errors, as people use them.

Each sees on ag_visual what it sees on torch.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from tests.programs import agree_in_words, idiom, idioms_of, told


@idiom
def hooks_order(t: Any) -> Any:
    log = []
    x = t.ones(2, requires_grad=True)
    y = x * 2
    z = y.sum()
    h = x.register_hook(lambda g: log.append(("x", g.tolist())))
    y.register_hook(lambda g: g * 10)
    y.retain_grad()
    z.grad_fn.register_prehook(lambda gs: log.append(("pre", len(gs))))
    z.grad_fn.register_hook(lambda gi, go: log.append(("post", [g.tolist() for g in gi])))
    x.register_post_accumulate_grad_hook(lambda p: log.append(("acc", p.grad.tolist())))
    z.backward()
    h.remove()
    len(log)
    return [
        log,
        x.grad,
        y.grad,
        told(lambda: t.ones(1).register_hook(print)),
        told(lambda: y.register_post_accumulate_grad_hook(print)),
    ]


@idiom
def checkpoint(t: Any) -> Any:
    from_cp = importlib.import_module(f"{t.__name__}.utils.checkpoint")
    n = [0]

    def f(x, w):
        n[0] += 1
        return (x @ w).tanh()

    x = t.arange(4.0).reshape(2, 2).requires_grad_()
    w = (t.eye(2) * 0.5).requires_grad_()
    y = from_cp.checkpoint(f, x, w, use_reentrant=False).sum()
    y.backward()
    a = [x.grad.clone(), w.grad.clone(), n[0]]
    y = from_cp.checkpoint(f, x, w, use_reentrant=True).sum()
    y.backward()
    seq = t.nn.Sequential(t.nn.Tanh(), t.nn.Sigmoid(), t.nn.Tanh())
    z = from_cp.checkpoint_sequential(seq, 2, x, use_reentrant=False).sum()
    z.backward()
    with warnings.catch_warnings(record=True) as ws:
        warnings.simplefilter("always")
        from_cp.checkpoint(f, x, w)
    return [
        *a,
        x.grad,
        w.grad,
        n[0],
        [str(q.message)[:60] for q in ws],
        told(lambda: from_cp.checkpoint(f, x, w, use_reentrant=False, bogus=1)),
    ]


@idiom
def gradient_edge(t: Any) -> Any:
    x = t.ones(3, requires_grad=True)
    y = x * 2
    z = (y**2).sum()
    e = t.autograd.graph.get_gradient_edge(y)
    (g,) = t.autograd.grad(z, e, retain_graph=True)
    z.backward(inputs=[x])
    return [
        g,
        e.node.name(),
        e.output_nr,
        x.grad,
        type(e).__name__,
        told(lambda: t.autograd.graph.get_gradient_edge(t.ones(1))),
        t.autograd.graph.get_gradient_edge(x).node.name(),
    ]


@idiom
def offload_to_disk(t: Any) -> Any:
    d = tempfile.mkdtemp()
    n = [0]

    class Disk:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            os.path.exists(self.name) and os.remove(self.name)

    def pack(x):
        p = os.path.join(d, str(n[0]))
        n[0] += 1
        t.save(x, p)
        return Disk(p)

    def unpack(s):
        return t.load(s.name)

    x = t.arange(5.0, dtype=t.float64).requires_grad_()
    with t.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = (x.exp() * x).sin().sum()
    k = len(os.listdir(d))
    y.backward()
    del y
    return [x.grad, k > 0, n[0], len(os.listdir(d))]


@idiom
def disable_hooks(t: Any) -> Any:
    g = t.autograd.graph
    x = t.ones(2, requires_grad=True)

    def use():
        with (
            g.disable_saved_tensors_hooks("no hooks here"),
            g.saved_tensors_hooks(lambda x: x, lambda x: x),
        ):
            pass

    with g.save_on_cpu():
        y = (x * x).sum()
    y.backward()
    return [told(use), x.grad]


@idiom
def multi_grad(t: Any) -> Any:
    log = []
    a = t.ones(2, requires_grad=True)
    b = t.ones(2, requires_grad=True)
    c = t.ones(2, requires_grad=True)
    h = t.autograd.graph.register_multi_grad_hook(
        (a, b, c), lambda gs: log.append([None if g is None else g.tolist() for g in gs])
    )
    ((a * 2).sum() + b.sum()).backward()
    h.remove()
    h = t.autograd.graph.register_multi_grad_hook(
        (a, b), lambda g: log.append(g.tolist()), mode="any"
    )
    (a * 3).sum().backward()
    return [log, told(lambda: t.autograd.graph.register_multi_grad_hook((a,), print, mode="foo"))]


@idiom
def allow_mutation(t: Any) -> Any:
    x = t.ones(2, requires_grad=True)
    with t.autograd.graph.allow_mutation_on_saved_tensors():
        y = x.clone()
        z = y**2
        y.sin_()
        z.sum().backward()

    def bad():
        y = x.clone()
        z = y**2
        y.sin_()
        z.sum().backward()

    return [told(bad), x.grad]


@idiom
def allowed_mutation_copies_once(t: Any) -> Any:
    x = t.ones(3, requires_grad=True)
    with t.autograd.graph.allow_mutation_on_saved_tensors():
        y = x.clone()
        z, w, half = y * y, y * y, y[:2] * y[:2]
        y.zero_()
        saved = [n.grad_fn._saved_self.data_ptr() for n in (z, w)]
        saved += [n.grad_fn._saved_other.data_ptr() for n in (z, w)]
        later = y * y
        (z + w + later).sum().backward(retain_graph=True)
        half.sum().backward()
        return [len(set(saved)), y.data_ptr() in saved, x.grad]


@idiom
def inference(t: Any) -> Any:
    x = t.ones(2, requires_grad=True)
    with t.inference_mode():
        y = x * 2

    def use():
        (x * y).sum().backward()

    return [
        y.requires_grad,
        y.is_inference(),
        told(use),
        told(lambda: y.add_(1)),
        told(lambda: y.requires_grad_()),
        told(lambda: y._version),
    ]


@idiom
def anomaly(t: Any) -> Any:
    x = t.tensor([-1.0], requires_grad=True)

    def f():
        with t.autograd.detect_anomaly():
            y = x.sqrt()
            y.sum().backward()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        e = told(f)
    return [e, t.is_anomaly_enabled()]


@idiom
def threads(t: Any) -> Any:
    x = t.ones(3, requires_grad=True)
    out = []

    def work(i):
        with t.no_grad():
            out.append((x * 2).requires_grad)
        (x * i).sum().backward()
        out.append(t.is_grad_enabled())

    ts = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [a.start() for a in ts]
    [a.join() for a in ts]
    return [x.grad, sorted(out)]


@idiom
def double_backward(t: Any) -> Any:
    x = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x**3).sum()
    (g,) = t.autograd.grad(y, x, create_graph=True)
    (h,) = t.autograd.grad(g.sum(), x, create_graph=True)
    (k,) = t.autograd.grad(h.sum(), x)
    return [g, h, k, g.grad_fn.name(), told(lambda: t.autograd.grad(k.sum(), x))]


@idiom
def complex_autograd(t: Any) -> Any:
    z = t.tensor([1 + 2j, 3 - 1j], dtype=t.complex128, requires_grad=True)
    (z.abs() ** 2).sum().backward()
    a = z.grad.clone()
    z.grad = None
    (z * z).real.sum().backward()
    b = z.grad.clone()
    z.grad = None
    t.view_as_real(z).sum().backward()
    return [
        a,
        b,
        z.grad,
        told(lambda: (z * 2).sum().backward()),
        z.conj().is_conj() in (True, False),
        t.angle(z),
        (z @ z.conj()),
    ]


@idiom
def second_backward(t: Any) -> Any:
    x = t.ones(2, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    return [told(lambda: y.backward()), x.grad]


@idiom
def inplace_errors(t: Any) -> Any:
    x = t.ones(2, requires_grad=True)

    def a():
        x.add_(1)

    def b():
        y = x * 2
        z = y.exp()
        z.add_(1)
        z.sum().backward()

    def c():
        v = x[0]
        v.mul_(2)

    def d():
        y = x * 1
        u, _v = y.unbind()
        u.mul_(2)

    def e():
        with t.no_grad():
            v = x.view(2)
        v.mul_(2)

    return [told(each) for each in (a, b, c, d, e)]


@idiom
def grad_api(t: Any) -> Any:
    x = t.ones(2, requires_grad=True)
    u = t.ones(2, requires_grad=True)
    y = x * 2
    G = t.autograd.grad
    return [
        G(y.sum(), [x, u], allow_unused=True, retain_graph=True),
        G(y.sum(), [x, u], materialize_grads=True, retain_graph=True),
        G(y, x, t.tensor([1.0, 5.0]), retain_graph=True),
        G([y.sum(), y.prod()], x, retain_graph=True),
        G(y, x, t.eye(2), is_grads_batched=True, retain_graph=True),
        told(lambda: G(y, x)),
        told(lambda: G(y.sum(), u)),
        told(lambda: G(t.ones(1), x)),
        told(lambda: G(y.sum(), x, t.ones(3))),
    ]


@idiom
def set_grad_modes(t: Any) -> Any:
    x = t.ones(1, requires_grad=True)
    r = []
    with t.set_grad_enabled(False):
        r.append((x * 1).requires_grad)
    with t.no_grad(), t.enable_grad():
        r.append((x * 1).requires_grad)

    @t.no_grad()
    def f(x):
        return x * 2

    r.append(f(x).requires_grad)
    t.set_grad_enabled(False)
    r.append(t.is_grad_enabled())
    t.set_grad_enabled(True)

    @t.inference_mode()
    def g(x):
        return x * 2

    r.append(g(x).is_inference())

    @t.no_grad
    def h(x):
        return x * 3

    r.append(h(x).requires_grad)

    def gen():
        for i in range(2):
            yield (x * i).requires_grad

    r.append(list(t.no_grad()(gen)()))
    return r


@idiom
def graph_walk(t: Any) -> Any:
    x = t.ones(2, requires_grad=True)
    y = ((x * 2).exp() + x).sum()
    names = []

    def go(n, d=0):
        if n is None:
            return
        names.append((d, n.name(), len(n.next_functions)))
        for m, _ in n.next_functions:
            go(m, d + 1)

    go(y.grad_fn)
    n = y.grad_fn.next_functions[0][0].next_functions[0][0]
    return [
        names,
        n._saved_result,
        hasattr(n, "metadata"),
        isinstance(n, t.autograd.graph.Node),
        y.grad_fn.next_functions[0][0].next_functions[1][0].variable is x,
        y.grad_fn._saved_self_sym_sizes if 0 else None,
        type(n).__name__,
    ]


@idiom
def non_scalar_errors(t: Any) -> Any:
    x = t.ones(2, 2, requires_grad=True)
    return [
        told(lambda: (x * 2).backward()),
        told(lambda: (x * 2).backward(t.ones(3))),
        told(lambda: (x * 2).sum().backward(gradient=3)),
        told(lambda: x.numpy()),
        told(lambda: (x * 2).numpy()),
        told(lambda: numpy.asarray(x)),
        (x * 2).detach().numpy().sum(),
        told(lambda: t.tensor([1, 2], requires_grad=True)),
        told(lambda: (x > 0).backward()),
        told(lambda: x.long().requires_grad_()),
        told(lambda: x.argmax().backward()),
    ]


@idiom
def backward_inputs(t: Any) -> Any:
    a = t.ones(2, requires_grad=True)
    b = t.ones(2, requires_grad=True)
    y = a * b
    y.sum().backward(inputs=(a,))
    r = [a.grad, b.grad]
    z = a * 2
    z.sum().backward(inputs=[z])
    return [*r, z.grad]


@idiom
def custom_mode_flow(t: Any) -> Any:
    x = t.ones(2, requires_grad=True)
    with t.autograd.set_detect_anomaly(True, check_nan=False):
        (x * 2).sum().backward()
    with t.autograd.set_multithreading_enabled(False):
        (x * 3).sum().backward()
    return [
        x.grad,
        t.autograd.Variable is not None,
        t.is_grad_enabled(),
        t.autograd.grad_mode.__name__.split(".")[-1],
    ]


@idiom
def grad_attr(t: Any) -> Any:
    x = t.ones(2, requires_grad=True)
    x.grad = t.ones(2)
    r = [x.grad]
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        told(lambda: (x * 2).grad)
    r.append([str(a.message).split(".")[0] for a in w])
    del x.grad
    r.append(x.grad)
    return [
        *r,
        told(lambda: setattr(x, "grad", t.ones(3))),
        told(lambda: setattr(x, "grad", 2)),
        told(lambda: setattr(x, "grad", x)),
    ]


@pytest.mark.parametrize("program", idioms_of(globals()), ids=lambda each: each.__name__)
def test_an_idiom_sees_what_it_sees_on_torch(program: Callable[[Any], Any]) -> None:
    agree_in_words(program)
