"""`%ag_visual` and `%%ag_visual` (`%autograd`, too): the session's commands in a notebook's cells.
`%profile` and `%%profile` are in `profile_magic`.

`%load_ext ag_visual` (and importing the package in a kernel) registers them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from ag_visual.session import api
from ag_visual.session.profile_magic import profile_magic
from ag_visual.session.session import Session, current
from ag_visual.session.tracebacks import last_whole

USAGE: Final = """\
%ag_visual                      what is being recorded
%ag_visual as_torch             `import torch` gives ag_visual from now on
%ag_visual record on|off|once   record everything, nothing, or one backward
%ag_visual record every 10      record each tenth backward
%ag_visual watch torch          watch programs of the real PyTorch (watch off: no longer)
%ag_visual pause                stop before the next node that a backward runs
%ag_visual break ReluBackward0  stop before each node of this name (break off: nowhere)
%ag_visual save run.html        write what was recorded: a page, or a file for load_recording
%ag_visual clear                forget what was recorded
%ag_visual traceback            the last error with all frames, those inside of ag_visual, too
%%ag_visual record [name]       record this cell, under a name
%%ag_visual step                run this cell and stop before the first node of its backward;
                                in a terminal a prompt steps on from there (h shows its commands)
%autograd and %%autograd are the same.
%profile and %%profile          where the time goes: %profile --help"""


class UsageError(ValueError):
    """A line that the magic does not know; the text shows those it does."""


def register_magics(shell: Any) -> None:
    """Make `%ag_visual` and `%%ag_visual` known to an IPython shell."""

    def ag_visual(line: str, cell: str | None = None) -> None:
        """Watch, pause and explain backward passes: `%ag_visual help`."""
        try:
            said = run_line(line) if cell is None else run_cell(line, cell, shell)
        except UsageError as error:
            said = str(error)
        if said:
            print(said)

    shell.register_magic_function(ag_visual, "line_cell", "ag_visual")
    shell.register_magic_function(ag_visual, "line_cell", "autograd")
    shell.register_magic_function(profile_magic(shell), "line_cell", "profile")


def run_line(line: str) -> str:
    """Do what a line says and return the answer."""
    words = line.split()
    if not words:
        return status(current())
    name, arguments = words[0], words[1:]
    command = _LINES.get(name)
    if command is None:
        raise UsageError(f"%ag_visual does not know {name!r}. It knows:\n{USAGE}")
    return command(arguments)


def run_cell(line: str, cell: str, shell: Any) -> str:
    """Run a cell as the first line says."""
    words = line.split()
    if words and words[0] == "record":
        block: Any = api.record(name=" ".join(words[1:]))
    elif words and words[0] == "step":
        block = api.debugger(stop=words[1:] or None)
    else:
        raise UsageError(f"%%ag_visual knows 'record' and 'step', not {line!r}. All:\n{USAGE}")
    with block:
        result = shell.run_cell(cell, store_history=False)
    if result.error_in_exec is not None and not isinstance(result.error_in_exec, KeyboardInterrupt):
        return ""  # shown by the shell already
    return status(current()) if words[0] == "record" else ""


def status(session: Session) -> str:
    """What is recorded and where a backward stands, in one or two sentences."""
    session.recorder.drain()
    store = session.recorder.store
    nodes = sum(chunk.rows("nodes") for chunk in store.all())
    runs = sum(chunk.rows("runs") for chunk in store.all())
    scope = session.recorder.scope
    how = {
        "off": "not recording",
        "newest": "watching the newest backward",
        "block": "recording",
        "once": "recording the next backward",
        "every": f"recording each {session.recorder.every}th backward",
    }[scope]
    dropped = sum(store.dropped.rows.values())
    lost = f", {dropped} older rows dropped" if dropped else ""
    pages = len(session.pages)
    return (
        f"ag_visual: {how}; {nodes} nodes and {runs} runs kept{lost}; "
        f"{pages} Inspector{'' if pages == 1 else 's'} connected."
    )


def _help(arguments: list[str]) -> str:
    return USAGE


def _as_torch(arguments: list[str]) -> str:
    from ag_visual.session.as_torch import install

    try:
        install()
    except RuntimeError as error:  # a real torch is imported already: the text says what to do
        raise UsageError(str(error)) from error
    return "import torch gives ag_visual from now on."


_watched: Any = None


def _watch(arguments: list[str]) -> str:
    global _watched
    # What `ag_visual.watch` is made of stands above this layer.
    top = sys.modules[__name__.partition(".")[0]]
    match arguments:
        case ["torch"] | ["torch", "problems"]:
            try:
                _watched = top.watch(problems_only=len(arguments) > 1)
            except (ImportError, RuntimeError) as error:  # no torch, or an old one
                raise UsageError(str(error)) from error
            return "Programs of torch are watched from now on."
        case ["off"]:
            if _watched is not None:
                _watched.stop()
                _watched = None
            return "torch is as it was."
        case _:
            raise UsageError("%ag_visual watch torch, watch torch problems, or watch off")


def _record(arguments: list[str]) -> str:
    session = current()
    match arguments:
        case ["on"]:
            session.start()
        case ["off"]:
            session.stop()
        case ["once"]:
            session.start("once")
        case ["every", number] if number.isdigit() and int(number) > 0:
            session.start("every", int(number))
        case _:
            raise UsageError("%ag_visual record on, off, once, or every followed by a number")
    return status(session)


def _pause(arguments: list[str]) -> str:
    session = current()
    if not session.control:
        return api.NO_CONTROL
    if not session.recorder.on:
        session.start("once")
    session.gate.ask_pause()
    session.changed()
    return "The next backward stops before its first node."


def _break(arguments: list[str]) -> str:
    session = current()
    match arguments:
        case ["off"]:
            for old in session.gate.breakpoints:
                session.gate.remove(seq=old.seq, name=old.name)
            said = "No breakpoints."
        case [name]:
            if not session.control:
                return api.NO_CONTROL
            session.gate.add(name=name)
            said = f"A backward stops before each {name}."
        case _:
            raise UsageError("%ag_visual break followed by a node's name, or off")
    session.changed()
    return said


def _save(arguments: list[str]) -> str:
    if len(arguments) != 1:
        raise UsageError("%ag_visual save followed by one file name")
    try:
        return f"Written: {api.save_recording(arguments[0])}"
    except OSError as error:
        raise UsageError(f"Not written: {error}") from error


def _clear(arguments: list[str]) -> str:
    session = current()
    session.runs.clear()
    session.clear()
    return status(current())


def _traceback(arguments: list[str]) -> str:
    return last_whole()


_LINES: Final[dict[str, Callable[[list[str]], str]]] = {
    "help": _help,
    "as_torch": _as_torch,
    "watch": _watch,
    "record": _record,
    "pause": _pause,
    "break": _break,
    "save": _save,
    "clear": _clear,
    "traceback": _traceback,
}
