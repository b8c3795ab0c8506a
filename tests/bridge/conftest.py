"""The test runner's own threads make no graphs: under it, too, nodes are noted by number."""

from __future__ import annotations

import pytest

from ag_visual.bridge import threads

RUNNERS = threads.others()


@pytest.fixture(autouse=True)
def the_runners_threads_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    others = threads.others
    monkeypatch.setattr(threads, "others", lambda: others() - RUNNERS)
