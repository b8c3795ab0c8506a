"""`ag-visual profile script.py`, each in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ag_visual.cli import main
from ag_visual.profiler import report

from .test_as_torch import run, script

COMMAND = (
    *("-c", "import sys; from ag_visual.cli import main; sys.exit(main())"),
    "profile",
)
TRAIN = """
import os, sys
import torch
x = torch.ones(3, requires_grad=True)
for _ in range(int(sys.argv[1])):
    (x * 2).sum().backward()
print("trained", sys.argv[1:], __name__)
os.chdir("/")
"""


def test_a_script_runs_as_ever_and_is_told(tmp_path: Path) -> None:
    path = script(tmp_path, TRAIN)
    (tmp_path / "here").mkdir()
    done = run(
        *(*COMMAND, "--sort", "calls", "-m", path, "7", "--rows", "x"),
        cwd=tmp_path / "here",
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "trained ['7', '--rows', 'x'] __main__"
    sum_ = next(line for line in lines if line.startswith(" ") and " aten::sum " in line)
    assert sum_.split()[-1] == "7"
    assert "Self CPU Mem" in done.stdout
    written = tmp_path / "here" / "train.profile.html"
    assert done.stderr.splitlines()[-1] == f"ag-visual: written: {written}"
    assert [each.name for each in (tmp_path / "here").iterdir()] == [written.name]
    page = written.read_text()
    assert page.count("plotly-graph-div") == 3
    assert "aten::mul" in page.partition("<h2>Table</h2>")[2]


def test_a_module_is_profiled_by_its_name(tmp_path: Path) -> None:
    package = tmp_path / "net"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "parts.py").write_text("import torch\nx = torch.ones(3).exp()\n")
    (package / "train.py").write_text("import sys\nfrom . import parts\nprint(sys.argv[1:])\n")
    done = run(*COMMAND, "-M", "net.train", "-M", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['-M']\n")
    assert "aten::exp" in done.stdout
    assert (tmp_path / "net.train.profile.html").exists()
    assert "; -M runs a package" in run(*COMMAND, "net", cwd=tmp_path).stderr


def test_a_folder_that_cannot_be_written_is_said_before_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "run.html"
    monkeypatch.setattr(report.os, "access", lambda path, _: path == str(file))
    assert report.unwritable(file) == (
        f"{file}: {tmp_path} cannot be written (-o names another place)"
    )
    file.touch()
    assert report.unwritable(file) is None


@pytest.mark.parametrize(
    ("end", "status", "told"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
    ],
)
def test_ends_of_all_kinds_are_the_scripts_own(
    tmp_path: Path, end: str, status: int, told: str
) -> None:
    path = script(tmp_path, f"import sys, torch\ntorch.ones(2).exp()\n{end}\n")
    trace = tmp_path / "trace.json"
    done = run(*COMMAND, "-o", str(trace), path)
    assert done.returncode == status
    assert told in done.stderr
    assert "cli/profile.py" not in done.stderr
    assert "aten::exp" in done.stdout
    assert "aten::exp" in {each["name"] for each in json.loads(trace.read_text())["traceEvents"]}


@pytest.mark.parametrize(
    ("words", "told", "status"),
    [
        (["missing.py"], "ag-visual: missing.py: no such file", 1),
        (["-o", "run.doc", "train.py"], ".speedscope.json (for speedscope.app)", 1),
        (["-o", "nowhere/run.html", "train.py"], "there is no folder nowhere", 1),
        (["--rows", "0", "train.py"], "'0' is no number of rows", 2),
        ([], "arguments are required: script.py\n", 2),
    ],
)
def test_what_cannot_be_done_is_said_before_the_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
    status: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    script(tmp_path, "print('ran')")
    try:
        found = main(["profile", *words])
    except SystemExit as error:
        found = error.code
    assert found == status
    said = capsys.readouterr()
    assert told in said.err
    assert said.out == ""


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)\n"])
def test_a_file_that_cannot_be_written_is_said_and_the_old_one_stays(
    tmp_path: Path, end: str
) -> None:
    body = "import torch, ag_visual.files as files\ntorch.ones(2).exp()\n"
    body += "def full(*_): raise OSError(28, 'No space left on device')\nfiles.os.fsync = full\n"
    body += end
    old = tmp_path / "run.html"
    old.write_text("old")
    done = run(*COMMAND, "-o", str(old), script(tmp_path, body))
    assert done.returncode == 1
    assert f"{old} is not written: No space left on device" in done.stderr
    assert "aten::exp" in done.stdout
    assert old.read_text() == "old"
    assert {each.name for each in tmp_path.iterdir()} == {"run.html", "train.py"}
