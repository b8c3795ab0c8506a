"""A person at a real terminal: the prompt of the debugger in plain IPython, through a pty."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import psutil
import pytest

from .waiting import PATIENCE, until

ROOT = Path(__file__).parents[2]
READ = {"x86_64": "0", "aarch64": "63"}.get(platform.machine(), "")
"""The number of the system call that reads."""
START = [*("-m", "IPython", "--simple-prompt", "--no-banner", "--no-confirm-exit"), "--quick"]
MODEL = """\
import ag_visual as ag
x = ag.tensor([3.0, 4.0], requires_grad=True)
def run(): (x * 2).sum().backward()
"""


class Terminal:
    """IPython in a pseudo-terminal; what is typed and what is read there."""

    def __init__(self, folder: Path) -> None:
        environment = dict(os.environ, PYTHONPATH=str(ROOT), IPYTHONDIR=str(folder), TERM="dumb")
        self.child = pexpect.spawn(
            sys.executable,
            START,
            env=environment,
            cwd=str(folder),
            encoding="utf-8",
            timeout=PATIENCE,
            # A shell's background job, as this may be, ignores Ctrl-C, and so do its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.ready()

    def ready(self) -> str:
        """Wait for IPython's prompt; what was printed before it."""
        self.child.expect(r"In \[\d+\]: ")
        return str(self.child.before)

    def asked(self) -> str:
        """Wait for the debugger's prompt; what was printed before it."""
        self.child.expect_exact("(autograd) ")
        return str(self.child.before)

    def reads(self) -> None:
        """Wait until the program reads: Python looks for signals before that and after, and what
        comes in between is seen with the next key only.

        The kernel says so; where it may not be asked, nothing has woken the program for a while.
        """
        program = psutil.Process(self.child.pid)
        call = Path(f"/proc/{self.child.pid}/syscall")

        def seen() -> tuple[str, int]:
            return program.status(), program.num_ctx_switches().voluntary

        def rests() -> bool:
            if READ:
                with contextlib.suppress(OSError):
                    return call.read_text().split()[:2] == [READ, "0x0"]  # of the standard input
            before = seen()
            time.sleep(0.3)
            return before == seen() and before[0] == psutil.STATUS_SLEEPING

        until(rests)

    def type(self, text: str) -> None:
        self.child.sendline(text)

    def enter(self, block: str) -> None:
        """A cell: one of a single line runs at once, a magic's ends with two empty ones."""
        for line in block.splitlines():
            self.type(line)
        if block.startswith("%%"):
            self.type("\n")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    found = Terminal(tmp_path)
    for line in MODEL.splitlines():
        found.type(line)
        found.ready()
    yield found
    # pexpect's own way gives a child a tenth of a second to be gone.
    found.child.kill(signal.SIGKILL)
    found.child.wait()
    found.child.close()


def test_a_block_is_stepped_through_at_a_terminal(terminal: Terminal) -> None:
    terminal.enter("with ag.debugger(): run()")
    assert "-- step 1 of 3: SumBackward0" in terminal.asked()
    terminal.type("n")
    said = terminal.asked()
    assert "-- step 2 of 3: MulBackward0" in said
    assert "(x * 2).sum().backward()" in said
    terminal.type("p")
    assert "[1. 1.]" in terminal.asked()
    terminal.type("scale 10")
    assert "[10. 10.]" in terminal.asked()
    terminal.type("c")
    terminal.ready()
    terminal.type("x.grad")
    assert "tensor([20., 20.])" in terminal.ready()


def test_a_cell_is_stepped_by_its_magic_and_stopped_by_q(terminal: Terminal) -> None:
    terminal.enter("%%autograd step\nrun()")
    assert "-- step 1 of 3: SumBackward0" in terminal.asked()
    terminal.type("")  # an empty line repeats: one more node
    assert "-- step 2 of 3: MulBackward0" in terminal.asked()
    terminal.type("q")
    assert "KeyboardInterrupt" in terminal.ready()
    terminal.type("x.grad is None, ag.events.instrument.gate")
    assert "(True, None)" in terminal.ready()


def test_ctrl_c_ends_the_pause_and_leaves_the_terminal_usable(terminal: Terminal) -> None:
    terminal.enter("with ag.debugger('MulBackward0'): run()")
    assert "-- step 2 of 3: MulBackward0" in terminal.asked()
    terminal.reads()
    terminal.child.sendintr()
    assert "KeyboardInterrupt" in terminal.ready()
    terminal.type("run(); print('gradient', x.grad.tolist())")
    assert "gradient [2.0, 2.0]" in terminal.ready()


def test_the_end_of_input_ends_the_pause(terminal: Terminal) -> None:
    terminal.enter("with ag.debugger('MulBackward0'): run()")
    terminal.asked()
    terminal.child.sendeof()
    assert "KeyboardInterrupt" in terminal.ready()
