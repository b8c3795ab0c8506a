"""The gate in threads: who stops, who may end it, what is left behind."""

from __future__ import annotations

import json
import threading
import time

import pytest

import ag_visual as ag
from ag_visual.events import instrument
from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.wire.columns import Chunk
from ag_visual.profiler import figures, profile, record_function
from ag_visual.profiler.stacks import speedscope_of
from ag_visual.session import pause
from ag_visual.session.pause import Gate
from ag_visual.session.session import Request, Session

from .waiting import PATIENCE, until


class Watched:
    """A gate and what it said."""

    def __init__(self):
        self.said = []
        self.served = []
        self.silence = 0.0
        self.gate = Gate(
            changed=lambda: None,
            serve=lambda: self.served.append(threading.get_ident()),
            silent_for=lambda: self.silence,
            say=self.said.append,
        )


@pytest.fixture
def watched(monkeypatch):
    found = Watched()
    monkeypatch.setattr(instrument, "gate", None)
    monkeypatch.setattr(instrument, "end", found.gate.ended)
    # However slow the machine: the thread that was stepped has its turn.
    monkeypatch.setattr(pause, "_STEP_TURN", PATIENCE)
    yield found
    found.gate.shutdown()


class Work(threading.Thread):
    """x * w, squared, backward; in a thread of its own."""

    def __init__(self):
        super().__init__(daemon=True)
        self.x = ag.tensor([1.0, 2.0], requires_grad=True)
        self.w = ag.tensor([3.0, 4.0], requires_grad=True)
        self.y = self.x * self.w
        self.z = self.y * self.y
        self.error = None

    def run(self):
        try:
            self.z.backward(ag.tensor([1.0, 1.0]), retain_graph=True)
        except BaseException as error:
            self.error = error

    @property
    def seq(self):
        return self.y.grad_fn.seq


def test_nothing_armed_costs_nothing(watched):
    assert instrument.gate is None
    watched.gate.add(name="ExpBackward0")
    assert instrument.gate is watched.gate
    watched.gate.remove(name="ExpBackward0")
    assert instrument.gate is None


def test_a_breakpoint_stops_before_its_node(watched):
    gate, work = watched.gate, Work()
    gate.add(seq=work.seq)
    work.start()
    until(lambda: gate.paused)
    assert (gate.paused.seq, gate.paused.order, gate.paused.total) == (work.seq, 1, 4)
    assert gate.paused.grads[0].tolist() == [6.0, 16.0]
    assert work.x.grad is None
    gate.go_on()
    work.join(PATIENCE)
    assert not work.is_alive()
    assert work.x.grad.tolist() == [18.0, 64.0]
    assert gate.paused is None


def test_a_step_beyond_the_last_node_stops_no_later_backward(watched):
    gate, work = watched.gate, Work()
    gate.ask_pause()
    work.start()
    for _ in range(4):
        until(lambda: gate.paused)
        before = gate.paused
        gate.step()
        until(lambda before=before: gate.paused is not before)
    work.join(PATIENCE)
    assert not work.is_alive()
    assert instrument.gate is None
    Work().run()


def test_a_run_to_outlives_the_backwards_of_other_threads(watched):
    gate, first, second = watched.gate, Work(), Work()
    gate.add(seq=first.z.grad_fn.seq)
    first.start()
    until(lambda: gate.paused)
    # The other one ends between the command and the first one's next node.
    held = threading.Event()
    node = first.z.grad_fn
    node.register_hook(lambda inputs, grads: held.wait(PATIENCE) and None)
    gate.run_to(first.seq)
    until(lambda: gate.paused is None)
    second.run()
    held.set()
    until(lambda: gate.paused)
    assert gate.paused.seq == first.seq
    gate.remove(seq=first.z.grad_fn.seq)
    gate.go_on()
    first.join(PATIENCE)
    assert instrument.gate is None


