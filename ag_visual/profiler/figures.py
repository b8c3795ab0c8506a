"""A figure for each question to a profile, with plotly: `prof.plot("flame")`.

Made of columns, as everything that reads a profile. plotly is imported when a figure is asked for.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy

from ag_visual.errors import MissingExtraError
from ag_visual.events.spans import EVALUATE, MODULE, NODE, OP, STEP, USER
from ag_visual.profiler import flops, peak, timeline
from ag_visual.profiler.columns import Columns
from ag_visual.profiler.from_columns import Kept
from ag_visual.profiler.tables import format_rate, format_time

# Okabe and Ito's colours, which differ for people who do not see all of them, too.
_GREY: Final = "#e4e4e4"
_COLORS: Final = {
    OP: "#56b4e9",
    EVALUATE: "#e69f00",
    NODE: "#f0c75e",
    USER: "#4fc3a1",
    STEP: "#4fc3a1",
    MODULE: "#d9a5c4",
}
_INK: Final = "#787878"
"""Read on white and on black: a figure has no ground of its own, and a page may have either."""
_GRID: Final = "rgba(128,128,128,0.25)"
_CLEAR: Final = "rgba(0,0,0,0)"
_NOTE: Final = {"color": "#1c1c1c"}
"""The ink of what has a white ground."""
_SHORTER: Final = ("autograd::engine::evaluate_function: ", "engine: ")
_LONGEST: Final = 40
"""Characters of a name beside a bar: what it takes of a narrow page is missing to the bars."""
_NARROWEST: Final = 1000
"""What is narrower than one part in so many of a flame graph is left out, as the figure says."""
_BARS: Final = 20
_POINTS: Final = 4000


def plot(columns: Columns, kind: str) -> Any:
    """See `autograd.profiler.profile.plot`."""
    make = _KINDS.get(kind)
    if make is None:
        known = ", ".join(repr(each) for each in _KINDS)
        raise ValueError(f"plot() has no figure {kind!r}: use one of {known}")
    try:
        from plotly import graph_objects
    except ImportError as error:
        raise MissingExtraError(
            "plot() needs the package plotly: pip install 'ag-visual[lab]'. Without it there are "
            "key_averages().table() and export_speedscope."
        ) from error
    if not len(columns.spans):
        raise ValueError("plot() has nothing to show: nothing ran in this profile")
    return make(columns, graph_objects)


class Tree(NamedTuple):
    """Spans put together where they and all around them have the same names. Row 0 is the whole.

    names: row of `columns.names`, below 0: -1 - row of `columns.threads`. Times are ns.
    """

    names: list[int]
    parents: list[int]
    kinds: list[int]
    total: list[int]
    own: list[int]
    calls: list[int]


def tree(columns: Columns) -> Tree:
    """The tree of a flame graph; threads are apart where there are several."""
    kept = Kept(columns)
    rows = len(kept.rows)
    place = numpy.zeros(rows, numpy.int64)
    names, parents, kinds = [0], [-1], [-1]
    several = len(columns.threads) > 1
    if several:
        names += [-1 - i for i in range(len(columns.threads))]
        parents += [0] * len(columns.threads)
        kinds += [-1] * len(columns.threads)
    outer = 1 + kept.spans["thread"].astype(numpy.int64) if several else place
    level = numpy.flatnonzero(kept.parent < 0)
    inner = numpy.flatnonzero(kept.parent >= 0)
    inner = inner[numpy.argsort(kept.parent[inner], kind="stable")]
    while len(level):
        up = kept.parent[level]
        around = numpy.where(up >= 0, place[numpy.maximum(up, 0)], outer[level])
        name = kept.spans["name"][level].astype(numpy.int64)
        _, first, found = numpy.unique(around << 32 | name, return_index=True, return_inverse=True)
        place[level] = len(names) + found
        names += name[first].tolist()
        parents += around[first].tolist()
        kinds += kept.spans["kind"][level[first]].tolist()
        # What is directly inside of this level, whose parents are sorted.
        begins = numpy.searchsorted(kept.parent[inner], level, "left")
        ends = numpy.searchsorted(kept.parent[inner], level, "right")
        lengths = ends - begins
        shift = numpy.repeat(begins - numpy.cumsum(lengths) + lengths, lengths)
        level = inner[shift + numpy.arange(len(shift))]
    sums = []
    for values in (kept.length, kept.own, numpy.ones(rows, numpy.int64)):
        found = numpy.zeros(len(names), numpy.int64)
        numpy.add.at(found, place, values)
        sums.append(found)
    total, own, count = sums
    if several:
        numpy.add.at(total, outer[kept.parent < 0], kept.length[kept.parent < 0])
    total[0] = kept.length[kept.parent < 0].sum()
    return Tree(names, parents, kinds, total.tolist(), own.tolist(), count.tolist())


def _flame(columns: Columns, go: Any) -> Any:
    return _nested(columns, go, "y")


def _icicle(columns: Columns, go: Any) -> Any:
    return _nested(columns, go, None)


def _nested(columns: Columns, go: Any, flip: str | None) -> Any:
    found = tree(columns)
    whole = found.total[0]
    shown = [
        at
        for at, total in enumerate(found.total)
        if not at or (total * _NARROWEST >= whole and total > 0)
    ]
    texts = [html.escape(_name(columns, found.names[at]), quote=False) for at in shown]
    texts[0] = "all"
    hovers = [
        f"<b>{text}</b><br>total {_share(found.total[at], whole)}"
        f"<br>self {_share(found.own[at], whole)}<br>{found.calls[at]:,} times"
        for text, at in zip(texts, shown, strict=True)
    ]
    hovers[0] = f"<b>all</b><br>total {_share(whole, whole)}"
    boxes = go.Icicle(
        ids=[str(at) for at in shown],
        labels=texts,
        # What does not fit into its box is not shown at all.
        text=[text.replace(*_SHORTER) for text in texts],
        textinfo="text",
        parents=[str(found.parents[at]) if at else "" for at in shown],
        values=[found.total[at] for at in shown],
        branchvalues="total",
        hovertext=hovers,
        hoverinfo="text",
        textposition="middle left",
        tiling={"orientation": "v", "flip": flip, "pad": 1},
        marker={"colors": [_COLORS.get(found.kinds[at], _GREY) for at in shown]},
        pathbar={"visible": False},
        textfont={"color": "#111111"},
        leaf={"opacity": 1},
        sort=True,
    )
    left = len(found.total) - len(shown)
    less = f"; {left} narrower than 1/{_NARROWEST} left out" if left else ""
    text = f"{_time(whole)} in {len(columns.spans):,} spans{less}"
    figure = _framed(go.Figure(boxes), "Where the time goes", text, "A click shows one alone")
    return figure.update_layout(uniformtext={"minsize": 9, "mode": "hide"})


def _ops(columns: Columns, go: Any) -> Any:
    kept = Kept(columns)
    spans, names = kept.spans, kept.spans["name"]
    sums = {}
    parts = {"own": kept.own, "total": kept.length, "flops": spans["flops"]}
    for key, values in (*parts.items(), ("moved", flops.moved(columns)[kept.rows])):
        sums[key] = numpy.zeros(len(columns.names), numpy.int64)
        numpy.add.at(sums[key], names, values)
    count = numpy.bincount(names, minlength=len(columns.names))
    order = numpy.argsort(-sums["own"], kind="stable")
    order = order[count[order] > 0].tolist()
    shown, rest = order[:_BARS], order[_BARS:]
    whole = int(kept.own.sum())
    kinds = {int(name): int(kind) for name, kind in zip(names, spans["kind"], strict=True)}
    own, total = sums["own"], sums["total"]
    hovers = []
    for at in shown:
        text = f"<b>{html.escape(columns.names[at], quote=False)}</b>"
        text += f"<br>self {_share(int(own[at]), whole)}<br>total {_time(int(total[at]))}"
        text += f"<br>{count[at]:,} times"
        for what, unit in (("flops", "FLOP/s"), ("moved", "B/s")):
            if sums[what][at]:
                text += f"<br>{format_rate(int(sums[what][at]), total[at] / 1000, unit)}"
        hovers.append(text)
    bars = go.Bar(
        x=[int(own[at]) / 1e6 for at in shown],
        y=[html.escape(columns.names[at], quote=False) for at in shown],
        orientation="h",
        marker={"color": [_COLORS.get(kinds[at], _GREY) for at in shown]},
        text=[f"{own[at] / max(whole, 1):.1%}, {count[at]:,} ×" for at in shown],
        textposition="outside",
        cliponaxis=False,
        hovertext=hovers,
        hoverinfo="text",
    )
    figure = go.Figure(bars)
    figure.update_xaxes(title="self time, ms", rangemode="tozero")
    figure.update_yaxes(
        autorange="reversed",
        automargin=True,
        showgrid=False,
        tickvals=bars.y,
        ticktext=[html.escape(_cut(columns.names[at]), quote=False) for at in shown],
    )
    others = sum(int(own[at]) for at in rest)
    less = [f"{len(rest)} others take {_share(others, whole)}"] if rest else []
    text = f"Time in each and in nothing that it called, of {_time(whole)}"
    figure = _framed(figure, "What takes the time", text, *less)
    return figure.update_layout(height=160 + 24 * len(shown), margin={"r": 110})


def _memory(columns: Columns, go: Any) -> Any:
    if not len(columns.memory):
        raise ValueError("plot('memory') needs a profile with profile_memory=True")
    _, sizes = timeline.curves(columns)
    table = numpy.array(sizes, numpy.int64)[:, 1:]
    times = (columns.memory["time"] - columns.start) / 1e6
    rows = _highest(columns.memory["total"])
    figure = go.Figure()
    for at, name in enumerate(timeline.TORCHS):
        if not table[:, at].any():
            continue
        figure.add_scatter(
            x=times[rows],
            y=table[rows, at],
            name=name.lower().replace("_", " "),
            mode="lines",
            line={"shape": "hv", "width": 0.5, "color": timeline.COLORS[at]},
            stackgroup="bytes",
            hovertemplate="%{y:.4s}B",
        )
    top = peak.peak(columns)
    by_op = [
        f"{html.escape(name, quote=False) or 'there before'} {_bytes(size)}"
        for name, size in top.by_op[:4]
    ]
    figure.add_annotation(
        x=(top.time - columns.start) / 1e6,
        y=top.size,
        text=f"<b>peak {_bytes(top.size)}</b><br>" + "<br>".join(by_op),
        align="left",
        bgcolor="rgba(255,255,255,0.85)",
        font=_NOTE,
        arrowcolor=_INK,
        bordercolor="#555555",
        yanchor="bottom",
        ay=-20,
    )
    figure.update_xaxes(title="ms since the profile began")
    figure.update_yaxes(
        title="live bytes", ticksuffix="B", tickformat="~s", range=[0, top.size * 2 or 1]
    )
    figure.update_layout(hovermode="x unified")
    changes = len(columns.memory)
    less = f", {len(rows):,} shown, the highest of each stretch" if len(rows) < changes else ""
    text = "Live bytes of tensors by what they are"
    return _framed(figure, "What holds the memory", text, f"{changes:,} changes{less}")


def _bytes(size: int) -> str:
    """In powers of 1,000, as the axis has them; torch's tables have powers of 1,024."""
    for unit, many in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= many:
            return f"{size / many:.3g} {unit}"
    return f"{size} B"


