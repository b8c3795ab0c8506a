"""Modules and utilities that programs need now and then, compared with torch's."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual import nn

from ..oracle import torch


def data(t: Any, *shape: int, seed: int = 0) -> Any:
    return t.tensor(numpy.random.default_rng(seed).normal(size=shape).tolist(), dtype=t.float64)


def same_state(ours: Any, theirs: Any) -> None:
    """Give our module the values of torch's."""
    ours.load_state_dict(
        {k: ag.from_numpy(v.numpy().copy()) for k, v in theirs.state_dict().items()}
    )


def close(ours: Any, theirs: Any) -> None:
    assert tuple(ours.shape) == tuple(theirs.shape)
    numpy.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), 1e-9, 1e-12)


def told(make: Any, t: Any) -> tuple[str, str]:
    with pytest.raises(Exception) as caught:
        make(t)
    return caught.type.__name__, str(caught.value)


def prune_of(t: Any) -> Any:
    return importlib.import_module(f"{t.__name__}.nn.utils.prune")


# Lazy modules -----------------------------------------------------------------------------------

LAZY: dict[str, tuple[Any, tuple[int, ...]]] = {
    "linear": (lambda t: t.nn.LazyLinear(3), (2, 4)),
    "linear_no_bias": (lambda t: t.nn.LazyLinear(3, bias=False), (2, 3, 4)),
    "conv1d": (lambda t: t.nn.LazyConv1d(4, 2, groups=2), (2, 6, 5)),
    "conv2d": (lambda t: t.nn.LazyConv2d(3, 2, padding=1), (2, 3, 4, 4)),
    "conv2d_single": (lambda t: t.nn.LazyConv2d(3, 2), (3, 4, 4)),
    "conv3d": (lambda t: t.nn.LazyConv3d(2, 2), (1, 2, 3, 3, 3)),
    "transposed1d": (lambda t: t.nn.LazyConvTranspose1d(4, 2, 2, groups=2), (2, 4, 5)),
    "transposed2d": (lambda t: t.nn.LazyConvTranspose2d(3, 2), (2, 3, 4, 4)),
    "batch1d": (lambda t: t.nn.LazyBatchNorm1d(), (4, 3)),
    "batch2d": (lambda t: t.nn.LazyBatchNorm2d(affine=False), (2, 3, 4, 4)),
    "batch3d": (lambda t: t.nn.LazyBatchNorm3d(track_running_stats=False), (2, 3, 2, 2, 2)),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", LAZY)
def test_a_lazy_module_becomes_an_ordinary_one(name: str) -> None:
    make, shape = LAZY[name]
    ours, theirs = make(ag).double(), make(torch).double()
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    waiting = [repr(p) for p in ours.parameters()]
    assert waiting == [repr(p) for p in theirs.parameters()]
    copied = copy.deepcopy(ours)
    begun = make(torch).double()
    begun(data(torch, *shape))
    # A state with shapes makes it ordinary in all but its class, which the first call gives.
    theirs.load_state_dict(begun.state_dict())
    same_state(ours, begun)
    assert repr(ours) == repr(theirs)
    x, y = data(ag, *shape, seed=1).requires_grad_(), data(torch, *shape, seed=1).requires_grad_()
    out, expected = ours(x), theirs(y)
    assert type(ours).__name__ == type(theirs).__name__
    assert type(ours) is getattr(nn, type(theirs).__name__)
    assert repr(ours) == repr(theirs)
    close(out, expected)
    out.square().sum().backward()
    expected.square().sum().backward()
    close(x.grad, y.grad)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert type(p) is nn.Parameter
        close(p.grad, q.grad)
    assert copied(data(ag, *shape)).dtype is ag.float64


@pytest.mark.oracle
@pytest.mark.parametrize(
    "use",
    [
        lambda t: t.nn.LazyLinear(2).weight.shape,
        lambda t: t.nn.LazyConv2d(2, 2)(t.ones(2, 2)),
        lambda t: t.nn.LazyConv2d(2, 2, groups=2)(t.ones(1, 3, 4, 4)),
        lambda t: t.nn.Linear(2, 2).load_state_dict(t.nn.LazyLinear(2).state_dict()),
    ],
)
def test_lazy_modules_refuse_what_torchs_do(use: Any) -> None:
    ours, theirs = told(use, ag), told(use, torch)
    assert ours == theirs


def test_an_uninitialized_parameter_cannot_be_computed_with() -> None:
    lazy = nn.LazyLinear(2)
    for use in (
        lambda: lazy.weight + 1,
        lambda: lazy.weight.sum(),
        lambda: ag.add(1.0, lazy.weight),
        lambda: ag.nn.functional.linear(ag.ones(2, 2), lazy.weight),
        lambda: lazy.weight.numel(),
    ):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
            use()
    assert lazy.half().weight.dtype is ag.float16
    assert nn.parameter.is_lazy(pickle.loads(pickle.dumps(lazy.weight)))
    lazy(ag.ones(1, 3, dtype=ag.float16))
    assert not nn.parameter.is_lazy(lazy.weight)
    assert lazy.weight.is_leaf


# Losses, cells and norms --------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("bias", [False, True])
def test_adaptive_log_softmax_is_torchs(bias: bool) -> None:
    made = [
        t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [3, 7, 12], div_value=2.0, head_bias=bias).double()
        for t in (ag, torch)
    ]
    ours, theirs = made
    assert repr(ours) == repr(theirs)
    same_state(ours, theirs)
    for rows in ([0, 5, 2, 19, 12, 7], [1, 0, 2], [15, 16]):
        x, y = data(ag, len(rows), 8).requires_grad_(), data(torch, len(rows), 8).requires_grad_()
        out, expected = ours(x, ag.tensor(rows)), theirs(y, torch.tensor(rows))
        close(out.output, expected.output)
        close(out.loss, expected.loss)
        out.loss.backward()
        expected.loss.backward()
        close(x.grad, y.grad)
        close(ours.log_prob(x), theirs.log_prob(y))
        assert ours.predict(x).tolist() == theirs.predict(y).tolist()
    single = ours(data(ag, 8), ag.tensor(9)), theirs(data(torch, 8), torch.tensor(9))
    close(single[0].output, single[1].output)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        close(p.grad, q.grad)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "use",
    [
        lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(4, 5, []),
        lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2, 2]),
        lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [5]),
        lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(t.ones(2, 4), t.tensor([0, 5])),
        lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(t.ones(2, 4), t.tensor([0])),
        lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(4, 5, [2])(t.ones(1), t.tensor([0])),
        lambda t: t.nn.CrossMapLRN2d(3)(t.ones(2, 3)),
        lambda t: t.lstm_cell(t.ones(2, 3), t.ones(2, 4), t.ones(16, 3), t.ones(16, 4)),
        lambda t: t.lstm_cell(t.ones(2, 3), (t.ones(2, 4),), t.ones(16, 3), t.ones(16, 4)),
        lambda t: t.gru_cell(t.ones(2, 3), t.ones(2, 4), t.ones(16, 3), t.ones(16, 4)),
        lambda t: t.gru_cell(t.ones(2, 5), t.ones(2, 4), t.ones(12, 3), t.ones(12, 4)),
        lambda t: t.gru_cell(t.ones(2, 3), t.ones(3, 4), t.ones(12, 3), t.ones(12, 4)),
        lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(2, 2), "bias"),
        lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(2, 2), "w"),
        lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(2, 2), orthogonal_map="qr"),
        lambda t: prune_of(t).l1_unstructured(t.nn.Linear(2, 2), "weight", 1.5),
        lambda t: prune_of(t).l1_unstructured(t.nn.Linear(2, 2), "weight", 9),
        lambda t: prune_of(t).ln_structured(t.nn.Linear(2, 2), "bias", 1, 2, 0),
        lambda t: prune_of(t).remove(t.nn.Linear(2, 2), "weight"),
    ],
)
def test_errors_are_torchs(use: Any) -> None:
    assert told(use, ag) == told(use, torch)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["rnn_tanh_cell", "rnn_relu_cell", "gru_cell", "lstm_cell"])
