"""The course: each notebook runs from top to bottom, and its questions take right answers alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from .notebooks import NOTEBOOKS, outputs_of

COURSE = sorted(path.name for path in NOTEBOOKS.glob("course_*.ipynb"))
ANSWERS = """\
import json
from ag_visual import Handout, Question

own = {name: each for name, each in list(globals().items()) if name[0] != "_"}
asked = {name: each for name, each in own.items() if isinstance(each, Question)}
told = {}
for name, question in asked.items():
    wrong = [*question.replies, *(c for c in question.choices or () if c != question.answer)]
    wrong = wrong if question.choices else [*wrong, -7777, "1e9", "2*"]
    told[name] = {
        "wrong": [question.check(each) for each in wrong],
        "replies": list(question.replies.values()),
        "open": question.right,
        "right": question.check(question.answer),
        "done": question.right,
    }
handouts = [each for each in own.values() if isinstance(each, Handout)]
pages = [link for each in handouts for link in each.links]
handed = [each for one in handouts for each in one.lessons]
steps = [name for name, each in own.items() if any(each is lesson for lesson in handed)]
print("told", json.dumps({"questions": told, "links": sorted(set(pages)), "steps": steps}))
"""


def cells(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((NOTEBOOKS / name).read_text())["cells"]
    return found


def text(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def test_there_are_eight_in_an_unbroken_chain() -> None:
    assert [name[:9] for name in COURSE] == [f"course_{n}_" for n in range(1, 9)]
    for name, following in zip(COURSE, [*COURSE[1:], COURSE[0]], strict=True):
        first, *_, last = cells(name)
        assert re.match(rf"# {name[7]} · \S.*\n\nAfter this notebook you know\n", text(first))
        assert "## What comes next" in text(last)
        assert following in text(last)
        for target in re.findall(r"\]\((\w+\.ipynb)\)", text(last)):
            assert (NOTEBOOKS / target).exists()


@pytest.mark.parametrize("name", COURSE)
def test_it_is_written_as_the_others(name: str) -> None:
    source = json.loads((NOTEBOOKS / name).read_text())
    assert source["metadata"]["ag_visual"] == {"inspector": "open"}
    code = [cell for cell in source["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
    asked = [cell for cell in code if "ag.Question(" in text(cell)]
    assert len(asked) >= 4
    # The answer stands in the cell: it is folded.
    assert all(cell["metadata"]["jupyter"]["source_hidden"] for cell in asked)
    loops = [text(cell) for cell in code if ".backward()" in text(cell) and "range(" in text(cell)]
    assert all("tqdm" in loop for loop in loops if re.search(r"for .* in .*range\(steps", loop))
    words = " ".join(text(c) for c in source["cells"] if c["cell_type"] == "markdown")
    assert "!" not in re.sub(r"!=", "", words)


@pytest.mark.parametrize("name", COURSE)
def test_it_runs_and_is_answered(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs, said = outputs_of(name, tmp_path, monkeypatch, then=ANSWERS)
    told = json.loads(said.rpartition("told ")[2])
    assert told["questions"]
    for asked in told["questions"].values():
        assert [right for right, _ in asked["wrong"] if right] == []
        assert not asked["open"]
        assert asked["done"]
        # Each wrong answer that was thought of gets its own reply, each other one some words.
        count = len(asked["replies"])
        assert [words for _, words in asked["wrong"][:count]] == asked["replies"]
        assert all(words for _, words in asked["wrong"])
        right, why = asked["right"]
        assert right
        assert why
    drawn = [str(o.get("data", {}).get("text/plain", "")) for o in outputs]
    assert sum(text.startswith("Question: ") for text in drawn) == len(told["questions"])
    steps = [n for cell in cells(name) for n in re.findall(r"^## Step (\d):", text(cell), re.M)]
    assert steps == [str(n + 1) for n in range(len(steps))]
    assert {f"step{n}" for n in steps} <= set(told["steps"]), "a page for each step"
    assert len(told["links"]) >= len(steps)
    for link in told["links"]:
        page, _, lesson = link.partition("#")
        assert lesson.startswith("lesson=")
        assert "hide=" in lesson
        assert '"lesson":{"text":' in (tmp_path / page).read_text()
    CHECKS[name[7]](said, tmp_path)


def numbers(line: str, said: str) -> list[float]:
    """What stands in the brackets after this text."""
    found = re.search(rf"{re.escape(line)}\s*\[(.*?)\]", said)
    assert found is not None, said
    return [float(number) for number in found[1].split(",")]


def gradients(said: str, folder: Path) -> None:
    assert "x.grad = 6.0" in said
    heights = [float(h) for h in re.findall(r"height 15.75 -> ([\d.]+)", said)]
    assert heights[0] > 1
    assert max(heights[1:]) < 0.001
    assert "1.5 and -16.25" in said


def chain_rule(said: str, folder: Path) -> None:
    ours, by_hand = re.findall(r"by (?:autograd|hand) +(-?[\d.]+)", said)
    assert float(ours) == pytest.approx(float(by_hand), rel=1e-5)
    assert "x.grad = 9.0" in said
    assert "x.grad = 11.0" in said
    page = (folder / "chain_rule.html").read_text()
    assert '"slopes":' in page


def graphs(said: str, folder: Path) -> None:
    assert "h was made by TanhBackward0" in said
    assert "it saved:     [('result', (4, 2))]" in said
    assert "`scale.detach()` at cell In[" in said
    assert re.search(r"scale\.grad is None[\s\S]*scale\.grad is tensor\(", said)


def mistakes(said: str, folder: Path) -> None:
    assert re.search(r"saved at +cell In\[2\], line \d+: x\.exp\(\)", said)
    assert re.search(r"written at +cell In\[2\], line \d+: y \+= 1", said)
    assert "Use `y = y + 1`" in said
    right, wrong, silent = (
        numbers(word, said) for word in ("right:", "wrong:", "wrong, and silent:")
    )
    assert wrong == silent == [number + 3 for number in right]
    assert "Write to a copy" in said


def vanishing(said: str, folder: Path) -> None:
    assert "factor per layer:   0.23" in said
    assert "measured factor per layer: 2.1" in said
    losses = dict(re.findall(r"^(sigmoid|relu, size √2|residual) +loss .*-> ([\d.]+)", said, re.M))
    stuck, fell, fell_more = (
        float(losses[name]) for name in ("sigmoid", "relu, size √2", "residual")
    )
    assert stuck == pytest.approx(0.340, abs=0.002)  # how much what is wanted varies
    assert fell < 0.28
    assert fell_more < 0.1


def thirty(said: str, folder: Path) -> None:
    assert "30 numbers are drawn, 13 of them are weights and biases" in said
    assert numbers("gradients of W1, first row:", said) == numbers("gradients of b1:", said)
    assert "[0.0, 1.0, 1.0, 0.0]" in said


def hooks(said: str, folder: Path) -> None:
    assert "'float32': 24960, 'float16': 12480" in said
    assert "gradient of W1, compared with before: 2.0" in said
    assert "gradient of W2, compared with before: 1.0" in said
    plain, clipped = (float(far) for far in re.findall(r"second half: ([\d.]+)", said))
    assert plain > 3 * clipped


def both_ways(said: str, folder: Path) -> None:
    column, row = numbers("column 0, forward:", said), numbers("row 0, reverse:", said)
    assert column[0] == pytest.approx(row[0], rel=1e-5)
    tangent, gradient = numbers("tangent of y:", said), numbers("gradient of y[0]:", said)
    assert tangent == pytest.approx(column, rel=1e-5)
    assert gradient == pytest.approx(row, rel=1e-5)
    for line in ("largest difference:", "asymmetry:"):
        assert float(said.split(line)[1].split()[0]) < 1e-5
    assert re.findall(r"needs +([\d.]+) times", said) == ["0.004", "250.000", "1.000"]
    page = (folder / "forward_or_reverse.html").read_text()
    assert '"kind":"jacrev"' in page
    assert "vmap, 2 lanes" in page


CHECKS = {
    "1": gradients,
    "2": chain_rule,
    "3": graphs,
    "4": mistakes,
    "5": vanishing,
    "6": thirty,
    "7": hooks,
    "8": both_ways,
}
"""What the text of a notebook says of its numbers."""
