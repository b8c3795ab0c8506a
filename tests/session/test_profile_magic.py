"""`%profile` and `%%profile` in an IPython shell of this process."""

from __future__ import annotations

import argparse
import gzip
import json
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import ag_visual as ag
from ag_visual.profiler import report


@pytest.fixture(scope="module")
def shell() -> Any:
    found = InteractiveShell()
    ag.load_ipython_extension(found)
    found.run_cell("import ag_visual as ag\nx = ag.ones(3, requires_grad=True)")
    yield found
    found.history_manager.end_session()


def said(shell: Any, capsys: Any, line: str, cell: str | None = None) -> str:
    capsys.readouterr()
    if cell is None:
        shell.run_line_magic("profile", line)
    else:
        shell.run_cell_magic("profile", line, cell)
    return str(capsys.readouterr().out)


def names(table: str) -> list[str]:
    rows = [line for line in table.splitlines() if line.startswith("  ")]
    return [row.split()[0] for row in rows if row.split()[0] != "Name"]


def test_a_line(shell: Any, capsys: Any) -> None:
    shell.user_ns.pop("y", None)
    text = said(shell, capsys, "--sort calls y = [x.exp(), x.exp(), x * 2][0]")
    assert names(text)[0] == "aten::exp"
    assert set(names(text)) == {"aten::exp", "aten::mul"}
    assert shell.user_ns["y"].tolist() == x_exp(shell)
    # What IPython does to lines of other magics would make "3" of it.
    assert "aten::exp" in said(shell, capsys, "y = {len('abc'): x.exp()}; z = f'{y}'")
    assert 3 in shell.user_ns["y"]


def x_exp(shell: Any) -> list[float]:
    return list(shell.user_ns["x"].exp().tolist())


def test_a_cell_with_all_options(shell: Any, capsys: Any, tmp_path: Any) -> None:
    path = tmp_path / "run it.html"
    line = f'-m -k -f --modules -r 2 --keep prof -o "{path}"'
    text = said(shell, capsys, line, "y = x * 2\ny.sum().backward()\n")
    for word in ("CPU Mem", "Source Location", "FLOP/s", "more rows"):
        assert word in text
    assert ": <module>" in text
    assert "run_code" not in text  # a call of IPython's, which runs the cell
    assert f"Written: {path}" in text
    page = path.read_text()
    assert page.count("plotly-graph-div") == 3
    assert "<h1>Profile of y = x * 2 ...</h1>" in page
    assert "aten::mul" in {each.name for each in shell.user_ns["prof"].events()}


def test_rates_beside_operations(shell: Any, capsys: Any) -> None:
    cell = "x * 2\nag.ones(6) * 2\n"
    for line, calls, moved in (("-f", 2, 72), ("-f --shapes", 1, 48)):
        assert "Bytes/s" in said(shell, capsys, f"{line} -s flops --keep prof", cell)
        options = argparse.Namespace(stacks=False, shapes="shapes" in line)
        averages = shell.user_ns["prof"].key_averages(options.shapes)
        mul = max((each for each in averages if each.key == "aten::mul"), key=lambda e: e.flops)
        assert mul.count == calls
        assert report._moved(shell.user_ns["prof"], options)(mul) == moved


def test_each_ending_is_what_it_says(shell: Any, capsys: Any, tmp_path: Any) -> None:
    for ending in report.FORMATS:
        assert "Written" in said(shell, capsys, f"-o {tmp_path}/run{ending} x.exp()")
    read = {ending: (tmp_path / f"run{ending}").read_bytes() for ending in report.FORMATS}
    assert read[".agprof"].startswith(b"ag_visual-profile ")
    assert json.loads(read[".speedscope.json"])["exporter"] == "ag_visual"
    assert json.loads(gzip.decompress(read[".json.gz"]))["traceEvents"]
    assert json.loads(read[".json"])["traceEvents"]
    assert names(read[".txt"].decode()) == ["aten::exp"]
    assert read[".html"].startswith(b"<!doctype html>")


def test_an_error_in_the_cell_leaves_the_profile(shell: Any, capsys: Any) -> None:
    text = said(shell, capsys, "", "x.cos()\n1 / 0\nx.sin()\n")
    assert "ZeroDivisionError" in text
    assert names(text.partition("as far as it came")[2]) == ["aten::cos"]
    assert "SyntaxError" in (wrong := said(shell, capsys, "1 +"))
    assert "Nothing ran" not in wrong
    assert "Nothing ran: no op" in said(shell, capsys, "1 + 1")


@pytest.mark.parametrize(
    ("line", "cell", "told"),
    [
        ("", None, "needs something to run"),
        ("--sort size x.exp()", None, "choose from"),
        ("--rows 0 x.exp()", None, "'0' is no number of rows"),
        ("--fast x.exp()", None, "unrecognized arguments: --fast"),
        ("x.exp()", "x.exp()", "takes options alone"),
        ("-o run.doc x.exp()", None, ".html (a page"),
        ("-o nowhere/run.html x.exp()", None, "there is no folder nowhere"),
        ("--keep 1a x.exp()", None, "'1a' cannot be the name of a variable"),
        ("--figure pie x.exp()", None, "choose from"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_runs(
    shell: Any, capsys: Any, line: str, cell: str | None, told: str
) -> None:
    text = said(shell, capsys, line, cell)
    assert told in text
    assert "aten::exp" not in text


def test_help_names_every_option(shell: Any, capsys: Any) -> None:
    text = said(shell, capsys, "--help")
    words = "--sort --rows --memory --stacks --flops --shapes --modules --figure --output --keep"
    assert all(word in text for word in words.split())
    assert "%%profile --sort total" in text
    assert "%profile [options] statement, or %%profile [options]" in text


def test_a_notebook_shows_the_figure(
    shell: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import IPython.display

    shown: list[Any] = []
    monkeypatch.setattr(IPython.display, "display", lambda each, raw=False: shown.append(each))
    assert "--output run.html" in said(shell, capsys, "--figure ops x.exp()")
    assert not shown
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    said(shell, capsys, "x.exp()")
    said(shell, capsys, "--figure memory x.exp()")
    said(shell, capsys, "--figure none x.exp()")
    tables = [each for each in shown if isinstance(each, dict)]
    assert ["aten::exp" in table["text/plain"] for table in tables] == [True] * 3
    figures = [each for each in shown if not isinstance(each, dict)]
    assert [each.data[0].type for each in figures] == ["icicle", "scatter"]


def test_a_table_in_a_notebook_is_text_and_no_markup(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import IPython.display

    shown: list[Any] = []
    monkeypatch.setattr(IPython.display, "display", lambda each, raw=False: shown.append(each))
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    cell = "with ag.profiler.record_function('<img src=x>'):\n    x.exp()\n"
    shell.run_cell_magic("profile", "--figure none", cell)
    (table,) = shown
    assert "<img src=x>" in table["text/plain"]
    assert "&lt;img src=x&gt;" in table["text/html"]
    assert "<img" not in table["text/html"]
