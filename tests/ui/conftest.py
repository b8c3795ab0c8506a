"""Fixtures of the browser tests: one JupyterLab and one Chromium a session, a fresh page a test."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright

from .lab import CHECKOUT, EXTENSION, PATIENCE, Lab, Server

HERE = Path(__file__).parent
# the pictures that the documentation shows; docs/images/README.md says what was checked in each
SHOWN = (
    *("inspector_light", "inspector_dark", "problem_light"),
    *("tour_trained", "output_live_light", "standalone_light"),
    "teaching_numbers_light",
)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab with ag_visual's extension, in folders of its own."""
    running = Server(tmp_path_factory.mktemp("lab"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def browser(chromium_path: str) -> Iterator[Browser]:
    expect.set_options(timeout=1000 * PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1560, "height": 900})
    context.set_default_timeout(1000 * PATIENCE)
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that fails its test when a script of ours failed in it (the hosts have their own)."""
    page = context.new_page()
    errors: list[str] = []

    def on_error(error: Error) -> None:
        told = f"{error}\n{error.stack or ''}"
        own = "/static/lab/" not in told and "/static/notebook/" not in told
        if own or EXTENSION in told:
            errors.append(told)

    page.on("pageerror", on_error)
    yield page
    assert not errors, "scripts failed in the page:\n" + "\n".join(errors)


@pytest.fixture(scope="session")
def screenshots(pytestconfig: pytest.Config) -> Iterator[Path]:
    """Folder of this run's pictures; --docs-images copies those that the documentation shows."""
    folder = HERE / "screenshots"
    folder.mkdir(exist_ok=True)
    yield folder
    if pytestconfig.getoption("--docs-images"):
        images = CHECKOUT / "docs" / "images"
        images.mkdir(parents=True, exist_ok=True)
        for name in SHOWN:
            if (folder / f"{name}.png").exists():
                shutil.copy(folder / f"{name}.png", images)


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture
def lab(
    request: pytest.FixtureRequest, server: Server, page: Page, screenshots: Path
) -> Iterator[Lab]:
    """JupyterLab in a fresh page; a test that fails leaves a picture of it."""
    lab = Lab(server, page, screenshots)
    yield lab
    if not page.is_closed():
        if request.node.stash.get(FAILED, False):
            lab.screenshot(f"failed_{request.node.name}")
        page.goto("about:blank")
    server.end_sessions()
