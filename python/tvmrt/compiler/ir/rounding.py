"""Integer division and multiples, rounded up."""

from __future__ import annotations

from .sizes import SymInt


def ceil_div(a: SymInt, b: int) -> SymInt:
    """Return a / b, rounded up; b is positive."""
    return (a + b - 1) // b


def round_up(n: SymInt, unit: int) -> SymInt:
    """Return n rounded up to a multiple of a positive unit."""
    return ceil_div(n, unit) * unit
