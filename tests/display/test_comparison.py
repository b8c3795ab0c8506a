"""compare: what differs between two graphs, and that the answer is the smallest one."""

from __future__ import annotations

import gc
import gzip
import json
import random
import weakref
from pathlib import Path

import pytest

import ag_visual as ag
from ag_visual.observe.compare.align import align, rising
from ag_visual.observe.compare.differences import compare_recordings, gradient_text
from tests.work import counted

GOLDEN = Path(__file__).parents[1] / "golden" / "recordings"


def loss_of(depth=4, activation=None, changed=None, *, width=8, batch=4, gain=1.0):
    ag.manual_seed(0)
    weights = [ag.randn(width, width, requires_grad=True) for _ in range(depth)]
    h = ag.randn(batch, width)
    for i, w in enumerate(weights):
        h = (activation if i == changed else ag.relu)(h @ w)
    return (h * gain).sum()


def recorded(*steps):
    with ag.record() as found:
        for options in steps:
            loss_of(**options).backward()
    return found.recording


def length_of(a, b):
    rows = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            rows[i + 1][j + 1] = rows[i][j] + 1 if x == y else max(rows[i][j + 1], rows[i + 1][j])
    return rows[-1][-1]


def test_align_finds_as_many_pairs_as_the_table_of_all_parts():
    draw = random.Random(1)
    for _ in range(300):
        a, b = ([draw.randrange(4) for _ in range(draw.randrange(24))] for _ in "ab")
        pairs = align(a, b)
        assert all(a[i] == b[j] for i, j in pairs)
        assert pairs == sorted(pairs)
        assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
        assert len(pairs) == length_of(a, b)


def test_rows_with_little_in_common_take_the_coarse_way():
    a = [i * 7919 % 500 for i in range(3000)]
    b = [i * 1047 % 499 for i in range(3000)]
    pairs = align(a, b)
    assert pairs
    assert all(a[i] == b[j] for i, j in pairs)


def test_rising_keeps_the_longest_part():
    assert rising([(0, 5), (1, 1), (2, 2), (3, 0), (4, 3)]) == [(1, 1), (2, 2), (4, 3)]


def test_a_graph_and_itself_do_not_differ():
    found = ag.compare(recorded({}))
    assert list(found) == []
    assert found.same
    assert found.summary == "No difference in 10 nodes; gradients match."
    assert repr(found) == found.summary


def test_one_op_in_the_middle_of_what_repeats():
    found = ag.compare(loss_of(), loss_of(activation=ag.tanh, changed=2), values=False)
    assert found.nodes == {"added": 0, "removed": 0, "changed": 1, "equal": 9}
    (difference,) = found
    assert difference.title == "ReluBackward0 -> TanhBackward0"
    assert difference.changes[0].what == "op"
    assert "test_comparison.py line" in str(difference)


def test_an_inserted_layer():
    found = ag.compare(loss_of(4), loss_of(5))
    assert found.nodes == {"added": 2, "removed": 0, "changed": 0, "equal": 10}
    assert found.leaves == {"added": 1, "removed": 0, "changed": 0, "equal": 4}
    assert len(found.differences[0].after) == 2
    back = ag.compare(loss_of(5), loss_of(4))
    assert back.nodes["removed"] == 2
    assert back.differences[0].kind == "removed"


def test_shapes_attributes_and_inputs():
    found = ag.compare(loss_of(), loss_of(batch=6))
    assert found.nodes["changed"] == 9
    assert {change.what for d in found for change in d.changes} >= {"shape"}
    x = ag.ones(3, 3, requires_grad=True)
    dims = [1, 0]
    sums = [(x * 2).sum(dim).exp().sum() for dim in dims]
    (difference,) = [d for d in ag.compare(*sums) if d.changes]
    assert [(c.what, c.of, c.before, c.after) for c in difference.changes] == [
        ("attribute", "dim", "(1,)", "(0,)")
    ]
    y = ag.ones(3, 3, requires_grad=True)
    pairs = [(x * other).sum() for other in (y, y.detach())]
    kinds = {change.what for d in ag.compare(*pairs) for change in d.changes}
    assert "inputs" in kinds


def test_gradients_of_two_steps_of_one_recording():
    recording = recorded({}, {"gain": 8.0}, {"gain": float("inf")})
    found = ag.compare(recording, steps=(1, 2))
    assert found.same
    assert found.differences
    assert "8 times larger" in found.summary
    assert ag.compare(recording, steps=(2, 1)).summary.endswith("8 times smaller.")
    assert "NaN, inf or nothing" in ag.compare(recording, steps=(1, -1)).summary
    with pytest.raises(IndexError, match="has 3 backward passes, counted from 1; got 4"):
        ag.compare(recording, steps=(1, 4))
    with pytest.raises(IndexError, match="got 0"):
        ag.compare(recording, steps=(0, 1))
    assert gradient_text((2.0, 2.0)) == "norm 2 -> 2, the same"


