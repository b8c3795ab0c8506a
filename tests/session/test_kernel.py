"""A real kernel whose main thread is blocked: requests are answered, Interrupt gets through."""

from __future__ import annotations

import threading

import pytest

from ag_visual.observe.wire import schema
from ag_visual.session import kernel
from ag_visual.session.session import current

from .waiting import PATIENCE, until

GRAPH = """\
x = ag.tensor([1.0, 2.0], requires_grad=True)
w = ag.tensor([3.0, 4.0], requires_grad=True)
y = x * w
z = y * y
"""
BACKWARD = "z.backward(ag.tensor([1.0, 1.0]))"
STOPPED = f"with ag.debugger():\n    {BACKWARD}"


def stopped(kernel, code=STOPPED):
    """A page is open, a cell runs and its backward is paused."""
    kernel.open_page()
    kernel.run(GRAPH)
    cell = kernel.start(code)
    kernel.until(lambda: kernel.paused)
    return cell


def test_import_announces_and_says_hello(kernel):
    assert kernel.announced == 1
    hello = kernel.result("hello")
    assert hello["control"] is True
    assert hello["v"] == 1


def test_the_cell_that_imports_is_seen_by_a_page_that_opens_later(kernel):
    kernel.run("x = ag.tensor([1.0, 2.0], requires_grad=True); (x * x).sum().backward()")
    kernel.open_page()
    kernel.until(lambda: any("runs" in header["tables"] for header, _ in kernel.batches))
    assert kernel.result("hello")["state"]["scope"] == "newest"


def test_requests_are_answered_while_a_cell_is_paused(kernel):
    cell = stopped(kernel)
    seq = kernel.paused["seq"]
    node = kernel.result("node", seq=seq)
    assert cell not in kernel.ended
    assert node["name"] == "MulBackward0"
    assert node["site"]["where"] == "cell In[2], line 4"
    assert node["site"]["text"] == "y * y"
    assert [saved["shared_with"] for saved in node["saved"]] == [["y"], ["y"]]
    values = kernel.result("values", seq=seq, which="grad")
    assert values["picture"]["values"] == [1.0, 1.0]
    assert kernel.result("values", seq=seq, which="saved:self")["max"] == 8.0
    kernel.result("continue")
    kernel.finish(cell)
    assert not kernel.errors
    kernel.until(lambda: kernel.paused is None)


def test_a_page_that_waits_for_replies_alone_leaves_the_kernel_busy(kernel):
    cell = stopped(kernel)
    quiet = [
        kernel.send("node", metadata={schema.REPLY_ONLY: True}, seq=kernel.paused["seq"])
        for _ in range(3)
    ]
    plain = kernel.send("hello")
    # Requests are taken in turn: the status of the last one comes after those of the others.
    kernel.until(lambda: plain in kernel.ended and kernel._replies.keys() >= {plain, *quiet})
    assert all(kernel._replies[number]["ok"] for number in quiet)
    assert not kernel.ended & {cell, *quiet}
    kernel.result("continue")
    kernel.finish(cell)


def test_step_by_step_to_the_end(kernel):
    cell = stopped(kernel)
    seen = []
    while cell not in kernel.ended:
        at = kernel.paused
        if at is not None and at["order"] not in seen:
            seen.append(at["order"])
            kernel.result("step")
        kernel.until(lambda at=at: kernel.paused != at or cell in kernel.ended)
    assert seen == [0, 1, 2, 3]
    kernel.finish(cell)
    kernel.run("assert x.grad.tolist() == [18.0, 64.0], x.grad")
    assert not kernel.errors


def test_run_to_and_breakpoint_by_name(kernel):
    cell = stopped(kernel)
    kernel.result("breakpoint", on=True, name="AccumulateGrad")
    kernel.result("continue")
    kernel.until(lambda: kernel.paused and kernel.paused["order"] == 2)
    kernel.result("breakpoint", on=False, name="AccumulateGrad")
    kernel.result("continue")
    kernel.finish(cell)
    kernel.run(GRAPH + "seq = y.grad_fn.seq\nprint(seq)")
    seq = int("".join(kernel.output).split()[-1])
    kernel.result("run_to", seq=seq)
    cell = kernel.start(BACKWARD)
    kernel.until(lambda: kernel.paused and kernel.paused["seq"] == seq)
    kernel.result("continue")
    kernel.finish(cell)
    assert not kernel.errors