def test_a_run_to_that_nothing_paused_asked_for_waits_for_what_is_under_way(watched):
    gate, first, second = watched.gate, Work(), Work()
    entered, held = threading.Event(), threading.Event()

    def wait(grads):
        entered.set()
        held.wait(PATIENCE)

    first.z.grad_fn.register_hook(lambda inputs, grads: wait(grads))
    gate.run_to(first.seq)
    first.start()
    assert entered.wait(PATIENCE)
    second.run()  # without the node: another one that may have it is under way
    held.set()
    until(lambda: gate.paused)
    assert gate.paused.seq == first.seq
    gate.go_on()
    first.join(PATIENCE)
    gate.run_to(10**9)
    second.run()  # nothing else is: the command ends here
    assert instrument.gate is None


def test_step_with_nothing_paused_is_refused(watched):
    with pytest.raises(RuntimeError, match="no backward is paused"):
        watched.gate.step()


def test_a_second_thread_waits_for_its_turn_to_stop(watched):
    gate, first, second = watched.gate, Work(), Work()
    gate.add(seq=first.seq)
    gate.add(seq=second.seq)
    first.start()
    until(lambda: gate.paused)
    second.start()
    until(lambda: gate.waiting == 1)
    assert gate.paused.seq == first.seq
    gate.step()  # the one that is stepped comes first
    until(lambda: gate.paused and gate.paused.order == 2)
    assert (gate.paused.thread, gate.waiting) == (first.ident, 1)
    gate.go_on()
    until(lambda: gate.paused and gate.paused.seq == second.seq)
    assert gate.waiting == 0
    first.join(PATIENCE)
    gate.go_on()
    second.join(PATIENCE)
    assert [first.is_alive(), second.is_alive()] == [False, False]
    assert first.x.grad.tolist() == second.x.grad.tolist() == [18.0, 64.0]
    gate.breakpoints_off()
    gate.arm()
    assert instrument.gate is None


def test_an_interrupt_releases_also_who_waits_to_stop(watched):
    gate, first, second = watched.gate, Work(), Work()
    gate.add(name="MulBackward0")
    first.start()
    until(lambda: gate.paused)
    second.start()
    until(lambda: gate.waiting == 1)
    gate.breakpoints_off()
    gate.interrupt()
    for work in (first, second):
        work.join(PATIENCE)
        assert isinstance(work.error, KeyboardInterrupt)
    assert (gate.paused, gate.waiting, instrument.gate) == (None, 0, None)


def test_who_waits_to_stop_goes_on_when_the_breakpoints_are_gone(watched):
    gate, first, second = watched.gate, Work(), Work()
    gate.patience = 0.2
    gate.add(name="MulBackward0")
    watched.silence = float("inf")
    first.start()
    second.start()
    for work in (first, second):
        work.join(PATIENCE)
        assert not work.is_alive()
        assert work.x.grad.tolist() == [18.0, 64.0]
    assert gate.waiting == 0


def test_a_step_that_waits_for_another_threads_stop_gives_way(watched, monkeypatch):
    monkeypatch.setattr(pause, "_STEP_TURN", 0.2)
    gate, first, second = watched.gate, Work(), Work()
    gate.add(seq=first.z.grad_fn.seq)
    gate.add(seq=second.seq)
    second.daemon = True
    first.z.grad_fn.register_hook(lambda inputs, grads: second.start() or second.join(PATIENCE))
    first.start()
    until(lambda: gate.paused)
    gate.step()
    until(lambda: gate.paused and gate.paused.seq == second.seq)
    gate.go_on()
    first.join(PATIENCE)
    assert [first.is_alive(), second.is_alive()] == [False, False]


def test_interrupt_from_another_thread_raises_in_the_paused_one(watched):
    gate, work = watched.gate, Work()
    gate.ask_pause()
    work.start()
    until(lambda: gate.paused)
    gate.interrupt()
    work.join(PATIENCE)
    assert isinstance(work.error, KeyboardInterrupt)
    assert gate.paused is None
    assert instrument.gate is None


