"""New tensors: dtypes, shapes and values as in torch; random ones in their range."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy
import pytest

import ag_visual as ag

from ..oracle import torch

SAME = """
t.tensor(1)
t.tensor(1.5)
t.tensor(True)
t.tensor(1j)
t.tensor([1, 2])
t.tensor([1, 2.5])
t.tensor([True, 2])
t.tensor([True, False])
t.tensor([[1, 2], [3, 4]])
t.tensor(((1.0, 2.0), [3, 4]))
t.tensor([])
t.tensor([[]])
t.tensor([[], []])
t.tensor([1, 2j])
t.tensor(range(3))
t.tensor([1.5], dtype=t.int64)
t.tensor([0, 1, 2], dtype=t.bool)
t.tensor([1, 2], dtype=float)
t.tensor([1, 2], dtype=t.float16)
t.tensor(np.arange(3))
t.tensor(np.arange(3, dtype=np.int16))
t.tensor(np.float64(1))
t.tensor([np.float64(1)])
t.tensor([np.float32(1), 2.0])
t.tensor([np.int32(1)])
t.tensor([1, np.float64(1)])
t.tensor([t.tensor(1.0, dtype=t.float64), 2.0])
t.tensor([t.tensor(1), 2])
t.as_tensor([1, 2])
t.as_tensor(np.ones(2))
t.as_tensor(t.ones(2), dtype=t.int64)
t.asarray([1, 2])
t.from_numpy(np.ones((2, 3)))
t.scalar_tensor(3)
t.zeros(2, 3)
t.zeros((2, 3))
t.zeros(())
t.zeros(2, 0)
t.zeros(2, dtype=t.int64)
t.zeros(2, dtype=float)
t.zeros(2, dtype=complex)
t.ones([2])
t.ones(size=(2, 2))
t.ones(t.tensor(2), 3)
t.empty(2, 3).shape
t.full((2,), 3)
t.full((2,), 3.5)
t.full((2,), True)
t.full((2,), 1j)
t.full((2,), 3, dtype=t.float64)
t.full((), t.tensor(2.5))
t.zeros_like(t.arange(3))
t.ones_like(t.arange(3), dtype=t.float32)
t.full_like(t.ones(2, 2), 7)
t.empty_like(t.ones(2, 3).t()).stride()
t.zeros_like(t.ones(2, 3).t()).stride()
t.ones(2).new_zeros(3)
t.ones(2, dtype=t.int64).new_ones((2, 2))
t.ones(2).new_full((2,), 3)
t.ones(2).new_tensor([1, 2])
t.ones(2, dtype=t.float64).new_tensor(np.arange(2))
t.ones(2, dtype=t.int32).new_empty(2).dtype
t.empty_strided((2, 3), (1, 2)).stride()
t.arange(5)
t.arange(2, 5)
t.arange(5, 2, -1)
t.arange(1, 2, 0.25)
t.arange(0, 1, 0.1)
t.arange(5.0)
t.arange(0)
t.arange(3, dtype=t.float64)
t.arange(0, 5, 2)
t.arange(t.tensor(3))
t.linspace(0, 1, 5)
t.linspace(-3, 10, 7)
t.linspace(0, 10, 5, dtype=t.int64)
t.linspace(0, 1, 1)
t.linspace(0, 1, 0)
t.linspace(1, 0, 4, dtype=t.float64)
t.logspace(0, 2, 3)
t.logspace(0, 3, 4, base=2)
t.eye(3)
t.eye(2, 3)
t.eye(2, dtype=t.int64)
t.tril_indices(3, 3)
t.triu_indices(2, 4, 1)
t.tril_indices(3, 2, -1)
t.FloatTensor([1, 2])
t.LongTensor([1, 2])
t.BoolTensor([0, 2])
t.DoubleTensor(2, 3).shape
t.Tensor([1, 2])
t.Tensor(2, 3).shape
isinstance(t.ones(1), t.FloatTensor)
isinstance(t.ones(1).double(), t.FloatTensor)
t.ones(1).type(t.LongTensor)
t.ones(1).type()
t.typename(t.ones(1))
t.typename(3)
t.is_tensor(t.ones(1))
t.is_tensor([1])
t.numel(t.ones(2, 3))
t.is_floating_point(t.ones(1))
t.is_complex(t.ones(1))
t.is_nonzero(t.ones(1))
t.result_type(t.ones(1), 1j)
t.result_type(t.arange(2), t.tensor(1.5))
t.result_type(1, 2.5)
t.promote_types(t.int64, t.float16)
t.can_cast(t.float32, t.int64)
t.broadcast_shapes((2, 1), (3,))
t.ones(1, requires_grad=True)
t.tensor([1.0], requires_grad=True)
t.strided
t.contiguous_format
t.ones(1).layout
""".strip().splitlines()

ERRORS = """
t.tensor([[1, 2], [3]]) | expected sequence of length 2 at dim 1 (got 1)
t.tensor([[1, 2], 3]) | not a sequence
t.tensor([1, [3]]) | 'list' object cannot be interpreted as
t.tensor("a") | new(): invalid data type 'str'
t.tensor(["a"]) | too many dimensions 'str'
t.tensor(None) | Could not infer dtype of NoneType
t.tensor([None]) | Could not infer dtype of NoneType
t.tensor({1: 2}) | Could not infer dtype of dict
t.tensor([2**70]) | Overflow when unpacking long long
t.tensor([300], dtype=t.uint8) | value cannot be converted to type uint8 without overflow
t.tensor([1j], dtype=t.float32) | must be real number, not complex
t.tensor([t.ones(2), t.ones(2)]) | only one element tensors can be converted to Python scalars
t.tensor([1], requires_grad=True) | Only Tensors of floating point and complex dtype can require
t.zeros(2, requires_grad=True, dtype=t.int64) | Only Tensors of floating point and complex dtype
t.arange(5, requires_grad=True) | Only Tensors of floating point and complex dtype can require
t.randint(5, (2,), requires_grad=True) | Only Tensors of floating point and complex dtype can
t.from_numpy([1]) | expected np.ndarray (got list)
t.from_numpy(np.arange(3)[::-1]) | At least one stride in the given numpy array is negative
t.from_numpy(np.array(["a"])) | can't convert np.ndarray of type numpy.str_
t.zeros(2, dtype="float32") | zeros(): argument 'dtype' must be torch.dtype, not str
t.zeros(-1) | zeros: Dimension size must be non-negative
t.ones(-1) | Trying to create tensor with negative dimension -1: [-1]
t.zeros(2.5) | zeros(): argument 'size' (position 1) must be tuple of ints, not float
t.zeros((2, 2.5)) | zeros(): argument 'size' failed to unpack the object at pos 2
t.zeros() | zeros() missing 1 required positional arguments: "size"
t.arange(0, 5, 0) | step must be nonzero
t.arange(0, 5, -1) | upper bound and lower bound inconsistent with step sign
t.linspace(0, 1, -2) | number of steps must be non-negative
t.eye(-2) | n must be greater or equal to 0, got -2
t.tensor(1.0, device="foo") | device type at start of device string: foo
t.randint(5, 2, (2,)) | random_ expects 'from' to be less than 'to', but got from=5 >= to=2
t.randint(5, 2) | argument 'size'
t.randperm(-1) | Trying to create tensor with negative dimension -1: [-1]
t.normal(0, -1, (2,)) | normal expects std >= 0.0, but found std -1
t.rand(2, dtype=t.int64) | not implemented for 'Long'
t.randn(2, dtype=t.int64) | not implemented for 'Long'
t.zeros(2, dtype=t.int64).normal_() | not implemented for 'Long'
t.zeros(2).uniform_(2, 1) | uniform_ expects to return a [from, to) range, but found from=2 > to=1
t.zeros(2).bernoulli_(2.0) | bernoulli_ expects p to be in [0, 1], but got p=2
t.zeros(2).exponential_(-1.0) | exponential_ expects lambda > 0.0, but found lambda=-1
t.bernoulli(t.tensor([2.0])) | Expected p_in >= 0 && p_in <= 1 to be true
t.bernoulli(t.tensor([1])) | not implemented for 'Long'
t.multinomial(t.ones(2), 3) | cannot sample n_sample > prob_dist.size(-1) samples without
t.multinomial(t.zeros(2), 1) | invalid multinomial distribution
t.is_nonzero(t.ones(2)) | Boolean value of Tensor with more than one value is ambiguous
""".strip().splitlines()


def _plain(value: Any) -> Any:
    if hasattr(value, "detach"):
        return (
            value.detach().numpy().tolist(),
            tuple(value.shape),
            repr(value.dtype),
            value.requires_grad,
        )
    if isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)


@pytest.mark.oracle
@pytest.mark.parametrize("expression", SAME)
def test_as_torch(expression: str) -> None:
    ours = _plain(eval(expression, {"t": ag, "np": numpy}))
    theirs = _plain(eval(expression, {"t": torch, "np": numpy}))
    if "space(" in expression and isinstance(ours, tuple):
        numpy.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)
        ours, theirs = ours[1:], theirs[1:]
    assert ours == theirs


@pytest.mark.oracle
@pytest.mark.parametrize("line", ERRORS)
def test_errors_as_torch(line: str) -> None:
    from .side_by_side import compare_failure

    expression, _, phrase = line.partition(" | ")
    compare_failure(expression, phrase)


def test_tensor_copies_and_from_numpy_shares() -> None:
    array = numpy.ones(2)
    copied, shared, again = ag.tensor(array), ag.from_numpy(array), ag.as_tensor(array)
    array[0] = 5.0
    assert (copied.tolist(), shared.tolist(), again.tolist()) == (
        [1.0, 1.0],
        [5.0, 1.0],
        [5.0, 1.0],
    )
    shared[1] = 7.0
    assert array.tolist() == [5.0, 7.0]
    assert shared.numpy() is array


def test_tensor_of_a_tensor_warns_and_as_tensor_keeps_it() -> None:
    x = ag.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        copied = ag.tensor(x)
    assert not copied.requires_grad
    assert ag.as_tensor(x) is x
    assert ag.as_tensor(x, dtype=ag.float64).grad_fn.name() == "ToCopyBackward0"


def test_an_array_that_is_read_only_warns() -> None:
    array = numpy.ones(2)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="The given NumPy array is not writable"):
        ag.from_numpy(array)


def test_asarray_copies_only_as_told() -> None:
    array = numpy.ones(2)
    assert ag.asarray(array)._array is array
    assert not numpy.shares_memory(ag.asarray(array, copy=True)._array, array)
    with pytest.raises(ValueError, match="copy=False"):
        ag.asarray([1.0], copy=False)


def test_cuda_without_cupy_names_the_extra() -> None:
    if ag.cuda.is_available():
        assert ag.zeros(1, device="cuda").is_cuda
        return
    assert ag.cuda.device_count() == 0
    with pytest.raises(RuntimeError, match=r"device 'cuda' needs CuPy.*ag-visual\[cuda12\]"):
        ag.zeros(1, device="cuda")


def test_default_dtype_decides_for_floats_and_complex() -> None:
    try:
        ag.set_default_dtype(ag.float64)
        assert (ag.tensor(1.0).dtype, ag.zeros(1).dtype) == (ag.float64, ag.float64)
        assert ag.tensor(1j).dtype is ag.complex128
        assert ag.arange(1.0).dtype is ag.float64
        assert ag.tensor(1).dtype is ag.int64
    finally:
        ag.set_default_dtype(ag.float32)


# Random -----------------------------------------------------------------------------------------

RANDOM = {
    "rand(1000)": (0.0, 1.0, 0.5, 0.0833),
    "randn(4000)": (-9.0, 9.0, 0.0, 1.0),
    "randint(5, (2000,))": (0, 4, 2.0, 2.0),
    "randint(2, 5, (2000,))": (2, 4, 3.0, 0.667),
    "normal(3.0, 0.5, (4000,))": (-3.0, 9.0, 3.0, 0.25),
    "zeros(4000).normal_(1.0, 2.0)": (-19.0, 19.0, 1.0, 4.0),
    "zeros(2000).uniform_(2.0, 4.0)": (2.0, 4.0, 3.0, 0.333),
    "zeros(2000).random_(3)": (0, 2, 1.0, 0.667),
    "zeros(2000).random_(1, 3)": (1, 2, 1.5, 0.25),
    "zeros(4000).exponential_(2.0)": (0.0, 50.0, 0.5, 0.25),
    "zeros(4000).bernoulli_(0.25)": (0, 1, 0.25, 0.1875),
    "zeros(4000).geometric_(0.5)": (1, 99, 2.0, 2.0),
    "bernoulli(t.full((4000,), 0.25))": (0, 1, 0.25, 0.1875),
    "rand_like(t.zeros(2000))": (0.0, 1.0, 0.5, 0.0833),
    "randn_like(t.zeros(4000))": (-9.0, 9.0, 0.0, 1.0),
    "randint_like(t.zeros(2000), 3)": (0, 2, 1.0, 0.667),
    "multinomial(t.tensor([0.0, 3.0, 1.0]), 4000, replacement=True)": (1, 2, 1.25, 0.1875),
}


@pytest.mark.parametrize("expression", RANDOM)
def test_random_numbers_lie_in_their_range_with_their_moments(expression: str) -> None:
    ag.manual_seed(3)
    drawn = eval(f"t.{expression}", {"t": ag})._array.astype(float)
    low, high, mean, variance = RANDOM[expression]
    assert drawn.min() >= low
    assert drawn.max() <= high
    spread = 6 * (variance / drawn.size) ** 0.5
    assert abs(drawn.mean() - mean) < spread
    assert abs(drawn.var() - variance) < 0.25 * variance


def test_a_seed_repeats_and_the_state_can_be_restored() -> None:
    ag.manual_seed(5)
    first = ag.rand(3).tolist()
    state = ag.get_rng_state()
    second = ag.randn(3).tolist()
    assert ag.manual_seed(5).initial_seed() == ag.initial_seed() == 5
    assert ag.rand(3).tolist() == first
    ag.set_rng_state(state)
    assert ag.randn(3).tolist() == second


def test_a_generator_has_a_stream_of_its_own() -> None:
    own = ag.Generator().manual_seed(1)
    ag.manual_seed(5)
    alone = ag.rand(2).tolist()
    ag.manual_seed(5)
    ag.rand(2, generator=own)
    ag.zeros(2).normal_(generator=own)
    ag.randperm(4, generator=own)
    assert ag.rand(2).tolist() == alone
    again = own.clone_state()
    assert ag.rand(2, generator=own).tolist() == ag.rand(2, generator=again).tolist()
    assert own.device == ag.device("cpu")
    with pytest.raises(TypeError, match=r"must be torch.Generator, not int"):
        ag.rand(2, generator=1)


def test_randperm_and_multinomial_without_replacement_repeat_nothing() -> None:
    assert sorted(ag.randperm(50).tolist()) == list(range(50))
    drawn = ag.multinomial(ag.tensor([[1.0, 0.0, 2.0, 3.0]] * 50), 3)
    assert all(sorted(row) == [0, 2, 3] for row in drawn.tolist())


FILLS = {
    "normal_()": "NormalBackward0",
    "uniform_()": "UniformBackward0",
    "exponential_()": "ExponentialBackward0",
    "log_normal_()": "LogNormalBackward0",
    "cauchy_()": "CauchyBackward0",
    "geometric_(0.5)": "GeometricBackward0",
    "bernoulli_()": "BernoulliBackward2",
    "random_()": "RandomBackward2",
    "random_(5)": "RandomBackward1",
    "random_(2, 5)": "RandomBackward0",
    "zero_()": "ZeroBackward0",
    "fill_(1.0)": "FillBackward2",
}


@pytest.mark.oracle
@pytest.mark.parametrize("call", FILLS)
def test_fills_are_in_place_and_give_zero_gradients(call: str) -> None:
    seen = []
    for t in (ag, torch):
        x = t.ones(3, requires_grad=True)
        y = x * 2
        eval(f"y.{call}", {"y": y})
        y.sum().backward()
        seen.append((type(y.grad_fn).__name__, y._version, x.grad.tolist()))
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            eval(f"x.{call}", {"x": x})
    assert seen[0] == seen[1] == (FILLS[call], 1, [0.0] * 3)


@pytest.mark.oracle
def test_draws_from_tensors_give_zero_gradients() -> None:
    for expression in ("t.bernoulli(x)", "t.normal(x, 1.0)", "t.normal(0.0, x)", "t.normal(x, x)"):
        names = []
        for t in (ag, torch):
            x = t.full((3,), 0.5, requires_grad=True)
            drawn = eval(expression, {"t": t, "x": x})
            drawn.sum().backward()
            assert x.grad.tolist() == [0.0] * 3
            names.append(drawn.grad_fn.name())
        assert names[0] == names[1]


# The public package -----------------------------------------------------------------------------


def test_a_name_that_does_not_exist_names_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"ag_visual has no 'permutee'. The nearest: permute"):
        ag.permutee  # noqa: B018
    with pytest.raises(AttributeError, match=r"Tensor\.backward"):
        ag.backward  # noqa: B018


def test_every_public_name_resolves() -> None:
    for name in ag.__all__:
        with contextlib.suppress(ImportError):  # what needs the extra `lab`
            assert getattr(ag, name) is not None or name == "newaxis"


def test_star_import_gives_torchs_names() -> None:
    scope: dict[str, Any] = {}
    exec("from ag_visual import *", scope)
    assert scope["tensor"] is ag.tensor
    assert scope["float32"] is ag.float32


def test_arithmetic_with_numpy_arrays_stays_in_the_graph() -> None:
    x = ag.ones(2, requires_grad=True)
    for result in (x * numpy.ones(2), numpy.full(2, 3.0) * x, x + numpy.ones(2)):
        assert isinstance(result, ag.Tensor)
        assert result.requires_grad
        assert str(result.dtype) == "torch.float64"
