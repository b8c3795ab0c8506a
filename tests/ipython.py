"""What the IPython of kernels that tests start has in its folder."""

from __future__ import annotations

from pathlib import Path

# Without names of its own in the namespace of cells.
LEAVE = "__import__('atexit').register(__import__('gc').freeze)\n"


def prepare(folder: Path) -> None:
    """An IPYTHONDIR whose kernels end without walking over all objects again and again.

    As Python ends it collects garbage several times: half of what a short kernel takes.
    """
    startup = folder / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "leave.py").write_text(LEAVE)
