"""The guide's list of keys is the panel's own."""

from __future__ import annotations

import re

from .pages import CHECKOUT, DOCS

_KEY = re.compile(r"shown: '(?P<shown>[^']+)',\s*does: '(?P<does>[^']+)'")
_ROW = re.compile(r"^\| (?P<shown>[^|]+) \| (?P<does>[^|]+) \|$", re.MULTILINE)


def test_the_guide_lists_the_panels_keys() -> None:
    panel = (CHECKOUT / "extension/src/panels/keys.tsx").read_text()
    keys = [(key["shown"], key["does"]) for key in _KEY.finditer(panel)]
    assert len(keys) > 10
    page = (DOCS / "guide/inspector.md").read_text()
    section = page.partition("## Keys")[2].partition("\n## ")[0]
    rows = [(row["shown"], row["does"]) for row in _ROW.finditer(section)]
    assert rows[0] == ("key", "does")
    assert rows[1:] == keys
