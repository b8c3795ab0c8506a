"""Forward mode of every op of the table, by dual tensors: values, tangents, memory, writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.autograd import forward_ad
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch.jvp import refusing
from ag_visual.dispatch.record import Op

from . import checks
from .cases import Call, calls, carrying, every, host, run
from .opinfo import names
from .transforms import DUALS, compared, laid_alike


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with numpy.errstate(all="ignore"):
        yield


def differentiable_forwards(op: Op) -> bool:
    return op.jvp is not None and not any(refusing(op, name) for name in op.diff_inputs)


def duals(call: Call, moves: dict[str, Any]) -> tuple[dict[str, Any], list[Tensor]]:
    """The arguments of a call, its leaves with tangents, and these."""
    values, _ = call.tensors(grad=False)
    given: list[Tensor] = []

    def dual(label: str, x: Any) -> Any:
        if label not in moves:
            return x
        made = forward_ad.make_dual(x, from_array(numpy.array(moves[label])))
        given.append(forward_ad.unpack_dual(made).tangent)  # type: ignore[arg-type]
        return made

    for name, value in values.items():
        if name in call.op.lists:
            values[name] = tuple(dual(f"{name}[{i}]", x) for i, x in enumerate(value))
        else:
            values[name] = dual(name, value)
    return values, given


@every(differentiable_forwards)
def test_duals_agree_with_the_record(op: Op) -> None:
    for call in calls(op):
        moves = checks.directions(call.leaves, 9)
        if not moves:
            continue
        plain = run(op, call.tensors(grad=False)[0])
        ag.manual_seed(11)
        expected = checks._forward(op, call.values, checks._by_input(call, moves), checks.raw_numpy)
        with forward_ad.dual_level():
            values, given = duals(call, moves)
            outputs = run(op, values)
            for out, same in zip(outputs, plain, strict=True):
                numpy.testing.assert_array_equal(host(out), host(same))
            for out, array in zip(carrying(op, outputs), expected, strict=True):
                tangent = forward_ad.unpack_dual(out).tangent
                if out.dtype.category < 2:
                    assert tangent is None
                    continue
                assert tangent is not None
                want = numpy.broadcast_to(array, out.shape).astype(host(tangent).dtype)
                checks.close(host(tangent), want, op.name, 1e-9, 1e-12)
                assert laid_alike(out, tangent)
                if not (op.view or op.may_donate):
                    shared = [numpy.shares_memory(tangent._array, x._array) for x in given]
                    assert not any(shared), "a tangent is that of an input"


@every(lambda op: differentiable_forwards(op) and op.inplace)
def test_in_place_forms_write_the_tangent(op: Op) -> None:
    first = op.params[0]
    for call in calls(op):
        moves = checks.directions(call.leaves, 9)
        if first not in moves or not checks.inplace_fits(call):
            continue
        with forward_ad.dual_level():
            expected = forward_ad.unpack_dual(run(op, duals(call, moves)[0])[0])
            values, given = duals(call, moves)
            target = values[first]
            written = run(op, values, op.write)[0]
            assert written is target
            found = forward_ad.unpack_dual(target)
            numpy.testing.assert_array_equal(host(found.primal), host(expected.primal))
            checks.close(host(found.tangent), host(expected.tangent), op.name, 1e-9, 1e-12)
            assert any(found.tangent is x for x in given), "written into the tangent that was given"


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_torchs_samples_agree() -> None:
    found = [compared(name, False, DUALS, 1) for name in names()]
    assert sum(result.samples > 0 for result in found) > 400
    assert {result.name: result.differences for result in found if result.differences} == {}
