"""Tables as data, before printing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class Table:
    """Rows of equal length with column names; columns in ``left`` are text, others numbers."""

    columns: Sequence[str]
    rows: list[Sequence[Any]]
    left: Sequence[str] = ()