def test_an_interrupt_goes_before_requests_that_wait():
    session = Session()
    served = []

    def answer(busy):
        served.append(busy)
        if len(served) == 3:
            session.gate.interrupt()

    work = Work()
    session.watch()
    try:
        session.gate.ask_pause()
        work.start()
        until(lambda: session.gate.paused)
        session._requests.extend(Request(answer) for _ in range(1000))
        session.gate.poke()
        work.join(PATIENCE)
        assert isinstance(work.error, KeyboardInterrupt)
        assert served[:3] == [False] * 3
        assert False not in served[3:]  # those were told that the kernel is busy
    finally:
        session.close()
        instrument.begin = instrument.end = instrument.problem = instrument.gate = None


def test_silence_ends_a_pause_and_its_breakpoints(watched):
    gate, work = watched.gate, Work()
    gate.patience = 0.2
    gate.add(name="MulBackward0")
    watched.silence = float("inf")
    work.start()
    work.join(PATIENCE)
    assert not work.is_alive()
    assert "went on by itself" in watched.said[-1]
    assert gate.breakpoints == []


def test_a_page_that_answers_keeps_the_pause(watched):
    gate, work = watched.gate, Work()
    gate.patience = 0.2
    gate.ask_pause()
    work.start()
    until(lambda: gate.paused)
    time.sleep(0.6)
    assert gate.paused is not None
    gate.go_on()
    work.join(PATIENCE)


def test_the_paused_thread_serves(watched):
    gate, work = watched.gate, Work()
    gate.ask_pause()
    work.start()
    until(lambda: gate.paused)
    gate.poke()
    until(lambda: watched.served)
    assert watched.served == [work.ident]
    gate.go_on()
    work.join(PATIENCE)


def test_a_running_backward_serves_at_its_nodes(watched):
    work = Work()
    work.y.register_hook(lambda g: watched.gate.poke())
    work.run()
    assert watched.served == [threading.get_ident()]
    assert work.error is None


def test_run_to_needs_no_pause_before(watched):
    gate, work = watched.gate, Work()
    gate.run_to(work.seq)
    work.start()
    until(lambda: gate.paused)
    assert gate.paused.seq == work.seq
    gate.go_on()
    work.join(PATIENCE)
    assert instrument.gate is None


def test_breakpoints_are_set_once_and_named_in_the_schemas_words(watched):
    gate = watched.gate
    assert gate.add(seq=3) is gate.add(seq=3)
    gate.add(name="ExpBackward0")
    assert [b.json() for b in gate.breakpoints] == [
        {"id": 1, "kind": "node", "seq": 3},
        {"id": 2, "kind": "name", "name": "ExpBackward0"},
    ]
    gate.remove(seq=4)
    gate.remove(seq=3)
    assert [b.name for b in gate.breakpoints] == ["ExpBackward0"]
    gate.remove(name="ExpBackward0")


def test_accumulate_grad_goes_by_its_short_name_too(watched):
    gate, work = watched.gate, Work()
    gate.add(name="AccumulateGrad")
    work.start()
    until(lambda: gate.paused)
    assert gate.paused.node.name() == "torch::autograd::AccumulateGrad"
    gate.breakpoints_off()
    gate.go_on()
    work.join(PATIENCE)


@pytest.mark.parametrize("armed", [False, True])
def test_who_arms_late_does_not_undo_what_another_thread_did(watched, monkeypatch, armed):
    """A thread has seen whether there is a reason to stop; before it acts on that, all changes."""
    gate = watched.gate

    def meanwhile():
        if armed:
            gate.breakpoints_off()
            gate.arm()
        else:
            gate.ask_pause()

    class Slow(Gate):
        @property
        def armed(self):
            found = Gate.armed.fget(self)
            if self.changes:
                self.changes.pop()()
            return found

    gate.pause_next = armed
    gate.changes = [meanwhile]
    monkeypatch.setattr(gate, "__class__", Slow)
    gate.arm()
    assert (instrument.gate is gate) is not armed


def test_the_thread_that_sends_to_pages_leaves_the_gate_alone(watched, monkeypatch):
    """It looks for requests again and again, while others arm the gate and disarm it."""
    session = Session()
    calls = []
    monkeypatch.setattr(session.gate, "arm", lambda: calls.append(session.gate.requests_wait))
    session.serve()
    assert calls == []
    session.gate.requests_wait = True
    session.serve()
    assert calls == [False]


