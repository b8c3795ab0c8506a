"""Zeros, infinities, numbers and empty tensors, where an op has a corner: as torch has them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

from ..programs import agree, expect, raised, told

NARROW = ("float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize("dtype", NARROW)
def test_a_number_on_the_left_leaves_the_dtype(dtype: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor(2.0, dtype=getattr(t, dtype))
        results = 0.5 % x, 1 % x, 0.5 // x, 0.5**x, 0.5 - x, 0.5 / x
        return [(str(y.dtype)[-8:], y.item()) for y in results]

    agree(program)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_zero_remainder_has_the_sign_of_the_dividend(dtype: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, -1.0, 0.0, -0.0, 2.5, -math.inf], dtype=getattr(t, dtype))
        results = [x % y for y in (0.5, -0.5, math.inf, -math.inf, x[0])] + [1 % x, -1 % x]
        results += [x // 0.5, x // -0.5, x.fmod(-0.5)]
        return [t.copysign(t.ones(6, dtype=r.dtype), t.where(r == r, r, 1.0)) for r in results]

    agree(lambda t: [y.float() for y in program(t)])


@pytest.mark.parametrize("dtype", NARROW)
def test_running_sums_of_zeros_are_positive(dtype: str) -> None:
    def program(t: Any) -> Any:
        x = -t.zeros((2, 2), dtype=getattr(t, dtype))
        return [y.float().signbit() for y in (x.cumsum(0), x.cumsum(1), x.logcumsumexp(0)[0])]

    agree(program)


def test_nothing_is_divided_by_zero() -> None:
    def program(t: Any) -> Any:
        empty = t.zeros((2, 0), dtype=t.int64)
        results = empty // 0, empty % 0, empty.fmod(0), empty.div(0, rounding_mode="trunc")
        results += empty // t.zeros((1, 1), dtype=t.int64), t.ones(1, dtype=t.int64) // empty
        return [list(y.shape) for y in results], told(lambda: t.ones(2, dtype=t.int64) // 0)[
            "error"
        ]

    agree(program)


def test_empty_vectors_are_joined_along_any_dimension() -> None:
    agree(lambda t: [list(t.cat([t.tensor([])] * n, d).shape) for n in (1, 2) for d in (-2, 0, 7)])


@pytest.mark.parametrize("shape", [(), (1,), (6,)])
def test_an_output_that_is_resized_may_not_overlap_as_it_was(shape: tuple[int, ...]) -> None:
    def program(t: Any) -> Any:
        x = t.ones(shape)
        outputs = [x.expand(n, *shape) for n in (1, 2)] + [x.view(-1)[:1], x.unfold(-1, 1, 1)]
        calls = [lambda o=o: t.mul(x, 1, out=o) for o in outputs]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [told(call)["error"] for call in calls]

    agree(program)


def test_an_empty_tensor_rolls_along_any_dimension() -> None:
    agree(
        lambda t: [
            list(t.zeros(0, 2).roll((1, 2), (0, 5)).shape),
            list(t.tensor([]).roll(0, 2).shape),
        ]
    )


@pytest.mark.parametrize("dtype", NARROW)
def test_nan_to_num_of_every_float(dtype: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([math.nan, math.inf, -math.inf, 1.5], dtype=getattr(t, dtype))
        return [y.double() for y in (x.nan_to_num(), x.nan_to_num(2, 3, 4), x[0].nan_to_num())]

    agree(program)


def test_nan_to_num_of_the_parts_of_complex_numbers() -> None:
    parts = [math.nan, math.inf, -math.inf, 1.5]

    def program(t: Any) -> Any:
        x = t.tensor([complex(a, b) for a in parts for b in parts], dtype=t.complex128)
        written = x.clone().nan_to_num_()
        return t.view_as_real(x.nan_to_num()), t.view_as_real(x.nan_to_num(1, 2)), written.abs()

    agree(program)


@pytest.mark.parametrize("value", [0.5, 2.5, True, -3])
def test_addcmul_of_integers_takes_its_number_as_one(value: float) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1, 2, 3], dtype=t.int16)
        return x.addcmul(x, x, value=value), x.clone().addcmul_(x, x, value=value)

    agree(program)


def test_a_complex_number_does_not_scale_real_tensors() -> None:
    agree(lambda t: told(lambda: t.ones(2).addcmul(t.ones(2), t.ones(2), value=1j))["error"])


def test_one_by_a_complex_zero_is_infinite() -> None:
    agree(lambda t: t.sigmoid(t.tensor(0j).reciprocal()).real)


def test_expanded_memory_may_be_written_where_nothing_changes() -> None:
    def program(t: Any) -> Any:
        x, i = t.ones(1).expand(3), t.ones(1, dtype=t.int64).expand(3)
        x.copy_(x)
        x.data.copy_(x)
        x[:].copy_(x)
        x.conj_physical_()
        i.nan_to_num_()
        refused = [told(lambda y=y: x.copy_(y))["error"] for y in (x.clone(), x[:1])]
        return x._version, i._version, refused

    agree(program)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(
    "values", [[math.nan, -1.0, 2.0], [1.0, math.nan, 3.0, math.nan, -math.inf]]
)
def test_nan_is_the_largest_one_in_every_order(dtype: str, values: list[float]) -> None:
    def program(t: Any) -> Any:
        x = t.tensor(values, dtype=getattr(t, dtype))
        found = [*x.sort(), *x.sort(descending=True), *x.topk(2), *x.topk(2, largest=False)]
        found += [*x.kthvalue(2), x.median(), *x.median(0), x.nanmedian(), *x.nanmedian(0)]
        found += [x.argsort(), x.msort(), *x.unique(return_inverse=True, return_counts=True)]
        found += [t.isin(x, x[:2]), *x.cummax(0)]
        return [y.double() for y in found]

    agree(program)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("count", [1, 2, 67])
def test_a_negative_zero_stays_where_nothing_bounds_it(dtype: str, count: int) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([-0.0, 0.0] * count, dtype=getattr(t, dtype))
        F = t.nn.functional
        found = [x.relu(), x.clone().relu_(), x.clamp(0, 0), x.clamp_min(0), x.clamp_max(0)]
        found += [F.elu(x), F.selu(x), F.celu(x), F.hardshrink(x), F.leaky_relu(x), F.relu6(x)]
        return [y.signbit() for y in found]

    agree(program)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64", "float16", "float32"])
@pytest.mark.parametrize("number", [-1, 100, -129, 300, 70000, 2**40, True])
def test_numbers_bound_as_the_dtype_holds_them(dtype: str, number: float) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([0, 1, 100], dtype=getattr(t, dtype))
        calls = [
            lambda x: x.clamp(number),
            lambda x: x.clamp(max=number),
            lambda x: x.clamp_(0, number),
        ]
        calls += [lambda x: x.clamp_min(number), lambda x: x.clamp_max_(number)]
        texts = [told(lambda c=c: c(x.clone())) for c in calls]
        right = [c(x.clone()) for c, text in zip(calls, texts, strict=True) if not text["error"]]
        return [(s["error"], s["text"].split("\n")[0]) for s in texts], right

    agree(program)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64", "complex64"])
@pytest.mark.parametrize("value", [1 + 0j, 1j, 300 + 0j, complex(1, math.nan)])
def test_a_complex_number_is_written_where_it_is_real(dtype: str, value: complex) -> None:
    def program(t: Any) -> Any:
        def call(write: Any) -> Any:
            x = t.ones(2).to(getattr(t, dtype))
            error = told(lambda: write(x))["error"]
            return error, x.to(t.complex64).real

        mask = t.tensor([True, False])
        writes = [lambda x: x.fill_(value), lambda x: x.masked_fill_(mask, value)]
        writes += [lambda x: x.masked_fill_(mask, t.tensor(value)), lambda x: x[mask].fill_(value)]
        writes += [
            lambda x: x.__setitem__(0, value),
            lambda x: x.__setitem__(mask, t.tensor(value)),
        ]
        return [call(write) for write in writes]

    agree(program)


def test_the_dtype_of_what_is_written_at_places() -> None:
    """One number fills a mask; everything else has the dtype of what it is written into."""

    def program(t: Any) -> Any:
        def call(shape: Any, index: Any, value: Any, accumulate: bool = False) -> Any:
            x = t.zeros(shape, dtype=t.int64)
            index = index(x)
            try:
                if accumulate:
                    x.index_put_((index,), value, accumulate=True)
                else:
                    x[index] = value
            except RuntimeError as error:
                return str(error).split("\n")[0]
            return x

        values = [t.tensor(1.5), t.tensor([1.5]), t.tensor([[1.5]]), t.tensor([[1]])]
        places = [
            lambda x: x == 0,
            lambda x: t.tensor([0]),
            lambda x: True,
            lambda x: t.tensor(True),
        ]
        found = [call(s, p, v) for s in ((1,), (2,), (1, 2)) for p in places for v in values]
        found += [call((), lambda x: x == 0, v) for v in values]
        found.append(call((2,), lambda x: x == 0, t.tensor(1.5), accumulate=True))
        return found

    agree(program)


def test_the_gradient_of_a_number_that_fills_a_mask() -> None:
    def program(t: Any) -> Any:
        found = []
        for shape in ((), (1,)):
            x, v = t.ones(3, requires_grad=True), t.full(shape, 2.0, requires_grad=True)
            x.index_put((t.tensor([True, False, True]),), v).sum().backward()
            found += [x.grad, v.grad]
        return found

    agree(program)


def test_a_wrong_dimension_is_told_before_other_shapes() -> None:
    def program(t: Any) -> Any:
        x, y = t.ones(1), t.ones(1, 1)
        calls = [lambda: t.cat([x, y], 2), lambda: t.cat([y, x], 2), lambda: t.cat([x, y], 0)]
        calls += [lambda: t.stack([x, y], 2), lambda: t.stack([x, y], 1)]
        return [told(call)["error"] for call in calls]

    agree(program)


NAMES = "add mul div pow fmod remainder copysign atan2 maximum eq hypot floor_divide"


@pytest.mark.parametrize("name", NAMES.split())
def test_an_output_that_is_an_argument_keeps_its_shape(name: str) -> None:
    def program(t: Any) -> Any:
        x, y = t.tensor([1.0, 3.0]), t.tensor(2.0)
        call = getattr(t, name)
        return told(lambda: call(x, y, out=y))["error"], y, call(x, y, out=x)

    agree(program)


def test_the_places_of_nonzero_lie_dimension_by_dimension() -> None:
    def program(t: Any) -> Any:
        x = t.arange(8.0).view(2, 2, 2)
        found = x.nonzero()
        return found, found.stride(), [y.stride() for y in x.nonzero(as_tuple=True)]

    agree(program)


def test_memory_without_elements_is_seen_as_any_dtype() -> None:
    agree(lambda t: list(t.zeros(2, 0).t().relu().view(t.float64).shape))


def test_the_gradient_of_cumprod_with_zeros_is_row_major() -> None:
    def program(t: Any) -> Any:
        x = t.arange(6.0).reshape(2, 1, 3).transpose(0, 2).requires_grad_()
        x.cumprod(0).sin().sum().backward()
        (g,) = t.autograd.grad(x.cumprod(0).sum(), x)
        return g.stride(), x.grad

    agree(program)


def test_a_gradient_of_another_shape_than_what_a_hook_unpacks() -> None:
    def program(t: Any) -> Any:
        x = t.ones(1, requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(lambda s: s, lambda s: s * 1):
            y = x[x > 1]
        return told(lambda: y.backward(t.ones(0)))

    agree(program)


def test_complex_numbers_that_are_written_into_bools_are_true_unless_zero() -> None:
    def program(t: Any) -> Any:
        x = t.zeros(4, dtype=t.bool)
        y = t.tensor([1j, 0j, 1, 1e-300])
        x[...] = y
        return x, t.zeros(4, dtype=t.bool).copy_(y), y.bool()

    agree(program)


def test_bools_are_converted_to_half_precision_on_the_slow_path() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([True, False])
        with t.autograd.graph.saved_tensors_hooks(lambda s: s, lambda s: s):
            return x.to(t.float16), x.sum(dtype=t.float16), x.to(t.int8)

    agree(program)


def test_addcdiv_divides_no_integers() -> None:
    def program(t: Any) -> Any:
        kinds = (t.float32, t.int64, t.bool)
        made = [t.ones(2, dtype=kind) for kind in kinds]
        return [
            raised(lambda x=x, a=a, b=b: x.addcdiv(a, b))[0]
            for x in made
            for a in made
            for b in made
        ]

    agree(program)


def test_addcdiv_takes_bools_beside_numbers() -> None:
    def program(t: Any) -> Any:
        x = t.tensor([1.0, 2.0], requires_grad=True)
        (x.addcdiv(x > 1, x) + x.addcdiv(x > 1, x, value=2.5)).sum().backward()
        return x.grad

    agree(program)


BESIDE = {
    "maximum": ["uint8", "int64"],
    "minimum": ["uint8", "int64"],
    "fmod": ["int64", "int16"],
    "remainder": ["int64", "int16"],
    "hypot": ["uint8", "int64", "bool"],
    "atan2": ["int64", "int16"],
    "div": ["uint8", "int64", "bool"],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", BESIDE)
def test_derivatives_beside_integers(name: str, traced: bool) -> None:
    def program(t: Any) -> Any:
        found = []
        for dtype in BESIDE[name]:
            n = t.tensor([1, 0, 1, 3], dtype=getattr(t, dtype))
            x = t.tensor([1.0, 2.0, 0.5, 2.0], requires_grad=True)
            for y in (getattr(x, name)(n.clamp_min(1)), getattr(n, name)(x)):
                found += t.autograd.grad(y.sum(), [x], create_graph=traced)
        return found

    agree(program)


def test_integers_are_divided_by_zero_where_the_divisor_is_floating_point() -> None:
    def program(t: Any) -> Any:
        found = []
        for name in ("fmod", "remainder"):
            x = t.tensor([0.0, 2.0], requires_grad=True)
            getattr(t.tensor([3, 3]), name)(x).sum().backward()
            found.append(x.grad)
        return found

    agree(program, [[-math.inf, -1.0]] * 2)


def test_an_angle_beside_integers_that_wrap_around() -> None:
    """torch negates and squares them in their dtype, and refuses bools."""

    def program(t: Any) -> Any:
        found = []
        for dtype in (t.uint8, t.int8, t.bool):
            x = t.tensor([2.0, 1.0], requires_grad=True)
            n = t.tensor([1, 1], dtype=dtype)
            found += t.autograd.grad(n.atan2(x).sum(), [x])
        x = t.tensor([100.0], requires_grad=True)
        return [*found, *t.autograd.grad(t.tensor([100], dtype=t.int8).atan2(x), [x])]

    expect(program, [[-0.2, -0.5]] * 3 + [[-0.005]])


@pytest.mark.parametrize("one", [1, 1.0, 1 + 0j])
def test_one_to_any_power_is_one(one: complex) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([complex(math.nan, math.inf), complex(math.inf, 1), 2j], requires_grad=True)
        y = one**x
        y.abs().sum().backward()
        return y.real, y.imag, x.grad.real, x.grad.imag

    agree(program, [[1.0] * 3, [0.0] * 3, [0.0] * 3, [0.0] * 3])


def test_joined_tensors_have_channels_last_where_each_of_them_has() -> None:
    def program(t: Any) -> Any:
        found = []
        for shape in ((2, 1, 3, 1), (2, 3, 4, 5), (1, 3, 1, 5), (2, 1, 4, 5), (2, 2, 1, 1)):
            for dims in ((3, 2, 1, 0), (0, 2, 3, 1), (0, 3, 1, 2), (1, 3, 0, 2)):
                x = t.ones(shape).permute(dims)
                for y in (x, x.contiguous()):
                    for dim in range(4):
                        z = t.cat([x, y], dim)
                        found.append([n > 1 and z.stride(i) for i, n in enumerate(z.shape)])
        return found

    agree(program)


def test_a_backward_passes_a_view_that_has_left_its_base() -> None:
    def program(t: Any) -> Any:
        x = t.arange(6.0).reshape(2, 3).requires_grad_()
        y = x.view(-1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is resized, and of create_graph
            with t.no_grad():
                t.sin(t.tensor(1.0), out=y)
            t.autograd.backward([x.sum(), y.sum()], retain_graph=True)
            t.autograd.backward([x.sum(), y.sum()], create_graph=True)
        return x.grad

    agree(program, [[2.0] * 3] * 2)


def test_triangles_of_expanded_matrices() -> None:
    def program(t: Any) -> Any:
        found = []
        for own, shape in (
            ((1,), (3, 3)),
            ((1, 1), (2, 3, 3)),
            ((3, 3), (2, 3, 3)),
            ((1,), (2, 2, 3, 3)),
            ((2, 3, 3), (2, 2, 3, 3)),
            ((2, 1, 3, 3), (2, 2, 3, 3)),
            ((2, 2, 3, 1), (2, 2, 3, 3)),
        ):
            x = t.ones(own).expand(shape)
            found += [told(lambda x=x: x.tril_()).get("error"), x]
        return found

    agree(program)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("exponent", [0.5, -0.5])
def test_powers_of_a_half_are_roots_except_in_half_precision(
    exponent: float, dtype: str, traced: bool
) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([-math.inf, -0.0, 4.0, math.inf], dtype=getattr(t, dtype), requires_grad=True)
        y = x**exponent
        (g,) = t.autograd.grad(y, [x], t.ones_like(y), create_graph=traced)
        written = x.detach().clone().pow_(exponent)
        return [1 / y.float(), y.float(), 1 / written.float(), 1 / g.float(), g.float()]

    agree(program)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", NARROW)
def test_powers_to_tensors_of_a_half_are_powers(dtype: str) -> None:
    def program(t: Any) -> Any:
        kind = getattr(t, dtype)
        half, infinity = t.tensor(0.5, dtype=kind), t.tensor(-math.inf, dtype=kind)
        rows = t.tensor([[0.5], [1.0]], dtype=kind)
        x = t.tensor([-math.inf, -0.0, 4.0, 0.0], dtype=kind, requires_grad=True)
        results = [x**half, x ** half.expand(4), x**rows, infinity**half]
        results += [infinity.expand(2) ** half.expand(2), (-math.inf) ** half, (-0.0) ** half]
        results += [x.detach().clone().pow_(half), *t.autograd.grad((x ** (half + 1)).sum(), x)]
        return [part for y in results for part in (y.detach().float(), 1 / y.detach().float())]

    agree(program)


@pytest.mark.parametrize("order", [2, 3, 0.5, -1, -2, 2.5, 1, 0, float("inf")])
def test_the_norm_of_one_number_is_its_size(order: float) -> None:
    """A power and its root would overflow, or lose digits, where torch has the number itself."""

    def program(t: Any) -> Any:
        x = t.tensor([[-3e307], [1e-310], [2.0]], dtype=t.float64, requires_grad=True)
        found = [
            x.norm(order, -1),
            t.linalg.vector_norm(x[:1], order),
            x[0].norm(order, keepdim=True),
        ]
        found[0].sum().backward() if order in (1, 2) else None
        return [*found, x.grad]

    agree(program)


def test_the_gradient_of_complex_pairs_is_in_rows() -> None:
    def program(t: Any) -> Any:
        x = t.ones(3, 2, dtype=t.float64, requires_grad=True)
        y = t.view_as_complex(x)
        g = t.ones((), dtype=t.complex128).expand(3)
        return [t.autograd.grad(y, x, g, create_graph=c)[0].stride() for c in (True, False)]

    agree(program)


def test_logarithms_of_zero_add_up_to_that_of_zero() -> None:
    """Of complex numbers, too, and in the gradients of what no gradient arrives at."""

    def program(t: Any) -> Any:
        nothing = complex(-math.inf, 0)
        x = t.tensor([nothing, 1 + 1j, nothing, nothing], dtype=t.complex128)
        y = t.tensor([nothing, nothing, 2 - 1j, nothing], dtype=t.complex128)
        seen = [x.logaddexp(y), y.logaddexp(x), x.logcumsumexp(0), x[2:].logcumsumexp(0)]
        for arrived in ([0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1j, 0], [0, 2, 0, 1 - 1j]):
            z = t.tensor([1 + 1j, 2 - 1j, 0.5j, -3 + 0j], dtype=t.complex128, requires_grad=True)
            g = t.tensor(arrived, dtype=t.complex128)
            seen += t.autograd.grad(z.logcumsumexp(0), z, g)
        return [each.resolve_conj() for each in seen]

    agree(program)


@pytest.mark.parametrize("name", ["huber_loss", "smooth_l1_loss"])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_second_derivatives_of_losses_at_their_kinks(name: str, reduction: str) -> None:
    def program(t: Any) -> Any:
        x = t.tensor([0.0, 0.5, 1.0, -1.0, 2.0, -2.0], dtype=t.float64, requires_grad=True)
        y = t.zeros(6, dtype=t.float64, requires_grad=True)
        loss = getattr(t.nn.functional, name)(x, y, reduction=reduction).sum()
        first = t.autograd.grad(loss, [x, y], create_graph=True)
        weighed = (first[0] * t.arange(1.0, 7.0)).sum() - first[1].sum()
        return [*first, *t.autograd.grad(weighed, [x, y])]

    agree(program)
