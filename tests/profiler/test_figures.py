"""Figures of a profile, and the rates that stand beside operations."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy
import pytest

import ag_visual as ag
from ag_visual.profiler import figures, flops, profile, record_function
from ag_visual.profiler.from_columns import Kept
from ag_visual.profiler.tables import format_rate

from .programs import PROGRAMS


@pytest.fixture(scope="module")
def found() -> Any:
    """An MLP's steps in two threads, everything asked for."""
    run = PROGRAMS["mlp"](ag)
    thread = threading.Thread(target=record_function("<fit>")(run))
    options = ("record_shapes", "profile_memory", "with_flops", "with_modules")
    with profile(**dict.fromkeys(options, True)) as profiled:
        run()
        run()
        thread.start()
        thread.join()
    return profiled


def test_the_tree_holds_every_span_and_its_time(found: Any) -> None:
    tree, kept = figures.tree(found.columns), Kept(found.columns)
    inside = [0] * len(tree.total)
    for parent, total in zip(tree.parents, tree.total, strict=True):
        if parent >= 0:
            inside[parent] += total
    for at, total in enumerate(tree.total):
        assert total == tree.own[at] + inside[at]
    assert sum(tree.calls) == len(kept.rows)
    assert tree.total[0] == kept.own.sum() == found.columns.spans["own"].sum()
    places = list(zip(tree.parents, tree.names, strict=True))
    assert len(set(places)) == len(places)

    def inner(at: int) -> list[int]:
        return [i for i, parent in enumerate(tree.parents) if parent == at]

    fit, main = sorted(inner(0), key=lambda at: len(inner(at)))
    (alone,) = inner(fit)
    assert {tree.names[i] for i in inner(alone)} == {tree.names[i] for i in inner(main)}


