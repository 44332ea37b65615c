"""Describe the dynamic dimensions of a network."""

from __future__ import annotations

from typing import Any

from tvmrt.cli.table import Table


def tables(said: dict[str, Any], behind: str = "") -> dict[str, Table]:
    """Return tables of the dynamic dimensions and of their tensors; ``behind`` ends the titles.

    Raises ValueError, TypeError, KeyError or AttributeError for malformed data.
    """
    rows = [(name, low, high) for name, (low, high) in said["dims"].items()]
    tensors = [
        (kind, name, tuple(shape))
        for kind in ("inputs", "outputs")
        for name, shape in said[kind].items()
    ]
    columns = ("of", "tensor", "shape")
    return {
        f"dimensions{behind}": Table(("dimension", "least", "most"), rows),
        f"shapes{behind}": Table(columns, tensors, left=columns),
    }
