"""Calls that people get wrong: torch's exception, torch's phrase, and the values in it."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy
import pytest

import ag_visual
from tests.oracle import every_warning, torch


def ones(t: Any, *shape: int) -> Any:
    return t.ones(shape)


def double(t: Any, *shape: int) -> Any:
    return t.ones(shape, dtype=t.float64)


# The call, the exception and its words.
MISTAKES: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (
        lambda t: t.nn.Linear(3, 2)([1.0, 2.0, 3.0]),
        TypeError,
        "linear(): argument 'input' (position 1) must be Tensor, not list",
    ),
    (
        lambda t: t.relu(3),
        TypeError,
        "relu(): argument 'input' (position 1) must be Tensor, not int",
    ),
    (
        lambda t: t.where(1),
        TypeError,
        "where(): argument 'condition' (position 1) must be Tensor, not int",
    ),
    (
        lambda t: t.flatten([1]),
        TypeError,
        "flatten(): argument 'input' (position 1) must be Tensor, not list",
    ),
    (
        lambda t: ones(t, 2, 2) @ double(t, 2, 2),
        RuntimeError,
        "expected m1 and m2 to have the same dtype, but got: float != double",
    ),
    (
        lambda t: t.nn.Linear(2, 2)(double(t, 1, 2)),
        RuntimeError,
        "mat1 and mat2 must have the same dtype, but got Double and Float",
    ),
    (
        lambda t: t.nn.functional.linear(ones(t, 2, 2), ones(t, 2, 2), double(t, 2)),
        RuntimeError,
        "self and mat2 must have the same dtype, but got Double and Float",
    ),
    (
        lambda t: ones(t, 1, 2, 2) @ double(t, 1, 2, 2),
        RuntimeError,
        "expected scalar type Float but found Double",
    ),
    (
        lambda t: ones(t, 2) @ double(t, 2),
        RuntimeError,
        "dot : expected both vectors to have same dtype, but found Float and Double",
    ),
    (
        lambda t: t.einsum("ij,jk", ones(t, 2, 3), ones(t, 4, 2)),
        RuntimeError,
        "einsum(): subscript j has size 4 for operand 1 which does not broadcast with previously "
        "seen size 3",
    ),
    (
        lambda t: t.einsum("ij,jk->iz", ones(t, 2, 3), ones(t, 3, 2)),
        RuntimeError,
        "einsum(): output subscript z does not appear in the equation for any input operand",
    ),
    (
        lambda t: t.einsum("ij", ones(t, 2)),
        RuntimeError,
        "does not match the number of dimensions (1) for operand 0 and no ellipsis was given",
    ),
    (
        lambda t: t.einsum("i,i", ones(t, 2), [1, 2]),
        TypeError,
        "expected Tensor as element 1 in argument 1, but got list",
    ),
    (
        lambda t: ones(t, 4, 5)[ones(t, 4, 3) > 0],
        IndexError,
        "The shape of the mask [4, 3] at index 1 does not match the shape of the indexed tensor "
        "[4, 5] at index 1",
    ),
    (
        lambda t: t.einsum("ij->ii", ones(t, 2, 2)),
        RuntimeError,
        "einsum(): output subscript i appears more than once in the output",
    ),
    (
        lambda t: t.einsum("ij", ones(t, 2, 2), ones(t, 2, 2)),
        RuntimeError,
        "einsum(): more operands were provided than specified in the equation",
    ),
    (
        lambda t: t.einsum("ij,jk", ones(t, 2, 2)),
        RuntimeError,
        "einsum(): fewer operands were provided than specified in the equation",
    ),
    (
        lambda t: t.einsum("i$", ones(t, 2, 2)),
        RuntimeError,
        "einsum(): invalid subscript given at index 1 in the equation string",
    ),
    (
        lambda t: t.einsum("ij->i->i", ones(t, 2, 2)),
        RuntimeError,
        "einsum(): invalid subscript given at index 5 in the equation string",
    ),
    (
        lambda t: t.einsum("i..", ones(t, 2, 2, 2)),
        RuntimeError,
        "einsum(): found '.' for operand 0 that is not part of any ellipsis",
    ),
    (
        lambda t: t.einsum("...i->......i", ones(t, 2)),
        RuntimeError,
        "einsum(): found '.' for output but an ellipsis (...) was already found",
    ),
    (
        lambda t: t.einsum("i"),
        ValueError,
        "einsum(): must specify the equation string and at least one operand",
    ),
    (
        lambda t: t.einsum(ones(t, 2), [52]),
        ValueError,
        "einsum(): subscript in subscript list is not within the valid range [0, 52)",
    ),
    (
        lambda t: t.einsum([0], ones(t, 2)),
        TypeError,
        "einsum(): argument 'equation' (position 1) must be str, not list",
    ),
    (
        lambda t: t.mm(ones(t, 2, 2), ones(t, 2)),
        RuntimeError,
        "mat2 must be a matrix",
    ),
    (
        lambda t: t.bmm(ones(t, 2, 2, 2), ones(t, 2, 2)),
        RuntimeError,
        "batch2 must be a 3D tensor",
    ),
    (
        lambda t: ones(t, 3, 4).gather(1, t.zeros((5, 1), dtype=t.int64)),
        RuntimeError,
        "Size does not match at dimension 0 expected index [5, 1] to be no larger than self [3, 4]",
    ),
    (
        lambda t: t.nn.functional.cross_entropy(ones(t, 4, 3), t.zeros((4, 1), dtype=t.int64)),
        RuntimeError,
        "0D or 1D target tensor expected, multi-target not supported",
    ),
    (
        lambda t: t.nn.functional.nll_loss(
            ones(t, 4, 3), t.zeros(4, dtype=t.int64), weight=ones(t, 2)
        ),
        RuntimeError,
        "for all 3 classes or no classes but got weight tensor of shape: [2]",
    ),
    (
        lambda t: t.nn.MultiheadAttention(2, 1)(
            *[ones(t, 5, 1, 2)] * 3, key_padding_mask=ones(t, 3, 5) > 0
        ),
        AssertionError,
        "Expected key_padded_mask.shape[0] to be 1, but got 3",
    ),
    (
        lambda t: t.nn.GRU(3, 4)(ones(t, 3)),
        ValueError,
        "GRU: Expected input to be 2D or 3D, got 1D instead",
    ),
    (
        lambda t: "a" in ones(t, 2),
        RuntimeError,
        "Tensor.__contains__ only supports Tensor or scalar, but you passed in a <class 'str'>",
    ),
    (
        lambda t: ones(t, 2) - True,
        RuntimeError,
        "Subtraction, the `-` operator, with a bool tensor is not supported",
    ),
    (
        lambda t: True - ones(t, 2),
        RuntimeError,
        "Subtraction, the `-` operator, with a bool tensor is not supported",
    ),
    (
        lambda t: (ones(t, 2) > 0) - True,
        RuntimeError,
        "Subtraction, the `-` operator, with two bool tensors is not supported",
    ),
    (
        lambda t: t.stack([1, 2]),
        TypeError,
        "expected Tensor as element 0 in argument 0",
    ),
    (
        lambda t: t.nn.Parameter(t.ones(2, dtype=t.int64)),
        RuntimeError,
        "Only Tensors of floating point and complex dtype can require gradients",
    ),
    (
        lambda t: t.ones(2, requires_grad=True).exp().backward([1, 1]),
        TypeError,
        "gradients can be either Tensors or None, but got int",
    ),
    (
        lambda t: t.nn.functional.one_hot(ones(t, 2)),
        RuntimeError,
        "one_hot is only applicable to index tensor of type LongTensor",
    ),
    (lambda t: float(ones(t, 2)), ValueError, "only one element tensors can be converted to Py"),
    (lambda t: int(ones(t, 0)), ValueError, "only one element tensors can be converted to Python"),
    (lambda t: complex(ones(t, 2)), ValueError, "only one element tensors can be converted to"),
    (lambda t: math.floor(ones(t, 2)), ValueError, "only one element tensors can be converted"),
    (lambda t: ones(t, 2).item(), RuntimeError, "a Tensor with 2 elements cannot be converted to"),
    (lambda t: bool(ones(t, 2)), RuntimeError, "Boolean value of Tensor with more than one value"),
    (lambda t: bool(ones(t, 0)), RuntimeError, "Boolean value of Tensor with no values is ambig"),
    (
        lambda t: operator.index(t.ones(2, dtype=t.int64)),
        TypeError,
        "only integer tensors of a single element can be converted to an index",
    ),
    (
        lambda t: [1, 2][ones(t)],
        TypeError,
        "only integer tensors of a single element can be converted to an index",
    ),
    (
        lambda t: float(t.tensor(1j)),
        RuntimeError,
        "value cannot be converted to type double without overflow",
    ),
    (
        lambda t: int(t.tensor(1j)),
        RuntimeError,
        "value cannot be converted to type int64_t without overflow",
    ),
    (lambda t: ~ones(t, 2), TypeError, "~ (operator.invert) is only implemented on integer and"),
    (lambda t: t.tensor([1, "a"]), TypeError, "new(): invalid data type 'str'"),
    (lambda t: t.tensor(["a", 1]), ValueError, "too many dimensions 'str'"),
    (
        lambda t: t.ones(2, dtype=t.int64).softmax(0),
        NotImplementedError,
        "not implemented for 'Long'",
    ),
    (lambda t: ones(t, 2).size("a"), TypeError, "must be int, not str"),
    (lambda t: ones(t, 2).new(2.0), TypeError, "new(): data must be a sequence (got float)"),
    (
        lambda t: t.ones(2, requires_grad=True).apply_(lambda v: v),
        RuntimeError,
        "Can't call apply_() on Variable that requires grad. Use var.detach().apply_() instead",
    ),
    (lambda t: ones(t, 2).map_(3, max), TypeError, "must be Tensor, not int"),
    (
        lambda t: t.relu(numpy.ones(2)),
        TypeError,
        "relu(): argument 'input' (position 1) must be Tensor, not numpy.ndarray",
    ),
    (
        lambda t: t.cat([numpy.ones(2)]),
        TypeError,
        "expected Tensor as element 0 in argument 0",
    ),
    (lambda t: t.cat([numpy.ones(2)]), TypeError, "but got numpy.ndarray"),
    (lambda t: t.add(ones(t, 2), 1, out=numpy.ones(2)), TypeError, "not numpy.ndarray"),
    (lambda t: t.matmul(ones(t, 2), numpy.ones(2)), TypeError, "not numpy.ndarray"),
]

# Calls that torch refuses: type and first line of the error are the same here.
LINES: list[Callable[[Any], Any]] = [
    lambda t: t.nn.functional.max_pool2d(ones(t, 1, 1, 4, 4), 2, stride=0),
    lambda t: t.nn.functional.max_pool2d(ones(t, 1, 1, 4, 4), 2, dilation=0),
    lambda t: t.nn.functional.max_pool2d(ones(t, 1, 1, 4, 4), -1),
    lambda t: t.nn.functional.max_pool2d(ones(t, 1, 1, 4, 4), 2, (2, 2, 2)),
    lambda t: t.nn.functional.max_pool1d(ones(t, 1, 1, 4), 2, padding=2),
    lambda t: t.nn.functional.max_pool1d(ones(t, 1, 1, 4), 5),
    lambda t: t.nn.functional.avg_pool1d(ones(t, 1, 1, 4), (2, 2)),
    lambda t: t.nn.functional.avg_pool2d(ones(t, 1, 1, 4, 4), 2, None, -1),
    lambda t: t.nn.functional.avg_pool3d(ones(t, 1, 1, 1, 4, 4), 2, padding=1),
    lambda t: t.nn.functional.avg_pool3d(ones(t, 1, 1, 4, 4, 4), 2, (2, 2)),
    lambda t: t.nn.functional.adaptive_avg_pool2d(ones(t, 1, 1, 4, 4), (1, 2, 3)),
    lambda t: t.nn.functional.adaptive_avg_pool2d(ones(t, 1, 1, 4, 4), (-1, 2)),
    lambda t: t.nn.functional.adaptive_avg_pool2d(ones(t, 1, 1, 0, 4), 2),
    lambda t: t.nn.functional.adaptive_max_pool1d(ones(t, 1, 1, 0), 1),
    lambda t: t.nn.functional.max_unpool3d(
        ones(t, 1, 1, 2, 2, 2), t.zeros((1, 1, 2, 2, 2), dtype=t.int64), 2, 0
    ),
    lambda t: t.nn.functional.prelu(ones(t, 2, 8, 3), ones(t, 2, 4)),
    lambda t: t.nn.functional.hardtanh(ones(t, 2), 1, -1),
    lambda t: t.nn.functional.softshrink(ones(t, 2), -0.5),
    lambda t: t.allclose(ones(t, 2), ones(t, 2), rtol=-1),
    lambda t: t.diff(ones(t, 3), n=-1),
    lambda t: t.diff(t.ones(())),
    lambda t: t.arange(0, 5, 0.5, dtype=t.int64),
    lambda t: t.arange(5, 0),
    lambda t: t.linspace(ones(t, 2), ones(t, 2), 1),
    lambda t: ones(t, 4).hsplit(0),
    lambda t: ones(t, 4, 4, 4).dsplit(0),
    lambda t: t.vstack([]),
    lambda t: t.column_stack([]),
    lambda t: t.cat([ones(t, 2), None]),
    lambda t: t.hstack([ones(t, 2), 3]),
    lambda t: t.stack(ones(t, 2)),
    lambda t: t.amax(ones(t, 5, 0, 5)),
    lambda t: t.aminmax(ones(t, 5, 0, 5), dim=1),
    lambda t: t.max(ones(t, 0, 2), 0),
    lambda t: t.ormqr(t.ones(()), t.ones(()), t.ones(())),
    lambda t: t.rot90(ones(t, 5)),
    lambda t: t.narrow(ones(t, 4), 0, t.tensor(True), 1),
    lambda t: t.multinomial(t.ones((1, 2), dtype=t.int64), 2),
    lambda t: t.full((2,), 300, dtype=t.uint8),
    lambda t: t.ones(2, dtype=t.int32).fill_(2**40),
    lambda t: t.ones(2, dtype=t.int64).masked_fill(t.tensor(True), t.tensor(1j)),
    lambda t: ones(t, 2, 2).index_put_((ones(t, 2, 2) > 0,), ones(t, 2, 2)),
    lambda t: ones(t, 2, 2).__setitem__(ones(t, 2, 2) > 0, ones(t, 2, 1, 4)),
    lambda t: ones(t, 2, 2)[t.tensor([5])],
    lambda t: ones(t, 3, 3).index_copy(0, t.tensor([5]), ones(t, 1, 3)),
    lambda t: t.nn.functional.conv2d(ones(t, 1, 1, 4, 4), ones(t, 1, 1, 2, 2).double()),
    lambda t: t.nn.functional.conv2d(ones(t, 1, 1, 4, 4), ones(t, 1, 1, 2, 2), groups=0),
    lambda t: t.nn.functional.conv2d(ones(t, 1, 2, 4, 4), ones(t, 1, 1, 2, 2), groups=2),
    lambda t: t.nn.functional.conv_transpose2d(ones(t, 1, 1, 4, 4), ones(t, 1, 1, 2, 2), padding=9),
    lambda t: t.nn.functional.interpolate(t.zeros(1, 1, 4), size=(2.5,)),
    lambda t: t.nn.functional.cosine_embedding_loss(ones(t, 5, 2), ones(t, 5, 2), ones(t, 5, 1)),
    lambda t: t.nn.functional.cosine_embedding_loss(ones(t, 5), ones(t, 5), ones(t, 5)),
    lambda t: t.nn.functional.gaussian_nll_loss(ones(t, 2, 3), ones(t, 2, 3), ones(t, 2, 2)),
    lambda t: t.nn.ReflectionPad2d(2)(ones(t, 1, 0, 10, 10)),
    lambda t: t.nn.ReplicationPad1d(2)(ones(t, 1, 1, 0)),
    lambda t: t.nn.functional.pad(ones(t, 1, 1, 2, 2), (-3, 1, 0, 0)),
    lambda t: t.nn.functional.pad(ones(t, 2), (1,)),
    lambda t: t.nn.functional.fold(ones(t, 1, 9, 9), (1, 1), (3, 3)),
    lambda t: t.nn.Linear(1, 1).to("cpu", copy=True),
    lambda t: operator.add(t.Size((1, 2)), [3]),
    lambda t: t.nn.functional.celu(ones(t, 2), 0),
    lambda t: t.nn.functional.pixel_shuffle(ones(t, 1, 4, 2, 2), 2**40),
    lambda t: t.nn.Unflatten(1, 3),
    lambda t: ones(t, 3).scatter(0, t.tensor([0]), ones(t, 1, 1)),
    lambda t: ones(t, 3, 3).scatter(0, t.tensor([0]), ones(t, 1, 1)),
    lambda t: ones(t, 3, 3).gather(0, t.tensor([0])),
    lambda t: ones(t, 2).apply_(lambda value: "a"),
    lambda t: t.ones(2, requires_grad=True) @ numpy.ones(2, numpy.float32),
]


@pytest.mark.oracle
@pytest.mark.parametrize("case", range(len(LINES)))
def test_what_torch_refuses_is_refused_in_its_line(case: int) -> None:
    seen = []
    for t in (ag_visual, torch):
        with pytest.raises(Exception) as caught:
            LINES[case](t)
        seen.append((type(caught.value).__name__, str(caught.value).splitlines()[0]))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("give", [("cpu", "cpu"), ("float32", "cpu"), ("cpu", "float32", "cpu")])
def test_to_takes_a_device_and_then_a_dtype(give: tuple[str, ...]) -> None:
    for t in (ag_visual, torch):
        if t.__version__:
            given = [t.float32 if each == "float32" else each for each in give]
            for moved in (ones(t, 2), t.nn.Linear(1, 1)):
                with pytest.raises(TypeError, match=r"^to\(\) received an invalid combination of"):
                    moved.to(*given)


def test_a_product_with_an_array_of_numpy_is_a_tensor() -> None:
    for kind in (numpy.float32, numpy.float64):
        made = ones(ag_visual, 2, 2) @ numpy.ones((2, 2), kind)
        assert isinstance(made, ag_visual.Tensor)
        assert made.dtype.np == kind


class FakeArray:
    """An array of a library that is not installed here."""

    __module__ = "jaxlib._jax"

    def __dlpack__(self) -> None:
        """What such arrays are known by."""


@pytest.mark.parametrize("made", [lambda: torch.ones(2), lambda: FakeArray()], ids=["torch", "jax"])
@pytest.mark.parametrize(
    "call",
    [
        lambda v: ag_visual.relu(v),
        lambda v: ag_visual.add(ag_visual.ones(2), v),
        lambda v: ag_visual.cat([v]),
        lambda v: ag_visual.matmul(ag_visual.ones(2), v),
        lambda v: ag_visual.add(ag_visual.ones(2), 1, out=v),
        lambda v: ag_visual.where(v, 1, 2),
        lambda v: ag_visual.nn.Linear(2, 2)(v),
        lambda v: ag_visual.nn.Parameter(v),
        lambda v: ag_visual.nn.Buffer(v),
        lambda v: ag_visual.autograd.backward([v]),
        lambda v: ag_visual.ones(2, requires_grad=True).sum().backward(v),
        lambda v: ag_visual.clamp(ag_visual.ones(2), v),
        lambda v: ag_visual.sum(ag_visual.ones(2), v),
    ],
)
def test_arrays_of_another_library_are_called_by_it(
    made: Callable[[], Any], call: Callable[[Any], Any]
) -> None:
    """Its class, too, may be called Tensor."""
    value = made()
    name = "jaxlib.FakeArray" if isinstance(value, FakeArray) else "torch.Tensor"
    with pytest.raises((TypeError, RuntimeError), match=name.replace(".", r"\.")):
        call(value)


# The call, and the words of its warning ("" for none).
WARNED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda t: float(t.ones(1, requires_grad=True)), "Converting a tensor with requires_grad=True"),
    (lambda t: complex(t.ones(1, requires_grad=True)), "Converting a tensor with requires_grad="),
    (lambda t: int(t.ones(1, requires_grad=True)), ""),
    (lambda t: bool(t.ones(1, requires_grad=True)), ""),
    (lambda t: t.ones(1, requires_grad=True).item(), ""),
    (lambda t: float(t.tensor(1 + 0j)), ""),
    (
        lambda t: t.nn.functional.kl_div(ones(t, 2), ones(t, 2), reduction="mean"),
        "reduction: 'mean' divides the total loss by both the batch size and the support size",
    ),
    (lambda t: t.nn.KLDivLoss()(ones(t, 2), ones(t, 2)), "reduction: 'mean' divides the total"),
    (lambda t: t.nn.functional.kl_div(ones(t, 2), ones(t, 2), reduction="sum"), ""),
    (lambda t: t.nn.functional.softmax(ones(t, 2)), "Implicit dimension choice for softmax has"),
    (lambda t: t.nn.functional.log_softmax(ones(t, 2)), "Implicit dimension choice for log_soft"),
    (lambda t: t.nn.functional.softmin(ones(t, 2)), "Implicit dimension choice for softmin has"),
    (lambda t: t.nn.Softmax()(ones(t, 2)), "Implicit dimension choice for softmax has been depr"),
    (lambda t: t.softmax(ones(t, 2), 0, t.float64), ""),
    (lambda t: ones(t, 1).var(), "var(): degrees of freedom is <= 0. Correction should be strict"),
    (lambda t: ones(t, 2, 1).std(1), "std(): degrees of freedom is <= 0. Correction should be s"),
    (lambda t: ones(t, 3).var(correction=0), ""),
    (
        lambda t: t.autograd.Variable(ones(t, 2), volatile=True),
        "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
    ),
    (lambda t: ones(t, 2).volatile, "volatile was removed (Variable.volatile is always False)"),
    (
        lambda t: t.nn.functional.mse_loss(ones(t, 2), ones(t, 2), size_average=True),
        "size_average and reduce args will be deprecated, please use reduction='mean' instead.",
    ),
]


@pytest.mark.parametrize("case", range(len(WARNED)))
def test_what_is_doubtful_warns_in_torch_words(case: int) -> None:
    call, words = WARNED[case]
    for t in (ag_visual, torch):
        if not t.__version__:
            continue
        once = every_warning() if t is torch else nullcontext()
        with once, warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call(t)
        told = [str(each.message) for each in seen if each.category is UserWarning]
        assert len(told) == bool(words)
        assert all(words in each for each in told)
        if t is ag_visual:
            places = {each.filename for each in seen if each.category is UserWarning}
            assert places <= {__file__}


@pytest.mark.parametrize("case", range(len(MISTAKES)))
def test_a_mistake_is_told_in_torch_words(case: int) -> None:
    call, kind, words = MISTAKES[case]
    with pytest.raises(kind) as ours:
        call(ag_visual)
    assert words in str(ours.value)
    if torch.__version__:
        with pytest.raises(kind) as theirs:
            call(torch)
        assert words in str(theirs.value)


def test_a_missing_attribute_of_a_tensor_stays_what_it_is() -> None:
    x = ones(ag_visual, 2)

    class Odd:
        @property
        def shape(self) -> Any:
            return x.no_such_thing

    with pytest.raises(AttributeError, match="no_such_thing"):
        ag_visual.flatten(Odd())


@pytest.mark.parametrize(
    ("layer", "hidden", "words"),
    [
        ("LSTM", lambda h: h, r"LSTM: .* must be a tuple \(h, c\) of Tensors, but got Tensor"),
        ("LSTM", lambda h: (h,), r"LSTM: .* a tuple \(h, c\) of Tensors, but got \(Tensor\)"),
        ("GRU", lambda h: (h, h), r"GRU: .* must be one Tensor, but got \(Tensor, Tensor\)"),
    ],
)
def test_a_hidden_state_of_another_layer_is_told(layer: str, hidden: Any, words: str) -> None:
    module = getattr(ag_visual.nn, layer)(2, 3)
    with pytest.raises(TypeError, match=words):
        module(ones(ag_visual, 5, 1, 2), hidden(ones(ag_visual, 1, 1, 3)))