def test_interrupt_ends_the_pause_and_the_state_is_restored(kernel):
    cell = stopped(kernel)
    kernel.manager.interrupt_kernel()
    kernel.finish(cell)
    assert any("KeyboardInterrupt" in error for error in kernel.errors)
    kernel.until(lambda: kernel.paused is None)
    kernel.run("from ag_visual.events import instrument\nprint(instrument.gate, instrument.sink)")
    assert "".join(kernel.output).endswith("None None\n")


def test_interrupt_releases_a_pause_in_another_thread(kernel):
    kernel.open_page()
    kernel.run(GRAPH)
    cell = kernel.start(
        "import threading, time\n"
        f"def work():\n    global ended\n    try:\n        {BACKWARD}\n"
        "    except KeyboardInterrupt: ended = 'interrupted'\n"
        "with ag.debugger():\n    t = threading.Thread(target=work)\n    t.start()\n"
        "    while t.is_alive(): time.sleep(0.05)"
    )
    kernel.until(lambda: kernel.paused)
    kernel.manager.interrupt_kernel()
    kernel.finish(cell)
    kernel.run("t.join(600); print(t.is_alive(), ended)")
    assert "".join(kernel.output).endswith("False interrupted\n")


def test_a_page_that_is_silent_lets_the_pause_go_and_says_so(kernel):
    kernel.open_page()
    kernel.run(GRAPH)
    kernel.acknowledging = False
    kernel.run(f"with ag.debugger(patience=1):\n    {BACKWARD}")
    assert "No Inspector was heard for 1 s" in "".join(kernel.output)
    kernel.run("assert x.grad is not None")
    assert not kernel.errors


def test_without_a_page_a_pause_ends_by_itself(kernel):
    kernel.run(GRAPH)
    kernel.run(f"with ag.debugger(patience=1):\n    {BACKWARD}")
    said = "".join(kernel.output)
    assert "Paused before MulBackward0: open the Inspector" in said
    assert "went on by itself" in said


def test_a_page_that_comes_while_paused_sees_it(kernel):
    """A reloaded page: its comm opens in a subshell, which the paused cell does not hold up."""
    kernel.run(GRAPH)
    cell = kernel.start(STOPPED)
    kernel.until(lambda: "Paused before" in "".join(kernel.output))
    subshell = kernel.subshell()
    if subshell is None:
        pytest.skip("this ipykernel has no subshells: the page's comm opens when the cell ends")
    kernel.open_page("reloaded", subshell)
    kernel.until(lambda: kernel.paused)
    assert cell not in kernel.ended
    names = {name for header, _ in kernel.batches for name in header["strings"]}
    assert {"MulBackward0", "x", "w"} <= names
    kernel.result("resync", page="reloaded")
    kernel.until(lambda: kernel.batches[-1][0]["epoch"] > kernel.batches[0][0]["epoch"])
    kernel.result("continue")
    kernel.finish(cell)
    assert not kernel.errors


def test_requests_in_a_busy_cell_without_a_backward(kernel, tmp_path):
    go = tmp_path / "go"
    kernel.open_page()
    kernel.run("ag.record().__enter__()\n" + GRAPH + "print(z.grad_fn.seq)")
    seq = int("".join(kernel.output).split()[-1])
    cell = kernel.start(
        f"import os, time; print('asleep', flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.05)"
    )
    kernel.until(lambda: "asleep" in kernel.output[-1])
    node = kernel.result("node", seq=seq)
    assert node["alive"] is False
    assert node["saved"][0]["shape"] == [2]
    reply = kernel.ask("values", seq=seq, which="saved:self")
    assert reply["ok"] is False
    assert reply["error"].startswith("busy")
    go.touch()
    kernel.finish(cell)
    # However late the idle kernel comes to it.
    kernel.run("from ag_visual.session import session as found; found.STALE_SECONDS = 0.0")
    assert kernel.result("node", seq=seq)["alive"] is True


