"""The built front end, one ES module that exports `mount`: where it lies, and its text."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

PATH = Path(__file__).parents[2] / "display" / "static" / "inspector.js"


class BundleMissingError(FileNotFoundError):
    """The front end was not built; the text says how."""


def bundle_text() -> str:
    """The renderer's source. Raises BundleMissingError in a checkout that was not built."""
    try:
        stat = PATH.stat()
    except FileNotFoundError as error:
        raise BundleMissingError(
            f"the Inspector's front end is not built: {PATH} is missing. Wheels contain it; in a "
            "source checkout run `pip install .` (it brings its own Node), or "
            "`npm run build` in extension/."
        ) from error
    return _read(PATH, stat.st_mtime_ns)


@functools.lru_cache(maxsize=1)
def _read(path: Path, changed: int) -> str:
    return path.read_text(encoding="utf-8")


def bundle_digest() -> str:
    """A short name for this very build, so that a page loads each build once."""
    return hashlib.sha256(bundle_text().encode()).hexdigest()[:16]
