"""torch.hub: where files of models would be kept; nothing is downloaded."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ag_visual import absent as _absent
from ag_visual.names import expose as _expose

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
"""The part of a file's name that is the beginning of its SHA-256."""
READ_DATA_CHUNK = 128 * 1024
_chosen: Path | None = None


def get_dir() -> str:
    """The folder: what `set_dir` was given, $TORCH_HOME/hub, or ~/.cache/torch/hub."""
    if _chosen is not None:
        return str(_chosen)
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))
    return os.path.join(os.path.expanduser(home), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Choose the folder."""
    global _chosen
    _chosen = Path(d).expanduser()


_expose(__name__, "HASH_REGEX", "READ_DATA_CHUNK")

__getattr__ = _absent.asked(__name__, "hub")
