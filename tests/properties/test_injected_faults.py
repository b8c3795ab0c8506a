"""The checkers find injected faults: a check that cannot fail proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch import families, table
from ag_visual.dispatch.record import KEEP, LINEAR, PROMOTE, Op, Sample
from ag_visual.engine import hook_calls

from ..arrays.strict import STRICT
from . import checks
from .cases import Call, calls, complex_calls


def samples(make: Any) -> Iterator[Sample]:
    yield Sample((make((3, 2), low=0.5, high=2.0),))


def pairs(make: Any) -> Iterator[Sample]:
    yield Sample((make((3, 2), low=0.5, high=2.0), make((3, 2), low=0.5, high=2.0)))


@pytest.fixture
def plant() -> Iterator[Callable[..., Op]]:
    """Declares an op that is gone after the test."""
    made: list[str] = []

    def declare(family: Callable[..., Op], *args: Any, **options: Any) -> Op:
        options.setdefault("samples", samples)
        record = family("injected", *args, public=False, **options)
        made.append(record.name)
        return record

    yield declare
    for name in made:
        del table.ops[name]
        for namespace in (table.traced, table.raw_numpy):
            namespace.__dict__.pop(name, None)


def only(op: Op) -> Call:
    return calls(op)[0]


def finds(check: Callable[[Call], None], call: Call) -> None:
    with pytest.raises(AssertionError):
        check(call)


def _cube(xp: Any, self: Any) -> Any:
    return self * self * self


RIGHT = {"self": lambda g, self: g * (3 * self * self)}
ALONG = {"self": lambda t_self, self: t_self * (3 * self * self)}
ALL = (
    checks.check_vjp,
    checks.check_jvp,
    checks.check_double,
    checks.check_traced,
    checks.check_paths,
    checks.check_memory,
    checks.check_inplace,
    checks.check_strided,
    checks.check_float32,
)


def test_a_right_op_passes(plant: Any) -> None:
    op = plant(table.op, _cube, vjp=RIGHT, jvp=ALONG, inplace=True)
    for check in ALL:
        check(only(op))
    for call in complex_calls(op):
        checks.check_vjp(call)
        checks.check_jvp(call)
        checks.check_double(call)


def test_a_wrong_factor(plant: Any) -> None:
    op = plant(table.op, _cube, vjp={"self": lambda g, self: g * (2 * self * self)})
    finds(checks.check_vjp, only(op))


@pytest.mark.parametrize("at", [(0, 0), (2, 1)])
def test_one_wrong_element_of_many(plant: Any, at: tuple[int, int]) -> None:
    def wrong(g: Any, self: Any) -> Any:
        found = g * (3 * self * self)
        found[at] *= 0.99
        return found

    finds(checks.check_vjp, only(plant(table.op, _cube, vjp={"self": wrong})))


def test_a_derivative_of_the_wrong_input(plant: Any) -> None:
    op = plant(
        table.op,
        lambda xp, self, other: self * other,
        vjp={"self": lambda g, self: g * self, "other": lambda g, self: g * self},
        samples=pairs,
    )
    finds(checks.check_vjp, only(op))


def test_a_wrong_jvp(plant: Any) -> None:
    op = plant(table.op, _cube, vjp=RIGHT, jvp={"self": lambda t_self, self: t_self * self})
    checks.check_vjp(only(op))
    finds(checks.check_jvp, only(op))


def test_a_jvp_that_is_wrongly_called_linear(plant: Any) -> None:
    op = plant(table.op, _cube, vjp=RIGHT, jvp=LINEAR)
    finds(checks.check_jvp, only(op))


def test_a_conjugation_too_many(plant: Any) -> None:
    op = plant(table.op, _cube, vjp={"self": lambda F, g, self: g * (3 * F.conj(self * self))})
    checks.check_vjp(only(op))
    finds(checks.check_vjp, complex_calls(op)[0])


def test_a_conjugation_too_few(plant: Any) -> None:
    op = plant(table.op, _cube, vjp=RIGHT, holomorphic=False)
    finds(checks.check_vjp, complex_calls(op)[0])


def test_a_rule_that_takes_a_value_for_a_constant(plant: Any) -> None:
    """Right once, wrong when it is differentiated again."""
    op = plant(table.op, _cube, vjp={"self": lambda F, g, self: g * (3 * _cut(F, self) ** 2)})
    checks.check_vjp(only(op))
    finds(checks.check_double, only(op))


def _cut(F: Any, x: Any) -> Any:
    return x.detach() if F.traced else x


def test_faces_that_differ(plant: Any) -> None:
    op = plant(
        table.op,
        _cube,
        vjp={"self": lambda F, g, self: g * ((4 if F.traced else 3) * self * self)},
    )
    finds(checks.check_traced, only(op))


def test_a_built_path_that_differs(plant: Any) -> None:
    op = plant(table.op, _cube, vjp=RIGHT)
    built = op.call
    op.call = lambda self: built(self) + 0
    finds(checks.check_paths, only(op))


def test_a_built_backward_that_differs(plant: Any) -> None:
    op = plant(table.op, _cube, vjp=RIGHT)
    op.node_class.raw = lambda self, F, g: (g * 7,)
    finds(checks.check_paths, only(op))


def test_a_view_that_copies(plant: Any) -> None:
    op = plant(table.op, lambda xp, self: self.T.copy(), vjp={"self": lambda g: g.T}, view=True)
    finds(checks.check_memory, only(op))


def test_a_copy_that_is_a_view(plant: Any) -> None:
    op = plant(table.op, lambda xp, self: self.T, vjp={"self": lambda g: g.T})
    finds(checks.check_memory, only(op))


def test_negative_strides(plant: Any) -> None:
    op = plant(table.op, lambda xp, self: self.copy()[::-1], vjp={"self": lambda g: g[::-1]})
    finds(checks.check_memory, only(op))


def test_a_kernel_that_writes_its_input(plant: Any) -> None:
    def kernel(xp: Any, self: Any) -> Any:
        self += 1
        return self * 2

    op = plant(table.op, kernel, vjp={"self": lambda g: g * 2})
    finds(checks.check_memory, only(op))


def test_an_inplace_variant_that_differs(plant: Any) -> None:
    op = plant(table.op, _cube, vjp=RIGHT, inplace=True)
    variant = op.write
    op.write = lambda self: variant(self.mul_(1))
    finds(checks.check_inplace, only(op))


def test_an_inplace_variant_with_another_gradient(plant: Any) -> None:
    op = plant(table.op, _cube, vjp=RIGHT, inplace=True)

    def write(self: Any) -> Any:
        version = self._version
        self.copy_(self**3)
        assert self._version == version + 1
        return self

    op.write = write
    finds(checks.check_inplace, only(op))


def test_a_kernel_that_needs_contiguous_memory(plant: Any) -> None:
    def kernel(xp: Any, self: Any) -> Any:
        return xp.asarray(numpy.ravel(self, order="K")).reshape(self.shape) * 2

    op = plant(table.op, kernel, vjp={"self": lambda g: g * 2})
    finds(checks.check_strided, only(op))


def test_a_kernel_that_widens(plant: Any) -> None:
    op = plant(table.op, lambda xp, self: self * xp.float64(2.0), vjp={"self": lambda g: g * 2})
    finds(checks.check_float32, only(op))


def test_a_kernel_that_leaves_its_array_library(plant: Any) -> None:
    from ag_visual.arrays import backend_for

    op = plant(
        table.op, lambda xp, self: numpy.exp(self), vjp={"self": lambda g, result: g * result}
    )
    checks.check_vjp(only(op))
    with pytest.raises((AssertionError, TypeError)):
        checks.check_backend(only(op), backend_for(STRICT.device_type))


def test_a_promotion_that_is_left_to_numpy(plant: Any) -> None:
    """float32 with a 0-d float64 stays float32."""
    from ag_visual.core.tensor import from_array

    op = plant(
        families.binary,
        lambda other: other,
        lambda self: self,
        "multiply",
        policy=KEEP,
        samples=pairs,
    )
    right = table.ops["mul"]
    assert right.policy == PROMOTE
    small = from_array(numpy.ones((2,), numpy.float32))
    wide = from_array(numpy.asarray(2.0))
    assert right.call(small, wide)._array.dtype == numpy.float32
    assert op.call(small, wide)._array.dtype == numpy.float64


def test_what_users_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    call = only(table.ops["mean_all"])
    checks.check_met(call)
    monkeypatch.setattr(hook_calls, "wrap", lambda x: x if isinstance(x, Tensor) else from_array(x))
    finds(checks.check_met, call)
