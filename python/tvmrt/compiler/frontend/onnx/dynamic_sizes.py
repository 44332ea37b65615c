"""Data-dependent sizes, such as the number of rows that a mask keeps, and shapes made of them.

Such a size becomes an extent. Its bound is the size of the mask, or comes from interval analysis of
the computation; each run checks it.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any

import numpy as np

from tvmrt.compiler.frontend.size_propagation import (
    MAX_BOUND,
    ElementEvaluator,
    Elements,
    extents_of,
    object_array,
)
from tvmrt.compiler.ir import Node, Trait, Value
from tvmrt.compiler.ir.computed_sizes.element_ranges import interval
from tvmrt.compiler.ir.computed_sizes.expression import leaf
from tvmrt.compiler.ir.sizes import INT_MAX, SymInt, as_extent, upper_bound
from tvmrt.compiler.ir.value_numbering import counted_mask

NodeContext = Any  # of ``context``, which imports this module


def evaluate_extents(ctx: NodeContext, value: Value, bounded: bool = False) -> np.ndarray | None:
    """Return the elements of an integer operand as integers and extents; None if one depends on
    more than shapes and counts.

    ``bounded``: a data-dependent number is an extent, too, if it has a bound.
    """
    if value.data is not None:
        return np.asarray(value.data.tolist(), object) if value.dtype.is_int else None
    if value in ctx.extents:
        return ctx.extents[value]
    nodes = ctx.importer.graph.nodes
    count = len(nodes)
    extents = _OperandEvaluator(ctx, bounded).evaluate(value) if value.dtype.is_int else None
    result = None if extents is None else extents_of(ctx, extents)
    if extents is None or result is None:
        del nodes[count:]
        return None
    return object_array(result, extents.shape)


_SHAPE_OPERANDS = {
    ("BlackmanWindow", 0), ("HammingWindow", 0), ("HannWindow", 0),
    ("ConstantOfShape", 0), ("Expand", 1), ("OneHot", 1), ("Resize", 3),
    ("Tile", 1),
}  # fmt: skip


def shape_operand(ctx: NodeContext, index: int) -> np.ndarray | None:
    """Return a shape operand with data-dependent extents, up to the declared bounds; None if the
    operand is not a shape, or if its extents have no bounds."""
    if ctx.node.domain not in ("", "ai.onnx") or (ctx.op, index) not in _SHAPE_OPERANDS:
        return None
    value, declared = ctx.required(index), ctx.importer.declared_bounds(ctx.node.output[0])
    if declared is not None and ctx.op == "OneHot":
        declared = (declared[ctx.attr("axis", -1)],)
    if declared is None or len(declared) != value.type.size:
        return evaluate_extents(ctx, value, bounded=True)
    flat = ctx.reshape(ctx.cast(value, "int64"), (len(declared),))
    found = [
        ctx.data_dependent_extent(ctx.element(flat, 0, d), 0, upper_bound(n), f"extent of axis {d}")
        for d, n in enumerate(declared)
    ]
    return np.asarray(found, object)


def found_extents(ctx: NodeContext, index: int) -> list[SymInt] | None:
    """Return the elements of an integer input as extents, which a run may find. None if memory is
    planned before a run, or if an element may be negative, which has a meaning of its own."""
    value = ctx.input(index)
    if ctx.importer.request.is_bounded or value is None or not isinstance(value.type.size, int):
        return None
    if interval(value, ctx.importer.sizes.intervals)[0] < 0:
        return None
    extents = evaluate_extents(ctx, value, bounded=True)
    return None if extents is None else [as_extent(n) for n in extents.reshape(-1)]


def is_computed(ctx: NodeContext, index: int) -> bool:
    """Return whether an input is present and its elements are known only at run time."""
    value = ctx.input(index)
    if value is None or value.data is not None or value in ctx.extents:
        return False
    return evaluate_extents(ctx, value) is None


def has_runtime_operand(ctx: NodeContext, *indices: int) -> bool:
    """Return whether one of the node's operands is known only at run time."""
    sizes = (v.type.size if v is not None else 0 for v in map(ctx.input, indices))
    return any(size and is_computed(ctx, i) for i, size in zip(indices, sizes))


def max_value(ctx: NodeContext, value: Value) -> int | None:
    """Return the maximum of a data-dependent number; None if it is unbounded."""
    _, high = interval(value, ctx.importer.sizes.intervals)
    return max(int(high), 0) if -inf < high <= MAX_BOUND else None


def strip_cast(value: Value) -> Value:
    """Return the integer operand of a cast; any other value unchanged."""
    node = value.producer
    cast = node.inputs[0] if node is not None and node.has(Trait.CONVERTS) else None
    return cast if cast is not None and cast.dtype.is_int else value


class _OperandEvaluator(ElementEvaluator):
    """One traversal from an operand to the values that determine its elements."""

    def __init__(self, ctx: NodeContext, bounded: bool) -> None:
        super().__init__(ctx.importer.sizes, lambda node: not node.outputs[0].dtype.is_float)
        self.ctx = ctx
        self.bounded = bounded

    def _count(self, value: Value, node: Node) -> Elements | None:
        mask = counted_mask(node) if value.dtype.is_int and value.type.size == 1 else None
        if mask is None:
            return None
        number = self.ctx.reshape(self.ctx.cast(value, "int64"), ())
        extent = self.ctx.data_dependent_extent(number, 0, prod(mask.shape), "count")
        return object_array([leaf(extent, value.dtype.name)], value.shape)

    def _bounded(self, value: Value, is_size: bool) -> Elements | None:
        """Return each element as a data-dependent size, if none can be too large. A possibly
        negative number is valid if it is alone, since each run checks it."""
        if not self.bounded or not value.dtype.is_int:
            return None
        low, _ = interval(value, self.ctx.importer.sizes.intervals)
        high = max_value(self.ctx, value)
        if low < 0 and not is_size:
            return None
        flat = self.ctx.reshape(self.ctx.cast(value, "int64"), (value.type.size,))
        least = max(int(low), 0) if low > -inf else 0
        scalars = [self.ctx.element(flat, 0, i) for i in range(int(value.type.size))]
        if high is None and self.ctx.importer.request.is_bounded:
            return None
        if high is None:
            least, high = 0, INT_MAX
        found = [self.ctx.data_dependent_extent(n, least, high, "size") for n in scalars]
        return object_array([leaf(n, value.dtype.name) for n in found], value.shape)
