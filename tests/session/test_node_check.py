"""Checking nodes by finite differences: right ones pass, wrong ones are found, nothing moves."""

from __future__ import annotations

import random
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import ag_visual as ag
from ag_visual.core import node as nodes
from ag_visual.dispatch.op_node import OpNode
from ag_visual.session import node_check
from ag_visual.session.node_check import check_node
from ag_visual.session.session import current

from ..properties import cases
from .waiting import PATIENCE, until


def made(op, call):
    values, _ = call.tensors()
    positional, named = cases.arguments(op, values)
    outputs = op.call(*positional, **named)
    outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    found = [out.grad_fn for out in outputs if isinstance(out.grad_fn, OpNode)]
    return found[0] if found and found[0].op is op else None


@cases.every(cases.differentiable)
def test_no_right_derivative_is_called_wrong(op):
    for call in cases.calls(op):
        if not call.smooth or any(not a.size for a in call.leaves.values()):
            continue
        node = made(op, call)
        if node is None:
            continue
        found = check_node(node, elements=6)
        assert found.verdict != "differs", str(found)
        assert found.ok == (found.verdict == "agrees")
        if found.verdict == "unknown":
            assert found.why_not


def test_most_ops_can_be_checked():
    verdicts = []
    for op in ag.dispatch.table.ops.values():
        if not cases.differentiable(op) or not op.samples or op.name.endswith("_backward"):
            continue
        call = next((c for c in cases.calls(op) if c.smooth and c.leaves), None)
        node = None if call is None else made(op, call)
        if node is not None:
            verdicts.append(check_node(node, elements=2).verdict)
    assert verdicts.count("agrees") > 0.8 * len(verdicts)


@pytest.mark.parametrize("name", ["sin", "exp", "sqrt", "sigmoid"])
def test_a_wrong_rule_is_found(name, monkeypatch):
    x = (ag.rand(3, 4, dtype=ag.float64) + 0.5).requires_grad_()
    node = getattr(x, name)().grad_fn
    right = type(node)._run
    monkeypatch.setattr(
        type(node), "_run", lambda self, F, g, unpack: [x * 1.01 for x in right(self, F, g, unpack)]
    )
    found = check_node(node)
    assert found.verdict == "differs"
    assert found.inputs[0].relative == pytest.approx(0.01, rel=0.02)


