"""Options of the whole suite, its two lanes, and what becomes of browser tests without a browser.

Without Chromium the browser tests are not run and the report's last lines say so once; with CI=true
a missing Chromium is an error, so that nobody takes silence for success.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from . import ipython

# NumPy's kernels are tested, also in the programs that tests start; the compiled ones are compared
# with them (arrays/test_fast.py). Set before anything imports the package.
os.environ["AG_VISUAL_FAST"] = "0"

# However slow the machine; where CI is set, hypothesis has taken fixed seeds already.
settings.register_profile(
    "any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW_TO = "`apt-get install chromium` or `pytest --chromium PATH`"
NOT_RUN = pytest.StashKey[dict[str, None]]()
"""What was left out, a line each."""
HERE = Path(__file__).parent
WATCHES_TORCH = HERE / "bridge"
"""Its tests are programs of torch, from their imports on."""
LANES = ("python", "browser")
SLOW_TO_ANSWER = ("display", "session", "ui")
"""Folders of the lane `browser`: what they run are kernels, terminals and pages. It is the longer
lane: what else starts a kernel is in the other."""


def lane_of(path: Path) -> str | None:
    """The lane of what stands below this folder: every test has exactly one; None for all else."""
    parts = path.relative_to(HERE).parts if path.is_relative_to(HERE) else ()
    return LANES[parts[0] in SLOW_TO_ANSWER] if parts else None


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ag_visual")
    group.addoption("--chromium", metavar="PATH", help="the Chromium that the browser tests drive")
    group.addoption(
        "--lane",
        choices=LANES,
        help="one of the two parts of the suite, to be run beside the other in another process",
    )
    group.addoption(
        "--only", metavar="LABEL", help="one value of the tests that check many: `--only softmax`"
    )
    group.addoption(
        "--no-pictures",
        action="store_true",
        help="take no pictures of pages but those of failed tests: where nobody looks at them",
    )
    group.addoption(
        "--docs-images",
        action="store_true",
        help="copy the screenshots that the documentation shows to docs/images",
    )


def not_run(config: pytest.Config, line: str) -> None:
    config.stash.setdefault(NOT_RUN, {})[line] = None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path == WATCHES_TORCH and importlib.util.find_spec("torch") is None:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            raise pytest.UsageError("CI=true and torch is missing: pip install '.[oracle]'")
        not_run(config, "tests/bridge not run: torch is missing: pip install '.[oracle]'")
        return True
    wanted, own = config.getoption("--lane"), lane_of(collection_path)
    return True if wanted and own and own != wanted else None


def chromium(config: pytest.Config) -> str | None:
    """Path of the browser: the option, else the first one on PATH."""
    named = config.getoption("--chromium")
    if named is None:
        return next(filter(None, map(shutil.which, BROWSERS)), None)
    found = shutil.which(named)
    if found is None:
        raise pytest.UsageError(f"--chromium {named}: no such program")
    return found


def missing(config: pytest.Config) -> str | None:
    """What keeps the browser tests from running here, and how to get it; None if nothing does."""
    if chromium(config) is None:
        return f"no Chromium on PATH: {HOW_TO}"
    for module in ("playwright", "jupyterlab"):
        if importlib.util.find_spec(module) is None:
            return f'the package {module} is missing: pip install ".[test]"'
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("torch") is None:
        from .oracle import REASON

        for item in items:
            if item.get_closest_marker("oracle"):
                item.add_marker(pytest.mark.skip(reason=REASON))
    for item in items:
        if (HERE / "ui") in item.path.parents:
            item.add_marker("ui")
    browser_tests = [item for item in items if item.get_closest_marker("ui")]
    if not browser_tests:
        return
    reason = missing(config)
    if reason is None:
        # They take longest: a mistake elsewhere should show first.
        items.sort(key=lambda item: item.get_closest_marker("ui") is not None)
        return
    if os.environ.get("CI", "").lower() in ("1", "true"):
        raise pytest.UsageError(f"CI=true and the browser tests cannot run: {reason}")
    items[:] = [item for item in items if item not in browser_tests]
    config.hook.pytest_deselected(items=browser_tests)
    not_run(config, f"{len(browser_tests)} browser tests not run: {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays to the end: the garbage collector does not walk over it
    while it grows, nor over a million objects again each time that a test calls it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in config.stash.get(NOT_RUN, {}):
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Jupyter and IPython read and write nothing of the person's own, whose home may be shut."""
    folder = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            (folder / name).mkdir()
            patch.setenv(name, str(folder / name))
        ipython.prepare(folder / "IPYTHONDIR")
        yield


@pytest.fixture(scope="session")
def chromium_path(pytestconfig: pytest.Config) -> str:
    """The browser's executable."""
    found = chromium(pytestconfig)
    assert found is not None
    return found
