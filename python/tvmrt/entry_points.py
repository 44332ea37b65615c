"""Entry points of installed packages."""

from __future__ import annotations

from typing import Any


def entry_points(group: str) -> list[Any]:
    """Return the entry points of a group, without loading their packages."""
    import importlib.metadata  # slow and rarely needed

    found: Any = importlib.metadata.entry_points()
    if hasattr(found, "select"):
        return list(found.select(group=group))
    return list(found.get(group, []))  # Python 3.9