def test_values_where_both_hold_them(tmp_path):
    a, b = loss_of(), loss_of(activation=ag.tanh, changed=2)
    told = {(tensor, what) for d in ag.compare(a, b) for tensor, what, _, _ in d.values}
    assert ("result", "min") in told
    assert not [v for d in ag.compare(a, b, values=False) for v in d.values]
    path = ag.save_recording(tmp_path / "a.agv", recorded({}))
    assert ag.compare(path, path).same


def test_nothing_to_compare_is_said():
    with ag.record() as nothing:
        pass
    with pytest.raises(ValueError, match="the first recording holds no graph"):
        ag.compare(nothing, loss_of())


def test_the_picture_is_a_recording_that_opens_as_the_comparison(tmp_path):
    found = ag.compare(loss_of(), loss_of(activation=ag.tanh, changed=2))
    bundle = found._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/plain"] == repr(found)
    loaded = ag.load_recording(found.save(tmp_path / "both.agv"))
    assert loaded.record["beside"]["tasks"] == [None, None]
    assert loaded.rows("nodes") == 10
    assert b"beside" in found.save(tmp_path / "both.html").read_bytes()


def test_a_damaged_second_recording_is_refused(tmp_path):
    found = ag.compare(loss_of(), loss_of())
    path = found.save(tmp_path / "both.agv")
    record = ag.load_recording(path).record
    record["beside"]["recording"]["batches"][0]["buffer"] = "AAAA"
    (tmp_path / "bad.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r"damaged|ends at"):
        ag.load_recording(tmp_path / "bad.json")


def test_twice_the_nodes_are_twice_the_work():
    x = ag.ones(2, requires_grad=True)

    def chain(length, odd=None):
        y = x
        for i in range(length):
            y = y.tanh() if i == odd else y * 1.5
        return y.sum()

    def calls(length):
        pair = ag.compare(chain(length), chain(length, length // 2), values=False)
        found, count = counted(lambda: compare_recordings(*pair.recordings))
        assert found.nodes == {"added": 0, "removed": 0, "changed": 1, "equal": length}
        return count

    assert calls(4000) < 2.2 * calls(2000)


def told(found):
    return {
        "nodes": found.nodes,
        "leaves": found.leaves,
        "differences": sorted(
            [
                [
                    *(d.kind, d.leaf, [p.seq for p in d.before], [p.seq for p in d.after]),
                    [change.what for change in d.changes],
                ]
                for d in found
            ]
        ),
    }


@pytest.mark.parametrize(("name", "steps"), [("before_after", None), ("steps_1_2", (1, 2))])
def test_the_answer_is_the_one_that_the_inspector_gives(name, steps):
    """extension/tests/model/compare.test.ts finds the same in the same files."""
    before, after = GOLDEN / "v1_before.agv", GOLDEN / "v1_after.agv"
    found = ag.compare(before, steps=steps) if steps else ag.compare(before, after)
    expected = json.loads((GOLDEN / "compared.json").read_text())[name]
    expected["differences"].sort()
    assert told(found) == expected


def test_a_comparison_is_given_away_without_source_on_both_sides(tmp_path):
    found = ag.compare(loss_of(), loss_of(activation=ag.tanh, changed=2))
    both = ag.load_recording(found.save(tmp_path / "both.agv"))
    path = ag.save_recording(tmp_path / "given.json", both, values=False, source=False)
    text = gzip.decompress(path.read_bytes()).decode()
    assert "weights" not in text
    assert "test_comparison.py" in text
    assert ag.load_recording(path).record["beside"]["recording"]["values"] == {}


def test_a_comparison_that_is_gone_leaves_no_graph_behind():
    w = ag.ones(2, 2, requires_grad=True)
    one, other = (w * w).sum(), (w + w).sum()
    node = weakref.ref(one.grad_fn)
    gc.disable()  # reference counting alone
    try:
        ag.compare(one, other)
        del one
        assert node() is None
    finally:
        gc.enable()


def test_sides_are_called_by_their_name_or_their_variable(tmp_path):
    w = ag.tensor([1.0, -2.0], requires_grad=True)
    with ag.record(name="relu, lr 0.1") as first:
        (w * 2).relu().sum().backward()
    with ag.record() as second:
        (w * 2).tanh().sum().backward()
    assert [one.name for one in ag.compare(first, second).recordings] == ["relu, lr 0.1", "second"]
    loss = (w * 3).sum()
    found = ag.compare(loss, second.save(tmp_path / "tanh.agv"))
    assert [one.name for one in found.recordings] == ["loss", "tanh.agv"]
    assert second.recording.name == ""
