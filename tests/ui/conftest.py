"""Fixtures of the browser tests: one JupyterLab and one Chromium a session. A test with JupyterLab
has a notebook and a kernel of its own in a page that all of them share; others have a fresh page.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright

from .lab import CHECKOUT, EXTENSION, PATIENCE, VIEWPORT, WANTED, Lab, Server, taken

HERE = Path(__file__).parent
# the pictures that the documentation shows; docs/images/README.md says what was checked in each
SHOWN = (
    *("inspector_light", "inspector_dark", "problem_light"),
    *("runs_light", "output_drawer_dark"),
    *("tour_trained", "output_live_light", "standalone_light"),
    *("teaching_numbers_light", "transforms_tangent_dark", "transforms_jacobian_light"),
    *("timeline_light", "timeline_dark", "timeline_live_light", "timeline_memory_dark"),
    *("colour_norm_light", "colour_norm_dark"),
    *("watch_light", "watch_problem_dark", "newest_light"),
    *("findings_light", "findings_dark"),
    *("parameters_light", "parameters_dark"),
    *("profile_cell_light", "profile_script_light"),
    *("course_question_light", "course_handout_dark"),
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


def context_of(browser: Browser) -> BrowserContext:
    context = browser.new_context(viewport=VIEWPORT)
    context.set_default_timeout(1000 * PATIENCE)
    return context


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = context_of(browser)
    yield context
    context.close()


HOSTS = ("/static/lab/", "/static/notebook/", "/extensions/@jupyter-widgets/")
"""Where scripts of JupyterLab, the Notebook and ipywidgets come from. ipywidgets asks the session
of a notebook that was put away for its kernel, now and then while the next test runs."""


def heard(page: Page) -> list[str]:
    """Failures of scripts of ours in this page, as they come (the hosts have their own)."""
    errors: list[str] = []

    def on_error(error: Error) -> None:
        told = f"{error}\n{error.stack or ''}"
        if EXTENSION in told or not any(path in told for path in HOSTS):
            errors.append(told)

    page.on("pageerror", on_error)
    return errors


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that fails its test when a script of ours failed in it."""
    page = context.new_page()
    errors = heard(page)
    yield page
    assert not errors, "scripts failed in the page:\n" + "\n".join(errors)


@pytest.fixture(scope="session")
def screenshots(pytestconfig: pytest.Config) -> Iterator[Path]:
    """Folder of this run's pictures; --docs-images copies those that the documentation shows."""
    WANTED.pictures = not pytestconfig.getoption("--no-pictures")
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


class Desk:
    """The page with JupyterLab that tests share, until one of them leaves something behind."""

    def __init__(self, browser: Browser, server: Server, screenshots: Path) -> None:
        self.browser = browser
        self.server = server
        self.screenshots = screenshots
        self.errors: list[str] = []
        self._lab: Lab | None = None

    def lab(self) -> Lab:
        """JupyterLab with nothing open in it."""
        if self._lab is None:
            page = context_of(self.browser).new_page()
            self.errors = heard(page)
            self._lab = Lab(self.server, page, self.screenshots)
        return self._lab

    def renew(self) -> None:
        """The next test loads JupyterLab in a browser that has seen nothing."""
        if self._lab is not None:
            self._lab.page.context.close()
            self._lab = None


@pytest.fixture(scope="session")
def desk(browser: Browser, server: Server, screenshots: Path) -> Iterator[Desk]:
    desk = Desk(browser, server, screenshots)
    yield desk
    desk.renew()


@pytest.fixture
def anew(desk: Desk) -> Iterator[None]:
    """For tests of how a page begins or ends: no other test is in the same page."""
    desk.renew()
    yield
    desk.renew()


@pytest.fixture
def lab(
    request: pytest.FixtureRequest, desk: Desk, server: Server, screenshots: Path
) -> Iterator[Lab]:
    """JupyterLab with nothing open; a test that fails leaves a picture of it, and a new page."""
    lab = desk.lab()
    yield lab
    left: list[str] = []
    if lab.page.is_closed():
        desk.renew()
    elif request.node.stash.get(FAILED, True):
        taken(lab.page, screenshots / f"failed_{request.node.name}.png")
        desk.renew()
    elif lab.loaded:
        # JupyterLab itself cancels what it asked of kernels whose notebook is put away.
        own = len(desk.errors)
        left = lab.clear()
        desk.errors[own:] = [told for told in desk.errors[own:] if EXTENSION in told]
    server.end_sessions()
    errors = [*desk.errors]
    desk.errors.clear()
    if left or errors:
        desk.renew()
    assert not errors, "scripts failed in the page:\n" + "\n".join(errors)
    assert not left, f"the test left in the page: {left}"
