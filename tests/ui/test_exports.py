"""What the panel saves: a drawing, DOT and JSON, as files that other programs read."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from .lab import Lab
from .test_live import IMPORT, MODEL, NAMES, RECORD

SVG = "{http://www.w3.org/2000/svg}"


def saved(lab: Lab, choice: str, folder: Path) -> Path:
    """The file that a choice of the export menu gives."""
    panel = lab.inspector()
    panel.get_by_role("button", name="Export").click()
    with lab.page.expect_download() as download:
        panel.get_by_role("button", name=choice).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_the_graph_is_saved_as_svg_dot_and_json(lab: Lab, tmp_path: Path) -> None:
    lab.open("exports/all.ipynb", [IMPORT, MODEL, RECORD])
    lab.inspector()
    lab.run_all()
    lab.wait_until(lambda: lab.nodes() == NAMES, "the graph's nodes")
    drawing = saved(lab, "Drawing (SVG)", tmp_path)
    texts = [text.text for text in ElementTree.parse(drawing).iter(f"{SVG}text")]
    assert [text for text in texts if text in NAMES] == NAMES
    dot = saved(lab, "Graph (DOT)", tmp_path).read_text()
    assert 'label="SigmoidBackward0\\n4×2"' in dot
    found = json.loads(saved(lab, "Graph (JSON)", tmp_path).read_text())
    assert [node["name"] for node in found["nodes"]] == NAMES
    assert found["nodes"][0]["gradient_norm"] == 1
    assert found["leaves"][0]["name"] == "W"
    other = lab.page.context.new_page()
    other.goto(drawing.as_uri())
    other.screenshot(path=lab.screenshots / "export_svg.png")
    other.close()
