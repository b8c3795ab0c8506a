"""What a day brings: interrupts, restarts, reloads, two notebooks, a page that is closed."""

from __future__ import annotations

import ipykernel
from playwright.sync_api import expect

from .lab import Lab, Server
from .test_live import DEBUG, IMPORT, MODEL, NAMES, RECORD

SUBSHELLS = ipykernel.version_info >= (7,)


def paused_lab(lab: Lab, name: str, debug: str = DEBUG) -> None:
    lab.open(name, [IMPORT, MODEL, debug, "'alive'"])
    panel = lab.inspector()
    lab.run(0)
    lab.run(1)
    lab.start(2)
    expect(panel.locator(".agv-pill")).to_have_text("Paused before step 1 of 5")


def test_interrupt_ends_a_pause(lab: Lab) -> None:
    paused_lab(lab, "trouble/interrupt.ipynb")
    lab.command("notebook:interrupt-kernel")
    lab.wait_until(lambda: "KeyboardInterrupt" in lab.output(2), "the interrupt")
    lab.ended(2)
    expect(lab.inspector().locator(".agv-pill")).not_to_contain_text("Paused")
    assert lab.run(3).strip() == "'alive'"


def test_a_reload_finds_the_paused_backward_again(lab: Lab) -> None:
    paused_lab(lab, "trouble/reload.ipynb")
    lab.reload()
    pill = lab.inspector().locator(".agv-pill")
    expect(pill).to_have_text("Paused before step 1 of 5")
    # Without subshells (ipykernel 6) commands get through at once, events when the cell has ended.
    if SUBSHELLS:
        lab.wait_until(lambda: lab.nodes() == NAMES, "the graph's nodes")
        lab.inspector().get_by_role("button", name="Step").click()
        expect(pill).to_have_text("Paused before step 2 of 5")
    lab.inspector().get_by_role("button", name="Continue").click()
    expect(pill).not_to_contain_text("Paused")
    lab.wait_until(lambda: lab.nodes() == NAMES, "the graph's nodes after the cell")


def test_a_restart_begins_anew(lab: Lab) -> None:
    lab.open("trouble/restart.ipynb", [IMPORT, MODEL, RECORD])
    panel = lab.inspector()
    lab.run_all()
    lab.wait_until(lambda: lab.nodes() == NAMES, "the graph's nodes")
    lab.restart()
    expect(panel.locator(".agv-pill")).to_have_text("Connecting")
    lab.run(0)
    expect(panel.locator(".agv-pill")).to_have_text("Not recording")
    lab.run(1)
    lab.run(2)
    lab.wait_until(lambda: lab.nodes() == NAMES, "the new graph's nodes")


def test_a_restart_does_not_forget_that_it_is_recorded(lab: Lab) -> None:
    lab.open("trouble/goes_on.ipynb", [IMPORT, MODEL, "forward().backward()"])
    panel = lab.inspector()
    lab.run(0)
    panel.get_by_role("button", name="Record", exact=True).first.click()
    expect(panel.locator(".agv-pill")).to_have_text("Recording")
    lab.restart()
    expect(panel).to_contain_text("It is recorded from then on, as before the restart.")
    lab.screenshot("restart_waits")
    lab.run(0)
    expect(panel.locator(".agv-pill")).to_have_text("Recording")
    lab.run(1)
    lab.run(2)
    lab.wait_until(lambda: lab.nodes() == NAMES, "the new graph's nodes")


def test_a_kernel_that_dies_while_paused_is_said(lab: Lab) -> None:
    paused_lab(lab, "trouble/death.ipynb")
    # The server restarts a kernel that died: what counts is that nobody goes on as if it had not.
    lab.kill_kernel()
    pill = lab.inspector().locator(".agv-pill")
    expect(pill).to_have_text("Connecting")
    lab.wait_until(lambda: lab.nodes() == NAMES, "what was recorded to stay on screen")


def test_two_notebooks_have_two_graphs(lab: Lab) -> None:
    other = "with torch.record():\n    (W * 2).sum().backward()"
    lab.write("trouble/second.ipynb", [IMPORT, MODEL, other])
    lab.open("trouble/first.ipynb", [IMPORT, MODEL, RECORD])
    lab.inspector()
    lab.run_all()
    lab.wait_until(lambda: lab.nodes() == NAMES, "the first graph")
    lab.open_path("trouble/second.ipynb")
    lab.run_all()
    lab.wait_until(lambda: lab.nodes() == ["SumBackward0", "MulBackward0"], "the second graph")
    lab.command("docmanager:open", path="trouble/first.ipynb")
    lab.wait_until(lambda: lab.nodes() == NAMES, "the first graph again")


def test_a_closed_page_does_not_hold_a_cell_for_ever(anew: None, lab: Lab, server: Server) -> None:
    patient = "with torch.debugger(patience=10):\n    forward().backward()"
    paused_lab(lab, "trouble/closed.ipynb", patient)
    [session] = server.api("GET", "sessions")
    path = f"kernels/{session['kernel']['id']}"
    own, lab.page = lab.page, lab.page.context.new_page()
    own.close()

    def went_on() -> bool:
        return bool(server.api("GET", path)["execution_state"] == "idle")

    lab.wait_until(went_on, "the cell to go on by itself")
    lab.page.close()