class Cube(ag.autograd.Function):
    """x^3, with a wrong derivative on request."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return ctx.factor * g * x * x, None


def test_a_right_custom_function_passes():
    x = ag.tensor([1.0, 2.0, -3.0], requires_grad=True)
    found = ag.check_node(Cube.apply(x, 3))
    assert found
    assert found.verdict == "agrees"
    assert [one.name for one in found.inputs] == ["x"]
    assert str(found).startswith("✓ CubeBackward agrees with finite differences")


def test_a_wrong_custom_function_is_found_with_its_worst_element():
    x = ag.tensor([1.0, 2.0, -3.0], requires_grad=True)
    found = ag.check_node(Cube.apply(x, 2))
    assert not found
    assert found.verdict == "differs"
    (one,) = found.inputs
    assert one.worst.index == (2,)
    assert one.relative == pytest.approx(1 / 3, rel=1e-4)
    assert "✗ x" in str(found)
    assert "x[2]" in str(found)


class OneWrong(ag.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        wrong = x.clone()
        wrong[1] = 0.0
        return g * y, g * wrong


def test_only_the_wrong_input_is_marked():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = ag.tensor([3.0, 4.0], requires_grad=True)
    found = check_node(OneWrong.apply(x, y))
    assert [(one.name, one.ok) for one in found.inputs] == [("x", True), ("y", False)]
    assert found.inputs[1].worst.index == (1,)


def test_a_function_whose_input_is_gone_says_so():
    class Double(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = ag.ones(3, requires_grad=True)
    node = Double.apply(x.exp()).grad_fn
    found = check_node(node)
    assert found.verdict == "unknown"
    assert "'x' of Double is gone" in found.why_not


def test_an_error_in_the_users_forward_is_told():
    class Picky(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            if x.dtype == ag.float64:
                raise ValueError("only single precision")
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    found = check_node(Picky.apply(ag.ones(2, requires_grad=True)))
    assert "ValueError: only single precision" in found.why_not


def test_what_cannot_be_checked_says_why():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    node = y.grad_fn
    y.sum().backward()
    assert "freed by this backward" in check_node(node).why_not
    leaf = node.next_functions[0][0]
    assert "a leaf only adds" in check_node(leaf).why_not
    z = x * 2
    w = z * z
    z.add_(1)
    assert "overwritten since it was saved" in check_node(w).why_not
    dropped = ag.nn.functional.dropout(ag.ones(50, requires_grad=True) * 1, training=True)
    assert check_node(dropped).verdict in ("agrees", "unknown")
    big = ag.ones(3_000_000, requires_grad=True) * 2
    assert "more than 2,000,000 elements" in check_node(big).why_not
    with pytest.raises(TypeError, match="takes a node"):
        check_node(ag.ones(2))
    with pytest.raises(ValueError, match="1 or more"):
        check_node(x.sin(), elements=0)


def test_an_input_that_was_not_saved_is_found_below():
    x = ag.tensor([0.5, 1.0], requires_grad=True)
    assert check_node(x.exp()).ok  # a leaf
    assert check_node((x * x).exp()).ok  # computed again
    assert check_node(x.exp().exp()).ok  # the result that the node below saved
    made_up = check_node((x + 1) * 3.0)  # no gradient depends on it
    assert made_up.ok


def test_non_smooth_points_are_left_out():
    x = ag.tensor([0.0, 1.0, -1.0], requires_grad=True)
    found = check_node(x.relu())
    assert found.ok
    assert found.inputs[0].non_smooth == 1
    assert "1 at a non-smooth point left out" in str(found)


def test_nothing_of_the_program_is_disturbed():
    class Noisy(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            noise = ag.rand(3) + np.random.rand(3) + random.random()
            y = x * 2
            y.add_(noise)
            return y

        @staticmethod
        def backward(ctx, g):
            ctx.calls = getattr(ctx, "calls", 0) + 1
            return g * 2

    hooked = []
    ag.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    x = ag.ones(3, requires_grad=True)
    x.register_hook(lambda g: hooked.append(g))
    y = Noisy.apply(x)
    y.grad_fn.register_hook(lambda *args: hooked.append(args))
    states = ag.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()
    version = x._version
    with ag.record() as recorded:
        recorder = current().recorder
        recorder.drain()
        sequence = repr(nodes.sequence)
        found = check_node(y)
        recorder.drain()
        assert repr(nodes.sequence) == sequence
        assert recorded.recording.rows("writes") == 0
    assert found.ok
    assert (ag.get_rng_state().tolist(), random.getstate()) == states[:2]
    assert np.random.get_state()[1].tolist() == states[2]
    assert x._version == version
    assert hooked == []
    assert not hasattr(y.grad_fn, "calls")
    y.sum().backward()  # its saved tensors are still there
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert ag.is_grad_enabled()
    assert not [t for t in threading.enumerate() if t.name == "ag_visual check"]


def test_a_forward_that_is_different_each_time_cannot_be_checked():
    class Counting(ag.autograd.Function):
        count = 0

        @staticmethod
        def forward(ctx, x):
            Counting.count += 1
            return x * Counting.count

        @staticmethod
        def backward(ctx, g):
            return g

    found = check_node(Counting.apply(ag.ones(2, requires_grad=True)))
    assert "another result each time" in found.why_not


def test_complex_and_narrow_types():
    z = ag.randn(3, dtype=ag.complex128, requires_grad=True)
    assert check_node(z.exp()).ok
    assert check_node(z.abs()).ok
    assert check_node(ag.randn(4, dtype=ag.float16, requires_grad=True).sin()).ok
    assert check_node(ag.randn(4, dtype=ag.bfloat16, requires_grad=True).tanh()).ok


def test_a_graph_that_forward_makes_for_itself_is_not_recorded():
    class Inner(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with ag.enable_grad():
                y = x.detach().requires_grad_()
                (slope,) = ag.autograd.grad((y * y * y).sum(), y)
            ctx.save_for_backward(x)
            return slope

        @staticmethod
        def backward(ctx, g):
            return g * 6 * ctx.saved_tensors[0]

    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = Inner.apply(x)
    with ag.record() as recorded:
        (x * 2).sum().backward()
        before = [recorded.recording.rows(table) for table in ("nodes", "runs", "tasks", "edges")]
        assert check_node(y).ok
        after = [recorded.recording.rows(table) for table in ("nodes", "runs", "tasks", "edges")]
        (x * 3).sum().backward()
    assert before == after
    assert recorded.recording.rows("tasks") == 2


class SlopeOfCube(ag.autograd.Function):
    """3 x^2, whose backward differentiates a graph of its own, as a checkpoint's does."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 3 * x * x

    @staticmethod
    def backward(ctx, g):
        with ag.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            (slope,) = ag.autograd.grad((x.exp().log() * x * 3).sum(), x)
        return g * slope


def test_a_check_at_a_pause_runs_through_breakpoints_and_ends_no_recording():
    session = current()
    gate = session.gate
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = SlopeOfCube.apply(x)
    node = y.grad_fn
    found = []
    session.start("once")
    gate.add(name="SlopeOfCubeBackward")
    backward = threading.Thread(target=lambda: y.sum().backward(), daemon=True)
    backward.start()
    try:
        until(lambda: gate.paused is not None and gate.paused.seq == node.seq)
        inner = gate.add(name="ExpBackward0")
        check = threading.Thread(target=lambda: found.append(check_node(node)), daemon=True)
        check.start()
        check.join(PATIENCE)
        assert found, "the check waits for the pause, and the pause for the check"
        assert found[0].ok, str(found[0])
        assert gate.paused.seq == node.seq
        assert gate.waiting == 0
        assert session.recorder.on  # the check's backwards are not the one that was asked for
        gate.remove(id=inner.id)
    finally:
        gate.breakpoints_off()
        gate.go_on()
        backward.join(PATIENCE)
        session.clear()
        session.stop()
    assert x.grad.tolist() == pytest.approx([6.0, 12.0])