def _highest(totals: Any) -> Any:
    """At most `_POINTS` rows, of each stretch the one with most bytes, the first and last ones."""
    count = len(totals)
    if count <= _POINTS:
        return numpy.arange(count)
    stretches = numpy.array_split(numpy.arange(count), _POINTS - 2)
    rows = [int(each[numpy.argmax(totals[each])]) for each in stretches]
    return numpy.unique([0, *rows, count - 1])


def _framed(figure: Any, title: str, *lines: str) -> Any:
    below = "".join(f"<br><sup>{line}.</sup>" for line in lines)
    figure.update_xaxes(gridcolor=_GRID, zerolinecolor=_GRID, linecolor=_GRID)
    figure.update_yaxes(gridcolor=_GRID, zerolinecolor=_GRID, linecolor=_GRID)
    return figure.update_layout(
        template="plotly_white",
        title={"text": f"{title}{below}", "font": {"color": _INK}},
        font={"color": _INK},
        paper_bgcolor=_CLEAR,
        plot_bgcolor=_CLEAR,
        modebar={"bgcolor": _CLEAR, "color": _INK, "activecolor": "#0b84d8"},
        hoverlabel={"bgcolor": "#ffffff", "bordercolor": "#777777", "font": _NOTE},
        margin={"l": 20, "r": 20, "t": 60 + 18 * len(lines), "b": 20},
    )


def _name(columns: Columns, number: int) -> str:
    return columns.names[number] if number >= 0 else columns.threads[-1 - number][1]


def _cut(name: str) -> str:
    text = name.replace(*_SHORTER)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _time(ns: int) -> str:
    return format_time(ns / 1000)


def _share(ns: int, whole: int) -> str:
    return f"{_time(ns)} ({ns / max(whole, 1):.1%})"


_KINDS: Final[dict[str, Callable[[Columns, Any], Any]]] = {
    "flame": _flame,
    "icicle": _icicle,
    "memory": _memory,
    "ops": _ops,
}
KINDS: Final = tuple(_KINDS)
"""The figures there are."""
