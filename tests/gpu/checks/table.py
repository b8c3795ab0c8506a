"""Every op of the table on the device: what it gives there is what it gives on the host."""

from __future__ import annotations

import contextlib
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

import ag_visual as ag
from ag_visual.arrays import backend_for
from ag_visual.autograd.api import grad
from ag_visual.core.tensor import from_array
from ag_visual.dispatch.record import Op
from ag_visual.dispatch.table import ops

from ...properties import cases, checks as properties
from ...properties.cases import Call, calls, carrying, cotangents, host, run
from ..page import Machine, check, for_each

Wrap = Callable[[Any], Any]
TESTS = Path(__file__).parents[2]


def over(
    machine: Machine,
    condition: Callable[[Op], Any],
    property: Callable[[Call, Any], None],
    most: int | None = None,
) -> str:
    """A property of each call (or at most so many) of the ops that meet a condition."""
    chosen = [op for op in ops.values() if op.samples and "device" not in op.params]
    chosen = [op for op in chosen[:: machine.every] if not cases.refuses(op) and condition(op)]
    backend = backend_for(machine.device)

    def case(op: Op) -> None:
        with numpy.errstate(all="ignore"):
            for call in calls(op)[:most]:
                property(call, backend)

    return for_each((op.name, lambda op=op: case(op)) for op in chosen)


def _wraps(backend: Any) -> tuple[Wrap, Wrap]:
    return from_array, lambda array: from_array(backend.from_numpy(array))


def _agree(call: Call, pairs: Any, what: str, rtol: float = 1e-8, atol: float = 1e-10) -> None:
    for expected, found in pairs:
        assert (expected is None) is (found is None), f"{what}: there is no gradient on one side"
        if expected is not None and call.smooth:
            properties.close(host(found), host(expected), what, rtol, atol)


@check("table")
def values_and_gradients(machine: Machine) -> str:
    """Forward, and backward without a graph; all results are arrays of the device."""
    return over(machine, lambda op: True, properties.check_backend)


@check("table")
def values_and_gradients_in_float32(machine: Machine) -> str:
    """The same in the dtype that GPUs are bought for; the host's result may differ by rounding."""
    return _in_dtype(machine, "float32", 2e-3, 2e-4)


@check("table")
def values_and_gradients_in_float16(machine: Machine) -> str:
    """Half precision; a result may be the next number."""
    return _in_dtype(machine, "float16", 2e-2, 2e-2)


@check("table")
def values_and_gradients_of_complex_numbers(machine: Machine) -> str:
    """Inputs with imaginary parts."""

    def property(call: Call, backend: Any) -> None:
        for each in cases.complex_calls(call.op)[:2]:
            if each.smooth:
                properties.check_backend(each, backend)

    return over(machine, lambda op: cases.differentiable(op) and not op.real_only, property, most=1)


def _in_dtype(machine: Machine, real: str, rtol: float, atol: float) -> str:
    """Values and gradients in a dtype, as near to the host's as these."""
    narrow = {"f": numpy.dtype(real), "c": numpy.dtype("complex64")}

    def sides(call: Call, wrap: Wrap) -> list[Any]:
        values, leaves = call.tensors(wrap)
        outputs = run(call.op, values)
        gs = cotangents(call.op, outputs)
        found = list(carrying(call.op, outputs))
        pairs = [(o, wrap(g)) for o, g in zip(found, gs, strict=True) if o.requires_grad]
        grads: Any = []
        if pairs and leaves:
            roots, seeds = [o for o, _ in pairs], [g for _, g in pairs]
            grads = grad(roots, list(leaves.values()), seeds, allow_unused=True)
        return [*(o.detach() for o in found), *grads]

    def property(call: Call, backend: Any) -> None:
        if not call.smooth:
            return
        call = call.mapped(lambda a: a.astype(narrow[a.dtype.kind]))
        here, there = _wraps(backend)
        try:
            wanted = sides(call, here)
        except (RuntimeError, TypeError, NotImplementedError):
            return  # an op that takes no such dtype
        found = sides(call, there)
        assert [x is None or x.dtype for x in found] == [x is None or x.dtype for x in wanted]
        _agree(call, zip(wanted, found, strict=True), real, rtol, atol)

    return over(machine, lambda op: "dtype" not in op.params, property)


