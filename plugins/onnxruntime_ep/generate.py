"""Print the C header of the positions that ``positions.ini`` lists.

Usage: ``python generate.py positions.ini``. Each table of onnxruntime becomes a struct of typed
function pointers and a function that fills it; each table of the plug-in an enumeration.
"""

from __future__ import annotations

import re
import sys
from configparser import ConfigParser
from pathlib import Path


def read_positions(path: str | Path) -> dict[str, dict[str, tuple[int, int, str]]]:
    """Return (position, since, signature) by table, such as ``"call OrtApi"``, and name."""
    found = ConfigParser(interpolation=None)
    found.optionxform = str  # type: ignore[assignment, method-assign]  # keep upper case
    found.read_string(Path(path).read_text(encoding="utf-8"))
    tables: dict[str, dict[str, tuple[int, int, str]]] = {}
    for table in found.sections():
        rows = tables[table] = {}
        for name, text in found[table].items():
            position, since, *signature = (part.strip() for part in text.split(",", 2))
            rows[name] = int(position), int(since), "".join(signature)
    return tables


def header(tables: dict[str, dict[str, tuple[int, int, str]]]) -> str:
    """Return the text of the header."""
    signatures = [row[2] for rows in tables.values() for row in rows.values()]
    types = sorted(set(re.findall(r"ort_\w+", " ".join(signatures))))  # opaque
    lines = ["/* Generated from positions.ini by generate.py. */", "#include <string.h>"]
    lines += [f"typedef struct {name} {name};" for name in types]
    for table, rows in tables.items():
        kind, name = table.split()
        lines += _functions(name, rows) if kind == "call" else _slots(name, rows)
    newest = max(since for rows in tables.values() for _, since, _ in rows.values())
    return "\n".join([*lines, f"enum {{ ORT_VERSION_NEEDED = {newest} }};", ""])


def _functions(table: str, rows: dict[str, tuple[int, int, str]]) -> list[str]:
    fields, loads = [], []
    for name, (position, _, signature) in rows.items():
        result, parameters = signature.split("(", 1)
        fields.append(f"  {result.strip()} (*{name})({parameters};")
        loads.append(f"  memcpy(&to->{name}, table + {position}, sizeof(void*));")
    return [
        f"typedef struct {table} {{", *fields, f"}} {table};",
        f"static inline void {table}_load({table}* to, const void* from) {{",
        "  void* const* table = from;", *loads, "}",
    ]  # fmt: skip


def _slots(table: str, rows: dict[str, tuple[int, int, str]]) -> list[str]:
    names = ", ".join(f"{table}_{name} = {position}" for name, (position, _, _) in rows.items())
    return [f"enum {{ {names} }};"]


if __name__ == "__main__":
    print(header(read_positions(sys.argv[1])), end="")
