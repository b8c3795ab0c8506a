"""A repair as an edit of the user's cell or file: which lines it replaces, and by what.

Layout and comments around the repaired statement stay; what does not fit a whole statement (several
on one line, several lines of code in the middle of one) is left to the reader.
"""

from __future__ import annotations

import linecache
from typing import Any

from ag_visual.core.diagnosis.source_rewrite import SourceLocation
from ag_visual.core.source import Site
from ag_visual.observe.wire.batch import site_json


def edit_of(fields: dict[str, Any]) -> dict[str, Any] | None:
    """The `Edit` record of a problem's repair, None where its line alone does not do it."""
    repair = fields.get("repair") or {}
    at, code = repair.get("at") or "", repair.get("code")
    if not at or not code:
        return None
    writes = fields.get("writes") or [{"site": fields.get("where")}]
    saved = fields.get("saved") or {}
    site = saved.get("site") if at in ("save", "before save") else writes[0]["site"]
    if not isinstance(site, Site) or not site.line:
        return None
    line = repair["line"] if at in ("before", "replace") else site.line
    source = linecache.getlines(site.file)
    if not 0 < line <= len(source):
        return None
    text = site.text if line == site.line else ""
    statement = SourceLocation(text, source[line - 1], "".join(source), line).statement
    first = getattr(statement, "lineno", 0)
    last = getattr(statement, "end_lineno", None) or 0
    if statement is None or not first <= line <= last <= len(source):
        return None
    was = [one.rstrip("\r\n") for one in source[first - 1 : last]]
    start = len(was[0].encode()[: statement.col_offset].decode())
    end = len(was[-1].encode()[: statement.end_col_offset].decode())
    before, after = was[0][:start], was[-1][end:]
    new = code.splitlines()
    if before.strip():
        if len(new) > 1 or at.startswith("before"):
            return None
        becomes = [before + new[0] + after]
    elif at.startswith("before"):
        becomes = [*(before + one for one in new), *was]
    else:
        becomes = [before + one for one in new]
        if after.strip().startswith("#") or not after.strip():
            becomes[-1] += after
        else:
            return None
    return {"site": site_json(site), "first": first, "was": was, "becomes": becomes}
