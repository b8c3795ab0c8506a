"""What the columns of a profile hold to, whatever ran."""

from __future__ import annotations

import importlib
import itertools
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.arrays import fast
from ag_visual.autograd.profiler import profile, record_function
from ag_visual.events import instrument
from ag_visual.events.spans import EVALUATE, NODE, OP
from ag_visual.profiler import collection, wrappers

from ..oracle import torch
from .programs import PROGRAMS


def _names(profile: Any) -> list[str]:
    columns = profile.columns
    return [columns.names[i] for i in columns.spans["name"]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_self_times_add_up_to_the_nanosecond(name: str) -> None:
    run = PROGRAMS[name](ag)
    with profile() as found:
        run()
    spans = found.columns.spans
    outermost = spans[spans["parent"] < 0]
    assert spans["own"].sum() == (outermost["end"] - outermost["start"]).sum()
    assert (spans["own"] >= 0).all()
    total = int(spans["own"].sum())
    assert found.self_cpu_time_total == total / 1000
    averages = found.key_averages()
    assert round(sum(each.self_cpu_time_total for each in averages), 3) == total / 1000


def test_a_subtree_is_one_slice() -> None:
    run = PROGRAMS["transformer_layer"](ag)
    with profile() as found:
        run()
    spans = found.columns.spans
    for row, span in enumerate(spans):
        inside = spans[row + 1 : span["last"]]
        assert (inside["depth"] > span["depth"]).all()
        assert (inside["start"] >= span["start"]).all()
        assert (inside["end"] <= span["end"]).all()
        after = spans[span["last"] : span["last"] + 1]
        assert (after["depth"] <= span["depth"]).all()


def test_a_node_knows_the_op_that_made_it() -> None:
    x = ag.ones(3, requires_grad=True)
    with profile() as found:
        (x.exp() * x.sin()).sum().backward()
    columns = found.columns
    spans, names = columns.spans, _names(found)
    pairs = {
        names[row]: names[span["forward"]]
        for row, span in enumerate(spans)
        if span["kind"] == NODE and span["forward"] >= 0
    }
    assert pairs["ExpBackward0"] == "aten::exp"
    assert pairs["MulBackward0"] == "aten::mul"
    assert (spans["seq"][spans["kind"] == EVALUATE] > 0).all()


def test_averages_of_columns_are_those_of_events() -> None:
    options: dict[str, Any] = {"record_shapes": True, "profile_memory": True, "with_flops": True}
    run = PROGRAMS["mlp"](ag)
    with profile(**options, with_modules=True, with_stack=True) as found:
        for _ in range(3):
            run()
    for shapes, calls in itertools.product((False, True), (0, 1, 2, 5)):
        found._events = None
        quick = found.key_averages(shapes, calls)
        slow = found.function_events.key_averages(shapes, calls)
        assert quick.table(sort_by="count") == slow.table(sort_by="count")
        assert [each.stack for each in quick] == [each.stack for each in slow]
        assert any(each.stack for each in quick) == bool(calls)
        assert [e.cpu_parent is None for e in quick] == [e.cpu_parent is None for e in slow]


@pytest.mark.oracle
def test_memory_between_ops_has_events_of_its_own_as_torchs() -> None:
    told = []
    for t in (torch, ag):
        module = importlib.import_module(f"{t.__name__}.autograd.profiler")
        x = t.ones(64)
        with module.profile(profile_memory=True) as found:
            y = x.exp()
            del y
            z = x.sin()
            del z
        events = [(e.name, e.cpu_memory_usage, bool(e.cpu_parent)) for e in found.function_events]
        averages = [(e.key, e.count, e.self_cpu_memory_usage) for e in found.key_averages()]
        told.append((events, averages))
    assert told[0] == told[1]
    assert told[1][0][1] == ("[memory]", -256, False)
    assert told[1][1][1] == ("[memory]", 2, -512)


def test_the_first_use_of_a_compiled_kernel_is_no_time_of_the_op(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fast, "_known", {})
    monkeypatch.setattr(fast, "_first", lambda name, kind: None)
    x = ag.ones(64, 128)
    with profile() as found, fast.flags(enabled=True):
        x.log_softmax(1)
        x.log_softmax(1)
    softmax = [e for e in found.function_events if e.name == "aten::log_softmax"]
    inside = [[child.name for child in event.cpu_children] for event in softmax]
    assert inside == [["[loading compiled kernels]"], []]


def test_nested_profiles_are_both_complete() -> None:
    x = ag.ones(3)
    with profile() as outer:
        x.sin()
        with profile(record_shapes=True) as inner:
            x.cos()
        x.exp()
    assert _names(outer) == ["aten::sin", "aten::cos", "aten::exp"]
    assert _names(inner) == ["aten::cos"]
    first, second = profile(), profile()
    first.__enter__()
    x.sin()
    second.__enter__()
    x.cos()
    first.__exit__(None, None, None)
    x.exp()
    second.__exit__(None, None, None)
    assert _names(first) == ["aten::sin", "aten::cos"]
    assert _names(second) == ["aten::cos", "aten::exp"]


def test_each_thread_has_its_own_tree() -> None:
    x = ag.ones(3, requires_grad=True)
    together = threading.Barrier(3)  # the identifier of a thread that has ended is used again

    def work() -> None:
        for _ in range(20):
            (x * 2).sum().backward()
        together.wait()

    threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(3)]
    start = threading.Thread.start
    with profile() as found:
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    spans = found.columns.spans
    assert sorted(name for _, name in found.columns.threads) == [f"worker {i}" for i in range(3)]
    assert threading.Thread.start is start
    inner = spans["parent"] >= 0
    assert (spans["thread"][spans["parent"][inner]] == spans["thread"][inner]).all()
    assert _names(found).count("MulBackward0") == 60


