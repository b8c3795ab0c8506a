"""The wire format's one source: the generated TypeScript, its own vocabulary, its limits."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ag_visual.observe.wire import schema
from ag_visual.observe.wire.records import RECORDS
from ag_visual.observe.wire.typescript import render

GENERATED = Path(__file__).parents[2] / "extension" / "src" / "protocol" / "schema.ts"


def test_committed_typescript_is_what_the_schema_generates():
    assert GENERATED.read_text(encoding="utf-8") == render(), (
        "run: python -m ag_visual.observe.wire.typescript > extension/src/protocol/schema.ts"
    )


def test_a_changed_schema_changes_the_typescript(monkeypatch):
    monkeypatch.setitem(schema.TABLES, "freed", {"seq": schema.Column("i32")})
    assert render() != GENERATED.read_text(encoding="utf-8")


def test_every_named_type_is_described():
    expressions = [text for fields in RECORDS.values() for text in fields.values()]
    for command in schema.COMMANDS.values():
        expressions += [*command.arguments.values(), command.result]
    for text in expressions:
        kind = re.sub(r"'[^']*'", "", text.partition(" -- ")[0])
        for name in re.findall(r"[A-Za-z]+", kind):
            assert name in {"string", "number", "boolean", "null", "Record", *RECORDS}


def test_layouts_agree_with_numpy():
    for layout in schema.COLUMN_TYPES.values():
        assert np.dtype("<" + layout.letter).itemsize == layout.itemsize
        assert schema.ALIGNMENT % layout.itemsize == 0


def test_ids_of_strings_and_sites_are_unsigned():
    for columns in schema.TABLES.values():
        for column in columns.values():
            assert column.of == "" or column.type == "u32"
