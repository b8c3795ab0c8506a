"""Writes the wire format of observe.wire.schema as TypeScript for the front end.

Used by `python -m ag_visual.observe.wire.typescript` and by the test that compares its output with
the committed file.
"""

from __future__ import annotations

import sys

from ag_visual.observe.record.lesson import HIDDEN
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.records import RECORDS

_WIDTH = 100


def _split_note(text: str) -> tuple[str, str]:
    kind, _, note = text.partition(" -- ")
    return kind, note


def _fields(fields: dict[str, str], indent: str) -> list[str]:
    lines = []
    for name, text in fields.items():
        kind, note = _split_note(text)
        if note:
            lines.append(f"{indent}/** {note} */")
        line = f"{indent}{name}: {kind};"
        if len(line) > _WIDTH:
            line = f"{indent}{name}:\n{indent}  | " + kind.replace(" | ", f"\n{indent}  | ") + ";"
        lines.append(line)
    return lines


def _interface(name: str, fields: dict[str, str]) -> list[str]:
    return [f"export interface {name} {{", *_fields(fields, "  "), "}", ""]


def _tables() -> list[str]:
    lines = ["/** Column types of every table, in the order in which they are sent. */"]
    lines.append("export const TABLES = {")
    for table, columns in schema.TABLES.items():
        lines.append(f"  {table}: {{")
        for name, column in columns.items():
            if column.says:
                lines.append(f"    /** {column.says} */")
            lines.append(f"    {name}: '{column.type}',")
        lines.append("  },")
    lines += ["} as const satisfies Record<string, Record<string, ColumnType>>;", ""]
    lines.append("/** Columns that hold ids: of a string or of a site. */")
    lines.append("export const MEANINGS = {")
    for table, columns in schema.TABLES.items():
        pointers = [f"{name}: '{column.of}'" for name, column in columns.items() if column.of]
        if pointers:
            lines.append(f"  {table}: {{")
            lines += [f"    {pointer}," for pointer in pointers]
            lines.append("  },")
    lines += [
        "} as const satisfies Record<string, Record<string, 'string' | 'site'>>;",
        "",
        "export type TableName = keyof typeof TABLES;",
        "",
        "/** One table of one batch: a typed array per column. */",
        "export type Table<N extends TableName> = { rows: number } & {",
        "  [C in keyof (typeof TABLES)[N]]: ColumnArray[(typeof TABLES)[N][C] & ColumnType];",
        "};",
        "",
    ]
    return lines


def _commands() -> list[str]:
    lines = [
        "/** What the page may ask over the control channel. */",
        "export interface Commands {",
    ]
    for name, command in schema.COMMANDS.items():
        lines.append(f"  /** {command.says} */")
        lines.append(f"  {name}: {{")
        if command.arguments:
            lines += ["    args: {", *_fields(command.arguments, "      "), "    };"]
        else:
            lines.append("    args: Record<string, never>;")
        lines += [f"    result: {command.result};", "  };"]
    lines += ["}", "", "export type CommandName = keyof Commands;", ""]
    lines += [
        "export type Reply<C extends CommandName> =",
        "  | { id: string; ok: true; result: Commands[C]['result'] }",
        "  | { id: string; ok: false; error: string };",
        "",
    ]
    return lines


def render() -> str:
    """The whole of extension/src/protocol/schema.ts."""
    types = schema.COLUMN_TYPES
    lines = [
        "// Wire format v1, by `python -m ag_visual.observe.wire.typescript`: change schema.py.",
        "",
        f"export const VERSION = {schema.VERSION};",
        "/** What a u32 column holds where there is nothing. */",
        f"export const NONE = {schema.NONE};",
        f"export const COMM_TARGET = '{schema.COMM_TARGET}';",
        "/** The comm of requests to a kernel without control messages; answers come as events. */",
        f"export const REQUESTS_TARGET = '{schema.REQUESTS_TARGET}';",
        f"export const REQUEST_TYPE = '{schema.REQUEST_TYPE}';",
        f"export const REPLY_TYPE = '{schema.REPLY_TYPE}';",
        "/** In a request's metadata: the page waits for no status of the kernel. */",
        f"export const REPLY_ONLY = '{schema.REPLY_ONLY}';",
        "/** What the kernel publishes when it begins to listen. */",
        f"export const ANNOUNCE_TYPE = '{schema.ANNOUNCE_TYPE}';",
        f"export const RECORDING_FORMAT = '{schema.RECORDING_FORMAT}';",
        "/** Id of the script element of a standalone page that holds its recording. */",
        f"export const RECORDING_ELEMENT = '{schema.RECORDING_ELEMENT}';",
        "/** Batches that may be unacknowledged before the kernel holds back. */",
        f"export const WINDOW = {schema.WINDOW};",
        "/** Columns begin at multiples of this many bytes. */",
        f"export const ALIGNMENT = {schema.ALIGNMENT};",
        "",
        "export type ColumnType = " + " | ".join(f"'{name}'" for name in types) + ";",
        "",
        "export interface ColumnArray {",
        *[f"  {name}: {layout.script};" for name, layout in types.items()],
        "}",
        "",
        "export const ARRAYS = {",
        *[f"  {name}: {layout.script}," for name, layout in types.items()],
        "} as const;",
        "",
        *_tables(),
    ]
    lines += ["/** What a lesson can hide. */", "export const CONTROLS = ["]
    lines += [f"  '{name}'," for name in HIDDEN]
    lines[-1] = lines[-1].rstrip(",")
    lines += ["] as const;", "", "export type Control = (typeof CONTROLS)[number];", ""]
    for name, fields in RECORDS.items():
        lines += _interface(name, fields)
    lines += _commands()
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