def test_a_stop_is_told_and_is_none_of_the_nodes_time(watched):
    gate, work, recorder = watched.gate, Work(), Recorder()
    recorder.start("every")
    gate.add(seq=work.seq)
    with profile() as found:
        work.start()
        until(lambda: gate.paused)
        since = gate.paused.since
        gate.go_on()
        work.join(PATIENCE)
    recorder.stop()
    recorder.drain()
    ((began, ended, thread),) = found.columns.pauses
    assert began == since < ended
    spans, names = found.columns.spans, found.columns.names
    evaluates = names.index("autograd::engine::evaluate_function: MulBackward0")
    stopped = [row for row in spans[spans["name"] == evaluates] if row["start"] <= began]
    assert stopped[-1]["end"] >= ended
    assert stopped[-1]["thread"] == thread
    told = Chunk.joined(recorder.store.all()).tables
    pause, runs = told["pauses"], told["runs"]
    assert recorder.encoder.milliseconds(began) == pause["since"][0] < pause["t"][0]
    (run,) = runs["t0"][runs["seq"] == work.seq]
    assert run > pause["since"][0]


def _stopped(gate, name):
    """A profile of a backward in a range of its own, which stopped twice; and its thread."""
    work = Work()
    gate.add(seq=work.seq)
    backward = work.run

    def run():
        with record_function(name):
            backward()

    work.run = run
    with profile(record_shapes=True) as found:
        work.start()
        until(lambda: gate.paused)
        gate.step()
        until(lambda: gate.paused and gate.paused.seq != work.seq)
        gate.go_on()
        work.join(PATIENCE)
    return found


def test_what_stood_still_counts_in_no_table(watched):
    found = _stopped(watched.gate, "all of it")
    columns = found.columns
    stopped = sum(until - since for since, until, _ in columns.pauses)
    assert len(columns.pauses) == 2
    assert stopped > 0
    spans, names = columns.spans, columns.names
    outermost = spans[spans["parent"] < 0]
    elapsed = int((outermost["end"] - outermost["start"]).sum())
    assert spans["own"].sum() == elapsed - stopped
    assert (spans["own"] >= 0).all()
    assert found.profiler.self_cpu_time_total == (elapsed - stopped) / 1000

    (around,) = (each for each in found.events() if each.name == "all of it")
    assert around.cpu_time_total == (elapsed - stopped) / 1000
    assert around.time_range.elapsed_us() == pytest.approx(elapsed / 1000)
    averages = {each.key: each for each in found.key_averages()}
    for key, average in averages.items():
        rows = spans["name"] == names.index(key)
        assert average.cpu_time_total == columns.length[rows].sum() / 1000, key
    assert averages["all of it"].cpu_time_total == (elapsed - stopped) / 1000
    by_shape = {each.key: each.cpu_time_total for each in found.events().key_averages()}
    assert by_shape == {key: each.cpu_time_total for key, each in averages.items()}
    assert figures.tree(columns).total[0] == elapsed - stopped


def test_what_stood_still_is_told_in_traces(watched, tmp_path):
    columns = (found := _stopped(watched.gate, "all of it")).columns
    stopped = sum(until - since for since, until, _ in columns.pauses)
    found.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    told = [each for each in events if each.get("cat") == "pause"]
    assert sum(each["dur"] for each in told) == pytest.approx(stopped / 1000)
    (around,) = (each for each in events if each["name"] == "all of it")
    assert around["args"]["Paused"] == stopped / 1000
    for each in told:
        assert (
            around["ts"] <= each["ts"] <= each["ts"] + each["dur"] <= around["ts"] + around["dur"]
        )
        assert (each["pid"], each["tid"]) == (around["pid"], around["tid"])

    (profile_of_thread,) = speedscope_of(columns)["profiles"]
    opened, closed = profile_of_thread["events"][0], profile_of_thread["events"][-1]
    (outermost,) = columns.spans[columns.spans["parent"] < 0]
    assert closed["at"] - opened["at"] == outermost["end"] - outermost["start"] - stopped
