"""Where results lie in memory: strides and offsets as torch's, for inputs of every layout.

What a program meets is `.view`: wherever torch's result is row-major, ours must be. Where neither
is, the strides are torch's, but for what is listed here with its reason.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.arrays.backend import data_pointer
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.record import Op

from ..oracle import torch
from ..programs import agree
from . import checks
from .cases import Array, Call, arguments, calls, every, host, run
from .test_oracle import counterpart, listed as their_list

INNER = "a gradient or a factor that is passed on, never viewed"
LAPACK = "torch's are column-major, as LAPACK writes them; row-major ones can be viewed, too"
ROWS = "torch keeps the order of the input's dimensions; row-major ones can be viewed, too"
PLACES = "by several index tensors NumPy orders the dimensions in its own way"
LISTED = {
    INNER: "scaled_dot_product_flash",
    LAPACK: "linalg_qr linalg_householder_product geqrf ormqr linalg_ldl_factor_ex "
    "linalg_ldl_solve linalg_lu_factor_ex linalg_lu_solve linalg_solve_triangular "
    "triangular_solve linalg_solve_all linalg_inv_ex linalg_lstsq",
    ROWS: "complex polar index_fill_number index_fill_tensor index_put put addcmul addcdiv addr "
    "sort_dim rot90 unique_dim _fft_c2c _fft_r2c special_chebyshev_polynomial_t "
    "special_shifted_chebyshev_polynomial_t special_chebyshev_polynomial_u "
    "special_shifted_chebyshev_polynomial_u special_chebyshev_polynomial_v "
    "special_shifted_chebyshev_polynomial_v special_chebyshev_polynomial_w "
    "special_shifted_chebyshev_polynomial_w special_hermite_polynomial_h "
    "special_hermite_polynomial_he special_laguerre_polynomial_l special_legendre_polynomial_p",
    PLACES: "index",
}
REASONS = {name: reason for reason, names in LISTED.items() for name in names.split()}


# What torch refuses for inputs that are not row-major, takes in other words than a record's or
# makes a view of; and the part of as_strided whose offset counts from its input.
APART = ("native_group_norm", "nll_loss2d_backward", "unsafe_view", "permute", "permute_copy")
APART += ("as_strided_from", "as_strided_from_copy", "conj_values")


def plain(array: Array) -> Array:
    return array.copy(order="C")


def turned(array: Array) -> Array:
    """The same values in memory that runs through the dimensions in reversed order."""
    return array.copy(order="F")


def repeated(array: Array) -> Array:
    """The first row in the place of all, in memory that is there once; plain, where indices are."""
    if array.ndim < 2 or array.dtype.kind not in "fc":
        return plain(array)
    return numpy.broadcast_to(plain(array[:1]), array.shape)


def inside(array: Array) -> Array:
    """Memory with the same values from the fourth element on, and NaN (or the largest) around."""
    around = numpy.nan if array.dtype.kind in "fc" else array.max(initial=0)
    memory = numpy.full(array.size + 6, around, array.dtype)
    memory[4:-2] = array.reshape(-1)
    return memory


def ours(array: Array, layout: Callable[[Array], Array]) -> Any:
    made = from_array(layout(array))
    return made[4:-2].detach().view(array.shape).detach() if layout is inside else made


def theirs(array: Array, layout: Callable[[Array], Array]) -> Any:
    if layout is repeated and array.ndim > 1 and array.dtype.kind in "fc":
        return torch.from_numpy(plain(layout(array)[:1])).expand(array.shape)
    made = torch.from_numpy(layout(array))
    return made[4:-2].detach().view(array.shape).detach() if layout is inside else made


def given(call: Call, make: Callable[[Array], Any], dtype: Callable[[Any], Any]) -> dict[str, Any]:
    """The values of a call with a tensor for each array."""

    def one(value: Any) -> Any:
        if isinstance(value, numpy.ndarray):
            return make(value)
        return dtype(value) if isinstance(value, numpy.dtype) else value

    lists = call.op.lists
    return {n: [*map(one, v)] if n in lists else one(v) for n, v in call.values.items()}


def results(call: Call, layout: Any, function: Any) -> Iterator[tuple[Tensor, Any]]:
    mine = run(call.op, given(call, lambda a: ours(a, layout), lambda kind: kind))
    values = given(call, lambda a: theirs(a, layout), lambda kind: getattr(torch, kind.name))
    positional, keyword = arguments(call.op, values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = their_list(function(*positional, **keyword))
    return zip(mine, (each for each in found if hasattr(each, "stride")), strict=False)


def telling(tensor: Any) -> tuple[int, ...]:
    """The strides of dimensions with several elements: those of others say nothing."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return () if 0 in tensor.shape else tuple(s for n, s in pairs if n > 1)


