"""Every module against torch's, with the same weights: values, gradients, state, repr, copies."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy
import pytest

import ag_visual as ag
from tests.oracle import torch

from .cases import CASES, Case, label

# What torch.nn has beyond them, and modules that wait for a shape (Lazy...): spread over devices,
# deprecated, or new in the release that the tests compare with.
ELSEWHERE = {"Container", "LinearCrossEntropyLoss", "NLLLoss2d", "SyncBatchNorm"}
# Their arguments are modules or anything at all: tested in test_containers and test_attention.
APART = {"Module", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"}
APART |= {"RNNBase", "RNNCellBase", "TransformerEncoder", "TransformerDecoder"}
# Tested in test_rarer_modules.
APART |= {"AdaptiveLogSoftmaxWithLoss", "CrossMapLRN2d", "DataParallel"}
APART |= {name for name in ag.nn.__all__ if name.startswith("Lazy")}


def _built(t: Any, case: Case) -> Any:
    """The module in double precision, and its inputs."""
    args = [a(t) if callable(a) else a for a in case.args]
    kwargs = {k: v(t) if callable(v) else v for k, v in case.kwargs.items()}
    return getattr(t.nn, case.name)(*args, **kwargs).double()


def _inputs(t: Any, case: Case) -> list[Any]:
    rng = numpy.random.default_rng(0)
    found = []
    for each in case.inputs:
        if callable(each):
            found.append(each(t))
        else:
            value = t.from_numpy(rng.normal(size=each) if each else numpy.array(rng.normal()))
            found.append(value.requires_grad_())
    return found


def _flat(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [part for each in value for part in _flat(each)]
    return [] if value is None else [value]


def _observed(t: Any, module: Any, case: Case) -> list[Any]:
    """Outputs, gradients of inputs and parameters, and buffers after two calls."""
    inputs = _inputs(t, case)
    call = {k: v(t) if callable(v) else v for k, v in case.call.items()}
    module(*inputs, **call)
    module.zero_grad()
    outputs = _flat(module(*inputs, **call))
    total = sum((o * (o.detach() + 1)).sum() for o in outputs if o.requires_grad)
    if isinstance(total, t.Tensor):
        total.backward()
    leaves = [*inputs, *module.parameters()]
    grads = [x.grad for x in _flat(leaves)]
    return [o.detach() for o in outputs] + grads + [b.detach() for b in module.buffers()]


def _same(ours: list[Any], theirs: list[Any], what: str, rtol: float = 1e-9) -> None:
    assert len(ours) == len(theirs)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a is None or b is None:
            assert a is b, f"{what} {i}: {a} and {b}"
            continue
        assert tuple(a.shape) == tuple(b.shape), f"{what} {i}"
        assert str(a.dtype) == str(b.dtype), f"{what} {i}"
        numpy.testing.assert_allclose(
            a.numpy(), b.numpy(), rtol=rtol, atol=rtol / 10, err_msg=f"{what} {i}"
        )


def _pair(case: Case) -> tuple[Any, Any]:
    ours, theirs = _built(ag, case), _built(torch, case)
    with torch.no_grad():
        for i, p in enumerate(theirs.parameters()):
            p.copy_(torch.from_numpy(numpy.random.default_rng(i).normal(size=tuple(p.shape)) / 2))
    state = {k: ag.from_numpy(v.numpy().copy()) for k, v in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    return ours, theirs


@pytest.mark.parametrize("case", CASES, ids=label)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_as_torch(case: Case) -> None:
    ours, theirs = _pair(case)
    assert repr(ours) == repr(theirs)
    for mode in (True, False) if case.train else (False,):
        ours.train(mode)
        theirs.train(mode)
        expected = _observed(torch, theirs, case)
        _same(_observed(ag, ours, case), expected, f"training={mode}", case.rtol)


@pytest.mark.parametrize("case", CASES, ids=label)
def test_copies(case: Case) -> None:
    """A deep copy and a pickled one compute the same and share nothing."""
    module = _built(ag, case).eval()
    expected = _observed(ag, copy.deepcopy(module), case)
    _same(_observed(ag, module, case), expected, "copied")
    other = pickle.loads(pickle.dumps(module))
    _same(_observed(ag, other, case), expected, "pickled")
    assert not {id(p) for p in other.parameters()} & {id(p) for p in module.parameters()}


def _names() -> list[str]:
    return sorted(n for n in ag.nn.__all__ if inspect.isclass(getattr(ag.nn, n)))


@pytest.mark.parametrize("name", _names())
def test_arguments_are_torchs(name: str) -> None:
    """The same names in the same order with the same defaults (functions by their name)."""
    ours, theirs = getattr(ag.nn, name), getattr(torch.nn, name)
    if name in ("Module", "Parameter", "Buffer"):
        return
    told = []
    for cls in (ours, theirs):
        found = {k: p for k, p in inspect.signature(cls.__init__).parameters.items() if k != "self"}
        if cls.__init__ in (torch.nn.Module.__init__, ag.nn.Module.__init__):
            found = {}  # it takes anything and refuses it then
        told.append([(k, _default(p), p.kind.name) for k, p in found.items()])
    assert told[0] == told[1]


def _default(parameter: inspect.Parameter) -> Any:
    return getattr(parameter.default, "__name__", parameter.default)


def test_every_module_is_tried() -> None:
    tried = {case.name for case in CASES} | APART
    modules = {n for n in _names() if issubclass(getattr(ag.nn, n), ag.nn.Module)}
    assert modules <= tried
    theirs = {n for n in dir(torch.nn) if inspect.isclass(getattr(torch.nn, n))}
    theirs = {n for n in theirs if issubclass(getattr(torch.nn, n), torch.nn.Module)}
    assert theirs - modules <= ELSEWHERE


@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "ConvTranspose2d"])
def test_a_number_of_numpys_counts_for_every_dimension(name: str) -> None:
    two = numpy.int64(2)
    module = getattr(ag.nn, name)(2, 3, two, stride=two)
    plain = getattr(ag.nn, name)(2, 3, 2, stride=2)
    plain.load_state_dict(module.state_dict())
    x = ag.ones(1, 2, *[6] * (module.weight.ndim - 2))
    assert module(x).tolist() == plain(x).tolist()
