"""Interval analysis: minimum and maximum of the elements of a value.

A data-dependent dimension has a bound if its data have: clipped numbers, indices, numbers of
elements. The run checks every dimension against its bound, so an interval need not hold for NaN.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from math import ceil, floor, inf, isnan
from typing import Union

import numpy as np

from .data_movement import concat_of
from .extent import bounds, lower_bound, upper_bound
from .graph import Node, Value
from .intervals import result_interval
from .pointwise import PointwiseOp
from .traits import Trait

Number = Union[int, float]
Interval = tuple[Number, Number]

UNKNOWN: Interval = (-inf, inf)
MAX_DEPTH = 100  # of a chain of operators


def interval(value: Value, known: Mapping[Value, Interval]) -> Interval:
    """Return the minimum and maximum of an element, infinite if unknown.

    ``known``: the intervals of values that no operator of this graph computes.
    """
    return _Analysis(known).of(value, 0)


class _Analysis:
    """One traversal of the producers of a value; each value is visited once."""

    def __init__(self, known: Mapping[Value, Interval]) -> None:
        self._intervals = dict(known)

    def of(self, value: Value | None, depth: int) -> Interval:
        if value is None or depth > MAX_DEPTH:
            return UNKNOWN
        if value.data is not None:
            return _of_constant(value.data)
        if value not in self._intervals:
            self._intervals[value] = self._compute(value, depth)
        return self._intervals[value]

    def _compute(self, value: Value, depth: int) -> Interval:
        node = value.producer
        if node is None:
            return _of_type(value)
        if node.op == "topk" and value is node.outputs[0]:
            return self.of(node.inputs[0], depth + 1)
        rule = _RULES.get(node.op)
        if rule is None and node.has(Trait.MOVES_ELEMENTS, Trait.EXTREMUM):
            rule = _first_interval
        if rule is None and isinstance(node.operator, PointwiseOp):
            rule = _pointwise

        def operand(index: int, value: Value | None = None) -> Interval:
            return self.of(node.inputs[index] if value is None else value, depth + 1)

        known = _meet(_of_type(value), node.operator.result_range or UNKNOWN)
        result = rule(node, operand) if rule else UNKNOWN
        return known if any(map(isnan, result)) else _meet(result, known)


def _of_constant(data: np.ndarray) -> Interval:
    if data.dtype.kind not in "biuf" or not data.size:
        return (0, 0) if not data.size else UNKNOWN
    low, high = data.min().item(), data.max().item()
    return UNKNOWN if isnan(low) or isnan(high) else (low, high)


def _of_type(value: Value) -> Interval:
    node, dtype = value.producer, value.dtype
    if dtype.name == "bool":
        return 0, 1
    if node is not None and value in node.outputs:
        rule = _INDEX_RULES.get(node.op)
        result = rule(node, node.outputs.index(value)) if rule else None
        if result is not None:
            return result
    if dtype.is_int and dtype.bits <= 16:
        signed = dtype.name.startswith("int")
        half = 1 << (dtype.bits - 1)
        return (-half, half - 1) if signed else (0, 2 * half - 1)
    return UNKNOWN


def _meet(a: Interval, b: Interval) -> Interval:
    return max(a[0], b[0]), min(a[1], b[1])


def _union(*parts: Interval) -> Interval:
    return min(p[0] for p in parts), max(p[1] for p in parts)


# Results that are indices along an axis.


def _by_unique(node: Node, result: int) -> Interval | None:
    extent = upper_bound(node.outputs[0].shape[0])
    return (0, max(extent - 1, 0)) if result < 2 else (0, extent)


def _by_suppression(node: Node, result: int) -> Interval | None:
    if result:
        return 0, upper_bound(node.attrs["rows"])
    scores = node.inputs[1]
    return (0, max(*map(upper_bound, scores.shape), 1) - 1) if scores is not None else None


def _by_axis(node: Node, result: int) -> Interval | None:
    x = node.inputs[0]
    if x is None:
        return None
    return 0, max(upper_bound(x.shape[node.attrs["axis"]]) - 1, 0)


def _by_extents(node: Node, result: int) -> Interval | None:
    intervals = [bounds(n) for n in node.attrs["values"]]
    return _union(*intervals) if intervals else (0, 0)


def _by_iota(node: Node, result: int) -> Interval | None:
    start, step = node.attrs["start"], node.attrs["step"]
    last = (upper_bound(node.attrs["count"]) - 1) * step
    return lower_bound(start) + min(last, 0), upper_bound(start) + max(last, 0)


def _by_nonzero(node: Node, result: int) -> Interval | None:
    x = node.inputs[0]
    if x is None:
        return None
    return 0, max(*map(upper_bound, x.shape), 1) - 1


def _by_count(node: Node, result: int) -> Interval | None:
    x = node.inputs[0]
    return None if x is None else (0, upper_bound(x.type.size))


_INDEX_RULES: dict[str, Callable[[Node, int], Interval | None]] = {
    "argmax": _by_axis,
    "argmin": _by_axis,
    "topk": _by_axis,
    "extents": _by_extents,
    "iota": _by_iota,
    "count_nonzero": _by_count,
    "nonzero": _by_nonzero,
    "unique": _by_unique,
    "non_max_suppression": _by_suppression,
}

# Results with intervals derived from those of the operands.

Operand = Callable[..., Interval]  # interval of an operand by its index, or of a value


def _first_interval(node: Node, x: Operand) -> Interval:
    return x(0)


def _pointwise(node: Node, x: Operand) -> Interval:
    """Compute the ends by the operator's definition, where 0 times anything is 0."""
    operands = [tuple(np.asarray(end, np.float64) for end in x(i)) for i in range(len(node.inputs))]

    def compute(*ends: np.ndarray) -> np.ndarray:
        found = node.operator.evaluate(ends, node.attrs)[0]  # type: ignore[index]
        has_zero = reduce(operator.or_, (end == 0 for end in ends))
        return np.where(np.isnan(found) & has_zero, 0, found)

    with np.errstate(all="ignore"):
        ends = result_interval(node.operator, operands, compute)  # type: ignore[arg-type]
        if ends is None:
            return UNKNOWN
        if node.outputs[0].dtype.is_int:
            ends = np.trunc(ends[0]), np.trunc(ends[1])
    low, high = (end.item() for end in ends)
    return -inf if isnan(low) else low, inf if isnan(high) else high