def test_requests_are_served_between_the_nodes_of_a_running_backward(kernel, tmp_path):
    go = tmp_path / "go"
    kernel.open_page()
    kernel.run("ag.record().__enter__()\n" + GRAPH + "print(y.grad_fn.seq)")
    seq = int("".join(kernel.output).split()[-1])
    # Each hook holds its node until a request waits for the next one, which serves it. One that is
    # there before the first hook is served by the first node: then none comes for the last hook.
    slow = (
        "import os, time\nfrom ag_visual.session import session as found\n"
        f"found.PATIENT_SECONDS = found.STALE_SECONDS = {PATIENCE}\n"
        "def slow(g):\n"
        f"    while not (found.current()._requests or os.path.exists({str(go)!r})):\n"
        "        time.sleep(0.01)\n"
    )
    hooks = "z.register_hook(slow); y.register_hook(slow)\n"
    # Sent before the cell runs, a request would be served before it.
    cell = kernel.start(f"{slow}{hooks}print('begun', flush=True)\n{BACKWARD}")
    kernel.until(lambda: "begun" in "".join(kernel.output))
    node = kernel.result("node", seq=seq)
    assert node["alive"] is True
    assert kernel.result("values", seq=seq, which="saved:self")["max"] == 2.0
    assert cell not in kernel.ended
    go.touch()
    kernel.finish(cell)
    assert not kernel.errors


def test_pause_from_the_page_before_the_cell_runs(kernel):
    kernel.open_page()
    kernel.run(GRAPH)
    state = kernel.result("pause")
    assert state["pause_next"] is True
    assert state["recording"] is True
    cell = kernel.start(BACKWARD)
    kernel.until(lambda: kernel.paused)
    names = {name for header, _ in kernel.batches for name in header["strings"]}
    assert "MulBackward0" in names, "the graph that grew before the recording is told"
    kernel.result("continue")
    kernel.finish(cell)


def test_bad_requests_are_refused_with_a_reason(kernel):
    for args, words in [
        ({"command": "fly"}, "unknown command 'fly'"),
        ({"command": "run_to"}, "run_to has no 'seq'"),
        ({"command": "run_to", "seq": "1"}, "run_to.seq should be a number"),
        ({"command": "record", "on": True, "scope": "always"}, "record.scope"),
        ({"command": "step"}, "no backward is paused"),
        ({"command": "breakpoint", "on": True}, "needs one of seq, name"),
        ({"command": "node", "seq": 10**9}, "not in this recording"),
    ]:
        reply = kernel.ask(**args)
        assert reply["ok"] is False
        assert words in reply["error"]


def test_a_page_of_another_format_is_told_why(kernel):
    content = {"comm_id": "old", "target_name": "ag_visual.events", "data": {"v": 99}}
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_open", content))
    closed = []
    plain = kernel._published

    def watch(message):
        if message["header"]["msg_type"] == "comm_close":
            closed.append(message["content"])
        plain(message)

    kernel._published = watch
    kernel.until(lambda: closed)
    assert "format 1" in closed[0]["data"]["error"]


def test_shutdown_while_paused_ends_the_process(kernel):
    stopped(kernel)
    kernel.manager.request_shutdown()
    until(lambda: not kernel.manager.is_alive())  # by itself: nobody kills it


def test_two_runs_of_one_text_are_two_cells(kernel):
    kernel.run("def f(a):\n    return a * a")
    kernel.run("x = ag.tensor(2.0, requires_grad=True); first = f(x).grad_fn")
    kernel.run("old = f")
    kernel.run("def f(a):\n    return a * a")
    kernel.run(
        "from ag_visual.core.source import resolve_call_site\n"
        "print(*(resolve_call_site(y.grad_fn.call_site).where for y in (old(x), f(x))))"
    )
    assert "".join(kernel.output).endswith("cell In[2], line 2 cell In[5], line 2\n")


def test_interrupt_releases_a_thread_that_its_cell_left_paused(kernel):
    kernel.open_page()
    kernel.run(GRAPH)
    kernel.result("breakpoint", on=True, name="MulBackward0")
    kernel.run(
        "import threading\n"
        f"def work():\n    global ended\n    try:\n        {BACKWARD}\n"
        "    except KeyboardInterrupt: ended = 'interrupted'\n"
        "t = threading.Thread(target=work, name='trainer')\nt.start()"
    )
    kernel.until(lambda: kernel.paused)
    kernel.manager.interrupt_kernel()
    kernel.until(lambda: kernel.paused is None)
    kernel.run("t.join(600); print(t.is_alive(), ended)")
    assert "".join(kernel.output).endswith("False interrupted\n")
    assert not kernel.errors