class Slow(ag.autograd.Function):
    """x, once a forward that takes its time has been let go."""

    entered = threading.Event()
    runs = 0

    @staticmethod
    def forward(ctx, x):
        Slow.runs += 1
        if Slow.runs == 4:  # after the node's own one and two that should agree: an element
            Slow.entered.set()
            time.sleep(0.3)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g


def test_an_interrupted_check_has_ended_when_the_interrupt_is_raised(monkeypatch):
    Slow.runs = 0
    Slow.entered.clear()
    node = Slow.apply(ag.ones(30, requires_grad=True)).grad_fn
    waits = []

    def interrupted(done):
        done.wait(0.05)
        if Slow.entered.is_set() and not waits:
            waits.append(done)
            raise KeyboardInterrupt

    monkeypatch.setattr(node_check, "_some_time", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check_node(node)
    assert waits
    assert not [t for t in threading.enumerate() if t.name == "ag_visual check"]
    runs = Slow.runs
    assert runs <= 5  # it ends with the element that it was at
    state = np.random.get_state()[1].tolist()
    time.sleep(0.05)
    assert (Slow.runs, np.random.get_state()[1].tolist()) == (runs, state)


class Endless(ag.autograd.Function):
    """Its forward does not end once it is run again."""

    runs = 0
    entered = threading.Event()

    @staticmethod
    def forward(ctx, x):
        Endless.runs += 1
        if Endless.runs > 1:
            Endless.entered.set()
            while True:
                time.sleep(0.001)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g


@pytest.mark.parametrize("begins", [True, False])
def test_a_second_interrupt_ends_a_forward_that_does_not_end(monkeypatch, begins):
    Endless.runs = 0
    Endless.entered.clear()
    node = Endless.apply(ag.ones(3, requires_grad=True)).grad_fn
    start, raised = threading.Thread.start, []

    def interrupted_start(thread):
        start(thread)
        if begins and thread.name == "ag_visual check":
            raised.append("start")
            raise KeyboardInterrupt

    def interrupted(done):
        done.wait(0.05)
        if Endless.entered.is_set() and len(raised) < 2:
            raised.append("wait")
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted_start)
    monkeypatch.setattr(node_check, "_some_time", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check_node(node)
    assert len(raised) == 2
    assert not [t for t in threading.enumerate() if t.name == "ag_visual check"]


def test_a_check_that_the_second_interrupt_met_at_its_end_is_over(monkeypatch):
    class Unsaid(threading.Event):
        def set(self):
            if threading.current_thread().name == "ag_visual check":
                raise node_check._Ended
            super().set()

    shown = {name: getattr(threading, name) for name in dir(threading)}
    monkeypatch.setattr(node_check, "threading", SimpleNamespace(**shown | {"Event": Unsaid}))
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    assert node_check.in_own_thread(lambda stopped: 7) == 7


def test_the_time_limit_holds_where_every_element_is_non_smooth(monkeypatch):
    monkeypatch.setattr(node_check, "SECONDS", 0.0)
    found = check_node(ag.zeros(30, requires_grad=True).relu())
    (one,) = found.inputs
    assert (one.compared, one.non_smooth) == (0, 1)


class Counted(ag.autograd.Function):
    """2 x, which writes down in what it is given that it ran."""

    @staticmethod
    def forward(ctx, x, runs, *settings):
        if isinstance(runs, list):
            runs.append(1)
        else:
            runs.count += 1
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2, *[None] * (len(ctx.needs_input_grad) - 1)


class Runs:
    count = 0


def test_an_object_of_the_program_is_not_run_on_again():
    runs = Runs()
    found = check_node(Counted.apply(ag.ones(3, requires_grad=True), runs))
    assert runs.count == 1
    assert found.verdict == "unknown"
    assert "argument 'runs' of Counted is an object of your program (Runs)" in found.why_not
    mixed = check_node(Counted.apply(ag.ones(3, requires_grad=True), [runs]))
    assert "argument 'runs' of Counted is an object of your program (list)" in mixed.why_not


def test_plain_arguments_are_handed_on_as_copies():
    runs = [1]
    settings = ag.float32, ag.device("cpu"), ag.strided, ..., np.int64(3), slice(1, 2)
    found = check_node(Counted.apply(ag.ones(3, requires_grad=True), runs, *settings))
    assert found.ok, str(found)
    assert runs == [1, 1]
