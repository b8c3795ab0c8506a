"""Recording files in JupyterLab without a kernel: file browser, command, drop, and bad files."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .lab import CHECKOUT, Lab

GOLDEN = CHECKOUT / "tests" / "golden" / "recordings"
SPOILT = {
    "cut.agv": (GOLDEN / "v1_before.agv").read_bytes()[:900],
    "newer.agv": json.dumps({"format": "ag_visual-recording", "v": 9}).encode(),
    "letter.agv": b"Dear reader",
    "hostile.agv": b'{"format":"ag_visual-recording","v":1,"batches":[{"header":7,"buffer":"%"}]}',
    "empty.agv": b"",
}
TOLD = {
    "cut.agv": "damaged or cut short",
    "newer.agv": "made by a newer version",
    "letter.agv": "is not an ag_visual recording",
    "hostile.agv": "damaged",
    "empty.agv": "empty",
}

PICK = """() => {
    const pick = document.createElement('button');
    pick.id = 'pick';
    pick.textContent = 'Open Recording';
    pick.style = 'position: fixed; top: 0; left: 0; z-index: 100000';
    pick.onclick = () => {
        pick.remove();
        window.jupyterapp.commands.execute('ag-visual:open-recording');
    };
    document.body.append(pick);
}"""


def put(lab: Lab, name: str, data: bytes) -> None:
    folder = lab.server.root / "recordings"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)


def test_a_recording_of_version_1_opens_from_the_file_browser(lab: Lab) -> None:
    put(lab, "before.agv", (GOLDEN / "v1_before.agv").read_bytes())
    lab.load()
    lab.command("docmanager:open", path="recordings/before.agv")
    shown = lab.page.locator(".jp-Document .ag-inspector-panel")
    expect(shown.locator(".agv-time-head")).to_contain_text("backward 2 of 2")
    assert lab.server.api("GET", "kernels") == []
    shown.get_by_role("button", name="Compare with…").click()
    shown.get_by_role("button", name="backward 1 of 2").click()
    expect(shown.locator(".agv-compare-head p")).to_contain_text("No difference in 17 nodes")
    lab.pictures("recording")


@pytest.mark.parametrize("name", list(SPOILT))
def test_a_bad_file_says_why_and_leaves_the_page_alive(lab: Lab, name: str) -> None:
    put(lab, name, SPOILT[name])
    lab.load()
    lab.command("docmanager:open", path=f"recordings/{name}")
    expect(lab.page.locator(".jp-Document").get_by_role("alert")).to_contain_text(TOLD[name])
    assert lab.page.evaluate("() => window.jupyterapp.commands.hasCommand('ag-visual:compare')")


def test_a_file_of_the_own_disk_is_picked_or_dropped(lab: Lab) -> None:
    lab.load()
    # A browser shows this dialog only to somebody who has just done something on the page.
    lab.page.evaluate(PICK)
    with lab.page.expect_file_chooser() as chooser:
        lab.page.locator("#pick").click()
    chooser.value.set_files(GOLDEN / "v1_after.agv")
    tab = lab.page.locator(".lm-TabBar-tab", has_text="v1_after.agv")
    expect(tab).to_be_visible()
    expect(lab.page.locator(".agv-time-head").first).to_contain_text("backward 1 of 1")
    lab.command("ag-visual:open-inspector")
    data = base64.b64encode(Path(GOLDEN / "v1_before.agv").read_bytes()).decode()
    dropped = lab.page.evaluate_handle(
        """data => {
            const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0));
            const transfer = new DataTransfer();
            transfer.items.add(new File([bytes], 'dropped.agv'));
            transfer.items.add(new File([bytes], 'another.agv'));
            return transfer;
        }""",
        data,
    )
    panel = lab.page.locator("#ag-visual-inspector")
    panel.dispatch_event("drop", {"dataTransfer": dropped})
    for name in ("dropped.agv", "another.agv"):
        expect(lab.page.locator(".lm-TabBar-tab", has_text=name)).to_be_visible()
    ids = lab.page.evaluate("() => [...window.jupyterapp.shell.widgets('main')].map(one => one.id)")
    assert len(set(ids)) == len(ids)