@pytest.mark.parametrize("kind", ["flame", "icicle"])
def test_flame_graphs_are_to_scale(found: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine one span can be so long that all others are narrow.
    monkeypatch.setattr(figures, "_NARROWEST", 10**12)
    (boxes,) = found.plot(kind).data
    by_id = dict(zip(boxes.ids, boxes.values, strict=True))
    inside = dict.fromkeys(by_id, 0)
    for parent, value in zip(boxes.parents, boxes.values, strict=True):
        if parent:
            inside[parent] += value
    # plotly shows nothing at all where what is inside is more than the whole.
    assert all(inside[each] <= by_id[each] for each in by_id)
    assert by_id["0"] == found.columns.spans["own"].sum()
    assert {"aten::addmm", "&lt;fit&gt;"} <= set(boxes.labels)
    node = "autograd::engine::evaluate_function: "
    assert list(boxes.text) == [each.replace(node, "engine: ") for each in boxes.labels]
    assert (boxes.tiling.flip == "y") == (kind == "flame")


def test_bars_and_memory(found: Any) -> None:
    (bars,) = found.plot("ops").data
    assert list(bars.x) == sorted(bars.x, reverse=True)
    at = list(bars.y).index("aten::addmm")
    averages = {each.key: each for each in found.key_averages()}
    ticks = found.plot("ops").layout.yaxis.ticktext
    assert [text for text in ticks if "evaluate_function" in text or len(text) > 40] == []
    assert "engine: AddmmBackward0" in ticks
    assert round(bars.x[at] * 1000, 3) == round(averages["aten::addmm"].self_cpu_time_total, 3)
    assert [text[-3:] for text in bars.hovertext[at].split("<br>")[-2:]] == ["P/s", "B/s"]
    curves = found.plot("memory").data
    total = sum(numpy.asarray(curve.y) for curve in curves)
    assert (total == found.columns.memory["total"]).all()
    assert "parameter" in {curve.name for curve in curves}


@pytest.mark.parametrize("kind", figures.KINDS)
def test_a_figure_has_the_ground_of_its_page(found: Any, kind: str) -> None:
    drawn = found.plot(kind)
    layout = drawn.layout
    assert {layout.paper_bgcolor, layout.plot_bgcolor, layout.modebar.bgcolor} == {"rgba(0,0,0,0)"}
    # Ink that is read on white and on black: four times as light, or as dark, as either.
    light = ((int(layout.font.color[1:3], 16) / 255 + 0.055) / 1.055) ** 2.4
    assert layout.font.color == layout.title.font.color == f"#{layout.font.color[1:3] * 3}"
    assert min(1.05 / (light + 0.05), (light + 0.05) / 0.05) > 4
    # What is on white has dark ink.
    assert layout.hoverlabel.font.color == "#1c1c1c"
    assert all(note.font.color == "#1c1c1c" for note in layout.annotations)


def test_long_curves_keep_their_peak() -> None:
    totals = numpy.random.default_rng(0).integers(0, 10**6, 50_000)
    rows = figures._highest(totals)
    assert len(rows) <= figures._POINTS
    assert (rows[0], rows[-1]) == (0, len(totals) - 1)
    assert totals[rows].max() == totals.max()
    assert (numpy.diff(rows) > 0).all()


def test_what_cannot_be_shown_is_said(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError) as wrong:
        found.plot("pie")
    assert "'flame', 'icicle', 'memory', 'ops'" in str(wrong.value)
    with profile() as empty:
        pass
    with pytest.raises(ValueError) as nothing:
        empty.plot("ops")
    assert "nothing ran" in str(nothing.value)
    with profile() as plain:
        ag.ones(2) + 1
    with pytest.raises(ValueError) as memory:
        plain.plot("memory")
    assert "profile_memory=True" in str(memory.value)
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(ImportError) as lacking:
        found.plot()
    assert "pip install 'ag-visual[lab]'" in str(lacking.value)


def test_a_form_in_place_is_counted_as_the_other() -> None:
    x = ag.ones(5, 2)
    with profile(with_flops=True) as p:
        x.relu().exp_().mul_(2).sum()
        x.clone()
    counted = [(each.name, each.flops) for each in p.events() if each.flops]
    assert counted == [
        ("aten::relu", 10),
        ("aten::exp_", 10),
        ("aten::mul_", 10),
        ("aten::sum", 10),
    ]


def test_a_product_is_counted_once() -> None:
    batches, a = ag.ones(5, 2, 3), ag.ones(2, 3)
    with profile(with_flops=True) as p:
        a @ ag.ones(3, 4)
    assert [each.flops for each in p.events() if each.flops] == [48]
    with profile(with_flops=True) as p:
        ag.matmul(batches, ag.ones(3, 4))
        ag.matmul(batches, ag.ones(5, 3, 4))
    assert p.profiler.total_average().flops == 2 * 240


def test_bytes_that_ops_move() -> None:
    a, b = ag.ones(3, 4), ag.ones(4, 5)
    image, weight = ag.ones(2, 4, 8, 9), ag.ones(6, 2, 3, 3)
    with profile(with_flops=True) as p:
        a.mm(b)
        a + ag.ones(4)
        a.sum()
        ag.nn.functional.conv2d(image, weight, None, 1, 1, 1, 2)
        a.double() * 2
    columns = p.columns
    moved = flops.moved(columns).tolist()
    found = {columns.names[n]: m for n, m in zip(columns.spans["name"], moved, strict=True) if m}
    assert found == {
        "aten::mm": 4 * (12 + 20 + 15),
        "aten::add": 4 * (12 + 4 + 12),
        "aten::sum": 4 * (12 + 1),
        "aten::conv2d": 4 * (2 * 4 * 72 + 6 * 2 * 9 + 2 * 6 * 72),
        "aten::mul": 8 * (12 + 12),
    }
    assert format_rate(found["aten::mm"], 0.1, "B/s") == "1.880 GB/s"
    assert format_rate(0, 1.0, "B/s") == format_rate(1, 0.0, "B/s") == "--"


def test_what_is_too_narrow_is_left_out_of_a_flame_graph_and_said(
    found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "_NARROWEST", 1)
    figure = found.plot("flame")
    (boxes,) = figure.data
    assert set(boxes.values) == {boxes.values[0]}
    left = len(figures.tree(found.columns).total) - len(boxes.values)
    assert left > 5
    assert f"; {left} narrower than 1/1 left out" in str(figure.layout.title.text)
