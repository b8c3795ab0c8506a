"""The debugger in words: conditions, stepping, and what it shows and changes at a pause."""

from __future__ import annotations

import inspect
import io
import math

import pytest

import ag_visual as ag
from ag_visual.events import instrument
from ag_visual.session.api import debugger
from ag_visual.session.session import current


class Talk:
    """Answers of the reader, and what was printed before each."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, prompt):
        assert prompt == "(autograd) "
        self.asked += 1
        return self.answers.pop(0) if self.answers else "c"


@pytest.fixture(autouse=True)
def nothing_left():
    """No test leaves a gate armed, a breakpoint or a prompt behind."""
    yield
    gate = current().gate
    assert instrument.gate is None
    assert (gate.breakpoints, gate.prompt, gate.paused) == ([], None, None)


def network():
    x = ag.tensor([[1.0, 2.0]], requires_grad=True)
    w = ag.tensor([[0.5], [0.25]], requires_grad=True)
    hidden = (x @ w).sigmoid()
    loss = (hidden * hidden).sum()
    return x, w, loss


def stops(capsys):
    return [
        line.split(": ")[1].split(",")[0]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("-- step")
    ]


def test_without_a_condition_it_stops_at_each_step(capsys):
    *_, loss = network()
    with debugger(ask=Talk("n", "", "n", "n", "c")):
        loss.backward()
    assert stops(capsys) == [
        "SumBackward0",
        "MulBackward0",
        "SigmoidBackward0",
        "MmBackward0",
        "torch::autograd::AccumulateGrad",
    ]


def test_s_runs_on_to_the_next_line_and_leaves_out_accumulation(capsys):
    *_, loss = network()
    with debugger(ask=Talk("s", "s", "s")):
        loss.backward()
    assert stops(capsys) == ["SumBackward0", "SigmoidBackward0"]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"stop": "MmBackward0"}, ["MmBackward0"]),
        ({"norm_above": 1.0}, ["SigmoidBackward0"]),
        ({"shape": (2, None)}, ["torch::autograd::AccumulateGrad"]),
        ({"shape": (1, 1), "stop": "SigmoidBackward0"}, ["SigmoidBackward0"]),
        ({"shape": ()}, ["SumBackward0"]),
        ({"nonfinite": True}, []),
    ],
)
def test_conditions_say_where_it_stops(condition, found, capsys):
    *_, loss = network()
    with debugger(ask=Talk(), **condition):
        loss.backward()
    assert stops(capsys) == found


@pytest.mark.parametrize("above", [float("inf"), float("-inf"), float("nan"), 1e999])
def test_a_norm_to_stop_above_is_finite(above, capsys):
    with pytest.raises(ValueError, match="should be a finite number"):
        debugger(norm_above=above)
    with pytest.raises(ValueError, match="should be a finite number"):
        current().gate.add(above=above)  # as a page or a prompt would
    assert current().gate.breakpoints == []


def test_a_line_of_the_caller_is_a_condition(capsys):
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    line = inspect.currentframe().f_lineno + 1
    y = x.exp()
    with debugger(line=line, ask=Talk()):
        (y * 2).sum().backward()
    assert stops(capsys) == ["ExpBackward0"]


def test_the_first_nan_is_found_by_its_condition_and_by_e(capsys):
    x = ag.tensor([0.0, 1.0], requires_grad=True)
    with debugger(nonfinite=True, ask=Talk()):
        x.sqrt().sqrt().sum().backward()
    assert stops(capsys)[0] == "SqrtBackward0"
    with debugger(ask=Talk("e", "c")):
        x.sqrt().sqrt().sum().backward()
    said = capsys.readouterr().out
    assert "! The gradient that arrives holds a NaN or an infinity." in said


def test_e_stops_before_a_node_whose_saved_tensor_was_overwritten(capsys):
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    z = (y * 3).sum()
    y.add_(1)
    with debugger(ask=Talk("e", "q")), pytest.raises(KeyboardInterrupt, match="debugger"):
        z.backward()
    said = capsys.readouterr().out
    assert (
        "! Its saved tensor result was overwritten: saved at version 0, now at version 1." in said
    )
    assert x.grad is None


def test_e_says_that_nothing_is_wrong():
    *_, loss = network()
    with debugger(ask=Talk("e")):
        loss.backward()
    assert current().message == "The rest of the backward ran without a problem."


@pytest.mark.parametrize(
    ("edit", "gradient"),
    [
        ("scale 10", [20.0, 20.0]),
        ("zero", [0.0, 0.0]),
        ("fill 3", [6.0, 6.0]),
        ("clip 1", [math.sqrt(2.0), math.sqrt(2.0)]),
        ("clip 5", [2.0, 2.0]),
        ("set 1 7", [2.0, 14.0]),
    ],
)
def test_the_gradient_can_be_changed_on_the_way(edit, gradient, capsys):
    x = ag.tensor([3.0, 4.0], requires_grad=True)
    seed = ag.tensor([1.0, 1.0])
    with debugger("MulBackward0", ask=Talk(edit, "c")):
        (x * 2).backward(seed)
    assert x.grad.tolist() == pytest.approx(gradient)
    assert seed.tolist() == [1.0, 1.0], "what the user gave is never written to"
    assert "2 float32" in capsys.readouterr().out


def test_an_element_of_a_matrix_is_named_by_its_row_and_column():
    w = ag.ones(2, 3, requires_grad=True)
    with debugger("MulBackward0", ask=Talk("set 1,2 9", "c")):
        (w * 2).sum().backward()
    assert w.grad.tolist() == [[2.0, 2.0, 2.0], [2.0, 2.0, 18.0]]


def test_a_gradient_with_a_graph_is_not_changed(capsys):
    x = ag.tensor([3.0], requires_grad=True)
    with debugger("MulBackward0", ask=Talk("scale 2", "c")):
        (gradient,) = ag.autograd.grad((x * x).sum(), x, create_graph=True)
    assert "change it in a hook instead" in capsys.readouterr().out
    assert gradient.tolist() == [6.0]


def test_it_shows_values_places_and_breakpoints(capsys):
    _, w, loss = network()
    answers = (
        "p",
        "p result",
        "p nothing",
        "w",
        "b norm>2",
        "b nan",
        "b 4x2",
        "b",
        "d 2",
        "x",
        "h",
    )
    with debugger("SigmoidBackward0", ask=Talk(*answers, "c")):
        loss.backward()
    said = capsys.readouterr().out
    assert "1×1 float32, from 1.462 to 1.462" in said
    assert "0.7311" in said
    assert "SigmoidBackward0 has no saved tensor 'nothing'" in said
    assert "saved result: 1×1 float32, v0" in said
    assert "goes on to MmBackward0" in said
    assert "gradient norm above 2" in said
    assert "gradient of shape 4x2" in said
    assert "'x' is not known here" in said
    assert "overwritten saved tensor" in said
    assert w.grad is not None


def test_q_ends_the_backward_and_its_breakpoints():
    x, w, loss = network()
    with debugger(ask=Talk("n", "q")), pytest.raises(KeyboardInterrupt):
        loss.backward()
    assert (x.grad, w.grad) == (None, None)


def test_an_end_of_input_is_q(monkeypatch):
    *_, loss = network()

    def closed(prompt):
        raise EOFError

    with debugger(ask=closed), pytest.raises(KeyboardInterrupt):
        loss.backward()


def test_where_nobody_can_answer_it_warns_and_stops_nowhere(monkeypatch):
    *_, loss = network()
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    with pytest.warns(UserWarning, match="Nothing could end a pause"), debugger():
        loss.backward()


def test_the_cell_magic_talks_in_a_terminal(monkeypatch, capsys):
    from IPython.core.interactiveshell import InteractiveShell

    from ag_visual.session.magics import register_magics

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shell = InteractiveShell()
    register_magics(shell)
    monkeypatch.setattr("sys.stdin", Terminal())
    answers = Talk("n", "p", "c")
    monkeypatch.setattr("builtins.input", answers)
    shell.run_cell(
        "%%autograd step\n"
        "import ag_visual as ag\n"
        "x = ag.tensor([2.0], requires_grad=True)\n"
        "(x * x).sum().backward()"
    )
    assert stops(capsys) == ["SumBackward0", "MulBackward0"]
    assert answers.asked == 3
