"""What symbols of generated C begin and end with; to import this costs no time."""

from __future__ import annotations

PACKED_ENDING = "_packed"  # what packed functions have behind their operator's symbol


def prefix_of(module_name: str) -> str:
    """``tvmgen_<name>``, the prefix of every symbol."""
    return f"tvmgen_{module_name}" if module_name else "tvmgen"
