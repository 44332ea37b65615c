"""Whole numbers rounded up."""

from __future__ import annotations

from .extent import Whole


def ceil_div(a: Whole, b: int) -> Whole:
    """a / b, rounded up; b is positive."""
    return (a + b - 1) // b


def round_up(n: Whole, unit: int) -> Whole:
    """The next multiple of a positive unit."""
    return ceil_div(n, unit) * unit
