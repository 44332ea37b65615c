"""Tables as data, before printing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Printed headings of columns whose names are JSON keys.
HEADINGS = {
    "has": "capacity", "at least": "lower bound", "gap": "above bound", "weights in it": "weights",
    "whose": "provided by", "least": "minimum", "most": "maximum",
    "instructions more": "extra instructions", "multiply-adds twice": "repeated multiply-adds",
    "layers computed by rows": "fused layers",
}  # fmt: skip


@dataclass
class Table:
    """Rows of equal length with column names; columns in ``left`` are text, others numbers."""

    columns: Sequence[str]
    rows: list[Sequence[Any]]
    left: Sequence[str] = ()