@pytest.mark.parametrize("bias", [False, True])
def test_cells_are_torchs(name: str, bias: bool) -> None:
    rows = {"gru_cell": 12, "lstm_cell": 16}.get(name, 4)
    found = []
    for t in (ag, torch):
        shapes = ((2, 3), (2, 4), (2, 4), (rows, 3), (rows, 4), (rows,), (rows,))
        x, h, c, *weights = (
            data(t, *shape, seed=i).requires_grad_() for i, shape in enumerate(shapes)
        )
        hidden = (h, c) if name == "lstm_cell" else h
        out = getattr(t, name)(x, hidden, *weights[: 4 if bias else 2])
        outs = out if isinstance(out, tuple) else (out,)
        wanted = [x, h, *weights[: 4 if bias else 2], *([c] if name == "lstm_cell" else [])]
        grads = t.autograd.grad(sum(o.square().sum() for o in outs), wanted)
        found.append([*outs, *grads])
    for ours, theirs in zip(*found, strict=True):
        close(ours, theirs)


@pytest.mark.oracle
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_cross_map_lrn_is_torchs(size: int) -> None:
    ours, theirs = (t.nn.CrossMapLRN2d(size, alpha=0.5, k=2) for t in (ag, torch))
    assert repr(ours) == repr(theirs)
    close(ours(data(ag, 2, 7, 3, 2)), theirs(data(torch, 2, 7, 3, 2)))
    # The gradient is that of what is computed.
    x = data(ag, 1, 4, 2, 1).requires_grad_()
    assert ag.autograd.gradcheck(ours, x)


