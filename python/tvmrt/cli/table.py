"""A table as data, before it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class Table:
    """Rows of equal length under named columns; columns in ``left`` hold words, others numbers."""

    columns: Sequence[str]
    rows: list[Sequence[Any]]
    left: Sequence[str] = ()
