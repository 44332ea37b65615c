"""Integers that are made of extents, element by element: what all kinds of files do alike.

A shape that a network computes is followed as long as its elements are integers and extents; then
whoever needs a shape gets extents, not a tensor of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.extent import Extent, Undecided, bounds

MOST_ELEMENTS = 64  # of a tensor that is followed: shapes are short

Elements = np.ndarray  # of int and Extent


def elements_of(value: Value | None, known: Mapping[Value, Elements]) -> Elements | None:
    """The elements of an operand where all are known and whole; ``known``: those followed."""
    if value is None:
        return None
    if value in known:
        return known[value]
    if value.data is None or value.data.dtype.kind not in "iub" or value.data.size > MOST_ELEMENTS:
        return None
    return np.asarray(value.data.tolist(), object)


def followed(rule: Callable, ctx: Any, operands: list) -> list[Elements] | None:
    """The results that a rule makes of operands; None where only the run knows them."""
    try:
        found = rule(ctx, *operands)
    except Undecided:
        return None
    if found is None:
        return None
    return [np.asarray(part, object) for part in (found if isinstance(found, list) else [found])]


# Rules: of an operator and the elements of its operands, those of its result; None where they are
# not known.


def each(function: Callable) -> Callable:
    """A rule element by element, with broadcasting."""
    pairs = np.frompyfunc(function, 2, 1)

    def rule(ctx: Any, *operands: Elements) -> Elements:
        total = operands[0]
        for operand in operands[1:]:
            total = np.asarray(pairs(total, operand), object)
        return total

    return rule


def truncated(a, b):
    """A quotient rounded towards zero."""
    if a >= 0:
        return a // b
    return -((-a) // b)


def equal(a, b):
    """1, 0, or nothing that can be told before the run."""
    if a == b:
        return 1
    low, high = bounds(a - b)
    if low > 0 or high < 0:
        return 0
    raise Undecided(f"whether {a!r} is {b!r} is known only when the network runs")


def chosen(ctx: Any, condition: Elements, x: Elements, y: Elements) -> Elements | None:
    """The rule of an operator that takes one or the other, element by element."""
    if any(isinstance(c, Extent) for c in condition.reshape(-1)):
        return None
    return np.where(condition.astype(bool), x, y)


def taken(x: Elements, indices: Elements, axis: int) -> Elements | None:
    """The elements at known places."""
    if any(isinstance(i, Extent) for i in indices.reshape(-1)):
        return None
    return np.take(x, indices.astype(np.int64), axis)