# Utilities ----------------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("how", ["matrix_exp", "cayley", "householder", None])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal_computes_what_torchs_does(how: str, shape: Any, trivial: bool) -> None:
    found = []
    for t in (ag, torch):
        layer = t.nn.Linear(*shape[::-1], bias=False).double()
        layer.weight.data = data(t, *shape)
        use = t.nn.utils.parametrizations.orthogonal
        use(layer, orthogonal_map=how, use_trivialization=trivial)
        original = layer.parametrizations.weight.original
        if trivial:
            # What is drawn at random differs: the same base for both.
            n = max(shape)
            layer.parametrizations.weight[0].base = t.linalg.qr(data(t, n, n, seed=5))[0]
            low = data(t, *shape, seed=3)
            original.data = low.tril() if shape[0] >= shape[1] else low.triu()
            signs = t.sign(original.data.diagonal())
            original.data.diagonal().copy_(signs)
        weight = layer.weight
        tall = weight if shape[0] >= shape[1] else weight.T
        eye = t.eye(min(shape), dtype=t.float64)
        assert t.allclose(tall.T @ tall, eye)
        (weight * data(t, *shape, seed=4)).sum().backward()
        found.append((repr(layer), weight, original.grad))
    assert found[0][0] == found[1][0]
    close(found[0][1], found[1][1])
    close(found[0][2], found[1][2])


def test_orthogonal_matrices_are_kept_and_set() -> None:
    use = nn.utils.parametrizations.orthogonal
    q = ag.linalg.qr(data(ag, 3, 3))[0]
    layer = nn.Linear(3, 3, dtype=ag.float64)
    layer.weight.data = q
    assert ag.allclose(use(layer).weight, q)
    layer.weight = -q
    assert ag.allclose(layer.weight, -q)
    tall = use(nn.Linear(2, 5, dtype=ag.float64))
    assert ag.allclose(tall.weight.T @ tall.weight, ag.eye(2, dtype=ag.float64))
    with pytest.raises(NotImplementedError, match="It is not possible to assign"):
        use(nn.Linear(2, 2), orthogonal_map="cayley", use_trivialization=False).weight = q[:2, :2]


