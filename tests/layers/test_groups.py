"""A test that takes many values in groups calls itself with each of them, and tells all errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ..groups import each

NAMES = [f"value {i}" for i in range(7)]
WRONG = {"value 1", "value 3", "value 5"}


def run(test: Any, only: str | None = None, **given: Any) -> None:
    """Call a grouped test as pytest does, with each of its groups."""
    [mark] = [mark for mark in test.pytestmark if mark.name == "parametrize"]
    config = SimpleNamespace(getoption={"only": only}.get)
    for group in mark.args[1]:
        test(group=group.values[0], pytestconfig=config, **given)


def test_each_value_is_tried_and_each_error_told() -> None:
    seen: list[str] = []

    @each("name", NAMES)
    def test(name: str) -> None:
        seen.append(name)
        if name == "value 3":
            pytest.fail(name)
        assert name not in WRONG

    with pytest.raises(BaseExceptionGroup, match=r"of 7 values 3 fail: value 1, value 3, value 5"):
        run(test)
    assert seen == NAMES


def test_groups_are_of_one_size_and_named_by_their_ends() -> None:
    seen: list[str] = []

    @each("name", NAMES, size=3)
    @pytest.mark.oracle
    def test(name: str) -> None:
        seen.append(name)

    names = {mark.name: mark for mark in test.pytestmark}
    assert names.keys() == {"oracle", "parametrize"}
    ids = [group.id for group in names["parametrize"].args[1]]
    assert ids == ["value 0..value 2", "value 3..value 5", "value 6"]
    run(test)
    assert seen == NAMES


def test_one_value_is_chosen() -> None:
    seen: list[str] = []

    @each("name", NAMES, size=3)
    def test(name: str) -> None:
        seen.append(name)

    with pytest.raises(pytest.skip.Exception):
        run(test, only="value 4")
    [mark] = test.pytestmark
    config: Any = SimpleNamespace(getoption={"only": "value 4"}.get)
    test(group=mark.args[1][1].values[0], pytestconfig=config)
    assert seen == ["value 4"]


def test_what_one_value_patched_the_next_one_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    place = SimpleNamespace(value="own")

    @each("name", NAMES)
    def test(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        assert place.value == "own"
        monkeypatch.setattr(place, "value", name)

    run(test, monkeypatch=monkeypatch)
    assert place.value == "own"


def test_what_is_not_run_does_not_hide_what_fails() -> None:
    @each("name", NAMES)
    def test(name: str) -> None:
        if name == "value 0":
            pytest.skip("not here")
        assert name not in failing

    failing: set[str] = set()
    with pytest.raises(pytest.skip.Exception):
        run(test)
    failing = {"value 6"}
    with pytest.raises(BaseExceptionGroup, match="of 7 values 1 fail: value 6"):
        run(test)
