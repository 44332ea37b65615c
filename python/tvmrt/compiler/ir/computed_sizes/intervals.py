"""Bounds of the results of pointwise operators.

An operator's own definition computes the ends: at those of the operands' intervals between which,
by ``Op.monotonic``, all its results are. Ends are arrays, so that one call computes many intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import product
from operator import or_
from typing import Any

import numpy as np

from ..op import Op

Ends = tuple[np.ndarray, np.ndarray]  # of intervals, both included
Compute = Callable[..., np.ndarray]  # the operator at one number of each operand


def result_interval(op: Op, operands: Sequence[Ends], compute: Compute) -> Ends | None:
    """Return bounds of a pointwise operator's result; None if they are not known.

    An end is NaN or infinite if the operator has no bound there. Rounding is monotonic: if
    ``compute`` rounds like the network, the ends bound the network's own numbers.
    """
    if op.name == "equal":
        return _equal(*operands)
    if not op.monotonic:
        return None
    low, high = _at_ends(compute, operands, op.monotonic)
    if "/" not in op.monotonic:
        return low, high
    least, most = operands[op.monotonic.index("/")]
    nonzero = (least > 0) | (most < 0)
    return np.where(nonzero, low, -np.inf), np.where(nonzero, high, np.inf)


def wide_interval(op: Op, attrs: dict, operands: Sequence[Ends], is_int: bool) -> Ends | None:
    """Return bounds in exact arithmetic, where 0 times anything is 0, as float64; whole numbers for
    a result that is an integer. None if they are not known."""

    def compute(*ends: np.ndarray) -> np.ndarray:
        interval: Any = [ends[0]] if op.name == "cast" else op.evaluate(ends, attrs)
        has_zero = reduce(or_, (end == 0 for end in ends))
        return np.where(np.isnan(interval[0]) & has_zero, 0, interval[0])

    interval = result_interval(op, operands, compute)
    return (
        (np.trunc(interval[0]), np.trunc(interval[1]))
        if interval is not None and is_int
        else interval
    )


def _at_ends(compute: Compute, operands: Sequence[Ends], signs: str) -> Ends:
    low, high = (
        reduce(function, (compute(*ends) for ends in _ends(operands, signs, is_low)))
        for function, is_low in ((np.minimum, True), (np.maximum, False))
    )
    return low, high


def _ends(operands: Sequence[Ends], signs: str, is_low: bool) -> Iterator[tuple[np.ndarray, ...]]:
    """Return the numbers of the operands at which the result may be lowest, or highest."""
    choices: list[Sequence[np.ndarray]] = []
    for (low, high), sign in zip(operands, signs):
        if sign in "*/":
            choices.append((low, high))
        elif sign == "0":
            choices.append((low, high, np.clip(np.zeros_like(low), low, high)))
        else:
            choices.append((low if (sign == "+") == is_low else high,))
    return product(*choices)


def _equal(a: Ends, b: Ends) -> Ends:
    one = (a[0] == a[1]) & (b[0] == b[1]) & (a[0] == b[0])
    return one, (a[0] <= b[1]) & (b[0] <= a[1])