def _product(a: Interval, b: Interval) -> Interval:
    ends = [0 if 0 in (p, q) else p * q for p in a for q in b]
    return min(ends), max(ends)


def _round_interval(a: Interval) -> Interval:
    """Return the interval of integers for one of floating-point numbers, for any rounding."""
    low, high = (n if n in (inf, -inf) else f(n) for n, f in ((a[0], floor), (a[1], ceil)))
    return low, high


def _cast_interval(node: Node, x: Operand) -> Interval:
    to = node.outputs[0].dtype
    if to.name == "bool":
        return 0, 1
    source = x(0)
    if not to.is_int:
        return source
    low, high = _round_interval(source)
    half_range = 1 << (to.bits - 1)
    return (low, high) if -half_range <= low and high < half_range else UNKNOWN


def _sum_interval(node: Node, x: Operand) -> Interval:
    operand, result = node.inputs[0], node.outputs[0]
    if operand is None:
        return UNKNOWN
    axes = node.attrs.get("axes", (node.attrs.get("axis"),))
    count = 1
    for axis in axes:
        count *= upper_bound(operand.shape[axis])
    return _product((0, count), x(0)) if result.dtype.name != "bool" else (0, 1)


def _mod_interval(x: Operand, is_floor: bool) -> Interval:
    low, high = x(1)
    if low <= 0:
        return UNKNOWN
    return (0 if is_floor else -high), high


def _max_interval(node: Node, x: Operand) -> Interval:
    """Return the interval of a maximum; over a concatenation it is at least each part's minimum."""
    return _by_parts(node, x, max)


def _min_interval(node: Node, x: Operand) -> Interval:
    return _by_parts(node, x, min)


def _by_parts(node: Node, x: Operand, function: Callable) -> Interval:
    joined = concat_of(node.inputs[0])
    if joined is None or len(joined.outputs[0].shape) != 1:
        return x(0)
    parts = [x(0, v) for v in joined.inputs]
    return function(p[0] for p in parts), function(p[1] for p in parts)


def _take_at_interval(node: Node, x: Operand) -> Interval:
    return x(0) if node.inputs[1] is None else _union(x(0), x(1))


def _pad_interval(node: Node, x: Operand) -> Interval:
    if node.attrs["mode"] != "constant":
        return x(0)
    return _union(x(0), x(1) if len(node.inputs) > 1 else (0, 0))


def _scatter_interval(node: Node, x: Operand) -> Interval:
    return _union(x(0), x(2)) if node.attrs["reduction"] == "none" else UNKNOWN


_RULES: dict[str, Callable[[Node, Operand], Interval]] = {
    "cast": _cast_interval,
    "choice": lambda node, x: _union(x(1), x(2)),
    "concat": lambda node, x: _union(*map(x, range(len(node.inputs)))),
    "cumulative_sum": _sum_interval,
    "floor_mod": lambda node, x: _mod_interval(x, is_floor=True),
    "pad": _pad_interval,
    "reduce_max": _max_interval,
    "reduce_mean": _first_interval,
    "reduce_min": _min_interval,
    "reduce_sum": _sum_interval,
    "scatter_elements": _scatter_interval,
    "scatter_nd": _scatter_interval,
    "softmax": lambda node, x: (-inf, 0) if node.attrs.get("log") else (0, 1),
    "take_at": _take_at_interval,
    "trunc_mod": lambda node, x: _mod_interval(x, is_floor=False),
}
