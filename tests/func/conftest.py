"""What every test of transforms leaves behind: nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from ag_visual.core import modes
from ag_visual.core.level import Level


@pytest.fixture(autouse=True)
def _nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No level open or alive, no mode changed: after errors, too."""
    made: weakref.WeakSet[Level] = weakref.WeakSet()
    begin = Level.__init__

    def counted(self: Level, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        made.add(self)

    monkeypatch.setattr(Level, "__init__", counted)
    before = modes.special, modes.duals, modes.snapshot()
    yield
    assert (modes.special, modes.duals, modes.snapshot()) == before
    assert modes.state.levels == ()
    if made:
        gc.collect()
        assert not [level for level in made if level.open]
        assert not list(made)
