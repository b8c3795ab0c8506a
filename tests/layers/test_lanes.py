"""The two lanes that CI runs beside each other are together the whole suite."""

from __future__ import annotations

from ..conftest import HERE, LANES, SLOW_TO_ANSWER, lane_of


def test_every_test_is_in_one_lane() -> None:
    files = list(HERE.rglob("test_*.py"))
    assert {lane_of(file) for file in files} == set(LANES)
    for file in files:
        # A folder is left out of a collection as a whole: what is in it has its lane.
        assert {lane_of(folder) for folder in file.parents if lane_of(folder)} == {lane_of(file)}


def test_lanes_name_folders_that_are_there() -> None:
    assert all((HERE / folder).is_dir() for folder in SLOW_TO_ANSWER)
    assert lane_of(HERE) is None
