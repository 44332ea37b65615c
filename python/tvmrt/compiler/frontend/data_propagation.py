"""Shape inference on values: integer tensors whose elements are integers and extents.

A shape that a network computes is tracked as long as its elements are integers and extents. A shape
operand is then a list of extents rather than a run-time tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.extent import Extent, UndecidedExtent, bounds

MAX_TRACKED_ELEMENTS = 64  # maximum size of a tracked tensor: shapes are short

Elements = np.ndarray  # elements are int or Extent


def known_elements(value: Value | None, known: Mapping[Value, Elements]) -> Elements | None:
    """Return an operand's elements if all are known integers; ``known``: the tracked tensors."""
    if value is None:
        return None
    if value in known:
        return known[value]
    if (
        value.data is None
        or value.data.dtype.kind not in "iub"
        or value.data.size > MAX_TRACKED_ELEMENTS
    ):
        return None
    return np.asarray(value.data.tolist(), object)


def apply_rule(rule: Callable, ctx: Any, operands: list) -> list[Elements] | None:
    """Return the results of a rule; None if they are known only at run time."""
    try:
        found = rule(ctx, *operands)
    except UndecidedExtent:
        return None
    if found is None:
        return None
    return [np.asarray(part, object) for part in (found if isinstance(found, list) else [found])]


# Rules: from an operator and the elements of its operands to the elements of its result; None if
# these are not known.


def elementwise(function: Callable) -> Callable:
    """Return a rule that applies a function element by element, with broadcasting."""
    pairs = np.frompyfunc(function, 2, 1)

    def rule(ctx: Any, *operands: Elements) -> Elements:
        total = operands[0]
        for operand in operands[1:]:
            total = np.asarray(pairs(total, operand), object)
        return total

    return rule


def divide_truncated(a, b):
    """Return the quotient rounded towards zero."""
    if a >= 0:
        return a // b
    return -((-a) // b)


def equal(a, b):
    """Return 1 or 0. Raises UndecidedExtent if this is known only at run time."""
    if a == b:
        return 1
    low, high = bounds(a - b)
    if low > 0 or high < 0:
        return 0
    raise UndecidedExtent(f"whether {a!r} is {b!r} is known only when the network runs")


def where(ctx: Any, condition: Elements, x: Elements, y: Elements) -> Elements | None:
    """Select elements of x or y by a condition; the rule of ``Where``."""
    if any(isinstance(c, Extent) for c in condition.reshape(-1)):
        return None
    return np.where(condition.astype(bool), x, y)


def take(x: Elements, indices: Elements, axis: int) -> Elements | None:
    """Return the elements at known indices."""
    if any(isinstance(i, Extent) for i in indices.reshape(-1)):
        return None
    return np.take(x, indices.astype(np.int64), axis)
