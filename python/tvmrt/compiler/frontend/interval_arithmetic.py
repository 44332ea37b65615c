"""Interval arithmetic on numbers computed from sizes, in the network's own types.

Rounding is monotonic. Interval ends that are rounded like the network's numbers therefore bound all
numbers between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import product
from typing import Any

import numpy as np

from tvmrt.compiler.ir.extent import Extent, Quotient, Symbol, is_unbounded

MAX_CELLS = 1 << 16  # number of parts of the size ranges; each has its own bounds

Interval = tuple[np.ndarray, np.ndarray]
Sizes = Mapping[str, Any]


def cells(symbols: Collection[Symbol]) -> tuple[Sizes, Sizes]:
    """Return the lowest and the highest sizes of the cells that partition all sizes."""
    ordered = sorted(symbols, key=lambda s: s.name)
    each = max(int(MAX_CELLS ** (1 / max(len(ordered), 1))), 1)
    if each == 1:  # one cell; numpy has no axis for each of many symbols
        return {s.name: np.array([s.low]) for s in ordered}, {
            s.name: np.array([s.high]) for s in ordered
        }
    lows, highs = [], []
    for symbol in ordered:
        count = symbol.high - symbol.low + 1
        starts = symbol.low + np.unique(np.arange(each + 1) * count // each)[:-1]
        lows.append(starts)
        highs.append(np.append(starts[1:] - 1, symbol.high))
    if is_unbounded(*(s.extent for s in ordered)):  # products of sizes overflow integers
        lows, highs = ([ends.astype(np.float64) for ends in each] for each in (lows, highs))
    names = [symbol.name for symbol in ordered]
    low, high = (np.meshgrid(*ends, indexing="ij") for ends in (lows, highs))
    return dict(zip(names, low)), dict(zip(names, high))


def extent_interval(extent: Extent, low: Sizes, high: Sizes) -> Interval:
    """Return bounds of an extent for each cell."""
    lower = upper = 0
    for atoms, factor in extent.terms:
        ends = [_atom(atom, low, high) for atom in atoms]
        down = up = 1
        for small, large in ends:  # atoms are never negative
            down, up = down * small, up * large
        lower = lower + factor * (down if factor > 0 else up)
        upper = upper + factor * (up if factor > 0 else down)
    return np.asarray(lower), np.asarray(upper)


def _atom(atom: Any, low: Sizes, high: Sizes) -> Interval:
    if isinstance(atom, Symbol):
        return low[atom.name], high[atom.name]
    lower, upper = extent_interval(atom.number, low, high)
    if isinstance(atom, Quotient):
        return np.maximum(lower, 0) // atom.divisor, upper // atom.divisor
    return np.maximum(lower, 0), np.maximum(upper, 0)


# Rules: from the numpy function of an operator and bounds of its operands to its bounds.


def _apply_increasing(function: Callable, *operands: Interval) -> Interval:
    return function(*(o[0] for o in operands)), function(*(o[1] for o in operands))


def _apply_decreasing(function: Callable, *operands: Interval) -> Interval:
    return function(*(o[1] for o in operands)), function(*(o[0] for o in operands))


def _sub(function: Callable, a: Interval, b: Interval) -> Interval:
    return function(a[0], b[1]), function(a[1], b[0])


def _corners(function: Callable, a: Interval, b: Interval) -> Interval:
    ends = [function(x, y) for x, y in product(a, b)]
    return np.minimum.reduce(np.broadcast_arrays(*ends)), np.maximum.reduce(
        np.broadcast_arrays(*ends)
    )


def _div(function: Callable, a: Interval, b: Interval) -> Interval:
    low, high = _corners(function, a, b)
    nonzero = (b[0] > 0) | (b[1] < 0)
    return np.where(nonzero, low, -np.inf), np.where(nonzero, high, np.inf)


def _abs(function: Callable, a: Interval) -> Interval:
    low, high = function(a[0]), function(a[1])
    inside = (a[0] <= 0) & (a[1] >= 0)
    return np.where(inside, 0, np.minimum(low, high)).astype(low.dtype), np.maximum(low, high)


def _less(function: Callable, a: Interval, b: Interval) -> Interval:
    return function(a[1], b[0]), function(a[0], b[1])


def _greater(function: Callable, a: Interval, b: Interval) -> Interval:
    return function(a[0], b[1]), function(a[1], b[0])


def _equal(function: Callable, a: Interval, b: Interval) -> Interval:
    one = (a[0] == a[1]) & (b[0] == b[1]) & (a[0] == b[0])
    return one, (a[0] <= b[1]) & (b[0] <= a[1])


def _where(function: Callable, c: Interval, a: Interval, b: Interval) -> Interval:
    low = function(c[0], a[0], function(c[1], np.minimum(a[0], b[0]), b[0]))
    high = function(c[0], a[1], function(c[1], np.maximum(a[1], b[1]), b[1]))
    return low, high


INTERVALS: dict[str, Callable[..., Interval]] = {
    "abs": _abs,
    "add": _apply_increasing,
    "cast": _apply_increasing,
    "ceil": _apply_increasing,
    "div": _div,
    "equal": _equal,
    "floor": _apply_increasing,
    "greater": _greater,
    "greater_equal": _greater,
    "less": _less,
    "less_equal": _less,
    "logical_and": _apply_increasing,
    "logical_not": _apply_decreasing,
    "logical_or": _apply_increasing,
    "max": _apply_increasing,
    "min": _apply_increasing,
    "mul": _corners,
    "neg": _apply_decreasing,
    "relu": _apply_increasing,
    "round": _apply_increasing,
    "sign": _apply_increasing,
    "sqrt": _apply_increasing,
    "sub": _sub,
    "where": _where,
}