def test_ranges_of_a_generator_end_where_it_ends() -> None:
    def steps() -> Any:
        with record_function("generator"):
            yield ag.ones(2).sin()

    with profile() as found:
        made = steps()
        next(made)
        ag.ones(2).cos()
        assert list(made) == []
    columns = found.columns
    spans, names = columns.spans, _names(found)
    around = names.index("generator")
    assert {names[i] for i in range(around + 1, spans["last"][around])} >= {"aten::sin"}


def test_what_raises_is_told_and_everything_goes_on() -> None:
    x = ag.ones(3, requires_grad=True)

    def fail(g: Any) -> Any:
        raise ZeroDivisionError

    y = x * 2
    y.register_hook(fail)
    with pytest.raises(ZeroDivisionError), profile() as found, record_function("range"):
        y.sum().backward()
    assert "range" in _names(found)
    assert "autograd::engine::evaluate_function: MulBackward0" in _names(found)
    assert instrument.spans is None
    with profile() as found, pytest.raises(RuntimeError):
        ag.ones(2, 3) @ ag.ones(2, 3)
    assert "aten::matmul" in _names(found)


def test_a_profile_is_entered_once_and_asked_after_its_end() -> None:
    with profile() as found:
        ag.ones(2).sin()
        assert str(found) == "<unfinished torch.autograd.profile>"
        assert found.key_averages() == found.function_events == []
        with pytest.raises(AssertionError, match="Expected profiling results"):
            _ = found.columns
        late = record_function("still open at the end")
        late.__enter__()
        inner = record_function("inside of it")
        inner.__enter__()
    inner.__exit__(None, None, None)
    late.__exit__(None, None, None)
    assert [each.name for each in found.function_events[-1].cpu_parent.cpu_children] == [
        "inside of it"
    ]
    with pytest.raises(RuntimeError, match="Profiler context manager is not reentrant"):
        found.__enter__()
    off = profile(enabled=False)
    with off as nothing:
        ag.ones(2).sin()
    assert nothing is None
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        off.export_stacks("x")


@pytest.mark.oracle
def test_what_a_profile_refuses_is_what_torch_refuses() -> None:
    def began_twice(t: Any) -> None:
        prof = t.profiler.profile(activities=[t.profiler.ProfilerActivity.CPU])
        with prof:
            prof.start_trace()

    def ranges(*given: Any) -> Any:
        def begins(t: Any) -> None:
            with t.profiler.record_function(*given):
                pass

        return begins

    def other_device(t: Any) -> None:
        with pytest.warns(UserWarning, match="XPU is not available, disabling XPU profiling"):
            assert t.autograd.profiler.profile(use_device="xpu").use_device is None
        raise ValueError

    refused = (
        *(began_twice, ranges(3), ranges(None), ranges("a", 3), ranges("a", ["x"])),
        lambda t: t.profiler.profile(activities=["cpu"]),
        lambda t: t.profiler._KinetoProfile(activities=["cpu"]),
        other_device,
    )
    for program in refused:
        told = []
        for t in (torch, ag):
            with pytest.raises((RuntimeError, AssertionError, TypeError, ValueError)) as error:
                program(t)
            told.append((type(error.value), str(error.value).partition("\n")[0]))
        assert told[0] == told[1]
    with pytest.raises(TypeError, match="must return a str, but it returned int"):
        profile(custom_trace_id_callback=lambda: 3).__enter__()


