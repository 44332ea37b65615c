"""Prefix and suffix of symbols of generated C; this module imports nothing."""

from __future__ import annotations

PACKED_SUFFIX = "_packed"  # suffix of packed functions after their operator's symbol


def prefix_of(module_name: str) -> str:
    """Return ``tvmgen_<name>``, the prefix of every symbol."""
    return f"tvmgen_{module_name}" if module_name else "tvmgen"
