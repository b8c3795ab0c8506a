"""Every internal link leads somewhere, every picture is there, and none is shown unexplained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import CHECKOUT, DOCS, Link, links, problem, written

IMAGES = DOCS / "images"


def test_internal_links_and_images_exist() -> None:
    wrong = [told for page in written() for link in links(page) if (told := problem(link))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "target", ["nowhere.md", "guide/nowhere.md#first", "#no-such-heading", "../../outside.md"]
)
def test_a_dead_link_is_found(target: str) -> None:
    assert problem(Link(CHECKOUT / "README.md", target, image=False, line=1))


def test_links_in_code_are_no_links() -> None:
    text = "[a](b.md) `[c](d.md)`\n```python\n[e](f.md)\n```\n![g](h.png)\n"
    found = [(link.target, link.image) for link in links(CHECKOUT / "README.md", text)]
    assert found == [("b.md", False), ("h.png", True)]


def test_every_picture_is_shown_and_says_what_was_checked_in_it() -> None:
    pictures = sorted(path.name for path in IMAGES.glob("*.png"))
    explained = (IMAGES / "README.md").read_text() if pictures else ""
    shown = {Path(link.target).name for page in written() for link in links(page) if link.image}
    assert shown == set(pictures)
    silent = [name for name in pictures if not re.search(rf"{re.escape(name)}\b.*\w", explained)]
    assert not silent, f"docs/images/README.md does not say what was checked in {silent}"
