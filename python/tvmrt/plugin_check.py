"""Check the field types of a plug-in, and the names of those to leave out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

_BY_OPERATOR = ("operators", "tolerances")  # tables whose keys are pairs: domain, operator


def malformed(plugin: Any, tables: Iterable[str]) -> str | None:
    """Return a sentence about a field with a wrong type; None if all are right."""
    for part in ("requires", "servers"):
        value = getattr(plugin, part)
        if isinstance(value, str) or not all(isinstance(each, str) for each in value):
            return f"{part} is {value!r}, not a tuple of texts"
    for table in tables:
        rows = getattr(plugin, table)
        if not isinstance(rows, Mapping):
            return f"{table} is {rows!r}, not a mapping of names to references"
        for key, reference in rows.items():
            parts = key if table in _BY_OPERATOR and isinstance(key, tuple) else (key,)
            texts = all(isinstance(each, str) for each in (*parts, reference))
            if not texts or len(parts) != 1 + (table in _BY_OPERATOR):
                return f"{table} has {key!r}: {reference!r}; give texts, 'module:attribute'"
    return None


def excluded_names(variable: str) -> set[str]:
    """Return the plug-in names that an environment variable excludes (written as "-NAME")."""
    names = [*filter(None, map(str.strip, os.environ.get(variable, "").split(",")))]
    for name in names:
        if not name.startswith("-"):
            raise ValueError(f"{variable}: write -{name} to leave the plug-in {name} out")
    return {name[1:] for name in names}