@check("table")
def strided_inputs(machine: Machine) -> str:
    """Inputs in memory with gaps and in another order."""

    def property(call: Call, backend: Any) -> None:
        if not call.smooth or call.op.layout_dependent:
            return

        def wrap(array: Any) -> Any:
            there = from_array(backend.from_numpy(array.copy()))
            if array.ndim == 0:
                return there
            gaps = ag.stack([there, there], -1).movedim(0, -1).contiguous().movedim(-1, 0)
            return gaps.select(-1, 0).detach()

        values, _ = call.tensors(wrap, grad=False)
        plain, _ = call.tensors(grad=False)
        pairs = zip(run(call.op, plain), run(call.op, values), strict=True)
        _agree(call, pairs, "strided")

    return over(machine, lambda op: True, property)


def _twice(call: Call, wrap: Wrap) -> list[Any]:
    """The gradients of a call's leaves, and the gradients of their sum halved."""
    values, leaves = call.tensors(wrap)
    outputs = run(call.op, values)
    gs = [wrap(g) for g in cotangents(call.op, outputs)]
    met = zip(carrying(call.op, outputs), gs, strict=True)
    pairs = [(o, g.requires_grad_()) for o, g in met if o.requires_grad]
    if not pairs or not leaves:
        return []
    inputs, roots, seeds = list(leaves.values()), [o for o, _ in pairs], [g for _, g in pairs]
    first = grad(roots, inputs, seeds, create_graph=True, allow_unused=True)
    again = [each for each in first if each is not None and each.requires_grad]
    second: Any = []
    if again:
        halves = [ag.ones_like(each) * 0.5 for each in again]
        second = grad(again, [*inputs, *seeds], halves, allow_unused=True)
    return [*(None if each is None else each.detach() for each in first), *second]


@check("table")
def second_derivatives(machine: Machine) -> str:
    """A recorded backward and the gradient of its gradients, or the same refusal."""

    def property(call: Call, backend: Any) -> None:
        sides = []
        for wrap in _wraps(backend):
            try:
                sides.append(_twice(call, wrap))
            except (RuntimeError, NotImplementedError) as refused:
                sides.append([ag.tensor(float(zlib.crc32(str(refused).encode())))])
        _agree(call, zip(*sides, strict=True), "second derivative", 1e-6, 1e-8)

    return over(machine, cases.differentiable, property)


@check("table")
def forward_mode(machine: Machine) -> str:
    """Tangents of the outputs along one direction."""

    def property(call: Call, backend: Any) -> None:
        if not call.leaves:
            return
        moves = properties.directions(call.leaves)
        sides = []
        for wrap in _wraps(backend):
            values, leaves = call.tensors(wrap)
            with ag.autograd.forward_ad.dual_level():
                dual = {
                    id(leaf): ag.autograd.forward_ad.make_dual(leaf, wrap(moves[label]))
                    for label, leaf in leaves.items()
                }
                given = {
                    name: tuple(dual.get(id(v), v) for v in value)
                    if name in call.op.lists
                    else dual.get(id(value), value)
                    for name, value in values.items()
                }
                outputs = carrying(call.op, run(call.op, given))
                sides.append(
                    [ag.autograd.forward_ad.unpack_dual(o).tangent.detach() for o in outputs]
                )
        _agree(call, zip(*sides, strict=True), "tangent")

    return over(machine, lambda op: cases.differentiable(op) and op.jvp is not None, property)


@check("table")
def in_place(machine: Machine) -> str:
    """`name_` writes what the op gives, and counts the write."""

    def property(call: Call, backend: Any) -> None:
        if not properties.inplace_fits(call):
            return
        (_, wrap), first = _wraps(backend), call.op.params[0]
        values, _ = call.tensors(wrap, grad=False)
        plain, _ = call.tensors(grad=False)
        (written,) = run(call.op, values, call.op.write)
        assert written is values[first]
        assert written._version == 1
        _agree(call, [(run(call.op, plain)[0], written)], "in place")

    return over(machine, lambda op: op.inplace, property)


@check("table")
def tests_of_kernels_and_modules(machine: Machine) -> str:
    """The suite's own tests with the marker `gpu`: array functions, modules, optimisers, files."""
    import pytest

    class Count:
        ran = 0

        def pytest_runtest_logreport(self, report: Any) -> None:
            self.ran += report.when == "call" and report.passed

    count, output = Count(), io.StringIO()
    folders = ["arrays"] if machine.every > 1 else ["arrays", "nn/test_devices.py"]
    quick = ["-k", "test_backend"] if machine.every > 1 else []
    words = ["-q", "-m", "gpu", "-p", "no:cacheprovider", "--rootdir", str(TESTS.parent), *quick]
    words += ["--ignore", str(TESTS / "arrays" / "test_harness.py")]  # of the strict library itself
    with contextlib.redirect_stdout(output):
        code = pytest.main([*words, *(str(TESTS / name) for name in folders)], [count])
    assert code == 0, output.getvalue()[-3000:]
    return f"{count.ran} tests"
