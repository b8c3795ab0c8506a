"""Summaries of values: right for ordinary arrays, unshaken by odd ones, within their limit."""

from __future__ import annotations

import json
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst

from ag_visual.observe.record.summaries import EXACT, SMALLEST_LIMIT, summarize
from ag_visual.observe.wire.check import check

DTYPES = [
    np.bool_,
    np.uint8,
    np.int64,
    np.float16,
    np.float32,
    np.float64,
    np.complex64,
    ml_dtypes.bfloat16,
]
SHAPES = [(), (0,), (1,), (3, 0, 2), (7,), (4, 5), (2, 3, 4, 5)]


def test_numbers_of_a_plain_matrix():
    found = summarize(np.array([[1.0, -2.0], [0.0, 4.0]]))
    assert (found["min"], found["max"], found["mean"]) == (-2.0, 4.0, 0.75)
    assert found["norm"] == pytest.approx(21**0.5)
    assert (found["nan"], found["inf"], found["zero"], found["sampled"]) == (0, 0, 1, 4)
    assert found["picture"] == {
        "rows": 2,
        "cols": 2,
        "values": [1.0, -2.0, 0.0, 4.0],
        "pooled": False,
    }
    assert sum(found["histogram"]["counts"]) == 4
    assert found["text"] == "[1, -2, ...]"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_dtype_and_shape(dtype, shape):
    found = summarize(np.ones(shape, dtype))
    check("Values", found, "values")
    assert found["numel"] == found["sampled"] == int(np.prod(shape))
    assert found["dtype"] == np.dtype(dtype).name
    if found["numel"]:
        assert found["min"] == found["max"] == found["mean"] == 1.0


def test_nan_and_infinity_are_counted_and_left_out_of_the_range():
    found = summarize(np.array([np.nan, np.inf, -np.inf, 2.0, np.nan]))
    assert (found["nan"], found["inf"]) == (2, 2)
    assert (found["min"], found["max"], found["norm"]) == (2.0, 2.0, None)
    assert found["picture"]["values"] == [None, None, None, 2.0, None]


def test_complex_elements_count_by_absolute_value():
    found = summarize(np.array([3 + 4j, 0j]))
    assert (found["min"], found["max"], found["zero"]) == (0.0, 5.0, 1)


def test_largest_floats_do_not_overflow():
    big = np.finfo(np.float64).max
    found = summarize(np.array([big, -big, big / 2]))
    assert (found["min"], found["max"]) == (-big, big)
    assert sum(found["histogram"]["counts"]) == 3
    assert found["mean"] == pytest.approx(big / 6)


@given(
    npst.arrays(  # of at most EXACT elements: of more a sample is looked at, see below
        st.sampled_from([np.float32, np.float64, np.int32, np.complex64]),
        npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=37),
    ),
    st.integers(SMALLEST_LIMIT, 20_000),
)
def test_any_array_within_any_limit(array, limit):
    found = summarize(array, limit)
    assert len(json.dumps(found, allow_nan=False)) <= limit
    check("Values", found, "values")
    counts = found["histogram"]["counts"]
    assert sum(counts) == array.size - found["nan"] - found["inf"]
    edges = found["histogram"]["edges"]
    assert edges == sorted(edges)


@pytest.mark.parametrize("shape", [(EXACT + 1,), (3000, 4000), (12_000_000,), (64, 500, 500)])
def test_large_arrays_are_sampled_and_say_so(shape):
    array = np.broadcast_to(np.arange(shape[-1], dtype=np.float32) % 7, shape)
    tracemalloc.start()
    try:
        found = summarize(array)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Less than ten copies of the sample as float64; of all elements they would be 400 MB.
    assert most < 80 * EXACT
    assert 1000 < found["sampled"] <= EXACT
    assert found["numel"] == int(np.prod(shape))
    assert (found["min"], found["max"]) == (0.0, 6.0)
    assert found["mean"] == pytest.approx(3.0, abs=0.3)
    assert found["picture"]["pooled"]


def test_pooling_shows_a_bright_corner_where_it_is():
    array = np.zeros((500, 500))
    array[:250, 250:] = 1.0
    picture = summarize(array)["picture"]
    cells = np.array(picture["values"]).reshape(picture["rows"], picture["cols"])
    half = picture["rows"] // 2, picture["cols"] // 2
    assert cells[: half[0] - 1, half[1] + 1 :].min() == 1.0
    assert cells[half[0] + 1 :].max() == 0.0


def test_limit_too_small_says_the_smallest():
    with pytest.raises(ValueError, match="at least 1024 bytes"):
        summarize(np.zeros(3), 100)
