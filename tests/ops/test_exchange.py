"""Memory that tensors share with buffers, NumPy and torch; what is refused; resize_ and set_."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.arrays import backend_for

from ..arrays.strict import STRICT
from ..oracle import torch
from .side_by_side import compare, compare_failure, each_expression, each_failure

SAME = """
t.frombuffer(bytearray(range(8)), dtype=t.int16)
t.frombuffer(bytearray(range(8)), dtype=t.int16, count=2, offset=2)
t.frombuffer(bytearray(8), dtype=t.float32, requires_grad=True)
t.frombuffer(b"abcd", dtype=t.uint8)
t.from_dlpack(np.arange(3.))
t.from_dlpack(t.arange(3.).__dlpack__())
t.from_dlpack(t.to_dlpack(t.arange(3.)))
t.from_dlpack(t.arange(3.), copy=True)
t.asarray(bytearray(4))
t.asarray(bytearray(4), dtype=t.uint8, copy=True)
t.asarray(3)
t.asarray([])
t.asarray(np.float64(3))
t.asarray(np.arange(4.).reshape(2, 2).T)
t.asarray([[1, 2], [3, 4]], dtype=t.float64, requires_grad=True)
t.asarray(m, requires_grad=False)
t.asarray(m * 2)
t.asarray(m * 2, copy=True)
t.asarray(m.detach(), dtype=t.float32)
t.empty_permuted((2, 3, 5), (0, 2, 1)).zero_()
y = t.arange(4.); y.resize_(2)
y = t.arange(4.); y.resize_((2, 2))
y = t.arange(4.)[1:]; y.resize_(2)
y = t.arange(4.); y.resize_as_(t.zeros(3))
y = t.ones(3); y.set_(t.arange(4.))
y = t.ones(3); y.set_(t.arange(6.), 1, (2, 2), (2, 1))
y = t.ones(3); y.set_()
y = t.arange(6.); y.resize_(2); y = y.resize_(6)
y = t.arange(6.); y[3:3].resize_(2).fill_(9)
y = t.arange(6.); y.split([2, 0, 4])[1].resize_(2).fill_(9)
y = t.arange(6.); t.mul(t.ones(2), 9, out=y[3:3])
y = t.arange(6.).view(2, 3); t.mul(t.ones(1), 9, out=y[1:, 2:2])
"""

ERRORS = """
t.frombuffer(bytearray(), dtype=t.uint8) | both buffer length (0) and count (-1) must not be 0
t.frombuffer(bytearray(8), dtype=t.float32, count=0) | and count (0) must not be 0
t.frombuffer(bytearray(8), dtype=t.float32, offset=8) | offset (8 bytes) must be non-negative
t.frombuffer(bytearray(7), dtype=t.float32) | must be a multiple of element size (4)
t.frombuffer(bytearray(8), dtype=t.float32, count=4) | requested buffer length (4 * 4 bytes)
t.frombuffer(3, dtype=t.float32) | object does not implement Python buffer protocol.
t.frombuffer(bytearray(8), dtype=t.int32, requires_grad=True) | can require gradients
t.from_dlpack(m) | Can't export tensors that require gradient, use tensor.detach()
m.__dlpack__() | Can't export tensors that require gradient, use tensor.detach()
m.detach().__dlpack__(stream=1) | stream should be None on cpu
t.from_dlpack(3) | from_dlpack received an invalid capsule
m.__cuda_array_interface__ | Can't get __cuda_array_interface__ on non-CUDA tensor type
t.asarray([1, 2], copy=False) | can't alias arbitrary sequence into a tensor.
t.asarray(m, dtype=t.float32, copy=False) | can't alias tensor with dtype 'Double' into dtype
t.asarray(i, requires_grad=True) | can require gradients
t.asarray("a") | invalid data type
m.resize_(2) | cannot resize variables that require grad
m.resize_as_(v) | cannot resize variables that require grad
t.ones(3).resize_() | missing 1 required positional argument
v.set_(t.zeros(2, dtype=t.float64)) | a leaf Variable that requires grad
t.ones(3).set_(t.arange(6)) | Could not set tensor of type
t.empty_permuted((2, 3), (0, 0)) | Duplicate dim not allowed
t.empty_permuted((2, 3), (0,)) | Number of dimensions in size does not match the length
t.set_default_device("foo") | device type at start of device string: foo
t.set_default_tensor_type(t.LongTensor) | only floating-point types are supported
"""


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@each_expression(SAME)
def test_as_torch(expression: str) -> None:
    compare(expression)


@pytest.mark.oracle
@each_failure(ERRORS)
def test_errors_as_torch(expression: str, phrase: str) -> None:
    compare_failure(expression, phrase)


def _buffer() -> tuple[Any, Any]:
    memory = bytearray(8)
    return numpy.frombuffer(memory, numpy.float32), ag.frombuffer(memory, dtype=ag.float32)


def _dlpack() -> tuple[Any, Any]:
    array = numpy.zeros(2)
    return array, ag.from_dlpack(array)


def _from_torch() -> tuple[Any, Any]:
    theirs = torch.zeros(2)
    return theirs.numpy(), ag.from_dlpack(theirs)


def _to_torch() -> tuple[Any, Any]:
    ours = ag.zeros(2)
    return torch.from_dlpack(ours).numpy(), ours


def _to_numpy() -> tuple[Any, Any]:
    ours = ag.zeros(2)
    return numpy.from_dlpack(ours), ours


def _interface() -> tuple[Any, Any]:
    ours = ag.zeros(2)
    shown = type("Shown", (), {"__array_interface__": ours.__array_interface__, "kept": ours})()
    return numpy.asarray(shown), ours


def _asarray() -> tuple[Any, Any]:
    array = numpy.zeros(2)
    return array, ag.asarray(array)


WAYS = [_buffer, _dlpack, _to_numpy, _interface, _asarray]
TORCH_WAYS = [pytest.param(way, marks=pytest.mark.oracle) for way in (_from_torch, _to_torch)]


@pytest.mark.parametrize("way", [*WAYS, *TORCH_WAYS])
def test_memory_is_shared_both_ways(way: Any) -> None:
    array, tensor = way()
    if array.flags.writeable:
        array[0] = 3.0
        assert tensor[0].item() == 3.0
    tensor[1] = 4.0
    assert array[1] == 4.0


def test_a_buffer_that_cannot_be_written_warns() -> None:
    with pytest.warns(UserWarning, match="is not writable"):
        ag.frombuffer(b"abcd", dtype=ag.uint8)


def test_a_capsule_is_consumed_once() -> None:
    capsule = ag.zeros(2).__dlpack__()
    ag.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="consumed only once"):
        ag.from_dlpack(capsule)


def test_a_tensor_that_needs_grad_does_not_become_an_array() -> None:
    x = ag.zeros(2, requires_grad=True)
    assert not hasattr(x, "__array_interface__")
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        numpy.asarray(x)
    assert not hasattr(ag.zeros(2, dtype=ag.bfloat16), "__array_interface__")
    with pytest.raises(BufferError, match="bfloat16"):
        ag.zeros(2, dtype=ag.bfloat16).__dlpack__()


@pytest.mark.parametrize("share", [ag.from_dlpack, lambda x: ag.zeros(0).set_(x)])
def test_writes_to_shared_memory_are_noticed(share: Any) -> None:
    """The other tensor has its own version, but a saved tensor that it wrote warns all the same."""
    x = ag.ones(3)
    other = share(x)
    before = x._version
    w = ag.ones(3, requires_grad=True)
    y = (w * x).sum()
    other.add_(1)
    assert x._version == before
    assert x.tolist() == [2.0, 2.0, 2.0]
    with pytest.warns(UserWarning):
        y.backward()


def test_resize_keeps_what_fits_and_refuses_to_grow_a_view() -> None:
    x = ag.arange(4.0)
    x.resize_(2, 3)
    assert x.flatten()[:4].tolist() == [0.0, 1.0, 2.0, 3.0]
    for part in (ag.arange(4.0)[2:], ag.arange(4.0)[4:]):
        with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
            part.resize_(9)
    end = ag.arange(4.0)
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"):
        ag.mul(ag.ones(1), 9, out=end[4:])
    assert end.tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 24"):
        ag.ones(3).set_(ag.arange(6.0), 3, (2, 2), (2, 1))


def test_default_device() -> None:
    kind = STRICT.device_type
    assert str(ag.get_default_device()) == "cpu"
    try:
        ag.set_default_device(kind)
        assert ag.get_default_device().type == kind
        made = [ag.ones(2), ag.tensor([1.0]), ag.rand(2), ag.arange(3), ag.full((2,), 1.0)]
        assert {each.device.type for each in made} == {kind}
        assert ag.ones(2, device="cpu").is_cpu
        with ag.device("cpu"):
            assert ag.ones(2).is_cpu
        assert ag.ones(2).device.type == kind
    finally:
        ag.set_default_device(None)
    with ag.device(kind):
        assert type(ag.zeros(1)._array) is backend_for(kind).array_type
    assert ag.ones(2).is_cpu


def test_default_tensor_type() -> None:
    try:
        ag.set_default_tensor_type("torch.DoubleTensor")
        assert ag.ones(1).dtype is ag.float64
        ag.set_default_tensor_type(ag.FloatTensor)  # type: ignore[attr-defined]
        assert ag.ones(1).dtype is ag.float32
    finally:
        ag.set_default_dtype(ag.float32)


def test_a_part_without_elements_of_a_view_of_one_number_is_resized() -> None:
    part = ag.tensor(1.0).view(-1)[1:].chunk(2, 0)[-1]
    part.resize_((2, 0))
    assert (part.shape, part.stride()) == ((2, 0), (1, 1))
