"""The page on declarations: it runs, names every option, and its tab fits the panel's table."""

from __future__ import annotations

import ast
import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path

from ag_visual.dispatch.record import Op

from .pages import CHECKOUT, DOCS, blocks, examples

PAGE = DOCS / "notes" / "anatomy-of-an-op.md"
PANELS = CHECKOUT / "extension" / "src" / "panels"
_ROW = re.compile(r"^\| `(?P<option>\w+)` \| `(?P<example>[^`]+)` \| [^|]+ \|$", re.MULTILINE)
_RUN = """\
from pathlib import Path
from tests.docs.pages import examples
from tests.docs.run import run_page
run_page(examples(Path({page!r}), language="py"), Path.cwd())
"""


def test_its_examples_run(tmp_path: Path) -> None:
    """In a process of their own, for what they declare would be there in all other tests."""
    assert len(examples(PAGE, language="py")) > 4
    done = subprocess.run(
        [sys.executable, "-c", _RUN.format(page=str(PAGE))],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_option_has_an_example() -> None:
    rows = {row["option"]: row["example"] for row in _ROW.finditer(PAGE.read_text())}
    options = [each.name for each in dataclasses.fields(Op) if each.init and each.name != "table"]
    assert list(rows) == options
    for option, example in rows.items():
        call = ast.parse(f"op({example})", mode="eval").body
        assert isinstance(call, ast.Call)
        assert [keyword.arg for keyword in call.keywords] == [option]


def test_every_option_is_explained_at_its_field() -> None:
    source = ast.parse((CHECKOUT / "ag_visual/dispatch/record.py").read_text())
    [record] = [n for n in source.body if isinstance(n, ast.ClassDef) and n.name == "Op"]
    explained = {
        field.target.id
        for field, text in zip(record.body, record.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
    }
    assert {each.name for each in dataclasses.fields(Op) if each.init} <= explained


def test_its_tab_fits_the_table_of_tabs() -> None:
    table = (PANELS / "tabs.ts").read_text()
    entry = table.partition("interface TabEntry {")[2].partition("\n}")[0]
    fields = {m["name"]: m["optional"] for m in _FIELD.finditer(entry)}
    shown = {block.language: block.text for block in blocks(PAGE)}
    given = set(re.findall(r"^  (\w+):", shown["ts"], re.MULTILINE))
    assert given <= fields.keys()
    assert {name for name, optional in fields.items() if not optional} <= given
    assert "export function Census(): ReactElement" in shown["tsx"]
    assert "Body: Census" in shown["ts"]
    for names, module in re.findall(r"import \{ (\w+) \} from '(\.[^']+)'", shown["tsx"]):
        [file] = (PANELS / module).resolve().parent.glob(f"{Path(module).name}.ts*")
        assert re.search(rf"export function {names}\b", file.read_text())
    assert "export type Tab = 'node' |" in (PANELS / "presenter.ts").read_text()


_FIELD = re.compile(r"^  (?P<name>\w+)(?P<optional>\??): ", re.MULTILINE)
