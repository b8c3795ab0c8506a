"""No line of the front end is longer than 100 columns: ruff sees to those of Python."""

from __future__ import annotations

from pathlib import Path

EXTENSION = Path(__file__).resolve().parents[2] / "extension"
ENDINGS = {".ts", ".tsx", ".mts", ".mjs"}
LONGEST = 100
#: made by the build, not in the repository
MADE = {"worker_source.ts"}


def too_long(folder: Path) -> list[str]:
    """Where lines are too long, as file:line (columns)."""
    return [
        f"{file.relative_to(folder)}:{number} ({len(line)} columns)"
        for file in sorted(folder.rglob("*"))
        if file.suffix in ENDINGS and file.name not in MADE
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if len(line) > LONGEST
    ]


def test_lines_of_the_front_end_fit() -> None:
    assert too_long(EXTENSION / "src") + too_long(EXTENSION / "tests") == []


def test_an_injected_long_line_is_found(tmp_path: Path) -> None:
    (tmp_path / "panels").mkdir()
    injected = tmp_path / "panels" / "wide.tsx"
    injected.write_text(f"{'x' * 100}\n{'é' * 101}\n", "utf-8")
    (tmp_path / "worker_source.ts").write_text("y" * 200)
    assert too_long(tmp_path) == ["panels/wide.tsx:2 (101 columns)"]