PRUNINGS: dict[str, Any] = {
    "identity": lambda p, m: p.identity(m[0], "weight"),
    "l1": lambda p, m: p.l1_unstructured(m[0], "weight", 0.4),
    "l1_twice": lambda p, m: [p.l1_unstructured(m[0], "weight", 2) for _ in range(3)],
    "ln": lambda p, m: p.ln_structured(m[0], "weight", 1, n=2, dim=0),
    "ln_inf": lambda p, m: p.ln_structured(m[0], "weight", 0.5, n=float("inf"), dim=-1),
    "ln_then_l1": lambda p, m: (
        p.ln_structured(m[0], "weight", 1, n=1, dim=1),
        p.l1_unstructured(m[0], "weight", 3),
    ),
    "global": lambda p, m: p.global_unstructured(
        [(m[0], "weight"), (m[1], "weight"), (m[1], "bias")],
        pruning_method=p.L1Unstructured,
        amount=7,
    ),
    "removed": lambda p, m: p.remove(p.l1_unstructured(m[0], "weight", 0.5), "weight"),
    "scores": lambda p, m: p.l1_unstructured(
        m[0], "weight", 0.5, importance_scores=m[0].weight.detach() ** -1
    ),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", PRUNINGS)
def test_pruning_is_torchs(name: str) -> None:
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)).double()
    ours = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).double()
    same_state(ours, theirs)
    outs = []
    for t, model in ((ag, ours), (torch, theirs)):
        prune = prune_of(t)
        PRUNINGS[name](prune, model)
        out = model(data(t, 2, 4))
        out.square().sum().backward()
        hooks = [type(h).__name__ for h in model[0]._forward_pre_hooks.values()]
        named = [h._tensor_name for h in model[0]._forward_pre_hooks.values()]
        outs.append((out, len(hooks), named, prune.is_pruned(model)))
    close(outs[0][0], outs[1][0])
    assert outs[0][1:] == outs[1][1:]
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    for key, value in ours.state_dict().items():
        close(value, state[key])
    for (key, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert p.grad is not None, key
        close(p.grad, q.grad)


def test_random_pruning_masks_the_highest_draws() -> None:
    """Where the draws are torch's, the mask is."""
    layer = nn.Linear(5, 4)
    ag.manual_seed(3)
    highest = ag.rand_like(layer.weight.detach()).flatten().topk(7).indices
    ag.manual_seed(3)
    prune_of(ag).random_unstructured(layer, "weight", 7)
    assert (
        sorted(highest.tolist()) == (layer.weight_mask.flatten() == 0).nonzero().flatten().tolist()
    )


def test_random_pruning_masks_as_many_as_asked() -> None:
    prune = nn.utils.prune
    layer = prune.random_unstructured(nn.Linear(10, 10), "weight", 0.3)
    assert int((layer.weight_mask == 0).sum()) == 30
    prune.random_structured(layer, "weight", 2, dim=0)
    assert int((layer.weight_mask.sum(1) == 0).sum()) >= 2
    assert prune.RandomUnstructured(3).prune(ag.ones(10)).sum() == 7


def test_data_parallel_calls_its_module() -> None:
    layer = nn.Linear(2, 1)
    wrapped = nn.DataParallel(layer, device_ids=[0])
    x = ag.ones(3, 2)
    assert bool((wrapped(x) == layer(x)).all())
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    assert bool((nn.parallel.data_parallel(layer, x) == layer(x)).all())


@pytest.mark.oracle
def test_swapped_tensors_exchange_all_but_their_identity() -> None:
    found = []
    for t in (ag, torch):
        x = t.ones(2, requires_grad=True)
        y = t.nn.Parameter(t.zeros(3, dtype=t.float64), requires_grad=False)
        y.mine = 1
        (x * 2).sum().backward()
        keep = x
        t.utils.swap_tensors(x, y)
        found.append(
            (
                keep is x,
                type(x).__name__,
                x.tolist(),
                y.tolist(),
                x.requires_grad,
                y.grad.tolist(),
                x.mine,
                hasattr(y, "mine"),
            )
        )
        (y * 3).sum().backward()
        assert y.grad.tolist() == [5.0, 5.0]
        before = (y * 3).sum()
        t.utils.swap_tensors(x, y)
        with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
            before.backward()
    kept = ag.ones(2, requires_grad=True)
    saved = (kept * kept).sum()
    ag.utils.swap_tensors(kept, ag.zeros(2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()
    assert found[0] == found[1]


@pytest.mark.oracle
@pytest.mark.parametrize("count", [1, 2, 3])
def test_gradients_of_convolutions_are_torchs(count: int) -> None:
    shapes = (2, 4, *[6] * count), (6, 2, *[3] * count), (2, 6, *[3] * count)
    found = []
    for t in (ag, torch):
        module = importlib.import_module(f"{t.__name__}.nn.grad")
        x, w, g = (data(t, *shape, seed=i) for i, shape in enumerate(shapes))
        options = {"stride": 2, "padding": 1, "groups": 2}
        of_input = getattr(module, f"conv{count}d_input")(x.shape, w, g, **options)
        of_weight = getattr(module, f"conv{count}d_weight")(x, w.shape, g, **options)
        found.append((of_input, of_weight))
    for ours, theirs in zip(*found, strict=True):
        close(ours, theirs)


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("make", "norm", "shape", "options"),
    [
        (lambda t: t.nn.Conv2d(3, 4, 2), lambda t: t.nn.BatchNorm2d(4), (2, 3, 5, 5), {}),
        (
            lambda t: t.nn.Conv1d(3, 4, 2, bias=False),
            lambda t: t.nn.BatchNorm1d(4, affine=False),
            (2, 3, 5),
            {},
        ),
        (
            lambda t: t.nn.ConvTranspose2d(3, 4, 2),
            lambda t: t.nn.BatchNorm2d(4),
            (2, 3, 5, 5),
            {"transpose": True},
        ),
        (lambda t: t.nn.Linear(3, 4), lambda t: t.nn.BatchNorm1d(4), (2, 3), {}),
    ],
)
def test_fused_layers_are_torchs(make: Any, norm: Any, shape: Any, options: Any) -> None:
    theirs = torch.nn.Sequential(make(torch), norm(torch)).double()
    theirs(data(torch, *shape))
    ours = nn.Sequential(make(ag), norm(ag)).double()
    same_state(ours, theirs)
    fused = []
    for t, model in ((ag, ours), (torch, theirs)):
        name = "fuse_linear_bn_eval" if len(shape) == 2 else "fuse_conv_bn_eval"
        fuse = getattr(t.nn.utils, name)
        with pytest.raises(AssertionError, match="Fusion only for eval!"):
            fuse(*model.train(), **options)
        fused.append(fuse(*model.eval(), **options))
    x = data(ag, *shape, seed=1)
    close(fused[0](x), ours(x))
    for ours_p, theirs_p in zip(fused[0].parameters(), fused[1].parameters(), strict=True):
        close(ours_p, theirs_p)
        assert ours_p.requires_grad == theirs_p.requires_grad
