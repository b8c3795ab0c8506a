"""The notebooks that came with the package: where they lie, copies to work in, the course in order.

Used by `ag-visual tour` and by the panel, which opens lessons of the course.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Final, TypedDict

from ag_visual import files

TOUR: Final = "tour.ipynb"
COURSE: Final = "course_*.ipynb"


class CourseLesson(TypedDict):
    """A notebook of the course: its file, and its title as in its first line."""

    name: str
    title: str


def source() -> Path:
    """Their folder, in the package or in the checkout; FileNotFoundError where there is none."""
    package = Path(files.__file__).parent
    for folder in (package / "notebooks", package.parent / "notebooks"):
        if (folder / TOUR).is_file():
            return folder
    raise FileNotFoundError(f"{TOUR} is missing from {package}: install ag-visual again")


@functools.cache
def course() -> tuple[CourseLesson, ...]:
    """The lessons in their order; none where the notebooks are missing."""
    try:
        originals = sorted(source().glob(COURSE))
    except FileNotFoundError:
        return ()
    return tuple(CourseLesson(name=path.name, title=_title(path)) for path in originals)


def _title(path: Path) -> str:
    """'1 · What a gradient is' of a notebook that begins with '# 1 · What a gradient is'."""
    first = json.loads(path.read_text("utf-8"))["cells"][0]["source"]
    return "".join(first).partition("\n")[0].lstrip("# ")


def copy(folder: Path, *, anew: str = "") -> None:
    """Copies of all notebooks in the folder; what a reader worked in is kept, but for `anew`."""
    folder.mkdir(parents=True, exist_ok=True)
    for original in sorted(source().glob("*.ipynb")):
        target = folder / original.name
        if not target.exists() or original.name == anew:
            files.write(target, original.read_bytes())


def copy_course(folder: Path) -> None:
    """Copies of the lessons in the folder, where they are not there yet."""
    for lesson in course():
        target = folder / lesson["name"]
        if not target.exists():
            files.write(target, (source() / lesson["name"]).read_bytes())
