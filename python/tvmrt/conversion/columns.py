"""Columns of the tables that models are fitted with, and the codes of their categories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

_SHOWN = 8  # categories in an error text


class Column(NamedTuple):
    """A column. With ``categories``, the network takes the index of a value among them.

    A missing value is the category None; without one, it is NaN if ``missing`` is set. Other values
    are -1 if ``unknown`` is set, else an error. Without ``coded``, the network takes the values
    themselves, and others are errors.
    """

    name: str
    categories: Sequence[Any] | None = None
    unknown: bool = False
    missing: bool = False
    coded: bool = True

    def numbers(self, values: Iterable[Any]) -> np.ndarray[Any, Any]:
        """Return what the network takes for values. Raise TypeError for values without a code."""
        categories = self.categories or ()
        codes = range(len(categories)) if self.coded else categories
        known: dict[Any, float] = dict(zip(categories, map(float, codes)))
        if self.missing:
            known.setdefault(None, np.nan)
        keys = [None if is_missing(each) else each for each in values]
        wrong = [each for each in keys if each not in known]
        if wrong and not self.unknown:
            found = "a missing value" if wrong[0] is None else f"{wrong[0]!r:.40}"
            shown = ", ".join(repr(each) for each in [*known][:_SHOWN] if each is not None)
            more = ", ..." if len(known) > _SHOWN else ""
            raise TypeError(
                f"column {self.name!r} has {found}, which the model does not know; its values are "
                f"{shown}{more}"
            )
        return np.array([known.get(each, -1.0) for each in keys], np.float64)

    def entry(self) -> Any:
        """Return the column for JSON: its name, or a list of all fields."""
        return self.name if self.categories is None else list(self)


def of_entries(entries: Iterable[Any]) -> list[Column]:
    """Return the columns of entries that ``Column.entry`` returned. Raise TypeError for others."""
    columns = [Column(each) if isinstance(each, str) else Column(*each) for each in entries]
    for each in columns:
        if not isinstance(each.name, str) or not isinstance(each.categories, (list, type(None))):
            raise TypeError(f"{each} is not a column")
        each.numbers(each.categories or ())
    return columns


def is_missing(value: Any) -> bool:
    """Return whether an element of a table is missing."""
    return value is None or (
        not isinstance(value, (str, bytes)) and str(value) in ("<NA>", "nan", "NaT")
    )
