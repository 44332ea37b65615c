"""Interval analysis: minimum and maximum of the elements of a value.

A data-dependent dimension has a bound if its data have: clipped numbers, indices, numbers of
elements. The run checks every dimension against its bound, so an interval need not hold for NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import ceil, floor, inf, isinf, isnan, prod
from typing import Union

import numpy as np

from ..data_movement import concat_of
from ..graph import Node, Value
from ..pointwise import PointwiseOp
from ..sizes.bounds import bounds
from ..sizes.extent import SymInt
from ..sizes.forms import lower_bound, upper_bound
from ..traits import Trait
from .intervals import wide_interval

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
        limits = _of_type(value)
        if node is None:
            return limits
        if node.op == "topk" and value is node.outputs[0]:
            return self.of(node.inputs[0], depth + 1)
        if node.op in _INDICES and value.dtype.name != "bool":
            limits = _INDICES[node.op](node, node.outputs.index(value))
        rule = _RULES.get(node.op)
        if rule is None and node.has(Trait.MOVES_ELEMENTS, Trait.EXTREMUM):
            rule = _first
        if rule is None and isinstance(node.operator, PointwiseOp):
            rule = _pointwise

        def operand(index: int, value: Value | None = None) -> Interval:
            return self.of(node.inputs[index] if value is None else value, depth + 1)

        limits = _meet(limits, node.operator.result_range or UNKNOWN)
        result = rule(node, operand) if rule else UNKNOWN
        return limits if any(map(isnan, result)) else _meet(result, limits)


def _of_constant(data: np.ndarray) -> Interval:
    if data.dtype.kind not in "biuf" or not data.size:
        return (0, 0) if not data.size else UNKNOWN
    low, high = data.min().item(), data.max().item()
    return UNKNOWN if isnan(low) or isnan(high) else (low, high)


def _of_type(value: Value) -> Interval:
    dtype = value.dtype
    if dtype.name == "bool":
        return 0, 1
    if not dtype.is_int or dtype.bits > 16:
        return UNKNOWN
    half = 1 << (dtype.bits - 1)
    return (-half, half - 1) if dtype.name.startswith("int") else (0, 2 * half - 1)


def _meet(a: Interval, b: Interval) -> Interval:
    return max(a[0], b[0]), min(a[1], b[1])


def _union(parts: Iterable[Interval]) -> Interval:
    low, high = zip(*parts)
    return min(low), max(high)


# Results that are indices or numbers of elements, by the number of the result.


def _up_to(*extents: SymInt) -> Interval:
    """Return the interval of an index along any of these axes."""
    return 0, max(*map(upper_bound, extents), 1) - 1


def _kept(node: Node, result: int) -> Interval:
    """Return the interval of an index or count of ``unique``."""
    extent = node.outputs[0].shape[0]
    return _up_to(extent) if result < 2 else (0, upper_bound(extent))


def _selected(node: Node, result: int) -> Interval:
    return (0, upper_bound(node.attrs["rows"])) if result else _up_to(*node.inputs[1].shape)


def _counted(node: Node, result: int) -> Interval:
    start, step = node.attrs["start"], node.attrs["step"]
    last = (upper_bound(node.attrs["count"]) - 1) * step
    return lower_bound(start) + min(last, 0), upper_bound(start) + max(last, 0)


def _along_axis(node: Node, result: int) -> Interval:
    return _up_to(node.inputs[0].shape[node.attrs["axis"]])


_INDICES: dict[str, Callable[[Node, int], Interval]] = {
    "argmax": _along_axis,
    "argmin": _along_axis,
    "count_nonzero": lambda node, _: (0, upper_bound(node.inputs[0].type.size)),
    "extents": lambda node, _: _union(map(bounds, node.attrs["values"] or (0,))),
    "iota": _counted,
    "non_max_suppression": _selected,
    "nonzero": lambda node, _: _up_to(*node.inputs[0].shape),
    "topk": _along_axis,
    "unique": _kept,
}

# Results with intervals derived from those of the operands.

Operand = Callable[..., Interval]  # interval of an operand by its index, or of a value
Rule = Callable[[Node, Operand], Interval]


def _first(node: Node, x: Operand) -> Interval:
    return x(0)


def _of_operands(*indices: int) -> Rule:
    """Return the rule of a result whose elements are elements of some operands."""
    return lambda node, x: _union(x(i) for i in indices if node.inputs[i] is not None)


def _pointwise(node: Node, x: Operand) -> Interval:
    operands = [tuple(np.asarray(end, np.float64) for end in x(i)) for i in range(len(node.inputs))]
    is_int = node.outputs[0].dtype.is_int
    with np.errstate(all="ignore"):
        ends = wide_interval(node.operator, node.attrs, operands, is_int)  # type: ignore[arg-type]
    if ends is None:
        return UNKNOWN
    low, high = (end.item() for end in ends)
    return -inf if isnan(low) else low, inf if isnan(high) else high


def _cast(node: Node, x: Operand) -> Interval:
    """Return the interval for any rounding to integers."""
    (low, high), to = x(0), node.outputs[0].dtype
    if to.name == "bool" or not to.is_int:
        return (0, 1) if to.name == "bool" else (low, high)
    if isinf(low) or isinf(high):
        return UNKNOWN
    half_range = 1 << (to.bits - 1)
    low, high = floor(low), ceil(high)
    return (low, high) if -half_range <= low and high < half_range else UNKNOWN


def _sum(node: Node, x: Operand) -> Interval:
    operand = node.inputs[0]
    if operand is None or node.outputs[0].dtype.name == "bool":
        return UNKNOWN
    axes = node.attrs.get("axes", (node.attrs.get("axis"),))
    count = prod(upper_bound(operand.shape[axis]) for axis in axes)
    low, high = (count and end and count * end for end in x(0))
    return min(low, 0), max(high, 0)


def _modulo(node: Node, x: Operand) -> Interval:
    low, high = x(1)
    if low <= 0:
        return UNKNOWN
    return (0 if node.op == "floor_mod" else -high), high


def _extremum(node: Node, x: Operand) -> Interval:
    """Return the interval of a maximum or minimum; over a concatenation it is at least, or at most,
    that of each part."""
    joined = concat_of(node.inputs[0])
    if joined is None or len(joined.outputs[0].shape) != 1:
        return x(0)
    function = max if node.op == "reduce_max" else min
    low, high = zip(*(x(0, part) for part in joined.inputs))
    return function(low), function(high)


def _padded(node: Node, x: Operand) -> Interval:
    if node.attrs["mode"] != "constant":
        return x(0)
    return _union((x(0), x(1) if len(node.inputs) > 1 else (0, 0)))


def _scattered(node: Node, x: Operand) -> Interval:
    return _union((x(0), x(2))) if node.attrs["reduction"] == "none" else UNKNOWN


_RULES: dict[str, Rule] = {
    "cast": _cast,
    "choice": _of_operands(1, 2),
    "concat": lambda node, x: _union(map(x, range(len(node.inputs)))),
    "cumulative_sum": _sum,
    "floor_mod": _modulo,
    "pad": _padded,
    "reduce_max": _extremum,
    "reduce_mean": _first,
    "reduce_min": _extremum,
    "reduce_sum": _sum,
    "scatter_elements": _scattered,
    "scatter_nd": _scattered,
    "softmax": lambda node, x: (-inf, 0) if node.attrs.get("log") else (0, 1),
    "take_at": _of_operands(0, 1),
    "trunc_mod": _modulo,
}
