"""The type checker that guards files and requests."""

from __future__ import annotations

import pytest

from ag_visual.errors import FormatError
from ag_visual.observe.wire.check import check, check_fields


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("string", "a", 1),
        ("number", 1.5, "1"),
        ("number", 0, True),
        ("boolean", True, 1),
        ("null", None, 0),
        ("'node' | 'name'", "name", "seq"),
        ("number | null", None, "x"),
        ("number[]", [1, 2], [1, "2"]),
        ("(number | null)[]", [1, None], [1, "2"]),
        ("[number, number]", [0, 8], [0]),
        ("Record<string, [number, number]>", {"a": [0, 8]}, {"a": [0, 8, 9]}),
        ("Repair", {"text": "t", "code": None}, {"text": "t"}),
        ("Repair | null", None, {"text": 1, "code": None}),
        ("Write[]", [{"site": None, "version": 1, "op": "add_"}], [{"site": None, "version": 1}]),
    ],
)
def test_type(type_, good, bad):
    check(type_, good, "it")
    with pytest.raises(FormatError, match="it"):
        check(type_, bad, "it")


def test_error_names_the_place_and_the_value():
    with pytest.raises(FormatError, match=r"batches\[1\]\.version should be a number, but is 'x'"):
        check(
            "Write[]",
            [{"site": None, "version": 1, "op": ""}, {"site": None, "version": "x", "op": ""}],
            "batches",
        )


def test_optional_fields_may_be_absent_but_not_wrong():
    check_fields({"on": "boolean", "seq?": "number"}, {"on": True}, "breakpoint")
    with pytest.raises(FormatError, match=r"breakpoint\.seq"):
        check_fields({"on": "boolean", "seq?": "number"}, {"on": True, "seq": "1"}, "breakpoint")
