"""Whole numbers rounded up."""

from __future__ import annotations


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up; b is positive."""
    return -(-a // b)


def round_up(n: int, unit: int) -> int:
    """The next multiple of a positive unit."""
    return ceil_div(n, unit) * unit
