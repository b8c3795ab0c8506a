"""NumPy's numbers as arguments: they count as Python's do, not with the dtype that they have."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import ag_visual
from tests.oracle import torch
from tests.programs import agree, close, plain

CALLS = """
x * n | x + n | n * x | n + x | x - n | n - x | x / n | n / x | x ** n | n ** x | x // n | x % n
x.add(n) | x.add(1, alpha=n) | x.add(n, alpha=n) | t.add(x, x, alpha=n) | t.sub(x, x, alpha=n)
t.rsub(x, n, alpha=n) | x.clone().add_(n, alpha=n) | x.clone().mul_(n) | x.clone().pow_(n)
x.clone().clamp_(n) | x.pow(n) | x.clamp(n, n) | x.clamp(min=n) | x.clamp(max=n)
F.leaky_relu(x, n) | F.elu(x, n) | F.celu(x, n) | F.softplus(x, n, 20) | F.threshold(x, n, n)
F.hardtanh(x, n, 3) | F.hardshrink(x, n) | F.softshrink(x, n) | F.normalize(x, n)
F.normalize(x, 2, 1, n) | F.huber_loss(x, x * 2, delta=n) | F.smooth_l1_loss(x, x * 2, beta=n)
F.layer_norm(x, (3,), eps=n) | F.gaussian_nll_loss(x, x, x + 1, eps=n)
F.cosine_similarity(x, x, 1, n) | F.pairwise_distance(x, x * 2, n) | t.lerp(x, x, n)
t.addmm(x @ x.T, x, x.T, alpha=n) | t.addmm(x @ x.T, x, x.T, beta=n)
t.baddbmm((x @ x.T)[None], x[None], x.T[None], alpha=n) | t.addcmul(x, x, x, value=n)
t.addcdiv(x, x, x + 1, value=n) | t.norm(x, n) | t.norm(x, n, 1) | t.linalg.vector_norm(x, n)
t.logit(x / 10, n) | t.dist(x, x * 2, n) | t.where(x > 1, x, n) | x.masked_fill(x > 1, n)
t.fmod(x, n) | t.xlogy(x, n) | t.float_power(x, n) | t.float_power(n, x) | t.true_divide(x, n)
x.double().float_power_(n)
"""
NUMBERS = [numpy.float64(0.5), numpy.float32(0.5), numpy.float16(2), numpy.int64(1), numpy.uint8(2)]


def _listed(calls: str) -> list[str]:
    return [call.strip() for line in calls.strip().splitlines() for call in line.split("|")]


def _outcome(t: Any, call: str, number: Any, dtype: str) -> Any:
    leaf = (t.arange(6.0).reshape(2, 3) / 4 + 0.25).to(getattr(t, dtype)).requires_grad_()
    try:
        x = leaf * 1
        found = eval(call, {"t": t, "F": t.nn.functional, "x": x, "n": number})
        found.sum().backward()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        return type(error).__name__, str(error)
    name = found.grad_fn.name() if found.grad_fn is not None else ""
    return str(found.dtype)[-9:], str(leaf.grad.dtype)[-9:], name, plain(found), plain(leaf.grad)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: type(n).__name__)
def test_a_number_of_numpy_is_as_pythons(number: Any, dtype: str) -> None:
    """The same dtype, node, values and gradients as with the Python number."""
    wrong = []
    for call in _listed(CALLS):
        seen = _outcome(ag_visual, call, number, dtype)
        expected = _outcome(ag_visual, call, number.item(), dtype)
        if seen[:3] != expected[:3]:
            wrong.append(f"{call}: {seen[:3]}, not {expected[:3]}")
        else:
            close(list(seen[3:]), list(expected[3:]), call)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: type(n).__name__)
def test_dtypes_are_those_of_torch(number: Any) -> None:
    wrong = []
    for call in _listed(CALLS):
        seen, theirs = (_outcome(t, call, number, "float32")[:2] for t in (ag_visual, torch))
        if theirs[0] not in ("RuntimeError", "TypeError") and seen != theirs:
            wrong.append(f"{call}: {seen}, torch: {theirs}")
    assert not wrong, "\n".join(wrong)


def test_what_a_node_keeps_of_it_is_pythons() -> None:
    x = ag_visual.ones(2, requires_grad=True)
    kept = ag_visual.nn.functional.leaky_relu(x, numpy.float64(0.5)).grad_fn._saved_negative_slope
    assert type(kept) is float
    assert type((x ** numpy.int64(3)).grad_fn._saved_exponent) is int


SIZES = """
F.conv1d(x, w, stride=np.int64(1)) | F.conv1d(x, w, padding=np.int64(1), dilation=np.int64(2))
F.conv1d(x, w, stride=t.tensor(1)) | F.conv1d(x, w, stride=[np.int64(1)])
F.conv1d(x, w, stride=True) | F.conv1d(x, w, stride=1.0)
F.conv_transpose1d(x, w.transpose(0, 1), stride=np.int64(2), output_padding=np.int64(1))
F.max_pool1d(x, 2, stride=np.int64(1)) | F.max_pool1d(x, np.int64(2)) | F.max_pool1d(x, t.tensor(2))
F.max_pool1d(x, True) | F.max_pool1d(x, 2.0) | F.max_pool2d(x[None], np.int64(2))
F.avg_pool1d(x, np.int64(2)) | F.avg_pool2d(x[None], np.int64(2), stride=np.int64(1))
F.lp_pool1d(x, np.float64(2), np.int64(2)) | F.adaptive_avg_pool1d(x, np.int64(2))
F.adaptive_max_pool1d(x, np.int64(2)) | F.adaptive_avg_pool2d(x[None], (None, np.int64(2)))
F.unfold(x[None, None], np.int64(2)) | F.fold(t.ones(1, 4, 1), np.int64(2), np.int64(2))
F.layer_norm(x, 3) | F.layer_norm(x, np.int64(3)) | F.layer_norm(x, t.tensor(3))
F.layer_norm(x, [3]) | F.layer_norm(x, (np.int64(3),)) | F.layer_norm(x, 'a')
F.layer_norm(x, [3.0]) | F.rms_norm(x, 3) | F.rms_norm(x, [3])
t.native_layer_norm(x, 3, None, None, 1e-5) | t.split(x, np.int64(1)) | t.split(x, t.tensor(1))
x.split(np.int64(1)) | t.split(x, True) | t.split(x, 1.0) | t.split(x, [np.int64(1), 1])
t.split(x, (1, 1.0)) | t.split_with_sizes(x, 1) | t.split_with_sizes(x, np.int64(1))
x.expand((2, 2, 3), implicit=False) | x.expand(2, 2, 3, implicit=True)
x.expand(size=(2, 2, 3), implicit=True) | x.expand(2, 2, 3, implicit=1)
x.expand(2, 2, 3, implicit=None) | x.expand(2, 2, 3, explicit=True)
t.float_power(x, np.float32(0.5)) | t.float_power(np.float32(2), x) | t.float_power(x, np.int64(2))
"""


@pytest.mark.parametrize(
    "call", [c.strip() for s in SIZES.strip().splitlines() for c in s.split("|")]
)
def test_sizes_and_flags_are_taken_and_refused_as_in_torch(call: str) -> None:
    def program(t: Any) -> Any:
        known = {"t": t, "F": t.nn.functional, "np": numpy}
        x, w = t.arange(6.0).reshape(2, 3), t.ones(1, 2, 2)
        try:
            return eval(call, {**known, "x": x, "w": w})
        except (TypeError, RuntimeError) as error:
            return type(error).__name__

    agree(program)
