"""What installed packages offer to this one."""

from __future__ import annotations

from typing import Any


def entry_points(group: str) -> list[Any]:
    """The entry points of a group; nothing of their packages is loaded yet."""
    import importlib.metadata  # slow, and seldom needed

    found: Any = importlib.metadata.entry_points()
    if hasattr(found, "select"):
        return list(found.select(group=group))
    return list(found.get(group, []))  # Python 3.9
