"""Ranges of NVTX and ITT, as tools see them: small C libraries stand where Nsight and VTune do.

The variables that name a tool are read once in a process: each program here is one of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ag_visual as ag
from ag_visual.autograd import profiler
from ag_visual.cuda import profiler as cuda_profiler
from ag_visual.profiler import itt

HERE = Path(__file__).parent
VARIABLES = {"nvtx": "NVTX_INJECTION64_PATH", "itt": "INTEL_LIBITTNOTIFY64"}
PROGRAM = """
import resource
import ag_visual as ag
from ag_visual.autograd.profiler import emit_{tool}, profile, record_function
x = ag.ones(2, 3, requires_grad=True)
with emit_{tool}(record_shapes=True), profile() as beside:
    with record_function("mine"):
        y = x * 2
    y.sum().backward()
assert "aten::mul" in [each.name for each in beside.function_events]
"""
LONG = """
import resource
import ag_visual as ag
from ag_visual.autograd.profiler import emit_{tool}
x = ag.ones(2, requires_grad=True)
def run(count):
    for _ in range(count):
        x * 2
with emit_{tool}():
    run(20_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(80_000)
    print("grown by", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, "KiB")
"""


@pytest.fixture(scope="module", params=VARIABLES)
def tool(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    name = request.param
    library = tmp_path_factory.mktemp(name) / f"{name}.so"
    source = HERE / f"{name}_tool.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    return name, library


def _run(program: str, tool: tuple[str, Path], **variables: str) -> list[str]:
    name, library = tool
    found = subprocess.run(
        [sys.executable, "-c", program.format(tool=name)],
        env={**os.environ, VARIABLES[name]: str(library), **variables},
        capture_output=True,
        text=True,
    )
    assert not found.returncode, found.stderr
    return found.stdout.splitlines()


def test_tools_see_ops_and_nodes_as_ranges(tool: tuple[str, Path]) -> None:
    *ranges, end = _run(PROGRAM, tool)
    assert end.startswith(f"depth 0, pushed {len(ranges)},")
    plain = [re.sub(r",? ?(stashed )?seq \[\d+\]", "", each) for each in ranges]
    assert plain[:3] == [
        "0 mine",
        "1 aten::mul, sizes = [[2, 3], []]",
        "0 aten::sum, sizes = [[2, 3], [], []]",
    ]
    nodes = ["SumBackward0", "MulBackward0", "torch::autograd::AccumulateGrad"]
    around = [f"0 autograd::engine::evaluate_function: {each}" for each in nodes]
    assert [each for each in plain[3:] if each in around] == around
    assert [each for each in plain if each[2:] in nodes] == [f"1 {each}" for each in nodes]
    numbers = [re.search(r", seq \[(\d+)\]", each) for each in ranges[:3]]
    stashed = [re.search(r"MulBackward0, stashed seq \[(\d+)\]", each) for each in ranges]
    if tool[0] == "nvtx":
        made = numbers[1]
        assert made is not None
        assert [each[1] for each in stashed if each] == [made[1], made[1]]
    else:
        assert not any(numbers + stashed)  # tasks of ITT have no number


def test_memory_is_flat(tool: tuple[str, Path]) -> None:
    grown, end = _run(LONG, tool, QUIET="1")
    assert end.startswith("depth 0, pushed 100000, texts ")
    assert int(end.split()[-1]) <= 1  # ittapi keeps the first one itself
    assert int(grown.split()[2]) < 2000  # a text for each would be 30 MB


OWN = """
from ag_visual.profiler import itt
assert itt.is_available()
print(itt.range_push("outer"), itt.range_push("inner"), itt.range_pop())
itt.mark("a moment")
with itt.range("step {{}}", 3): pass
print(itt.range_pop(), itt.range_pop())
"""


OWN_NVTX = """
from ag_visual.cuda import nvtx
print(nvtx.range_push("outer"), nvtx.range_push("inner"), nvtx.range_pop())
nvtx.mark("a moment")
with nvtx.range("step {{}}", 3): pass
@nvtx.range("a function")
def function(): pass
function()
nvtx.range_end(nvtx.range_start("from here"))
print(nvtx.range_pop(), nvtx.range_pop())
"""


def test_ranges_of_the_users_own(tmp_path: Path) -> None:
    library = tmp_path / "nvtx.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, HERE / "nvtx_tool.c"], check=True)
    seen = _run(OWN_NVTX, ("nvtx", library))
    depths = ["0 1 1", "0 -1"]
    assert [each for each in seen if each in depths] == depths
    *ranges, end = [each for each in seen if each not in depths]
    pushed = ["0 outer", "1 inner", "! a moment", "1 step 3", "1 a function"]
    assert ranges == [*pushed, "> from here", "< 7"]
    assert end.startswith("depth 0, pushed 4,")


def test_tasks_of_the_users_own(tmp_path: Path) -> None:
    library = tmp_path / "itt.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, HERE / "itt_tool.c"], check=True)
    seen = _run(OWN, ("itt", library))
    # The tool writes what Python does not wait for: two streams, each in its order.
    depths = ["0 1 1", "0 -1"]
    assert [each for each in seen if each in depths] == depths
    *tasks, end = [each for each in seen if each not in depths]
    assert tasks == ["0 outer", "1 inner", "1 a moment", "1 step 3"]
    assert end.startswith("depth 0, pushed 4,")


@pytest.mark.parametrize(("tool_name", "package"), [("nvtx", "nvtx"), ("itt", "ittapi")])
def test_a_missing_package_is_named(
    tool_name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    emit = getattr(profiler, f"emit_{tool_name}")
    with pytest.raises(ModuleNotFoundError, match=rf'pip install "ag-visual\[{package}\]"'):
        emit().__enter__()
    with emit(enabled=False) as nothing:
        assert nothing is None
    if package == "ittapi":
        with pytest.raises(ModuleNotFoundError, match=r"itt needs the package ittapi"):
            itt.mark("a moment")
    else:
        with pytest.raises(ModuleNotFoundError, match=r"cuda.nvtx needs the package nvtx"):
            ag.cuda.nvtx.mark("a moment")


def test_only_one_at_a_time() -> None:
    first = profiler.emit_nvtx()
    with first:
        with pytest.raises(RuntimeError, match="not reentrant"):
            first.__enter__()
        with pytest.raises(RuntimeError, match="at most one"):
            profiler.emit_itt().__enter__()
    with profiler.emit_itt():
        ag.ones(2).add(1)


def test_tools_of_the_gpu_are_started_through_cupy() -> None:
    if ag.cuda.is_available():
        with cuda_profiler.profile():
            pass
        return
    with pytest.raises(RuntimeError, match=r"cupy|no CUDA device"):
        cuda_profiler.start()
    with pytest.raises(RuntimeError, match=r"cupy|no CUDA device"):
        ag.cuda.cudart()
    ag.cuda.check_error(0)
    with pytest.raises(ag.cuda.CudaError, match="2"):
        ag.cuda.check_error(2)
