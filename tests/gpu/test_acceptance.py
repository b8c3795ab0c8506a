"""The acceptance run itself: whole on the stand-in for CuPy, and loud about faults."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def ran(*words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """`python -m tests.gpu WORDS` in a process of its own, in which this code runs first."""
    code = (
        f"import runpy, sys\nsys.argv = ['tests.gpu', *{list(words)!r}]\n{before}\n"
        "runpy.run_module('tests.gpu', run_name='__main__', alter_sys=True)"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)


@pytest.mark.oracle
def test_all_checks_hold_on_the_stand_in() -> None:
    found = ran("--stand-in", "--every", "60")
    assert found.returncode == 0, found.stdout + found.stderr
    page = found.stdout.splitlines()
    assert "a stand-in for CuPy, no GPU" in page[0]
    assert len(page) < 60
    section, told = "", []
    for line in page:
        section = line if line and not line.startswith(" ") else section
        if line.startswith("  "):
            told.append(f"{section}: {line[2:62].rstrip()}")
    (left_out,) = (line for line in page if line.startswith("not run, as they need a GPU: "))
    told += left_out.partition("GPU: ")[2].split(", ")
    names = ran("--stand-in", "--list").stdout.splitlines()
    assert sorted(told) == sorted(names)
    assert len(names) >= 30
    assert page[-1] == f"{len(names) - left_out.count(': ') + 1} checks hold, 0 fail"


def test_a_fault_is_told_first_and_by_the_exit_status() -> None:
    fault = "import ag_visual.cuda\nag_visual.cuda.memory_allocated = lambda device=None: 0"
    found = ran("--stand-in", "--only", "memory", before=fault)
    assert found.returncode == 1, found.stderr
    first = found.stdout.splitlines()[2]
    assert first == "FAILED memory: allocated and reserved"
    assert found.stdout.rstrip().endswith(" fail")


def test_every_op_that_fails_is_named() -> None:
    fault = (
        "import tests.properties.checks as checks\n"
        "def broken(call, backend):\n    assert 'cos' not in call.op.name, 'broken'\n"
        "checks.check_backend = broken"
    )
    found = ran("--stand-in", "--only", "values and gradients", before=fault)
    assert found.returncode == 1, found.stderr
    for name in ("cos", "cosh", "acos", "acosh"):
        assert f"  {name}: AssertionError" in found.stdout
    assert "    sin: " not in found.stdout


def test_without_a_gpu_one_line_says_why() -> None:
    found = ran(before="sys.modules['cupy'] = None")
    assert found.returncode == 2
    assert not found.stdout
    (line,) = found.stderr.splitlines()
    assert line.startswith("cannot run: device 'cuda' needs CuPy")
    assert "pip install 'ag-visual[cuda12]'" in line


def test_a_name_that_no_check_has_is_an_error() -> None:
    found = ran("--stand-in", "--only", "no such check")
    assert found.returncode == 2
    assert "see --list" in found.stderr
