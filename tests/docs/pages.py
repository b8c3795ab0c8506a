"""The documentation's pages as data: their fenced blocks, links and images.

A page is one program: its ```python blocks run in order in one namespace. A block with `>>> ` lines
is a session whose results stand in it; an ```output block says what the block before it prints, the
last line of a traceback and warnings included. A first line `# name.py` makes the block a file of
that name (errors name it). ```ipython blocks are cells for IPython, with its magics,
```py blocks Python that declares ops, for a process of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = CHECKOUT / "docs"

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+)(?P<info>[^`]*)$")
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")
_FILE = re.compile(r"^# (?P<name>[\w-]+\.py)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line of the page on which the text begins."""

    page: Path
    language: str
    text: str
    line: int

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(CHECKOUT) if CHECKOUT in self.page.parents else self.page}"

    @property
    def file(self) -> str | None:
        """The file that the block is, from its first line `# name.py`."""
        found = _FILE.match(self.text.partition("\n")[0])
        return found["name"] if found else None


@dataclass(frozen=True)
class Example:
    """Code and what it prints; None where the page does not show it."""

    code: Block
    output: Block | None


@dataclass(frozen=True)
class Link:
    """A link or an image: the target as it stands in the page."""

    page: Path
    target: str
    image: bool
    line: int


def written() -> list[Path]:
    """Every page that people read: the README, and all of docs/."""
    tops = [CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*tops, *sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)]


def blocks(page: Path, text: str | None = None) -> Iterator[Block]:
    """The fenced blocks of a page in order."""
    lines = (page.read_text(encoding="utf-8") if text is None else text).splitlines()
    start, opened = 0, None
    for number, line in enumerate(lines, 1):
        found = _FENCE.match(line)
        if opened is None:
            if found:
                opened, start = found, number
            continue
        if found and found["fence"].startswith(opened["fence"]) and not found["info"].strip():
            width = len(opened["indent"])
            inside = "\n".join(one[width:] for one in lines[start : number - 1])
            words = opened["info"].split() or [""]
            yield Block(page, words[0], inside + "\n", start + 1)
            opened = None
    if opened is not None:
        raise ValueError(f"{page}, line {start}: the block that begins here does not end")


def examples(page: Path, text: str | None = None, language: str = "python") -> list[Example]:
    """The runnable blocks of a page, each with the output block that follows it."""
    found: list[Example] = []
    before: Block | None = None
    for block in blocks(page, text):
        if block.language == language:
            found.append(Example(block, None))
        elif block.language == "output":
            if before is None or before.language not in ("python", "py", "ipython", "sh"):
                raise ValueError(f"{page}, line {block.line}: output of what?")
            if found and found[-1].code is before:
                found[-1] = Example(before, block)
        before = block
    return found


def links(page: Path, text: str | None = None) -> Iterator[Link]:
    """The links and images of a page, those in fenced blocks left out."""
    text = page.read_text(encoding="utf-8") if text is None else text
    inside = {
        line
        for block in blocks(page, text)
        for line in range(block.line, block.line + block.text.count("\n"))
    }
    for number, line in enumerate(text.splitlines(), 1):
        if number in inside:
            continue
        for found in _LINK.finditer(re.sub(r"`[^`]*`", lambda m: "x" * len(m[0]), line)):
            target = line[found.start("target") : found.end("target")]
            yield Link(page, target, found["image"] == "!", number)


def anchors(page: Path) -> set[str]:
    """The anchors of a page: its headings', as GitHub and MyST make them, and `(name)=`."""
    found: set[str] = set()
    code = {
        line
        for block in blocks(page)
        for line in range(block.line, block.line + block.text.count("\n"))
    }
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if number in code:
            continue
        if named := re.match(r"^\(([\w-]+)\)=$", line):
            found.add(named[1])
        elif heading := re.match(r"^#+ +(.*?) *#*$", line):
            words = re.sub(r"[^\w\- ]", "", heading[1].lower())
            found.add(words.replace(" ", "-"))
    return found


def problem(link: Link) -> str | None:
    """What is wrong with an internal link; None for a good one and for one to the web."""
    if re.match(r"^[a-z]+:", link.target):
        return None
    path, _, anchor = link.target.partition("#")
    target = (link.page.parent / path).resolve() if path else link.page
    where = f"{link.page.relative_to(CHECKOUT)}, line {link.line}"
    if not target.exists():
        return f"{where}: {link.target} does not exist"
    if CHECKOUT not in target.parents:
        return f"{where}: {link.target} lies outside of the repository"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return f"{where}: {path or 'the page'} has no heading #{anchor}"
    return None
