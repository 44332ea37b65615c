"""Sizes that a network computes of its data: how many rows a mask keeps, and what follows from it.

Such a size becomes an extent. Its bound is the number of elements of the mask, or what interval
analysis says of the computation; the run checks the size against it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import inf, prod
from typing import TYPE_CHECKING, Optional

import numpy as np

from tvmrt.frontend.extents import MOST_ELEMENTS, Elements, truncated
from tvmrt.ir import Node, Value
from tvmrt.ir.extent import Extent, Undecided, as_extent, largest, smallest
from tvmrt.ir.value_numbering import counted_mask
from tvmrt.ir.value_ranges import interval

if TYPE_CHECKING:
    from .context import NodeContext

MAX_DEPTH = 30  # of a chain of operators that computes a size
MAX_BOUND = 1 << 24  # of a size whose bound interval analysis finds


def sizes_of(ctx: NodeContext, value: Value, bounded: bool = False) -> Elements | None:
    """Return the elements of an integer operand as integers and extents; None where one is computed
    of more than shapes and counts.

    ``bounded``: a number that the data decides is an extent, too, if it has a bound.
    """
    nodes = ctx.importer.graph.nodes
    count = len(nodes)
    try:
        found = _Walk(ctx, bounded).elements(value)
    except Undecided:
        found = None
    if found is None:
        del nodes[count:]
    return found


def bound_of(ctx: NodeContext, value: Value) -> int | None:
    """Return the largest size that the data can make of a number; None if nothing tells."""
    _, high = interval(value, ctx.importer.intervals)
    return max(int(high), 0) if -inf < high <= MAX_BOUND else None


class _Walk:
    """One walk from an operand to what tells its elements."""

    def __init__(self, ctx: NodeContext, bounded: bool) -> None:
        self.ctx = ctx
        self.bounded = bounded
        self._known: dict[Value, Elements | None] = {}

    def elements(self, value: Value, depth: int = 0) -> Elements | None:
        if value not in self._known:
            self._known[value] = self._elements(value, depth)
        return self._known[value]

    def _elements(self, value: Value, depth: int) -> Elements | None:
        if not value.dtype.is_int or not isinstance(value.type.size, int):
            return None
        if value.type.size > MOST_ELEMENTS or depth > MAX_DEPTH:
            return None
        if value.data is not None:
            return np.asarray(value.data.tolist(), object)
        if value in self.ctx.importer.extents:
            return self.ctx.importer.extents[value]
        found, node = None, value.producer
        if node is not None and value.type.size == 1:
            found = self._counted(value, node)
        if found is None and node is not None and node.op in _RULES:
            found = _RULES[node.op](self, node, depth + 1)
        if found is None and self.bounded:
            found = self._bounded(value, depth)
        return None if found is None else np.asarray(found, object).reshape(value.shape)

    def of_all(self, node: Node, depth: int) -> list[Elements] | None:
        """Return the elements of all operands; None where one is not known."""
        found = [None if v is None else self.elements(v, depth) for v in node.inputs]
        return None if any(part is None for part in found) else found  # type: ignore[return-value]

    def _counted(self, value: Value, node: Node) -> Elements | None:
        mask = counted_mask(node)
        if mask is None:
            return None
        number = self.ctx.reshape(self.ctx.cast(value, "int64"), ())
        return np.asarray(self.ctx.found(number, 0, prod(mask.shape), "count"), object)

    def _bounded(self, value: Value, depth: int) -> list[Extent | int] | None:
        """Return each element as a size that the run finds, if none can be too large. What is added
        to others may be no negative number."""
        low, _ = interval(value, self.ctx.importer.intervals)
        high = bound_of(self.ctx, value)
        if high is None or (low < 0 and depth):
            return None
        flat = self.ctx.reshape(self.ctx.cast(value, "int64"), (value.type.size,))
        least = max(int(low), 0) if low > -inf else 0
        numbers = [self.ctx.element(flat, 0, i) for i in range(int(value.type.size))]
        return [self.ctx.found(n, least, high, "size") for n in numbers]


Rule = Callable[[_Walk, Node, int], Optional[Elements]]


def _pairwise(function: Callable) -> Rule:
    pairs = np.frompyfunc(function, 2, 1)

    def rule(walk: _Walk, node: Node, depth: int) -> Elements | None:
        operands = walk.of_all(node, depth)
        return None if operands is None else np.asarray(pairs(*operands), object)

    return rule


def _same(walk: _Walk, node: Node, depth: int) -> Elements | None:
    x = node.inputs[0]
    return None if x is None else walk.elements(x, depth)


def _joined(walk: _Walk, node: Node, depth: int) -> Elements | None:
    parts = walk.of_all(node, depth)
    return None if parts is None else np.concatenate(parts, node.attrs["axis"])


def _cut(walk: _Walk, node: Node, depth: int) -> Elements | None:
    """Of a join, what is not cut out need not be known."""
    (x,), attrs = node.inputs, node.attrs
    if x is None:
        return None
    first, step, size = (attrs[name] for name in ("starts", "steps", "sizes"))
    if len(x.shape) == 1 and x.producer is not None and x.producer.op == "concat":
        for part in x.producer.inputs:
            count = part.shape[0]  # type: ignore[union-attr]
            if not isinstance(count, int):
                return None
            if 0 <= first[0] and first[0] + size[0] <= count and step[0] == 1:
                found = walk.elements(part, depth)  # type: ignore[arg-type]
                return None if found is None else found[first[0] : first[0] + size[0]]
            first = (first[0] - count,)
            if first[0] < 0:
                break
        first = attrs["starts"]
    found = walk.elements(x, depth)
    if found is None:
        return None
    places = (range(a, a + n * b, b) for a, b, n in zip(first, step, size))
    return found[np.ix_(*places)]


def _gathered(walk: _Walk, node: Node, depth: int) -> Elements | None:
    x, indices = node.inputs
    if x is None or indices is None or indices.data is None:
        return None
    found = walk.elements(x, depth)
    return None if found is None else np.take(found, indices.data, node.attrs["axis"])


def _folded(function: Callable) -> Rule:
    """A rule of a reduction of all elements."""

    def rule(walk: _Walk, node: Node, depth: int) -> Elements | None:
        x = node.inputs[0]
        found = None if x is None or node.outputs[0].type.size != 1 else walk.elements(x, depth)
        if found is None or not found.size:
            return None
        return np.asarray(reduce(function, found.reshape(-1).tolist()), object)

    return rule


def _chosen(walk: _Walk, node: Node, depth: int) -> Elements | None:
    """Of a comparison with a limit, the smaller or the larger of two."""
    condition, yes, no = node.inputs
    compared = None if condition is None else condition.producer
    if compared is None or compared.op not in _SMALLER or yes is None or no is None:
        return None
    pairs = [walk.elements(v, depth) for v in (*compared.inputs, yes, no)]  # type: ignore[arg-type]
    if any(p is None or p.size != 1 for p in pairs):
        return None
    a, b, x, y = (as_extent(p.item()) for p in pairs)  # type: ignore[union-attr]
    if (x, y) == (a, b):
        return (smallest if _SMALLER[compared.op] else largest)(a, b)
    if (x, y) == (b, a):
        return (largest if _SMALLER[compared.op] else smallest)(a, b)
    return None


_SMALLER = {"less": True, "less_equal": True, "greater": False, "greater_equal": False}

_RULES: dict[str, Rule] = {
    "add": _pairwise(lambda a, b: a + b),
    "cast": _same,
    "concat": _joined,
    "div": _pairwise(truncated),
    "expand": lambda walk, node, depth: _expanded(_same(walk, node, depth), node),
    "floor_mod": _pairwise(lambda a, b: a % b),
    "gather": _gathered,
    "identity": _same,
    "max": _pairwise(largest),
    "min": _pairwise(smallest),
    "mul": _pairwise(lambda a, b: a * b),
    "neg": lambda walk, node, depth: _negated(_same(walk, node, depth)),
    "reduce_max": _folded(largest),
    "reduce_min": _folded(smallest),
    "reduce_prod": _folded(lambda a, b: a * b),
    "reduce_sum": _folded(lambda a, b: a + b),
    "reshape": _same,
    "slice": _cut,
    "sub": _pairwise(lambda a, b: a - b),
    "where": _chosen,
}


def _expanded(x: Elements | None, node: Node) -> Elements | None:
    return None if x is None else np.broadcast_to(x, node.outputs[0].shape)


def _negated(x: Elements | None) -> Elements | None:
    return None if x is None else -x
