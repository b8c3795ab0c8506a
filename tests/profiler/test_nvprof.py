"""Files of nvprof: real SQLite files, built here."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ag_visual.autograd.profiler import load_nvprof, parse_nvprof_trace

STRINGS = [(1, "outer"), (2, "inner"), (3, "gemm"), (4, "copy")]
MARKERS = [(10, 1000, 1), (11, 2000, 2), (11, 5000, 0), (10, 9000, 0)]
CALLS = [
    (2500, 2600, 211, 100),
    (6000, 6100, 211, 101),
    (7000, 7050, 335, 102),
    (9500, 9600, 211, 103),
]
KERNELS = [(3000, 4500, 3, 100), (6500, 6600, 3, 101), (7100, 7200, 4, 102), (9700, 9800, 3, 103)]


def _written(path: Path, markers: bool = True) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE StringTable (_id_ INTEGER, value TEXT)")
        file.executemany("INSERT INTO StringTable VALUES (?, ?)", STRINGS)
        kind = "CUPTI_ACTIVITY_KIND"
        if markers:
            file.execute(f"CREATE TABLE {kind}_MARKER (id, timestamp, name)")
            file.executemany(f"INSERT INTO {kind}_MARKER VALUES (?, ?, ?)", MARKERS)
        file.execute(
            f"CREATE TABLE {kind}_RUNTIME (_id_ INTEGER PRIMARY KEY, start, end, cbid, "
            "correlationId)"
        )
        columns = "(start, end, cbid, correlationId)"
        file.executemany(f"INSERT INTO {kind}_RUNTIME {columns} VALUES (?, ?, ?, ?)", CALLS)
        file.execute(f"CREATE TABLE {kind}_CONCURRENT_KERNEL (start, end, name, correlationId)")
        file.executemany(f"INSERT INTO {kind}_CONCURRENT_KERNEL VALUES (?, ?, ?, ?)", KERNELS)


def test_ranges_have_the_kernels_launched_in_them(tmp_path: Path) -> None:
    path = tmp_path / "it's #1?.nvvp"
    _written(path)
    outer, inner = parse_nvprof_trace(str(path))
    assert (outer.name, outer.cpu_time_total, inner.cpu_time_total) == ("outer", 8.0, 3.0)
    assert inner.kernels == [("gemm", 0, 1.5)]
    names = [each.name for each in outer.kernels]
    assert names == ["gemm", "gemm", "copy (call 335 of the runtime)"]
    assert "inner" in str(load_nvprof(path))


def test_what_is_no_file_of_nvprof_is_told_and_not_touched(tmp_path: Path) -> None:
    missing = tmp_path / "missing.nvvp"
    with pytest.raises(FileNotFoundError, match=r"missing\.nvvp"):
        load_nvprof(missing)
    assert not missing.exists()
    other = tmp_path / "other.nvvp"
    _written(other, markers=False)
    with pytest.raises(sqlite3.OperationalError, match="CUPTI_ACTIVITY_KIND_MARKER"):
        load_nvprof(other)
    text = tmp_path / "text.nvvp"
    text.write_text("no database at all, but long enough to be read as one")
    with pytest.raises(sqlite3.DatabaseError):
        load_nvprof(text)
