"""Properties of every op of the table, stated once and run on each record's samples."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy
import pytest

from ag_visual.arrays import BackendUnavailable, backend_for
from ag_visual.dispatch.record import Op
from ag_visual.dispatch.table import ops

from ..arrays.strict import STRICT
from . import checks
from .cases import Maker, calls, carrying, complex_calls, differentiable, every, refuses, run

BACKENDS = [pytest.param(STRICT.device_type, id="strict")]
with suppress(BackendUnavailable):
    BACKENDS.append(pytest.param(backend_for("cuda").device_type, id="cupy", marks=pytest.mark.gpu))


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """Infinities come up on purpose; the engine is silent about them, these formulas are not."""
    with numpy.errstate(all="ignore"):
        yield


def test_every_op_has_samples() -> None:
    assert [op.name for op in ops.values() if op.samples is None] == []


@every(lambda op: True)
def test_it_runs_on_each_sample(op: Op) -> None:
    found = calls(op)
    assert found
    for call in found:
        values, leaves = call.tensors()
        outputs = run(op, values)
        assert op.multi or len(outputs) == len(op.outputs)
        for out in carrying(op, outputs):
            grows = bool(op.rules) and bool(leaves) and out.dtype.category > 1
            assert out.requires_grad == grows


@every(lambda op: op.reference)
def test_values_agree_with_an_independent_formula(op: Op) -> None:
    for call in calls(op):
        expected = op.reference(numpy, *call.values.values())
        checks.close(checks.forward(call)[0], expected, op.name, rtol=1e-9, atol=1e-12)


@every(differentiable)
def test_vjp_against_finite_differences(op: Op) -> None:
    smooth = [call for call in calls(op) if call.smooth]
    for call in smooth:
        checks.check_vjp(call)


@every(lambda op: differentiable(op) and not op.real_only)
def test_complex_vjp_against_finite_differences(op: Op) -> None:
    for call in complex_calls(op):
        if call.smooth:
            checks.check_vjp(call)


@every(differentiable)
def test_jvp_against_vjp(op: Op) -> None:
    for call in calls(op):
        if call.smooth:
            checks.check_jvp(call)


@every(lambda op: differentiable(op) and not op.real_only)
def test_complex_jvp_against_vjp(op: Op) -> None:
    for call in complex_calls(op):
        if call.smooth:
            checks.check_jvp(call)


@every(differentiable)
def test_double_backward_against_finite_differences(op: Op) -> None:
    for call in calls(op):
        if call.smooth:
            checks.check_double(call)


@every(lambda op: differentiable(op) and not op.real_only)
def test_complex_double_backward_against_finite_differences(op: Op) -> None:
    for call in complex_calls(op)[:2]:
        if call.smooth:
            checks.check_double(call)


@every(differentiable)
def test_a_recorded_backward_gives_the_same(op: Op) -> None:
    for call in calls(op):
        checks.check_traced(call)


@every(differentiable)
def test_gradients_that_the_user_meets_may_be_written(op: Op) -> None:
    for call in calls(op):
        checks.check_met(call)


@every(lambda op: not refuses(op))
def test_the_built_path_does_what_the_reference_path_does(op: Op) -> None:
    for call in calls(op):
        checks.check_paths(call)


@every(refuses)
def test_a_derivative_that_is_missing_says_so(op: Op) -> None:
    values, _ = calls(op)[0].tensors()
    out = run(op, values)[0]
    with pytest.raises(RuntimeError, match="is not implemented"):
        out.sum().backward()


@every(lambda op: True)
def test_it_shares_memory_if_and_only_if_it_is_a_view(op: Op) -> None:
    for call in calls(op):
        checks.check_memory(call)


@every(lambda op: op.inplace and not refuses(op))
def test_in_place_equals_out_of_place(op: Op) -> None:
    fitting = [call for call in calls(op) if checks.inplace_fits(call)]
    for call in fitting:
        checks.check_inplace(call)


@every(lambda op: op.errors)
def test_bad_calls_raise(op: Op) -> None:
    from ag_visual.core.tensor import from_array

    def given(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(given(item) for item in value)
        return from_array(value) if isinstance(value, numpy.ndarray) else value

    for sample in op.errors(Maker(op.name)):
        arguments = [given(value) for value in sample.args]
        with pytest.raises(sample.error) as caught:
            op.call(*arguments, **{name: given(v) for name, v in sample.kwargs.items()})
        assert sample.phrase in str(caught.value)


@every(lambda op: not refuses(op))
def test_noncontiguous_inputs(op: Op) -> None:
    for call in calls(op):
        if call.smooth and not op.layout_dependent:
            checks.check_strided(call)


@every(lambda op: not refuses(op) and "dtype" not in op.params)
def test_float32(op: Op) -> None:
    for call in calls(op):
        if call.smooth:
            checks.check_float32(call)


@every(lambda op: not refuses(op) and "device" not in op.params)
@pytest.mark.parametrize("device", BACKENDS)
def test_another_array_library(op: Op, device: str) -> None:
    for call in calls(op):
        checks.check_backend(call, backend_for(device))
