"""The recorder on the real engine: what it hears, what it lets go, what it costs."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import ag_visual as ag
from ag_visual.events import instrument
from ag_visual.events.log import BEGIN, END
from ag_visual.events.threads import numbers
from ag_visual.observe.record import recorder as recorder_module
from ag_visual.observe.record.recorder import CHUNK_ROWS, Recorder
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.columns import _Steps, by_kind
from ag_visual.ops.nn.loss import nll
from tests.observe.reading import rows, tables, texts
from tests.work import counted


def leaf(*values):
    return ag.tensor(list(values), requires_grad=True)


def ones(tensor):
    return ag.tensor(np.ones(tensor.shape, np.float32))


def test_a_backward_comes_back_as_tables(recorder):
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    recorder.start()
    y = x * w
    z = y * y
    z.backward(ones(z))
    found = tables(recorder)
    first, second = y.grad_fn.seq, z.grad_fn.seq
    assert found["nodes"]["seq"].tolist() == [first, second]
    assert texts(recorder, "nodes", "name") == ["MulBackward0"] * 2
    assert texts(recorder, "nodes", "shape") == ["2", "2"]
    assert found["nodes"]["numel"].tolist() == [2.0, 2.0]
    edges = found["edges"]
    assert [(int(s), int(d)) for s, d in zip(edges["src"], edges["dst"], strict=True)][2:] == [
        (second, first),
        (second, first),
    ]
    assert edges["src_index"].tolist() == [0, 1, 0, 1]
    assert sorted(texts(recorder, "leaves", "label")) == ["w", "x"]
    saved = found["saved"]
    assert saved["bytes"].tolist() == [8.0] * 4
    storages = saved["storage"].tolist()
    assert storages[2] == storages[3] == y._storage.uid
    runs = found["runs"]
    assert runs["seq"].tolist()[:2] == [second, first]
    assert runs["order"].tolist() == [0, 1, 2, 3]
    assert runs["norm"][0] == pytest.approx(2**0.5)
    assert (runs["t1"] >= runs["t0"]).all()
    assert found["tasks"]["ended"].tolist() == [0, 1]
    assert found["tasks"]["total"][0] == 4
    sites = [site.text for site in recorder.encoder.sites.found]
    assert sites == ["x * w", "y * y", "z.backward(ones(z))"]


def test_two_ops_in_one_call_are_recorded_as_when_called_one_by_one(recorder, monkeypatch):
    scores, target = ag.ones(3, 4, requires_grad=True), ag.tensor([1, 0, 3])
    joined, calls = nll._of_rows, []

    def watched(*given):
        calls.append(joined(*given))
        return calls[-1]

    found = []
    for way in (watched, lambda *_: None):
        monkeypatch.setattr(nll, "_of_rows", way)
        recorder.clear()
        recorder.start()
        loss = ag.nn.functional.cross_entropy(scores * 2, target)
        loss.backward()
        told = rows(recorder)
        first = min(row["seq"] for row in told["nodes"])
        storages = {row["storage"]: f"storage {i}" for i, row in enumerate(told["saved"])}
        found.append(
            [
                [(row["name"], row["shape"], row["dtype"], row["seq"] - first, row["site"])
                 for row in told["nodes"]],
                [(row["src"] - first, row["src_index"], row["dst_index"]) for row in told["edges"]],
                [{**row, "node": row["node"] - first, "storage": storages[row["storage"]]}
                 for row in told["saved"]],
                [(row["seq"] - first, row["norm"]) for row in told["runs"][:3]],
            ]
        )  # fmt: skip
    assert calls
    assert calls[0] is not None
    assert [name for name, *_ in found[0][0]] == [
        "MulBackward0",
        "LogSoftmaxBackward0",
        "NllLossBackward0",
    ]
    assert found[0] == found[1]


def test_cells_with_the_same_text_are_two_places(recorder):
    x = leaf(1.0, 2.0)
    recorder.start()
    cells = [compile("y = x * x", "<cell>", "exec") for _ in range(2)]
    assert cells[0] == cells[1]
    kept = []
    for cell in (*cells, *cells):
        exec(cell, scope := {"x": x})
        kept.append(scope["y"])
    first, second, *again = tables(recorder)["nodes"]["site"].tolist()
    assert first != second
    assert again == [first, second]


def test_what_changes_at_a_line_is_told(recorder):
    recorder.start()
    kept = []
    for x, w in (
        (leaf(1.0), leaf(2.0)),
        (leaf(1.0, 2.0), leaf(3.0)),
        (leaf(1.0, 2.0), 3.0),
        (leaf(1.0, 2.0).double(), leaf(3.0).double()),
        (leaf(1.0), leaf(2.0)),
    ):
        kept.append(x * w)
    found = tables(recorder)
    seqs = [y.grad_fn.seq for y in kept]
    rows = [found["nodes"]["seq"].tolist().index(seq) for seq in seqs]
    shapes, dtypes = texts(recorder, "nodes", "shape"), texts(recorder, "nodes", "dtype")
    assert [shapes[i] for i in rows] == ["1", "2", "2", "2", "1"]
    assert [dtypes[i] for i in rows] == ["float32"] * 3 + ["float64", "float32"]
    saved = [found["saved"]["bytes"][found["saved"]["node"] == seq].tolist() for seq in seqs]
    assert saved == [[4, 4], [4, 8], [], [8, 16], [4, 4]]


def test_steps_of_threads_whose_backwards_overlap():
    """A step ends with the outermost backward of its thread, in whatever order they come."""
    begins, ends = [(10, 1, 7), (20, 2, 8)], [(30, 1, 7), (40, 2, 8)]
    turns = [(10, 1, 7), (20, 2, 8)], [(15, 1, 7), (40, 2, 8)]
    nested = [(10, 1, 7), (20, 1, 8)], [(30, 1, 8), (40, 1, 7)]

    def numbers(begins, ends):
        kinds = by_kind([(BEGIN, *event) for event in begins] + [(END, *event) for event in ends])
        return _Steps().numbers(kinds)

    assert numbers(begins, ends) == ([30, 40], [1, 2, 3])
    assert numbers(*turns) == ([15, 40], [1, 2, 3])
    assert numbers(*nested) == ([40], [1, 2])
    steps = _Steps()
    # One that began before the recording ends while another goes on.
    kinds = by_kind([(BEGIN, 10, 1, 7), (END, 20, 2, 6)])
    assert steps.numbers(kinds) == ([20], [1, 2])
    kinds = by_kind([(BEGIN, 30, 1, 8), (END, 40, 1, 8), (END, 50, 1, 7)])
    assert steps.numbers(kinds) == ([50], [2, 3])


def test_nothing_is_kept_alive_and_freed_is_told(recorder):
    x = leaf(1.0)
    recorder.start()
    y = x * x
    tensor, node, seq = weakref.ref(y), weakref.ref(y.grad_fn), y.grad_fn.seq
    recorder.drain()
    assert recorder.node(seq) is node()
    del y
    gc.collect()
    assert tensor() is None
    assert node() is None
    assert recorder.node(seq) is None
    assert seq in tables(recorder)["freed"]["seq"]


def test_a_dead_node_was_seen_all_the_same(recorder):
    x = leaf(1.0)
    recorder.start()
    (x * x).backward()
    found = tables(recorder)
    assert len(found["nodes"]["seq"]) == 1
    assert set(found["freed"]["seq"]) >= set(found["nodes"]["seq"])
    assert len(recorder.alive()) == 0


def test_graph_that_grew_before_is_told_when_a_backward_begins(recorder):
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * w
    z = y * y
    recorder.start()
    z.backward(ones(z))
    found = tables(recorder)
    assert set(found["nodes"]["seq"]) == {y.grad_fn.seq, z.grad_fn.seq}
    assert set(texts(recorder, "leaves", "label")) == {"x", "w"}
    assert len(found["runs"]["seq"]) == 4


def test_versions_of_a_graph_that_is_told_late_are_those_of_then(recorder):
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = x * w
    y = (h * h).sum() + ag.stack([h, h]).prod()
    with ag.no_grad():
        h.add_(1)
    recorder.add_graph([y.grad_fn])
    assert set(tables(recorder)["saved"]["version"].tolist()) == {0}


def test_old_part_below_a_new_node_is_told(recorder):
    x = leaf(1.0, 2.0)
    y = x * x
    recorder.start()
    z = y * y
    recorder.drain()
    found = tables(recorder)
    assert set(found["nodes"]["seq"]) == {y.grad_fn.seq, z.grad_fn.seq}
    assert set(found["edges"]["dst"]) <= set(found["nodes"]["seq"]) | set(found["leaves"]["seq"])


def test_a_leaf_whose_node_an_older_graph_holds_is_told(recorder):
    w = leaf(1.0, 2.0)
    older = w * 2
    recorder.start()
    (w * w).sum().backward()
    del older  # with it goes the node, before anybody has read what was told
    assert texts(recorder, "leaves", "label") == ["w"]


def test_every_edge_leads_to_something_told(recorder):
    x = leaf(1.0, 2.0)
    for step in range(5):
        recorder.start()
        y = x * x
        if step % 2:
            recorder.stop()
        z = y * x
        recorder.start()
        z.backward(ones(z))
    found = tables(recorder)
    told = {*found["nodes"]["seq"], *found["leaves"]["seq"], schema.NONE}
    assert set(found["edges"]["dst"]) <= told
    assert set(found["runs"]["seq"]) <= told


def test_scope_once_ends_with_the_backward(recorder):
    x = leaf(1.0)
    recorder.start("once")
    (x * x).backward()
    assert not recorder.on
    assert instrument.sink is None
    (x * x).backward()
    assert tables(recorder)["tasks"]["ended"].tolist() == [0, 1]


def test_scope_every_records_each_third_forward_and_backward(recorder):
    x = leaf(1.0)
    recorder.start("every", 3)
    seqs = []
    for _ in range(7):
        y = x * x
        seqs.append(y.grad_fn.seq)
        y.backward()
    found = tables(recorder)
    assert found["nodes"]["seq"].tolist() == seqs[0::3]
    assert found["nodes"]["step"].tolist() == [1, 2, 3]
    assert len(found["tasks"]["task"]) == 6


def test_the_newest_backward_is_recorded_though_nobody_asked(recorder):
    x = leaf(1.0, 2.0)
    recorder.watch_newest(True)
    y = x * x
    assert instrument.sink is None  # a forward costs nothing
    during = []
    y.register_hook(lambda g: during.append(instrument.sink is not None))
    y.backward(ones(y))
    assert during == [True]
    assert instrument.sink is None
    assert not recorder.on
    found = tables(recorder)
    assert found["nodes"]["seq"].tolist() == [y.grad_fn.seq]
    assert found["tasks"]["ended"].tolist() == [0, 1]
    assert len(found["runs"]["seq"]) == 2  # the product and the leaf


def test_who_records_gets_all_and_then_the_newest_is_watched_again(recorder):
    x = leaf(1.0)
    recorder.watch_newest(True)
    recorder.start()
    assert recorder.on
    (x * x).backward()
    recorder.stop()
    assert recorder.scope == "newest"
    (x * x).backward()
    assert tables(recorder)["tasks"]["ended"].tolist() == [0, 1, 0, 1]
    recorder.watch_newest(False)
    (x * x).backward()
    assert len(tables(recorder)["tasks"]["ended"]) == 4


def test_watching_stops_where_its_time_is_spent(recorder):
    x = leaf(1.0)
    recorder.watch_newest(True)
    recorder.allowance.spend(recorder.allowance.most)
    (x * x).backward()
    assert recorder.waiting == 0
    recorder.allowance.once_more()  # as a cell begins
    for _ in range(3):
        (x * x).backward()
    assert tables(recorder)["tasks"]["ended"].tolist() == [0, 1]
    recorder.allowance.grows = True
    recorder.allowance.share = 1e9  # a moment brings all of it back
    (x * x).backward()
    assert tables(recorder)["tasks"]["ended"].tolist() == [0, 1, 0, 1]


def test_a_backward_that_is_too_large_is_not_watched_but_told(recorder, monkeypatch):
    monkeypatch.setattr(recorder_module, "NEWEST_NODES", 2)
    x = leaf(1.0)
    recorder.watch_newest(True)
    (x * x * x).backward()
    assert recorder.waiting == 0
    assert recorder.unwatched == 3


def test_watching_ends_with_the_last_of_several_backwards(recorder):
    x = leaf(1.0)
    recorder.watch_newest(True)
    y, other = x * x, x.detach().requires_grad_() * 2
    y.register_hook(lambda g: other.backward())
    y.backward()
    assert instrument.sink is None
    assert sorted(tables(recorder)["tasks"]["ended"].tolist()) == [0, 0, 1, 1]


def test_nodes_belong_to_the_backward_they_were_made_for(recorder):
    x = leaf(1.0)
    recorder.start()
    for _ in range(3):
        y = x * x
        z = y * y
        z.backward()
    left = x * x
    assert tables(recorder)["nodes"]["step"].tolist() == [1, 1, 2, 2, 3, 3, 4]
    assert left.grad_fn is not None


def test_an_error_in_backward_is_told_as_the_end(recorder):
    x = leaf(1.0)
    y = x * x
    y.register_hook(lambda g: 1 / 0)
    recorder.start()
    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert tables(recorder)["tasks"]["ended"].tolist() == [0, 2]


def test_nan_gradient_is_flagged(recorder):
    x = leaf(1.0, 2.0)
    recorder.start()
    y = x * x
    y.backward(ag.tensor([float("nan"), 1.0]))
    runs = tables(recorder)["runs"]
    assert np.isnan(runs["norm"]).all()
    assert runs["flags"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("dtype", "size", "norm"),
    [
        (ag.float16, 300.0, 600.0),
        (ag.bfloat16, 256.0, 512.0),
        (ag.float32, 1e25, 2e25),
        (ag.complex64, 1e25, 2e25),
        (ag.float64, 1e200, np.sqrt(np.finfo(float).max)),
    ],
)
def test_large_finite_gradients_are_no_infinite_ones(recorder, dtype, size, norm):
    x = ag.ones(4, dtype=dtype, requires_grad=True)
    recorder.start()
    y = x * 1
    y.register_hook(lambda g: g * 1)
    y.backward(ag.full((4,), size, dtype=dtype))
    found = tables(recorder)
    assert found["runs"]["flags"].tolist() == [0, 0]
    np.testing.assert_allclose(found["runs"]["norm"], norm, rtol=1e-2)
    np.testing.assert_allclose(found["hooks"]["after"], norm, rtol=1e-2)


def test_saved_tensor_hooks_change_nothing_while_recording(recorder):
    x = leaf(0.5, 2.0)
    recorder.start()
    with ag.autograd.graph.saved_tensors_hooks(lambda t: t.detach().numpy(), ag.from_numpy):
        y = x.exp() * x  # a saved result and saved inputs
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp([0.5, 2.0]) * [1.5, 3.0], rtol=1e-6)
    names = texts(recorder, "nodes", "name")
    assert {"ExpBackward0", "MulBackward0"} <= set(names)


def test_hooks_are_told_with_both_norms(recorder):
    x = leaf(3.0, 4.0)
    recorder.start()
    y = x * x
    y.register_hook(lambda g: g * 10)
    y.backward(ag.tensor([3.0, 4.0]))
    hooks = tables(recorder)["hooks"]
    assert texts(recorder, "hooks", "kind") == ["tensor"]
    assert (hooks["before"][0], hooks["after"][0]) == (5.0, 50.0)


def test_in_place_writes_are_told_with_their_line(recorder):
    x = leaf(1.0)
    recorder.start()
    y = x * x
    y.mul_(2.0)
    writes = tables(recorder)["writes"]
    assert texts(recorder, "writes", "op") == ["mul_"]
    assert writes["storage"][0] == y._storage.uid
    assert recorder.encoder.sites.found[int(writes["site"][0])].text == "y.mul_(2.0)"


def test_names_found_after_the_leaf_was_sent(recorder):
    x = leaf(1.0)
    recorder.start()
    y = x * x
    recorder.drain()
    assert texts(recorder, "leaves", "label") == [""]
    y.backward()
    assert texts(recorder, "labels", "label") == ["x"]


def test_threads_get_small_numbers(recorder):
    recorder.start()
    x = leaf(1.0)
    kept = [x * x]
    other = threading.Thread(target=lambda: kept.append(x * x))
    other.start()
    other.join()
    mine, others = tables(recorder)["nodes"]["thread"].tolist()
    # (Of a process: threads of other tests have numbers, too.)
    assert mine == numbers[threading.get_ident()]
    assert mine != others < len(numbers)


def test_clear_forgets_and_tells_living_nodes_again(recorder):
    x = leaf(1.0)
    recorder.start()
    y = x * x
    recorder.drain()
    recorder.clear()
    assert recorder.chunks() == []
    y.backward()
    assert tables(recorder)["nodes"]["seq"].tolist() == [y.grad_fn.seq]


def test_ring_keeps_its_limit_counts_its_losses_and_keeps_what_lives():
    recorder = Recorder(limit=60_000)
    recorder.start()
    try:
        x = leaf(1.0)
        kept = x * x
        for _ in range(40):
            h = x
            for _ in range(40):
                h = h * x
            recorder.drain()
        del h
        recorder.drain()
        store = recorder.store
        assert store.nbytes <= 60_000
        assert store.dropped.rows["nodes"] > 0
        found = tables(recorder)
        total = len(found["nodes"]["seq"]) + store.dropped.rows["nodes"]
        assert total == 1601
        assert kept.grad_fn.seq in found["nodes"]["seq"]
    finally:
        recorder.stop()


@pytest.mark.parametrize(
    ("scope", "every", "words"), [("always", 1, "scope"), ("every", 0, "1 or")]
)
def test_bad_scope(recorder, scope, every, words):
    with pytest.raises(ValueError, match=words):
        recorder.start(scope, every)


def test_encoding_calls_no_function_for_each_event():
    """Resolving places or names per event would be felt in every program that is recorded."""
    x = leaf(1.0)
    recorder = Recorder()
    recorder.start()
    h = x
    for _ in range(5000):
        h = h * x
    recorder.stop()
    events = recorder.waiting
    _, calls = counted(recorder.drain)
    assert events >= 5000
    assert calls < events


def test_a_run_begins_where_the_one_before_ended_or_after_gradients_were_added(recorder):
    x = leaf(1.0)
    recorder.start()
    h = x * 2
    two = h * 3 + h * 4
    (two * 5 * 6).backward()
    runs = tables(recorder)["runs"]
    gaps = (runs["t0"][1:] - runs["t1"][:-1]).tolist()
    assert len(gaps) == 6
    # 6, 5, the sum; its products, where both give to `h`; the leaf.
    assert [gap == 0 for gap in gaps] == [True, True, True, True, False, True]
    assert min(gaps) >= 0


def test_references_to_nodes_that_are_gone_do_not_pile_up(recorder):
    """The garbage collector would walk over one for each node of all that waits to be encoded."""
    x = leaf(1.0)
    recorder.start()
    for _ in range(100):
        h = x
        for _ in range(20):
            h = h * x
        h.backward()
    alive = [x * 2 for _ in range(600)]
    (x * 3).backward()
    log = recorder._log
    assert len(log.refs) <= 102  # of leaves; a node of built code costs none
    for _ in range(2000):
        h = x.clone()
        h[0] *= 2  # a view written in place: its nodes are told by no built code
    assert len(log.refs) > 2000
    (x * 3).backward()
    assert len(log.refs) < 2 * recorder_module.CROWD
    assert log.nodes_waiting >= 2600
    recorder.drain()
    assert {y.grad_fn.seq for y in alive} <= set(tables(recorder)["nodes"]["seq"].tolist())
    assert {y.grad_fn.seq for y in alive} <= set(recorder.alive().tolist())
    assert recorder.node(alive[0].grad_fn.seq) is alive[0].grad_fn


def test_a_drain_ends_though_the_program_runs_on(recorder, monkeypatch):
    x = leaf(1.0)
    recorder.start()
    made = [x * x]
    encode = recorder.encoder.encode

    def meanwhile(*arguments, **named):
        assert len(made) < 50
        made.append(made[-1] * x)
        return encode(*arguments, **named)

    monkeypatch.setattr(recorder.encoder, "encode", meanwhile)
    recorder.drain()
    assert len(made) == 2
    monkeypatch.undo()
    assert tables(recorder)["nodes"]["seq"].tolist() == [y.grad_fn.seq for y in made]


def test_a_long_drain_becomes_chunks_in_order(recorder):
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    recorder.start()
    ends = []
    for _ in range(60):
        y = x
        for _ in range(200):
            y = y * w
        y.backward(ones(y))
        ends.append(y.grad_fn.seq)
    recorder.drain()
    chunks = recorder.store.all()
    assert len(chunks) > 1
    assert all(c.rows("nodes") + c.rows("runs") < 1.1 * CHUNK_ROWS for c in chunks)
    known, run = set(), set()
    for chunk in chunks:  # no chunk tells of what only a later one introduces
        t = chunk.tables
        known |= {int(s) for name in ("nodes", "leaves") for s in t.get(name, {"seq": []})["seq"]}
        assert set(t["edges"]["src"].tolist()) <= known
        assert set(t["edges"]["dst"].tolist()) <= known
        assert set(t["saved"]["node"].tolist()) <= known
        run |= set(t["runs"]["task"].tolist())
        assert set(t["runs"]["seq"].tolist()) <= known
    found = tables(recorder)
    nodes, edges = found["nodes"], found["edges"]
    assert len(nodes["seq"]) == 60 * 200
    assert (np.diff(nodes["seq"].astype(int)) > 0).all()
    assert nodes["step"].tolist() == [step for step in range(1, 61) for _ in range(200)]
    assert edges["src"].tolist() == [seq for seq in nodes["seq"].tolist() for _ in range(2)]
    assert edges["src_index"].tolist() == [0, 1] * 12_000
    assert (found["runs"]["t0"] <= found["runs"]["t1"]).all()
    assert sorted(run) == sorted(set(found["tasks"]["task"].tolist()))
    assert set(ends) <= set(nodes["seq"].tolist())


def test_norms_of_small_and_large_gradients_agree(recorder):
    sizes = (0, 1, 3, 255, 256, 257, 5000)
    recorder.start()
    expected = []
    for dtype in (ag.float32, ag.float64, ag.float16, ag.bfloat16, ag.complex64):
        for size in sizes:
            x = ag.ones(size, dtype=dtype, requires_grad=True)
            g = ag.full((size,), 0.5, dtype=dtype)
            (x * 1).backward(g)
            expected += [0.5 * size**0.5] * 2
    runs = tables(recorder)["runs"]
    np.testing.assert_allclose(runs["norm"], expected, rtol=1e-3)
    assert not runs["flags"].any()


def test_threads_that_record_at_once_lose_nothing(recorder):
    per_thread, threads = 300, 4
    made: list[list[int]] = [[] for _ in range(threads)]

    def work(found: list[int]) -> None:
        for _ in range(per_thread):
            x = leaf(1.0, 2.0)
            y = x * x
            z = y.exp()
            z.backward(ones(z))
            found += [y.grad_fn.seq, z.grad_fn.seq]

    recorder.start()
    workers = [threading.Thread(target=work, args=(found,)) for found in made]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        recorder.drain()
    recorder.stop()
    found = tables(recorder)
    nodes = found["nodes"]
    assert sorted(nodes["seq"].tolist()) == sorted(seq for part in made for seq in part)
    thread_of = dict(zip(nodes["seq"].tolist(), nodes["thread"].tolist(), strict=True))
    for part in made:
        assert len({thread_of[seq] for seq in part}) == 1
    assert sorted(found["runs"]["seq"].tolist()) == sorted(
        [*nodes["seq"].tolist(), *found["leaves"]["seq"].tolist()]
    )
    freed = found["freed"]["seq"].tolist()
    assert len(freed) == len(set(freed))
    assert set(freed) | set(recorder.alive().tolist()) == {
        *nodes["seq"].tolist(),
        *found["leaves"]["seq"].tolist(),
    }


def test_a_drain_inside_of_an_ignored_backward_tells_nothing_of_it(recorder):
    def work():
        with recorder.ignoring(threading.get_ident()):
            x = leaf(1.0)
            y = x.exp()
            y.register_hook(lambda g: recorder.drain())
            (y * y).backward()

    recorder.start()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not {"nodes", "runs", "tasks", "leaves"} & tables(recorder).keys()


def test_an_ignored_thread_leaves_nothing_in_any_table(recorder):
    def work():
        with recorder.ignoring(threading.get_ident()):
            x = leaf(1.0)
            y = x * x
            y.mul_(2.0)
            y.register_hook(lambda g: None)
            y.backward()

    recorder.start()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    x = leaf(1.0)
    y = x * x
    y.backward()
    found = tables(recorder)
    assert len(found["nodes"]["seq"]) == len(found["leaves"]["seq"]) == 1
    assert found["runs"]["order"].tolist() == [0, 1]
    assert found["tasks"]["ended"].tolist() == [0, 1]
    assert not {"writes", "hooks"} & found.keys()


@pytest.mark.parametrize("count", [3, 2000])
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.float32, 1e-25),
        (np.float32, 1e-40),
        (np.float32, 1e30),
        (np.float64, 1e-30),
        (np.float64, 1e140),
        (np.complex64, 1e-25j),
    ],
)
def test_a_norm_is_right_where_its_square_leaves_the_range(recorder, dtype, value, count):
    """A gradient that has almost vanished is not zero."""
    gradient = np.full(count, value, dtype)
    x = ag.tensor(np.ones(count, dtype), requires_grad=True)
    recorder.start()
    (x * 1).backward(ag.tensor(gradient))
    runs = tables(recorder)["runs"]
    expected = float(np.abs(gradient.astype(np.complex128)).max()) * count**0.5
    assert runs["norm"].tolist() == pytest.approx([expected] * 2, rel=1e-5)
    assert not runs["flags"].any()


@pytest.mark.parametrize("count", [3, 2000])
def test_only_zeros_have_the_norm_zero(recorder, count):
    x = ag.tensor(np.ones(count), requires_grad=True)
    recorder.start()
    (x * 1).backward(ag.tensor(np.zeros(count)))
    (x * 1).backward(ag.tensor(np.full(count, 1e-300)))
    norms = tables(recorder)["runs"]["norm"].tolist()
    assert norms[:2] == [0, 0]
    assert all(0 < norm < 1e-150 for norm in norms[2:])
