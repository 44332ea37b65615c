"""Integer division and multiples, rounded up."""

from __future__ import annotations

from .extent import Whole


def ceil_div(a: Whole, b: int) -> Whole:
    """Return a / b, rounded up; b is positive."""
    return (a + b - 1) // b


def round_up(n: Whole, unit: int) -> Whole:
    """Return n rounded up to a multiple of a positive unit."""
    return ceil_div(n, unit) * unit
