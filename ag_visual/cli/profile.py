"""`ag-visual profile script.py [arguments]`: a script's table in the terminal, a page beside it."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ag_visual.cli import script
from ag_visual.cli.errors import CommandError
from ag_visual.profiler import report
from ag_visual.profiler.scheduled import profile
from ag_visual.session import as_torch

FIRST_WORD = 10.0
"""Seconds after which the first word of progress comes; each next one takes twice as long."""


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `ag-visual profile`."""
    found = commands.add_parser(
        "profile",
        help="run a script under the profiler: a table, and a page or a trace",
        description="Run a script in which `import torch` gives ag_visual, print what took its "
        "time, and write it as a page. Options stand before the script; what stands behind it is "
        "the script's. The exit status is the script's.",
        usage="ag-visual profile [options] script.py [arguments]\n"
        "       ag-visual profile [options] -M module [arguments]",
        allow_abbrev=False,
    )
    report.add_options(found)
    endings = ", ".join(report.FORMATS)
    found.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=f"what to write: {endings} (default: SCRIPT.profile.html in this folder)",
    )
    found.add_argument("--no-output", action="store_true", help="the table alone, no file")
    found.add_argument(
        "-M",
        "--as-module",
        action="store_true",
        help="script.py is the name of a module, as behind `python -m`",
    )
    found.add_argument("script", metavar="script.py")
    rest = found.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own")
    rest.required = False  # what is missing is the script


def main(options: argparse.Namespace) -> int:
    """Run the script and report on it; the exit code is the script's, 1 where the file fails."""
    path = Path(options.script)
    if not options.as_module and (wrong := script.problem(path)):
        raise CommandError(wrong.replace("-m runs", "-M runs"))
    name = options.script if options.as_module else path.stem
    output = None if options.no_output else options.output or f"{name}.profile.html"
    # Before the run: nobody wants to hear it after an hour.
    if output and (wrong := report.unwritable(output)):
        raise CommandError(wrong)
    if output:
        output = os.path.abspath(output)  # the script may change the folder
    try:
        as_torch.install()
    except RuntimeError as error:
        raise CommandError(str(error)) from error
    found = report.profiler(options)
    status, left = 0, None
    with _progress(path.name), found:
        try:
            words = [options.script, *options.arguments]
            status = script.run_module(words) if options.as_module else script.run(path, words)
        except SystemExit as error:
            left = error
    written = _reported(found, options, output, path.name)
    if left is not None and (written or left.code not in (None, 0)):
        raise left
    return status or (0 if written else 1)


def _say(text: str) -> None:
    print(f"ag-visual: {text}", file=sys.stderr, flush=True)


@contextmanager
def _progress(name: str) -> Iterator[None]:
    """Now and then a line that it still runs, in a terminal. (A line that is written over would be
    torn by what the script prints.)
    """
    done = threading.Event()
    began = time.monotonic()

    def report_progress() -> None:
        wait = FIRST_WORD
        while not done.wait(wait):
            _say(f"{name} has run for {time.monotonic() - began:.0f} s; Ctrl-C ends and shows it")
            wait *= 2

    thread = threading.Thread(target=report_progress, name="ag-visual progress", daemon=True)
    if sys.stderr.isatty():
        thread.start()
    try:
        yield
    finally:
        done.set()


def _reported(found: profile, options: argparse.Namespace, output: str | None, name: str) -> bool:
    """Print the table and write the file; whether it was written."""
    length = (found.columns.end - found.columns.start) / 1e9
    _say(f"{name} ran for {length:.3g} s, {len(found.columns.spans):,} spans; the table is made")
    print(report.text(found, options), end="", flush=True)
    if output is None:
        return True
    try:
        report.save(found, output, options, f"Profile of {name}")
    except (OSError, ValueError) as error:  # its folder may be gone
        _say(f"{output} is not written: {getattr(error, 'strerror', None) or error}")
        return False
    _say(f"written: {output}")
    return True