def differs(op: Op) -> str:
    """How the layouts of an op's results differ from torch's; nothing where they don't."""
    function = counterpart(op)
    if function is None:
        return ""
    for call in calls(op):
        for layout in (plain, turned, repeated):
            if not (call.smooth and call.oracle) or (op.layout_dependent and layout is not plain):
                continue
            for mine, other in results(call, layout, function):
                if telling(mine) != telling(other) and mine.shape == tuple(other.shape):
                    told = f"{layout.__name__}: {mine.stride()} for {other.stride()}"
                    if other.is_contiguous() and op.name not in LISTED[INNER].split():
                        raise AssertionError(f"not row-major: {told}")
                    return told
    return ""


@pytest.mark.oracle
@every(lambda op: op.name not in APART)
def test_results_lie_in_memory_as_torchs(op: Op) -> None:
    found = differs(op)
    if op.name in REASONS:
        assert found, f"{op.name} is listed ({REASONS[op.name]}) and is as torch's"
    else:
        assert not found


@pytest.mark.oracle
@every(lambda op: "grad_output" in op.inputs and op.name not in APART)
def test_gradients_of_one_number_are_laid_out_as_torchs(op: Op) -> None:
    """What `sum()` passes on is expanded and has no order of its own: the other inputs have one."""
    function = counterpart(op)
    for call in calls(op) if function is not None else ():
        g = call.values["grad_output"]
        if not (call.smooth and call.oracle) or g.dtype.kind not in "fc" or op.layout_dependent:
            continue
        number = numpy.ones((), g.dtype)
        values = given(call, lambda a: ours(a, turned), lambda kind: kind)
        values["grad_output"] = from_array(number).expand(g.shape)
        mine = run(op, values)
        values = given(call, lambda a: theirs(a, turned), lambda kind: getattr(torch, kind.name))
        values["grad_output"] = torch.from_numpy(number).expand(g.shape)
        positional, keyword = arguments(op, values)
        for each, other in zip(mine, their_list(function(*positional, **keyword)), strict=False):
            if hasattr(other, "stride"):
                assert telling(each) == telling(other)


@every(lambda op: True)
def test_inputs_in_the_midst_of_other_memory(op: Op) -> None:
    """Detached views give what tensors of their own give, and read nothing around them."""
    for call in calls(op):
        if not call.smooth:
            continue
        mine = run(op, given(call, lambda a: ours(a, inside), lambda kind: kind))
        expected = run(op, given(call, lambda a: from_array(plain(a)), lambda kind: kind))
        for a, b in zip(mine, expected, strict=True):
            checks.close(host(a), host(b), op.name, rtol=1e-12, atol=0)
            if op.view and op.name != "as_strided_from":  # a step may be played on a copy
                start, end = data_pointer(a._memory), data_pointer(a._memory) + a._memory.nbytes
                assert start <= a.data_ptr() <= end
            elif not (op.view or op.may_donate):
                assert a.storage_offset() == 0


@pytest.mark.oracle
@every(lambda op: op.view)
def test_views_of_detached_views_have_torchs_offsets(op: Op) -> None:
    function = counterpart(op)
    for call in calls(op) if function is not None and op.name not in APART else ():
        if call.oracle:
            for mine, other in results(call, inside, function):
                assert mine.storage_offset() == other.storage_offset() or not mine.numel()
                assert telling(mine) == telling(other)


@pytest.mark.parametrize("name", ["cat", "hstack", "vstack", "dstack", "stack", "column_stack"])
def test_joined_transposed_matrices_can_be_viewed(name: str) -> None:
    a, b = ag.arange(6.0).view(2, 3), ag.ones(2, 3)
    joined = getattr(ag, name)([a.t(), b.t()])
    assert joined.is_contiguous()
    assert joined.view(-1).tolist() == joined.flatten().tolist()


def test_channels_stay_last() -> None:
    x = ag.rand(2, 4, 5, 3).permute(0, 3, 1, 2)
    assert ag.cat([x, x]).permute(0, 2, 3, 1).is_contiguous()
    assert ag.nn.BatchNorm2d(3)(x).permute(0, 2, 3, 1).is_contiguous()
    assert ag.nn.functional.softmax(x, 1).is_contiguous()


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "floor": lambda t, x: x.floor(),
    "sign": lambda t, x: x.sign(),
    "sgn": lambda t, x: x.sgn(),
    "angle": lambda t, x: x.angle(),
    "div": lambda t, x: t.div(x, 2.0, rounding_mode="trunc"),
    "pow": lambda t, x: x**0,
    "fill_": lambda t, x: (x * 1).fill_(2.0),
    "expand": lambda t, x: x.expand(2, 2, 3),
    "sinh": lambda t, x: x.expand(2, 2, 3).sinh(),
    "add": lambda t, x: x + t.zeros(2, 2, 3),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_zeros_and_sums_that_are_gradients_lie_as_torchs(name: str, create_graph: bool) -> None:
    def program(t: Any) -> Any:
        x = t.arange(6.0).view(3, 2).t().requires_grad_()
        y = STEPS[name](t, x)
        last = y.shape[-1:] + y.shape[:-1]
        order = (*range(1, y.dim()), 0)
        seeds = (t.ones(y.shape), t.ones(last).permute(order), t.ones(()).expand(y.shape))
        return [
            t.autograd.grad(y, [x], g, retain_graph=True, create_graph=create_graph)[0].stride()
            for g in seeds
        ]

    agree(program)


