"""Threads that were there before a test make no graphs in it: nodes are noted by number."""

from __future__ import annotations

import pytest

from ag_visual.bridge import threads


@pytest.fixture(autouse=True)
def threads_from_before_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    others = threads.others
    before = others()
    monkeypatch.setattr(threads, "others", lambda: others() - before)