def test_a_profile_that_began_twice_goes_on() -> None:
    prof = ag.profiler.profile()
    with prof:
        ag.ones(2).sin()
        with pytest.raises(RuntimeError, match="already enabled"):
            prof.start()
        ag.ones(2).cos()
    assert {"aten::sin", "aten::cos"} <= {each.name for each in prof.events()}


def test_functions_have_their_own_code_when_nobody_profiles() -> None:
    with profile():
        ag.ones(2).sin()
    before = ag.sin.__code__
    with profile():
        assert ag.sin.__code__ is not before
        with profile():
            pass
        assert ag.sin.__code__ is not before
    assert ag.sin.__code__ is before
    wrappers.remove()
    assert ag.sin.__code__ is before


_FIRST_CALL = """
import ag_visual as ag
from ag_visual.autograd.profiler import profile
from ag_visual.dispatch.codegen import source

x = ag.ones(2, requires_grad=True)
ag.sin(x)
for call in (ag.sinh, ag.sin):
    assert source.waits(call) == (call is ag.sinh)
    for _ in range(2):
        before = call.__code__
        with profile() as found:
            assert call.__code__ is not before or source.waits(call)
            call(x)
        print([event.name for event in found.function_events])
        assert not source.waits(call)
        own = call.__code__
        call(x)
        assert call.__code__ is own
"""


def test_an_op_whose_first_call_is_profiled_has_its_row_and_its_own_code_afterwards() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FIRST_CALL], capture_output=True, text=True, check=False
    )
    assert not done.stderr
    assert done.stdout.split("\n") == ["['aten::sinh']"] * 2 + ["['aten::sin']"] * 2 + [""]


def test_what_is_left_out_dynamically_is_not_there() -> None:
    from ag_visual.profiler import ProfilerActivity

    x = ag.ones(2)
    with profile() as found:
        x.sin()
        found.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
        x.cos()
        found.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
        x.exp()
    assert _names(found) == ["aten::sin", "aten::exp"]


def test_a_recording_goes_on_beside_a_profile() -> None:
    x = ag.ones(3, requires_grad=True)
    with ag.record() as recording, profile() as found:
        (x * 2).sum().backward()
    assert recording is not None
    kinds = found.columns.spans["kind"]
    assert {OP, EVALUATE, NODE} <= set(kinds.tolist())
    x.grad = None
    (x * 2).sum().backward()
    assert numpy.array_equal(x.grad.numpy(), [2, 2, 2])


def test_what_a_span_costs_is_measured_for_what_is_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collection, "_overheads", {})
    costs = iter((300, 9000))
    monkeypatch.setattr(collection, "_measured", lambda: next(costs))
    found = []
    for stacks in (False, True, False):
        with profile(with_stack=stacks) as each:
            pass
        found.append(each.columns.overhead)
    assert found == [300, 9000, 300]


def test_memory_of_a_thread_in_which_no_span_ran(tmp_path: Path) -> None:
    with profile(profile_memory=True):
        x = ag.ones(1000) * 2
        with profile(profile_memory=True) as inner:
            del x
    (freed,) = inner.columns.memory[inner.columns.memory["bytes"] < 0]
    assert inner.columns.threads[freed["thread"]][0] == threading.get_ident()
    inner.export_chrome_trace(str(tmp_path / "trace.json"))


def test_an_interrupt_while_a_profile_begins_leaves_none_open(monkeypatch: Any) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(wrappers, "install", interrupted)
        with pytest.raises(KeyboardInterrupt), profile():
            pass
    assert instrument.spans is None
    with profile() as found:
        ag.ones(2).exp()
    assert "aten::exp" in _names(found)
    assert instrument.spans is None
