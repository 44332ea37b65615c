"""Bounds of dynamic dimensions, which may have no upper bound, and moderate sizes for examples."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

NO_BOUND = 2**31 - 1  # what a library records as the maximum of a dimension without a bound
EXAMPLE_SIZE = 32  # of a dimension without an upper bound, in generated inputs
_TERM = re.compile(r"([+-])([^+-]*)")
_STEP = re.compile(r"_by_(\d+)")

Bounds = Mapping[str, Sequence[int]]  # minimum and maximum by name, as a library records them


def is_open(high: int, name: str = "") -> bool:
    """Return whether a dimension of this name and recorded maximum has no upper bound. A
    dimension may count steps, such as the multiples of 16 in ``height_by_16``."""
    return high >= NO_BOUND // step_of(name) - 1


def step_of(name: str) -> int:
    """Return how many elements a dimension counts as one: 16 for ``height_by_16``."""
    step = 1
    for each in _STEP.findall(name):
        step *= int(each) or 1
    return step


def public_bounds(bounds: Bounds) -> dict[str, tuple[int, int | None]]:
    """Return minimum and maximum by name, with the maximum None if there is none."""
    return {
        name: (low, None if is_open(high, name) else high) for name, (low, high) in bounds.items()
    }


def example_maximum(name: str, bounds: Sequence[int]) -> int:
    """Return the size for generated inputs: the maximum, or a moderate one if there is none."""
    low, high = bounds
    if not is_open(high, name):
        return high
    return max(low, -(-EXAMPLE_SIZE // step_of(name)))


def value_of(extent: str, sizes: Mapping[str, int]) -> int | None:
    """Return the value of an extent such as ``batch``, ``(height_by_16 * 16)`` or ``(past + seq)``;
    None if it is neither a sum nor a product of known dimensions."""
    if extent in sizes:
        return sizes[extent]
    total = 0
    for sign, term in _TERM.findall("+" + extent.removeprefix("(").removesuffix(")")):
        product = -1 if sign == "-" else 1
        for factor in term.split("*"):
            factor_size = sizes.get(factor.strip(), factor.strip())
            if not str(factor_size).isdigit():
                return None
            product *= int(factor_size)
        total += product
    return total


def bounds_text(name: str, low: int, high: int | None) -> str:
    """Return ``batch = 1..8``, or ``batch >= 1`` without a maximum."""
    return f"{name} >= {low}" if high is None else f"{name} = {low}..{high}"
