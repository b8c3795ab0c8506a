"""`ag-visual tour`: what it prints, where it ends, and that nothing ends in a traceback."""

from __future__ import annotations

import importlib.util
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ag_visual
from ag_visual.cli import main, tour
from ag_visual.session import notebooks

if importlib.util.find_spec("nbformat") is None:
    pytest.skip('the tour needs the extra "lab"', allow_module_level=True)

Tour = Callable[..., Path]
LESSON = "course_1_first.ipynb"


@pytest.fixture(autouse=True)
def same_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels import the ag_visual that is under test, also when that is a checkout."""
    monkeypatch.setenv("PYTHONPATH", str(Path(ag_visual.__file__).resolve().parents[1]))


@pytest.fixture
def small_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tour]:
    """Puts a notebook of these cells in the place of each."""

    def write(*cells: str) -> Path:
        import nbformat

        folder = tmp_path / "source"
        folder.mkdir()
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        for name in (tour.NOTEBOOK, LESSON):
            nbformat.write(notebook, folder / name)
        monkeypatch.setattr(notebooks, "source", lambda: folder)
        notebooks.course.cache_clear()
        return folder

    yield write
    notebooks.course.cache_clear()


def ends(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return code, said.out, said.err


def publish(**result: Any) -> str:
    return f"display({{{tour.RESULT!r}: {json.dumps(result)}}}, raw=True)"


def test_headless_prints_what_came_of_it(
    small_tour: Tour, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_tour(
        "from pathlib import Path\nPath('tour.html').write_text('<p>')",
        publish(accuracy=0.9667, nodes=12345, events=67890, recording="tour.html"),
    )
    folder = tmp_path / "out"
    code, out, _ = ends(capsys, "tour", "--headless", "--output", str(folder))
    assert code == 0
    assert "96.7%" in out
    assert "12,345" in out
    assert "67,890" in out
    assert str(folder / "tour.html") in out
    import nbformat

    executed = nbformat.read(folder / tour.NOTEBOOK, as_version=4)
    assert executed.cells[0].execution_count == 1


def test_headless_fails_with_the_cell_that_failed(
    small_tour: Tour, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_tour("fine = 1", "bad = fine / 0")
    code, out, err = ends(capsys, "tour", "--headless", "--output", str(tmp_path / "out"))
    assert (code, out) == (1, "")
    assert "cell In[2]" in err
    assert "bad = fine / 0" in err
    assert "ZeroDivisionError: division by zero" in err


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["1"], "published no result"),
        (
            [publish(accuracy=1.0, nodes=1, events=1, recording="nowhere.html")],
            "recording is missing",
        ),
        (["import os; os._exit(1)"], "the kernel died"),
    ],
)
def test_headless_never_takes_less_for_success(
    small_tour: Tour,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    cells: list[str],
    told: str,
) -> None:
    small_tour(*cells)
    code, out, err = ends(capsys, "tour", "--headless", "--output", str(tmp_path / "out"))
    assert (code, out) == (1, "")
    assert told in err


def test_the_tour_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ends(capsys, "tour", "--headless", "--output", str(tmp_path))
    assert code == 0
    told = dict(re.split(r" {2,}| (?=[/\d])", line, maxsplit=1) for line in out.splitlines())
    assert float(told["test accuracy"].rstrip("%")) >= 95
    assert int(told["recorded nodes"].replace(",", "")) > 100
    assert int(told["recorded events"].replace(",", "")) > 500
    page = Path(told["recording"]).read_text()
    assert "CrossEntropyLossBackward0" in page or "NllLossBackward0" in page


def test_a_taken_port_is_said(small_tour: Tour, capsys: pytest.CaptureFixture[str]) -> None:
    small_tour()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = ends(capsys, "tour", "--port", str(port))
        assert code == 1
        assert f"port {port} is taken" in err
        assert "--port N" in err
    assert ends(capsys, "tour", "--port", "99999")[0] == 1


def test_a_missing_extra_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "sklearn" else found(name)
    )
    for words in (["tour"], ["tour", "--headless"]):
        code, _, err = ends(capsys, *words)
        assert code == 1
        assert "scikit-learn" in err
        assert 'pip install "ag-visual[lab]"' in err


def test_a_folder_that_cannot_be_written_is_said(
    small_tour: Tour, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_tour()
    (tmp_path / "file").write_text("")
    code, _, err = ends(capsys, "tour", "--headless", "--output", str(tmp_path / "file"))
    assert code == 1
    assert "cannot write" in err
    assert "--output DIR" in err


def test_a_lesson_of_the_course_is_opened_or_run(
    small_tour: Tour,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    small_tour("print('hello')")
    started: list[str] = []
    monkeypatch.setattr(tour, "start", lambda words, *_: started.extend(words) or 0)
    folder = tmp_path / "out"
    for words in (["--teaching"], ["--teaching", "1"]):
        started.clear()
        code, _, err = ends(capsys, "tour", *words, "--output", str(folder))
        assert code == 0
        assert str(folder / LESSON) in started
        assert f"/lab/tree/{LESSON}?token=" in err
        assert (folder / tour.NOTEBOOK).exists()
    code, _, err = ends(capsys, "tour", "--teaching", "2", "--output", str(folder))
    assert code == 1
    assert "--teaching 2: the course has lessons 1 to 1" in err
    # It publishes no result of its own: that it ran to its end is what is told.
    code, out, _ = ends(capsys, "tour", "--teaching", "--headless", "--output", str(folder))
    assert code == 0
    assert re.fullmatch(rf"executed +{re.escape(str(folder / LESSON))} in [\d.]+ s\n", out)
    assert '"name": "stdout"' in (folder / LESSON).read_text()
    assert '"name": "stdout"' not in (folder / tour.NOTEBOOK).read_text()


@pytest.mark.parametrize("display", [True, False])
def test_interactive_opens_a_browser_where_there_is_a_display(
    small_tour: Tour,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    display: bool,
) -> None:
    small_tour("1")
    started: list[str] = []
    monkeypatch.setattr(tour, "start", lambda words, *_: started.extend(words) or 0)
    monkeypatch.setattr(tour, "has_display", lambda: display)
    code, _, err = ends(capsys, "tour", "--output", str(tmp_path / "out"))
    assert code == 0
    assert str(tmp_path / "out" / tour.NOTEBOOK) in started
    assert ("--no-browser" in started) is not display
    assert ("no display" in err) is not display
    assert f"/lab/tree/{tour.NOTEBOOK}?token=" in err


def test_a_notebook_that_a_reader_changed_is_kept(small_tour: Tour, tmp_path: Path) -> None:
    small_tour("1")
    copy = tour.prepare(tmp_path / "out", fresh=False)
    copy.write_text("mine")
    assert tour.prepare(tmp_path / "out", fresh=False).read_text() == "mine"
    assert tour.prepare(tmp_path / "out", fresh=True).read_text() != "mine"


def test_help_and_version_need_no_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from ag_visual.cli import main; sys.exit(main())"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "tour" in done.stderr
