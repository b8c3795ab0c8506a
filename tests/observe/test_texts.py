"""Text of programs on the wire: bounded, and valid Unicode wherever it stands."""

from __future__ import annotations

import json

from hypothesis import given, strategies as st

from ag_visual.observe.wire.columns import Strings
from ag_visual.observe.wire.text import LONGEST, fit, fit_all

TEXTS = st.text(st.characters(exclude_categories=()), max_size=30)  # lone surrogates, too


@given(TEXTS)
def test_what_is_sent_can_be_encoded(text):
    fit(text).encode()
    json.dumps(fit_all({text: [{"a": text}, {"b": [text]}]}), ensure_ascii=False).encode()


@given(st.text(max_size=30))
def test_text_that_can_be_sent_stays(text):
    assert fit(text) == text


def test_a_long_text_is_cut_and_says_how_long_it_was():
    long = "x" * 10_000_000
    assert fit(long) == "x" * LONGEST + "… (10,000,000 characters)"
    strings = Strings()
    assert strings[long] == strings[long]
    assert all(len(text) < 2 * LONGEST for text in (*strings.texts, *strings))


def test_numbers_stay_as_they_are():
    counts = [1, 2, 3]
    assert fit_all({"counts": counts, "none": None})["counts"] is counts
