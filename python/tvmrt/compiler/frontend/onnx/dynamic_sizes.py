"""Data-dependent sizes, such as the number of rows that a mask keeps, and shapes made of them.

Such a size becomes an extent. Its bound is the size of the mask, or comes from interval analysis of
the computation; each run checks it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import inf, prod
from typing import Optional

import numpy as np

from tvmrt.compiler.frontend.data_propagation import (
    MAX_TRACKED_ELEMENTS,
    Elements,
    divide_truncated,
    elementwise,
    equal,
)
from tvmrt.compiler.frontend.dims import size_name
from tvmrt.compiler.ir import Node, Trait, Value
from tvmrt.compiler.ir.assumptions import assume_bound, may_assume
from tvmrt.compiler.ir.comparison import comparison_of
from tvmrt.compiler.ir.data_movement import concat_of
from tvmrt.compiler.ir.extent import (
    Extent,
    SymInt,
    UndecidedExtent,
    as_extent,
    sym_max,
    sym_min,
    symbols_of,
    upper_bound,
)
from tvmrt.compiler.ir.value_numbering import counted_mask
from tvmrt.compiler.ir.value_ranges import interval
from tvmrt.option_syntax import option

from .onnx_node import OnnxNode

MAX_DEPTH = 30  # maximum length of an operator chain that computes a size
MAX_BOUND = 1 << 24  # maximum bound from interval analysis


def evaluate_extents(ctx: OnnxNode, value: Value, bounded: bool = False) -> Elements | None:
    """Return the elements of an integer operand as integers and extents; None if one depends on
    more than shapes and counts.

    ``bounded``: a data-dependent number is an extent, too, if it has a bound.
    """
    nodes = ctx.importer.graph.nodes
    count = len(nodes)
    try:
        result = _ElementEvaluator(ctx, bounded).elements(value)
    except UndecidedExtent:
        result = None
    if result is None:
        del nodes[count:]
    return result


def is_computed(ctx: OnnxNode, index: int) -> bool:
    """Return whether an input is present and its elements are known only at run time."""
    value = ctx.input(index)
    if value is None or value.data is not None or value in ctx.extents:
        return False
    return evaluate_extents(ctx, value) is None


def max_value(ctx: OnnxNode, value: Value) -> int | None:
    """Return the maximum of a data-dependent number; None if it is unbounded."""
    _, high = interval(value, ctx.importer.sizes.intervals)
    return max(int(high), 0) if -inf < high <= MAX_BOUND else None


def strip_cast(value: Value) -> Value:
    """Return the integer operand of a cast; any other value unchanged."""
    node = value.producer
    cast = node.inputs[0] if node is not None and node.has(Trait.CONVERTS) else None
    return cast if cast is not None and cast.dtype.is_int else value


def assumed_size(ctx: OnnxNode, value: Value, what: str) -> SymInt | None:
    """Return an unbounded data-dependent scalar as an extent with an assumed bound.

    Later nodes have to confirm the bound: a mask made of lengths is combined with the sequence.
    None if the network has no dynamic sizes that could bound it.
    """
    dims, shapes = (
        ctx.importer.dims,
        (type.shape for type in ctx.importer.declarations.inputs.values()),
    )
    largest_dynamic = max(
        (upper_bound(n) for shape in shapes for n in shape if symbols_of(n)), default=None
    )
    if largest_dynamic is None or not may_assume():
        return None
    name = dims.unique_name(size_name(ctx.name, what))
    known = dims.implied_bound(name)
    extent = ctx.data_dependent_extent(value, 0, largest_dynamic if known is None else known, what)
    if known is None and any(s.name == name for s in symbols_of(extent)):
        assume_bound(
            name,
            f"node {ctx.name} ({ctx.op}): its {what} is computed at run time and is unbounded; "
            "declare the shape of the result with numbers or with names that "
            f"{option('dims')} bounds",
        )
    return extent


class _ElementEvaluator:
    """One traversal from an operand to the values that determine its elements."""

    def __init__(self, ctx: OnnxNode, bounded: bool) -> None:
        self.ctx = ctx
        self.bounded = bounded
        self._known: dict[tuple[Value, bool], Elements | None] = {}

    def elements(self, value: Value, depth: int = 0, is_size: bool = True) -> Elements | None:
        """Return the elements; ``is_size``: they are used as sizes directly, so none is
        negative."""
        key = value, is_size
        if key not in self._known:
            self._known[key] = self._elements(value, depth, is_size)
        return self._known[key]

    def _elements(self, value: Value, depth: int, is_size: bool) -> Elements | None:
        if not value.dtype.is_int or not isinstance(value.type.size, int):
            return None
        if value.type.size > MAX_TRACKED_ELEMENTS or depth > MAX_DEPTH:
            return None
        if value.data is not None:
            return np.asarray(value.data.tolist(), object)
        if value in self.ctx.extents:
            return self.ctx.extents[value]
        found, node = None, value.producer
        if node is not None and value.type.size == 1:
            found = self._count_nonzero_extent(value, node)
        if found is None and node is not None and node.op in _DATA_MOVEMENT_RULES:
            found = _DATA_MOVEMENT_RULES[node.op](
                node, lambda v: self.elements(v, depth + 1, is_size)
            )
        elif found is None and node is not None and node.op in _ARITHMETIC_RULES:
            found = _ARITHMETIC_RULES[node.op](node, lambda v: self.elements(v, depth + 1, False))
        if found is None and self.bounded:
            found = self._bounded_extents(value, is_size)
        return None if found is None else np.asarray(found, object).reshape(value.shape)

    def _count_nonzero_extent(self, value: Value, node: Node) -> Elements | None:
        mask = counted_mask(node)
        if mask is None:
            return None
        number = self.ctx.reshape(self.ctx.cast(value, "int64"), ())
        return np.asarray(
            self.ctx.data_dependent_extent(number, 0, prod(mask.shape), "count"), object
        )

    def _bounded_extents(self, value: Value, is_size: bool) -> list[Extent | int] | None:
        """Return each element as a data-dependent size, if none can be too large. A possibly
        negative number is valid if it is alone, since each run checks it."""
        low, _ = interval(value, self.ctx.importer.sizes.intervals)
        high = max_value(self.ctx, value)
        if low < 0 and not is_size:
            return None
        flat = self.ctx.reshape(self.ctx.cast(value, "int64"), (value.type.size,))
        least = max(int(low), 0) if low > -inf else 0
        scalars = [self.ctx.element(flat, 0, i) for i in range(int(value.type.size))]
        if high is None:
            assumed = [assumed_size(self.ctx, n, "size") for n in scalars]
            return None if None in assumed else assumed
        return [self.ctx.data_dependent_extent(n, least, high, "size") for n in scalars]


# Rules: the elements of a node's result from those of its operands; None if unknown.

Find = Callable[[Value], Optional[Elements]]
Rule = Callable[[Node, Find], Optional[Elements]]


def _all_elements(node: Node, find: Find) -> list[Elements] | None:
    """Return the elements of all operands; None if one is unknown."""
    result = []
    for value in node.inputs:
        part = None if value is None else find(value)
        if part is None:
            return None
        result.append(part)
    return result


def _elementwise_rule(function: Callable) -> Rule:
    pairs = elementwise(function)

    def rule(node: Node, find: Find) -> Elements | None:
        operands = _all_elements(node, find)
        return None if operands is None else pairs(None, *operands)

    return rule


def _reduction_rule(function: Callable) -> Rule:
    """Return the rule of a reduction over all elements."""

    def rule(node: Node, find: Find) -> Elements | None:
        operands = _all_elements(node, find) if node.outputs[0].type.size == 1 else None
        if operands is None or not operands[0].size:
            return None
        return np.asarray(reduce(function, operands[0].reshape(-1).tolist()), object)

    return rule


def _where_rule(node: Node, find: Find) -> Elements | None:
    """Return the rule of Where on a comparison of its own operands (minimum or maximum), or on a
    comparison with a known result."""
    condition = node.inputs[0]
    compared = None if condition is None else condition.producer
    comparison = comparison_of(compared)
    if compared is None or (comparison is None and compared.op != "equal"):
        return None
    pair = _all_elements(compared, find)
    both = _all_elements(node, lambda v: np.zeros(1) if v is condition else find(v))
    if pair is None or both is None:
        return None
    if comparison is None:
        return np.where(elementwise(equal)(None, *pair).astype(bool), *both[1:])
    if any(part.size != 1 for part in (*both, *pair)):
        return None
    a, b, x, y = (as_extent(part.item()) for part in (*pair, *both[1:]))
    is_less = comparison.small is compared.inputs[0]
    if (x, y) == (a, b):
        return (sym_min if is_less else sym_max)(a, b)
    if (x, y) == (b, a):
        return (sym_max if is_less else sym_min)(a, b)
    return None


_ARITHMETIC_RULES: dict[str, Rule] = {
    "add": _elementwise_rule(lambda a, b: a + b),
    "div": _elementwise_rule(divide_truncated),
    "floor_mod": _elementwise_rule(lambda a, b: a % b),
    "max": _elementwise_rule(sym_max),
    "min": _elementwise_rule(sym_min),
    "mul": _elementwise_rule(lambda a, b: a * b),
    "neg": lambda node, find: _negate(_first_operand(node, find)),
    "reduce_max": _reduction_rule(sym_max),
    "reduce_min": _reduction_rule(sym_min),
    "reduce_prod": _reduction_rule(lambda a, b: a * b),
    "reduce_sum": _reduction_rule(lambda a, b: a + b),
    "sub": _elementwise_rule(lambda a, b: a - b),
    "where": _where_rule,
}


def _first_operand(node: Node, find: Find) -> Elements | None:
    return None if node.inputs[0] is None else find(node.inputs[0])


def _negate(x: Elements | None) -> Elements | None:
    return None if x is None else -x


def _concat_rule(node: Node, find: Find) -> Elements | None:
    parts = _all_elements(node, find)
    return None if parts is None else np.concatenate(parts, node.attrs["axis"])


def _slice_rule(node: Node, find: Find) -> Elements | None:
    """Return the elements of a slice; skipped parts of a concat need not be known."""
    x, (start, *more) = node.inputs[0], node.attrs["starts"]
    size, step = node.attrs["sizes"][0], node.attrs["steps"][0]
    if x is None or more:
        return None
    joined = concat_of(x) if step == 1 else None
    if joined is not None:
        for part in joined.inputs:
            extent = part.shape[0]  # type: ignore[union-attr]
            if isinstance(extent, int) and start + size <= extent:
                found = find(part)  # type: ignore[arg-type]
                return None if found is None else found[start : start + size]
            if not isinstance(extent, int) or start < extent:
                break
            start -= extent
        start = node.attrs["starts"][0]
    found = find(x)
    return None if found is None else found[[start + step * i for i in range(size)]]


def _gather_rule(node: Node, find: Find) -> Elements | None:
    x, indices = node.inputs
    if x is None or indices is None or indices.data is None:
        return None
    found = find(x)
    return None if found is None else np.take(found, indices.data, node.attrs["axis"])


def _expand_rule(node: Node, find: Find) -> Elements | None:
    x = _first_operand(node, find)
    return None if x is None else np.broadcast_to(x, node.outputs[0].shape)


_DATA_MOVEMENT_RULES: dict[str, Rule] = {
    "cast": _first_operand,
    "concat": _concat_rule,
    "expand": _expand_rule,
    "gather": _gather_rule,
    "identity": _first_operand,
    "reshape": _first_operand,
    "slice": _slice_rule,
}
