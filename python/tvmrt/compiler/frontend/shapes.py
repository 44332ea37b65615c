"""Shape computations with dynamic extents: inferred axes of a Reshape, ranges of a slice."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes import (
    INT_MAX,
    Extent,
    Quotient,
    SymInt,
    exact_quotient,
    sym_max,
    sym_min,
    symbols_of,
    upper_bound,
)
from tvmrt.compiler.ir.sizes.undecided import UndecidedExtent, deciding_by


def default_window(rank: int, **others: Any) -> dict:
    """Return attributes of a window with strides of 1, without padding, but for ``others``."""
    ones, zeros = (1,) * rank, (0,) * rank
    plain = {"strides": ones, "dilations": ones, "pads_before": zeros, "pads_after": zeros}
    return {**plain, **others}


def infer_extent(x: Value, others: Sequence[SymInt]) -> SymInt | None:
    """Return the extent that completes the others to x's elements; None if there is none. If
    divisibility depends on dynamic sizes, it is the quotient for divisible ones."""
    product = prod(others)
    if not symbols_of(product):
        return None if product == 0 else _exact_quotient(x.type.size, product)
    # an extent in both shapes may be 0, so divide without it
    left = list(x.shape)
    for n in others:
        if n in left:
            left.remove(n)
            product = exact_quotient(product, n)
    return _exact_quotient(prod(left), product) if product != 0 else None


def _exact_quotient(number: SymInt, divisor: SymInt) -> SymInt | None:
    result = exact_quotient(number, divisor)
    if result is not None or not isinstance(number, Extent):
        return result
    if isinstance(divisor, int):
        return number // divisor if divisor > 0 else None
    # for axis / k, a part of an axis in k equal ones, multiply by k and divide by the axis
    parts = {a for atoms, _ in divisor.terms for a in atoms if isinstance(a, Quotient)}
    for part in parts:
        cofactor = exact_quotient(divisor, Extent({(part,): 1}))
        if cofactor is not None:
            return exact_quotient(number * part.divisor, part.number * cofactor)
    return None


def slice_range(extent: SymInt, start: SymInt, end: SymInt, step: int) -> tuple[SymInt, SymInt]:
    """Return the first index of a slice and the number of its elements."""
    if step < 0:
        # unlike in Python, a start before the first element is that element
        first, last = (_clamp_index(n, extent, -1) for n in (start, end))
        first = sym_max(first, 0)
        count = sym_min(ceil_div(sym_max(first - last, 0), -step), extent)
        return (first if upper_bound(count) else 0), count
    if not symbols_of(extent, start, end):
        indices = range(extent)[start:end:step]
        return (indices.start if indices else 0), len(indices)
    first, last = (_clamp_index(n, extent) for n in (start, end))
    return first, ceil_div(sym_max(last - first, 0), step)


def _clamp_index(index: SymInt, extent: SymInt, shift: int = 0) -> SymInt:
    """Return a non-negative index, clamped to ``shift`` .. ``extent + shift``."""
    if isinstance(index, int) and index >= INT_MAX:
        return extent + shift  # each run checks that no extent is larger
    try:
        with nullcontext() if shift else deciding_by(None):
            from_end = index < 0
    except UndecidedExtent:
        is_negative = sym_max(-index, 0) - sym_max(-index - 1, 0)  # 1 or 0
        return sym_min(sym_max(index, 0), extent) + is_negative * sym_max(extent + index, 0)
    if from_end:
        return sym_max(extent + index, shift)
    return sym_min(index, extent + shift)
