"""Between host and device: values, dtypes, gradients, errors, files, random numbers."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import numpy

import ag_visual as ag
from ag_visual.arrays import backend_for

from ..page import Machine, check, for_each

DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
SHAPES = ((), (0,), (5,), (2, 3), (2, 0, 3), (4, 1, 2))


def raised(work: Callable[[], object], kind: type[BaseException], *phrases: str) -> None:
    """The call raises this, and says that."""
    said = ""
    try:
        work()
    except kind as error:
        said = str(error) or kind.__name__
    missing = [phrase for phrase in phrases if phrase not in said]
    assert said, f"no {kind.__name__} was raised"
    assert not missing, f"{said!r} does not say {missing}"


@check("transfers")
def values_there_and_back(machine: Machine) -> str:
    """Every dtype and shape, also of views, by each way of asking."""

    def case(dtype: str, shape: tuple[int, ...]) -> None:
        given = numpy.random.default_rng(0).integers(0, 2, shape).astype(dtype)
        here = ag.from_numpy(given) if shape else ag.tensor(given)
        for there in (here.to(machine.device), here.cuda(), here.to(f"{machine.device}:0")):
            assert there.device == ag.device(machine.device, 0), there.device
            assert there.is_cuda
            assert there.dtype is here.dtype
            assert type(there._array) is backend_for(machine.device).array_type
            for back in (there.cpu(), there.to("cpu"), ag.empty_like(here).copy_(there)):
                assert back.device.type == "cpu"
                numpy.testing.assert_array_equal(back.numpy(), given)
            assert there.tolist() == given.tolist()
        if len(shape) == 2:
            turned = here.to(machine.device).t()
            numpy.testing.assert_array_equal(turned.cpu().numpy(), given.T)

    return for_each(
        (f"{dtype} {shape}", lambda d=dtype, s=shape: case(d, s))
        for dtype in DTYPES
        for shape in SHAPES
    )


@check("transfers")
def narrow_dtypes(machine: Machine) -> str:
    """bfloat16 on the device: values, a sum, a product and its gradient."""
    x = ag.tensor([[1.5, -2.0], [0.25, 3.0]], dtype=ag.bfloat16)
    there = x.to(machine.device).requires_grad_()
    assert there.dtype is ag.bfloat16
    loss = (there @ there).sum()
    loss.backward()
    wanted = x.clone().requires_grad_()
    (wanted @ wanted).sum().backward()
    assert there.grad.cpu().tolist() == wanted.grad.tolist()
    assert there.cpu().tolist() == x.tolist()
    return "bfloat16"


@check("transfers")
def gradients_flow_across_a_move(machine: Machine) -> None:
    """A leaf on the host has its gradient on the host, and the other way around."""
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    (x.to(machine.device) ** 2).sum().cpu().backward()
    assert x.grad.device.type == "cpu"
    assert x.grad.tolist() == [2.0, 4.0]
    y = ag.tensor([1.0, 2.0], device=machine.device, requires_grad=True)
    (y.cpu() ** 2).sum().to(machine.device).backward()
    assert y.grad.is_cuda
    assert y.grad.tolist() == [2.0, 4.0]


@check("transfers")
def mistakes_are_said(machine: Machine) -> None:
    """Two devices in one op, NumPy from the device, a device that is not there."""
    here, there = ag.ones(2), ag.ones(2, device=machine.device)
    raised(lambda: here + there, RuntimeError, "same device", "cuda:0", "cpu")
    raised(lambda: ag.nn.functional.linear(there, ag.ones(2, 2)), RuntimeError, "same device")
    raised(lambda: there.numpy(), TypeError, "cuda:0", "Tensor.cpu()")
    raised(lambda: numpy.asarray(there), TypeError, "cuda:0")
    raised(lambda: ag.ones(2, device="cuda:99"), RuntimeError, "cuda:99")
    raised(lambda: there.backward(), RuntimeError, "does not require grad")
    x = ag.ones(2, device=machine.device, requires_grad=True)
    y = x.exp()
    y.detach().add_(1)
    raised(lambda: y.sum().backward(), RuntimeError, "modified by an inplace operation")


@check("transfers")
def new_tensors_on_the_device(machine: Machine) -> None:
    """Creation, default device, scalars with tensors, copies, files."""
    there = ag.arange(6.0, device=machine.device).reshape(2, 3)
    for made in (
        ag.zeros_like(there),
        there.new_ones(2),
        ag.full((2,), 3, device=machine.device),
        ag.linspace(0, 1, 3, device=machine.device),
        ag.eye(2, device=machine.device),
        ag.tensor([1, 2], device=machine.device),
        copy.deepcopy(there),
        there + 1,
        2 * there,
        there * ag.tensor(2.0),
        there[ag.tensor([0, 1])],
        there[there > 2],
    ):
        assert made.is_cuda, made
    with ag.device(machine.device):
        assert ag.ones(2).is_cuda
    before = ag.get_default_device()
    ag.set_default_device(machine.device)
    try:
        assert (ag.rand(2) + ag.nn.Linear(2, 2)(ag.ones(1, 2)).sum()).is_cuda
    finally:
        ag.set_default_device(before)
    file = io.BytesIO()
    ag.save({"whole": there, "row": there[1]}, file)
    for where in ("cpu", machine.device):
        file.seek(0)
        found = ag.load(file, map_location=where)
        assert found["whole"].device.type == where
        assert found["row"].tolist() == [3.0, 4.0, 5.0]
    assert "cuda:0" in repr(there)


@check("transfers")
def random_numbers_repeat(machine: Machine) -> None:
    """A seed and a state of the device's generator give the same numbers again."""
    draw = lambda: [  # noqa: E731
        *ag.rand(4, device=machine.device).tolist(),
        *ag.randn(4, device=machine.device).tolist(),
        *ag.randint(0, 100, (4,), device=machine.device).tolist(),
        *ag.randperm(5, device=machine.device).tolist(),
        *ag.nn.functional.dropout(ag.ones(8, device=machine.device)).tolist(),
    ]
    ag.manual_seed(3)
    first = draw()
    state = ag.cuda.get_rng_state()
    second = draw()
    ag.cuda.set_rng_state(state)
    assert draw() == second != first
    ag.cuda.manual_seed(3)
    assert draw() == first
