"""Axes that a Reshape merges from several axes, or splits from one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from .axis_uses import Axis, constant, union

MAX_FACTORS = 64  # of an extent; above, it is unknown


@dataclass
class AxisExtent:
    """The extent of one or more axes: a number times extents of symbolic dimensions.

    ``dims`` counts how often each dimension, reduced by its windows, is a factor.
    """

    number: Fraction
    dims: Counter[tuple[str, Fraction]]

    def __mul__(self, other: AxisExtent) -> AxisExtent:
        return AxisExtent(self.number * other.number, self.dims + other.dims)

    def divided_by(self, other: AxisExtent) -> AxisExtent | None:
        """Return the quotient; None if the other one has a dimension that this one lacks."""
        if not other.number or other.dims - self.dims:
            return None
        return AxisExtent(self.number / other.number, self.dims - other.dims)

    def axis(self) -> Axis:
        """Return an axis of this extent."""
        if not self.dims:
            whole = self.number.denominator == 1 and self.number >= 0
            return constant(int(self.number) if whole else None)
        parts = [_open_axis(*each, Fraction(1)) for each in sorted(self.dims.elements())]
        parts[0] = _open_axis(*min(self.dims), self.number)
        return parts[0] if len(parts) == 1 else union(parts).as_product_of(parts)


def _open_axis(name: str, window: Fraction, number: Fraction) -> Axis:
    """Return an axis with ``number`` elements per element of a dimension."""
    return Axis(frozenset([name]), 1 / number if number else Fraction(1), window)


def extent_of(axes: Iterable[Axis]) -> AxisExtent | None:
    """Return the product of the extents of some axes; None if one of them is unknown."""
    result = AxisExtent(Fraction(1), Counter())
    for axis in axes:
        if axis.parts:
            part = extent_of(axis.parts)
        elif axis.name is not None and axis.step:
            part = AxisExtent(1 / axis.step, Counter([(axis.name, axis.window)]))
        elif not axis.dims and axis.size is not None:
            part = AxisExtent(Fraction(axis.size), Counter())
        else:
            part = None
        if part is None:
            return None
        result = result * part
        if sum(result.dims.values()) > MAX_FACTORS:
            return None
    return result


def merge_axes(axes: Sequence[Axis]) -> Axis:
    """Merge several adjacent axes into one."""
    if sum(1 for axis in axes if axis.dims or axis.size != 1) == 1:
        return next(axis for axis in axes if axis.dims or axis.size != 1)
    whole = extent_of(axes)
    if whole is not None and (whole.number or not whole.dims):
        return whole.axis()
    return union(axes).inexact() if any(axis.dims for axis in axes) else constant(None)


def inferred_axis(axes: Sequence[Axis], found: Sequence[Axis]) -> Axis:
    """Return the axis that a Reshape infers (-1): the original axes divided by the others."""
    before, after = extent_of(axes), extent_of(found)
    if before is not None and after is not None:
        remaining = before.divided_by(after)
        if remaining is not None and (remaining.number or not remaining.dims):
            return remaining.axis()
    taken = {name for axis in found for name in axis.dims}
    left = [axis for axis in axes if axis.dims and not axis.dims & taken]
    if len(left) == 1:
        return left[0].inexact()
    return union(left).inexact() if left else constant(None)
