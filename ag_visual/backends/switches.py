"""Switches of a module of torch.backends, set for a block."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def held(module: str, **values: Any) -> Iterator[None]:
    """A block in which the switches of a module have these values."""
    space = vars(sys.modules[module])
    before = {name: space[name] for name in values}
    space.update(values)
    try:
        yield
    finally:
        space.update(before)