def test_two_threads_stop_one_after_the_other(kernel):
    kernel.open_page()
    kernel.run(GRAPH + "other = (x * w).exp()")
    cell = kernel.start(
        "import threading\n"
        "def run(t): t.backward(ag.tensor([1.0, 1.0]))\n"
        "ts = [threading.Thread(target=run, args=[t]) for t in (z.exp(), other)]\n"
        "with ag.debugger('ExpBackward0'):\n    [t.start() for t in ts]; [t.join() for t in ts]"
    )
    kernel.until(lambda: kernel.paused and kernel.paused["waiting"] == 1)
    first = kernel.paused["thread"]
    kernel.result("continue")
    kernel.until(lambda: kernel.paused and kernel.paused["thread"] != first)
    assert kernel.paused["waiting"] == 0
    kernel.result("continue")
    kernel.finish(cell)
    assert not kernel.errors


def test_requests_over_a_comm_are_answered_among_the_events(kernel):
    """For kernels without control messages: the page writes on one comm and listens on another."""
    kernel.open_page()
    kernel.run("ag.record().__enter__()\n" + GRAPH + "print(z.grad_fn.seq)")
    seq = int("".join(kernel.output).split()[-1])
    kernel.until(lambda: kernel.batches)
    kernel.open_requests()
    number = kernel.write("node", seq=seq, page="page")
    kernel.until(lambda: number in kernel.answers)
    assert kernel.answers[number]["result"]["name"] == "MulBackward0"
    number = kernel.write("node", seq="none", page="page")
    kernel.until(lambda: number in kernel.answers)
    assert "node.seq should be a number" in kernel.answers[number]["error"]


class SlowComm:
    """A comm in which two messages have to be on their way at once."""

    comm_id = "slow"

    def __init__(self):
        self.both = threading.Barrier(2, timeout=PATIENCE)
        self.sent = []

    def on_close(self, callback):
        pass

    def send(self, data, buffers):
        if "reply" in data:
            self.both.wait()
            self.sent.append(data["reply"])


def test_answers_and_batches_may_leave_at_once():
    comm = SlowComm()
    kernel._open(comm, {"content": {"data": {"v": schema.VERSION, "page": "slow"}}})
    page = current().pages["slow"]
    threads = [threading.Thread(target=page.reply, args=[{"id": n}]) for n in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    current().close_page(page)
    assert sorted(reply["id"] for reply in comm.sent) == ["a", "b"]


ENDLESS = """
import threading
class Endless(ag.autograd.Function):
    runs = 0
    @staticmethod
    def forward(ctx, x):
        Endless.runs += 1
        if Endless.runs > 1:
            print('inside', flush=True)
            while True:
                pass
        return x * 1
    @staticmethod
    def backward(ctx, g):
        return g
node = Endless.apply(ag.ones(3, requires_grad=True)).grad_fn
from ag_visual.session import node_check
heard = []
def waiting(done, wait=node_check._some_time):
    if heard == [1]:  # told when it counts: until then another one would be the same
        heard.append(2)
        print('heard', flush=True)
    try:
        wait(done)
    except KeyboardInterrupt:
        heard.append(1)
        raise
node_check._some_time = waiting
try:
    ag.check_node(node)
except KeyboardInterrupt:
    left = [t.name for t in threading.enumerate() if t.name == 'ag_visual check']
    print('ended', left)
"""


def test_two_interrupts_end_a_check_whose_forward_does_not(kernel):
    kernel.run("import ag_visual as ag")
    cell = kernel.start(ENDLESS)
    kernel.until(lambda: "inside" in "".join(kernel.output))
    kernel.manager.interrupt_kernel()
    # Two signals at a time are one.
    kernel.until(lambda: "heard" in "".join(kernel.output))
    kernel.manager.interrupt_kernel()
    kernel.finish(cell)
    assert "".join(kernel.output).endswith("ended []\n")


MISTAKE = """y = torch.ones(2, requires_grad=True).exp()
y.add_(1)
y.sum().backward()"""


def test_a_problem_is_told_again_and_solved_when_its_cell_runs_through(kernel):
    kernel.open_page()
    kernel.run("import ag_visual as torch", cell="first")

    def told():
        return [
            [(p["id"], p["times"], p["solved"]) for p in header["problems"]]
            for header, _ in kernel.batches
            if header["problems"]
        ]

    kernel.run(MISTAKE, cell="second")
    kernel.run(MISTAKE, cell="second")
    kernel.until(lambda: told() and told()[-1] == [(1, 2, False)])
    kernel.run("1 + 1", cell="first")
    kernel.run(MISTAKE.replace("y.add_(1)", "y = y + 1"), cell="second")
    kernel.until(lambda: told()[-1] == [(1, 2, True)])
    assert len(kernel.errors) == 2
    kernel.errors.clear()
