"""`%profile` and `%%profile`: what a line or a cell spends its time on, as a table and a figure."""

from __future__ import annotations

import argparse
import html
import keyword
import os
import re
from typing import Any, Final, NoReturn

from ag_visual.errors import MissingExtraError
from ag_visual.profiler import figures, report
from ag_visual.profiler.scheduled import profile

_EPILOG: Final = """\
  %profile step()                     one line
  %%profile --sort total --memory     the whole cell
  %profile --output run.html step()   writes a page, too
  %profile --keep prof step()         keeps it as prof: prof.plot("ops"), prof.key_averages()
"""
_PAGE: Final = (
    '<pre style="margin: 0; overflow-x: auto; white-space: pre; '
    'font-size: var(--jp-code-font-size, 13px)">%s</pre>'
)
_WORD: Final = re.compile(r""""[^"]*"|'[^']*'|\S+""")


class _OptionError(Exception):
    """Options that make no sense; the text says what to write."""


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _OptionError(f"%profile: {message}\n{self.format_usage()}%profile --help says more.")


def _parser() -> _Options:
    found = _Options(
        prog="%profile",
        usage="%(prog)s [options] statement, or %%%(prog)s [options] above a cell",
        description="Run a line or a cell and show where its time goes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    found.add_argument("-h", "--help", action="store_true", help="this text")
    report.add_options(found)
    found.add_argument(
        "--figure",
        choices=(*figures.KINDS, "none"),
        metavar="KIND",
        help=f"{', '.join(figures.KINDS)} or none (default: flame, in a notebook)",
    )
    found.add_argument("-o", "--output", metavar="FILE", help="write it: .html, .json, .txt, ...")
    found.add_argument("--keep", metavar="NAME", help="keep the profile as a variable")
    return found


def profile_magic(shell: Any) -> Any:
    """The magic function of a shell."""

    def run(line: str, cell: str | None = None) -> None:
        """Run a line or a cell and show where its time goes: `%profile --help`."""
        try:
            options, statement = _parsed(line)
            if options.help:
                print(_parser().format_help(), end="")
                return
            code = _code(statement, cell)
            _checked(options)
        except _OptionError as error:
            print(error)
            return
        _profiled(shell, options, code)

    from IPython.core.magic import no_var_expand

    # IPython would take {x} and $x in a statement for variables of its own.
    return no_var_expand(run)


def _parsed(line: str) -> tuple[argparse.Namespace, str]:
    """The options of a line, and the statement behind them as it stands there."""
    parser = _parser()
    words = list(_WORD.finditer(line))
    texts = [found[0].strip("\"'") if found[0][0] in "\"'" else found[0] for found in words]
    for count, found in enumerate(words):
        if found[0].startswith("-"):
            continue
        try:
            options = parser.parse_args(texts[:count])
        except _OptionError:  # an option before this word has no value yet
            continue
        return options, line[found.start() :].strip()
    return parser.parse_args(texts), ""


def _code(statement: str, cell: str | None) -> str:
    if cell is None:
        if not statement:
            usage = _parser().format_usage()
            raise _OptionError(f"%profile needs something to run, as in %profile step()\n{usage}")
        return statement
    if statement:
        raise _OptionError(
            f"%%profile takes options alone, not {statement!r}: put it on the next line, or use "
            "%profile for one line."
        )
    return cell


def _checked(options: argparse.Namespace) -> None:
    """What would fail after the run fails before it."""
    if options.output and (wrong := report.unwritable(options.output)):
        raise _OptionError(f"%profile --output: {wrong}")
    if options.output:
        options.output = os.path.abspath(options.output)  # a cell may change the folder
    if options.keep and (not options.keep.isidentifier() or keyword.iskeyword(options.keep)):
        raise _OptionError(f"%profile --keep: {options.keep!r} cannot be the name of a variable")
    if options.figure == "memory":
        options.memory = True


def _profiled(shell: Any, options: argparse.Namespace, code: str) -> None:
    found = report.profiler(options)
    with found:
        result = shell.run_cell(code, store_history=False)
    if result.error_before_exec is not None:
        return  # it did not run: the shell has said why
    if options.keep:
        shell.user_ns[options.keep] = found
    if result.error_in_exec is not None:
        print("The profile as far as it came:")
    _show_table(shell, report.text(found, options))
    if options.output:
        try:
            report.save(found, options.output, options, _title(code))
            print(f"Written: {options.output}")
        except (OSError, ValueError) as error:  # its folder may be gone
            print(f"Not written: {error}")
    _shown(shell, options, found)


def _title(code: str) -> str:
    first, *more = code.strip().splitlines() or [""]
    return f"Profile of {first}{' ...' if more else ''}"


def _in_notebook(shell: Any) -> bool:
    return getattr(shell, "kernel", None) is not None


def _show_table(shell: Any, table: str) -> None:
    """The table; in a notebook with lines that are scrolled where they are too long, not broken."""
    if not _in_notebook(shell):
        print(table, end="")
        return
    from IPython.display import display

    display({"text/plain": table, "text/html": _PAGE % html.escape(table)}, raw=True)


def _shown(shell: Any, options: argparse.Namespace, found: profile) -> None:
    """The figure, in a notebook; in a terminal a word where one was asked for."""
    notebook = _in_notebook(shell)
    kind = options.figure or ("flame" if notebook else "none")
    if kind == "none" or not len(found.columns.spans):
        return
    if not notebook:
        print("There are figures in a notebook, and in the page that --output run.html writes.")
        return
    from IPython.display import display

    try:
        display(found.plot(kind))
    except (MissingExtraError, ValueError) as error:
        print(f"No figure: {error}")
