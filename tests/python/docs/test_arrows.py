"""Which room of the package imports which: the arrows of docs/explanation/architecture.md."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "python" / "tvmrt"

# What a room may import at module level besides itself; single files of the package go by name.
MAY_IMPORT = {
    "ir": {"error"},
    "frontend": {"error", "ir"},
    "custom": {"error", "ir", "frontend", "libinfo"},
    "transform": {"error", "ir"},
    "planner": {"error", "ir"},
    "codegen": {"error", "ir", "planner", "libinfo"},
    "devices": {"error", "ir", "runtime"},
    "partition": {"error", "ir", "devices"},
    "export": {"error", "ir", "planner", "codegen", "partition", "libinfo"},
    "runtime": {"error", "libinfo", "_ffi", "nd"},
}


def _imported_rooms(file: Path) -> set[str]:
    """Return the rooms that a file imports, wherever in it the import stands."""
    package = ("tvmrt", *file.relative_to(PACKAGE).parts[:-1])
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            names = [f"{module}.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("tvmrt.")}
    return rooms


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_room_imports_only_what_the_arrows_allow(room):
    allowed = MAY_IMPORT[room] | {room, "__version__"}
    wrong = {
        str(file.relative_to(PACKAGE)): rooms - allowed
        for file in (PACKAGE / room).rglob("*.py")
        if (rooms := _imported_rooms(file)) - allowed
    }
    assert not wrong
