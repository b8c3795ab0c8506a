"""Pictures in cells: what is drawn, what travels, what is said where nothing can be drawn."""

from __future__ import annotations

import builtins
import gc
import html
import json
import subprocess
import sys
import weakref

import pytest

import ag_visual as ag
from ag_visual.display.show import graph_recording
from ag_visual.events import instrument
from ag_visual.observe.export import bundle
from ag_visual.observe.wire.check import check
from ag_visual.session.commands import handle
from ag_visual.session.session import current

RENDERER = "export function mount() { /* </script> */ }" + " " * 100_000


@pytest.fixture
def built(tmp_path, monkeypatch):
    """As if the front end were built: a stand-in for its text."""
    script = tmp_path / "inspector.js"
    script.write_text(RENDERER)
    monkeypatch.setattr(bundle, "PATH", script)


def graph():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    return y * x


def test_a_graph_that_nobody_recorded_is_drawn_whole():
    z = graph()
    picture = ag.show(z)
    check("Recording", picture.recording.record, "recording")
    assert repr(picture) == "<picture of 3 nodes: 2 MulBackward0, AccumulateGrad>"
    assert len(picture.recording.record["details"]) == 3
    assert any(key.endswith("saved:self") for key in picture.recording.record["values"])
    assert instrument.sink is None


def test_variables_of_the_caller_are_named():
    weight = ag.tensor([1.0], requires_grad=True)
    assert "weight" in graph_recording(weight * weight).strings


def test_without_values():
    assert ag.show(graph(), values=False).recording.record["values"] == {}


def test_showing_leaves_the_session_alone():
    with ag.record() as recorded:
        z = graph()
        ag.show(z)
    assert recorded.recording.rows("nodes") == 2


def test_what_has_no_graph():
    with pytest.raises(RuntimeError, match="has no graph"):
        ag.show(ag.tensor([1.0]))


def test_widget_carries_a_loader_not_the_renderer(built):
    picture = ag.show(graph())
    data, _ = picture._repr_mimebundle_()
    assert data["text/plain"] == repr(picture)
    assert "application/vnd.jupyter.widget-view+json" in data
    state = picture._widget.get_state()
    assert len(state["_esm"]) < 4_000
    assert "mount()" not in json.dumps(state)
    assert state["recording"] == picture.recording.record


def test_the_renderer_is_sent_when_a_page_asks_for_this_build(built):
    picture = ag.show(graph())
    picture._repr_mimebundle_()
    widget = picture._widget
    sent = []
    widget.send = lambda content, buffers=None: sent.append((content, buffers))
    widget._handle_custom_msg({"bundle": "another"}, [])
    widget._handle_custom_msg("nonsense", [])
    assert sent == []
    widget._handle_custom_msg({"bundle": widget.bundle}, [])
    assert sent == [({"bundle": widget.bundle}, [RENDERER.encode()])]


def test_another_build_has_another_name(built):
    first = bundle.bundle_digest()
    bundle.PATH.write_text(RENDERER + "// changed")
    assert bundle.bundle_digest() != first


def test_without_widgets_a_frame_with_the_page(built, monkeypatch):
    real = builtins.__import__

    def blocked(name, *args, **kwargs):
        if name.endswith("display.widget"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", blocked)
    frame = ag.show(graph())._repr_mimebundle_()["text/html"]
    assert frame.startswith('<iframe sandbox="allow-scripts"')
    page = html.unescape(frame.partition('srcdoc="')[2].rpartition('"')[0])
    assert "ag-visual-recording" in page


def test_a_checkout_that_was_not_built_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(bundle, "PATH", tmp_path / "none.js")
    shown = ag.show(graph())._repr_mimebundle_()
    assert list(shown) == ["text/plain"]
    assert "front end is not built" in shown["text/plain"]
    assert "2 MulBackward0" in shown["text/plain"]


def test_recordings_show_themselves(built):
    with ag.record() as recorded:
        z = graph()
    data, _ = recorded._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert ag.show(recorded).recording.rows("nodes") == 2
    assert ag.show(recorded.recording).recording is recorded.recording
    assert z is not None


def test_the_loader_is_a_module_that_node_can_parse(tmp_path):
    node = subprocess.run(["which", "node"], capture_output=True, text=True, check=False)
    if node.returncode:
        pytest.skip("node is not on PATH")
    from ag_visual.display.widget import LOADER

    path = tmp_path / "loader.mjs"
    path.write_text(LOADER)
    subprocess.run([node.stdout.strip(), "--check", str(path)], check=True)


def test_importing_the_package_imports_no_widgets():
    code = (
        "import sys, ag_visual\n"
        "print({'ipywidgets', 'anywidget', 'graphviz', 'plotly', 'jupyter_client', 'IPython'}"
        " & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_picture_goes_live_when_a_watched_backward_runs_through_its_graph(built):
    z = graph().sum()
    other = graph().sum()
    picture = ag.show(z)
    picture._repr_mimebundle_()
    widget = picture._widget
    assert (widget.live, widget.session) == (False, current().id)
    z.backward(retain_graph=True)  # nobody watches
    assert widget.live is False
    with ag.record():
        other.backward()
        assert widget.live is False
        z.backward()
    assert widget.live is True
    assert picture not in current().followers


def test_pictures_that_are_gone_follow_nothing():
    picture = ag.show(graph())
    assert picture in current().followers
    gone = weakref.ref(picture)
    del picture
    gc.collect()
    assert gone() is None


def test_show_without_a_graph_is_live_from_the_start(built):
    picture = ag.show()
    picture._repr_mimebundle_()
    assert picture._widget.live is True


def test_the_renderer_comes_over_the_control_channel_too(built):
    answers = []
    handle(current(), {"id": "1", "command": "bundle"}, answers.append)
    assert answers == [{"id": "1", "ok": True, "result": RENDERER}]


def test_numbers_are_computed_when_they_are_asked_for():
    z = graph().sum()
    picture = ag.show(z)
    assert "scalars" not in picture.recording.record
    numbers = picture.numbers()
    assert [len(numbers["nodes"]), numbers["why"]] == [4, ""]
    assert picture.recording.record["scalars"] == numbers
    check("Recording", picture.recording.record, "recording")
    assert ag.show(z, scalars=True).recording.record["scalars"]["nodes"] == numbers["nodes"]
    assert ag.show(z, values=False).numbers() is None


def test_numbers_of_a_graph_that_is_gone_are_not_made_up():
    z = graph()
    picture, other = ag.show(z), ag.show(z)
    z.backward(ag.ones(2))
    told = picture.numbers()
    assert told["nodes"] == []
    assert "show(loss, scalars=True)" in told["why"]
    del z
    gc.collect()
    assert other.numbers() == told
    assert "scalars" not in other.recording.record


def test_a_saved_picture_has_the_numbers(tmp_path, built):
    z = graph().sum()
    ag.show(z).save(tmp_path / "graph.agv")
    saved = ag.load_recording(tmp_path / "graph.agv").record["scalars"]
    assert len(saved["nodes"]) == 4


def test_a_picture_knows_the_variables_whose_graph_it_is():
    loss = graph()
    assert ag.show(loss).recording.record["of"] == ["loss"]
    other = loss * 2
    assert ag.show([loss, other]).recording.record["of"] == ["loss", "other"]
    assert ag.show(loss * 3).recording.record["of"] == []


def test_the_height_of_an_output_follows_its_graph_unless_it_is_given(built):
    grows, fixed = ag.show(graph()), ag.show(graph(), height=300)
    assert [one._repr_mimebundle_() and one._widget.height for one in (grows, fixed)] == [0, 300]
