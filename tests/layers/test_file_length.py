"""No source file has more than 600 lines: what is longer holds two things, and is split by task."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("ag_visual", "extension/src")
ENDINGS = {".py", ".ts", ".tsx"}
MOST = 600
#: written by a program: the wire format in TypeScript, the workers as strings
GENERATED = {"schema.ts", "worker_source.ts"}


def too_long(folder: Path) -> list[str]:
    """The files that are too long, as file (lines)."""
    lengths = {
        file.relative_to(folder): len(file.read_text("utf-8").splitlines())
        for file in sorted(folder.rglob("*"))
        if file.suffix in ENDINGS and file.name not in GENERATED
    }
    return [f"{file} ({lines} lines)" for file, lines in lengths.items() if lines > MOST]


def test_no_source_file_is_too_long() -> None:
    assert [found for folder in FOLDERS for found in too_long(ROOT / folder)] == []


def test_an_injected_long_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "everything.py").write_text("x = 0\n" * 601)
    (tmp_path / "ops" / "enough.py").write_text("x = 0\n" * 600)
    (tmp_path / "schema.ts").write_text("\n" * 700)
    assert too_long(tmp_path) == ["ops/everything.py (601 lines)"]