def test_the_check_sees_another_layout() -> None:
    a, b = numpy.arange(6.0).reshape(2, 3), numpy.arange(6.0).reshape(3, 2).T
    assert telling(from_array(a)) == (3, 1)
    assert telling(from_array(b)) == (1, 2)
    assert telling(from_array(a[:, :1])) == (3,)
    assert ours(a, inside).storage_offset() == 4
    assert numpy.isnan(ours(a, inside)._memory).sum() == 6


@pytest.mark.oracle
@pytest.mark.parametrize(
    "program",
    [
        "x.expand(2, *x.shape)[..., torch.tensor([0])]",
        "(x.transpose(0, 2) * 1j).angle()",
        "x.expand(2, *x.shape)[True]",
        "x.expand(2, *x.shape)[torch.tensor([1, 0]), :, torch.tensor([1, 0])]",
        "x.transpose(0, 2)[:, torch.tensor([1, 0])]",
        "x.expand(2, *x.shape).half().log_softmax(0)",
        "(x[:, :1].expand(-1, 3, -1) * 1j).conj_physical()",
        "x[:, :1].expand(-1, 3, -1).flip(0)",
        "x.transpose(0, 2).expand(2, *x.shape[::-1]).clone()",
        "torch.zeros_like(x.transpose(0, 2).expand(2, *x.shape[::-1]))",
        "torch.autograd.grad(torch.ones(1, requires_grad=True), "
        "[x[:1].expand(2, -1, -1).requires_grad_()], materialize_grads=True)[0]",
        "torch.autograd.grad((y := x.transpose(0, 2).detach().requires_grad_()).max(), [y])[0]",
    ],
)
def test_results_of_expanded_and_turned_inputs(program: str) -> None:
    mine, other = (
        eval(program, {"torch": m, "x": m.arange(24.0).view(2, 3, 4)}) for m in (ag, torch)
    )
    assert telling(mine) == telling(other)


def _written(b: Any, view: Callable[[Any], Any]) -> Any:
    found = view(b)
    b.mul_(2)
    return found


GRADIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "prod": lambda torch, x: x.prod(0),
    "cumprod": lambda torch, x: x.cumprod(0),
    "cumsum": lambda torch, x: x.cumsum(0),
    "roll": lambda torch, x: x.roll(1, 0),
    "repeat": lambda torch, x: x.repeat(2, 1, 1),
    "softmax": lambda torch, x: x.softmax(0),
    "masked_fill": lambda torch, x: x.masked_fill(x > 2, 0.0),
    "fmax": lambda torch, x: x.fmax(x.detach()),
    "fmin": lambda torch, x: x.detach().fmin(x),
    "xlogy": lambda torch, x: x.xlogy(x.detach()),
    "xlog1py": lambda torch, x: torch.special.xlog1py(x, x.detach()),
    "scatter_add": lambda torch, x: x.scatter_add(0, (x < 0).long(), x),
    "mse_loss": lambda torch, x: torch.nn.functional.mse_loss(x, x.detach() + 1),
    "huber_loss": lambda torch, x: torch.nn.functional.huber_loss(x, x.detach() + 1),
    "smooth_l1_loss": lambda torch, x: torch.nn.functional.smooth_l1_loss(x, x.detach() + 1),
    "var_mean": lambda torch, x: torch.var_mean(x)[1],
    "std_mean": lambda torch, x: torch.std_mean(x, 1)[1],
    "as_strided": lambda torch, x: x.mT.as_strided((2,), (0,)),
    "base of expand": lambda torch, x: _written(x * 1, lambda b: b.expand(2, 2, 3)),
    "base of view": lambda torch, x: _written(x * 1, lambda b: b[:, 1:]),
}


@pytest.mark.oracle
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_row_major_where_torchs_are(name: str, create_graph: bool) -> None:
    def program(torch: Any) -> list[bool]:
        turned = torch.arange(6.0).view(3, 2).t()
        seen = []
        for x in (turned, turned.contiguous()):
            x = x.detach().requires_grad_()
            y = GRADIENTS[name](torch, x)
            one = torch.ones((), dtype=y.dtype)
            dense = torch.ones(tuple(y.shape[::-1])).permute(tuple(range(y.dim()))[::-1])
            for g in (one.expand(y.shape), dense):
                options = {"create_graph": create_graph, "retain_graph": True}
                seen.append(torch.autograd.grad(y, [x], g, **options)[0].is_contiguous())
        return seen

    expected = program(torch)
    assert any(expected)
    assert all(mine >= theirs for mine, theirs in zip(program(ag), expected, strict=True))


def test_a_turned_gradient_goes_through_a_write() -> None:
    x = ag.ones(2, 3, requires_grad=True)
    y = x * 1
    y.view(-1)[1:].mul_(2)
    g = ag.ones(3, 2).t()
    (found,) = ag.autograd.grad(y, [x], g, create_graph=True)
    assert found.tolist() == [[1, 2, 2], [2, 2, 2]]
