"""`ag-visual`: reads the command line; what goes wrong is said in a sentence, not a traceback."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ag_visual.cli import profile
from ag_visual.cli.errors import CommandError


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="ag-visual", description="Automatic differentiation whose insides can be watched."
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    tour = commands.add_parser(
        "tour",
        help="open the tour notebook in JupyterLab with the Inspector beside it",
        description="Open the tour notebook in JupyterLab with the Inspector docked beside it, "
        "or run it from top to bottom without a browser. The package's other notebooks are "
        "written beside it.",
    )
    tour.add_argument(
        "--teaching",
        type=int,
        nargs="?",
        const=1,
        metavar="LESSON",
        help="the course in the tour's place, from lesson 1 (default) to 8: what a gradient is, "
        "the chain rule by hand, and on",
    )
    tour.add_argument("--headless", action="store_true", help="run the notebook without a browser")
    tour.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        default=Path("ag-visual-tour"),
        help="folder for the notebooks and the recording (default: ./ag-visual-tour)",
    )
    tour.add_argument(
        "--port",
        type=int,
        metavar="N",
        help="port for JupyterLab (default: the first free one from 8888); --headless needs none",
    )
    tour.add_argument(
        "--no-browser", action="store_true", help="print the address instead of opening a browser"
    )
    commands.add_parser(
        "run", help="run a script in which `import torch` gives ag_visual", add_help=False
    )
    profile.add_command(commands)
    return top


def main(words: list[str] | None = None) -> int:
    """Run one command; its exit code."""
    known = parser()
    given = sys.argv[1:] if words is None else words
    # argparse would take a first word with a dash for an option of its own.
    at = 1 if given[:1] == ["run"] else len(given)
    arguments = known.parse_args(given[:at])
    if arguments.version:
        from ag_visual import __version__

        print(f"ag_visual {__version__}")
        return 0
    if arguments.command is None:
        known.print_help(sys.stderr)
        return 2
    try:
        if arguments.command == "run":
            from ag_visual.cli import script

            return script.main(given[at:])
        if arguments.command == "profile":
            return profile.main(arguments)
        from ag_visual.cli import tour

        chosen = arguments.teaching
        name = tour.NOTEBOOK if chosen is None else tour.lesson(chosen)
        if arguments.headless:
            return tour.headless(arguments.output, name)
        shown = not arguments.no_browser
        return tour.interactive(arguments.output, name, arguments.port, browser=shown)
    except CommandError as error:
        print(f"ag-visual: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nag-visual: interrupted", file=sys.stderr)
        return 130
