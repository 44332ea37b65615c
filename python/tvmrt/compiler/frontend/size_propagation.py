"""Shape inference on values: small tensors whose elements follow from the sizes of a run.

A network computes shapes with its own operators: ``Shape``, ``Gather``, ``Mul``, ``Concat``. Each
node is imported like any other. Its results are then evaluated element by element on the numbers of
its operands, by the definitions of the operators that it consists of. A shape operand is a list of
extents rather than a run-time tensor. As everywhere, half precision is computed in float32 and
rounded by conversions alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, Optional

import numpy as np

from tvmrt.compiler.ir import Node, Value, constant
from tvmrt.compiler.ir.computed_sizes.element_ranges import Interval
from tvmrt.compiler.ir.computed_sizes.expression import (
    FLOATS,
    HALF,
    SizeExpr,
    UndefinedSize,
    bounds,
    cast_to,
    combine,
    constant_value,
    exact_extent,
    inexact_error,
    leaf,
    require_defined,
)
from tvmrt.compiler.ir.conversion import BitCast, Cast, PowInteger
from tvmrt.compiler.ir.data_movement import concat_of
from tvmrt.compiler.ir.pointwise import PointwiseOp
from tvmrt.compiler.ir.sizes import INT_MAX, Extent, SymInt, symbols_of
from tvmrt.compiler.ir.sizes.undecided import UndecidedExtent
from tvmrt.compiler.ir.traits import Trait

from .context import OperatorContext

MAX_TRACKED_ELEMENTS = 64  # maximum size of a tracked tensor: shapes are short
MAX_DEPTH = 30  # maximum length of an operator chain that computes a size

Elements = np.ndarray  # elements are SizeExpr


class KnownSizes:
    """Tensors whose elements follow from the sizes of a run.

    ``extents``: integer tensors made of integers and extents, element by element. ``expressions``:
    other tensors computed from sizes. ``intervals``: intervals of loop-invariant values in loop
    bodies. ``undefined``: tensors that ONNX does not define at all sizes, with the error text.
    """

    def __init__(self) -> None:
        self.extents: dict[Value, np.ndarray] = {}
        self.expressions: dict[Value, Elements] = {}
        self.intervals: dict[Value, Interval] = {}
        self.undefined: dict[Value, str] = {}

    def vary(self, value: Value | None) -> bool:
        """Return whether a tensor's elements depend on the sizes of a run and on nothing else."""
        return value in self.extents or value in self.expressions or value in self.undefined

    def elements(self, value: Value | None) -> Elements | None:
        """Return the elements of a constant or of a tensor computed from sizes; else None."""
        if value is None or not _is_tracked(value):
            return None
        elements = self.extents.get(value) if value.data is None else value.data
        if elements is None:
            return self.expressions.get(value)
        numbers = [leaf(each, value.dtype.name) for each in elements.reshape(-1).tolist()]
        return object_array(numbers, elements.shape)


def _is_tracked(value: Value) -> bool:
    """Return whether a tensor is small, and of numbers with one value in the graph and the file."""
    size, dtype, source = value.type.size, value.dtype, value.type.source
    return (
        isinstance(size, int)
        and size <= MAX_TRACKED_ELEMENTS
        and (dtype.is_int or dtype.name in (*FLOATS, *HALF, "bool"))
        and (source is None or source.name in HALF)
    )


def object_array(elements: Sequence[Any], shape: Sequence[int]) -> np.ndarray:
    """Return an array of objects; without an axis it is an array, too."""
    array = np.empty(len(elements), object)
    array[:] = elements
    return array.reshape(tuple(shape))


def track_sizes(ctx: OperatorContext, outputs: Sequence[Any], start: int) -> Sequence[Any]:
    """Record how the results of an operator depend on sizes; ``start``: index of its first node.

    Return the results. Those that are integers, or are equal at all sizes, become tensors of
    extents or constants.
    """
    sizes = ctx.importer.sizes
    if not any(map(sizes.vary, ctx.inputs)):
        return outputs
    new = {id(node) for node in ctx.importer.graph.nodes[start:]}
    evaluator = ElementEvaluator(sizes, lambda node: id(node) in new)
    return [_tracked(ctx, value, evaluator) for value in outputs]


def _tracked(ctx: OperatorContext, value: Any, evaluator: ElementEvaluator) -> Any:
    sizes = ctx.importer.sizes
    if not isinstance(value, Value) or value.data is not None or sizes.vary(value):
        return value
    try:
        elements = evaluator.evaluate(value)
    except UndefinedSize as problem:
        sizes.undefined[value] = str(problem)
        return value
    if elements is None:
        return value
    numbers: Any = None
    if value.dtype.is_int:
        numbers = extents_of(ctx, elements)
        if numbers is not None:
            return ctx.integer_tensor(object_array(numbers, elements.shape), value.dtype.name)
    else:
        numbers = [_constant_number(expr) for expr in elements.flat]
        if None not in numbers:
            array = np.asarray(numbers, value.dtype.numpy).reshape(elements.shape)
            return constant(array, value.name, value.type.source)
    sizes.expressions[value] = elements
    return value


def _constant_number(expr: SizeExpr) -> float | bool | None:
    """Return a number that is proven to be constant, or a constant comparison."""
    if not expr.symbols or expr.dtype == "bool":
        return constant_value(expr)
    exact = expr.exact
    if exact is None or not exact.is_exact or isinstance(exact.value, Extent):
        return None
    return float(exact.value)


class ElementEvaluator:
    """One traversal from a tensor to the sizes that determine its elements.

    ``enters``: whether to evaluate the operator of a node.
    """

    def __init__(self, sizes: KnownSizes, enters: Callable[[Node], bool]) -> None:
        self._sizes = sizes
        self._enters = enters
        self._found: dict[tuple[Value, bool], Elements | None] = {}

    def evaluate(self, value: Value) -> Elements | None:
        """Return a tensor's elements; None if they depend on more than sizes. Raises UndefinedSize
        if they do not, but ONNX does not define them."""
        try:
            return self.elements(value)
        except UndefinedSize:
            raise
        except UndecidedExtent:
            return None

    def elements(self, value: Value | None, depth: int = 0, is_size: bool = True) -> Any:
        """Return the elements; ``is_size``: they are used as sizes directly, so none is
        negative."""
        if value is None or not _is_tracked(value) or depth > MAX_DEPTH:
            return None
        key = value, is_size
        if key not in self._found:
            self._found[key] = self._evaluate(value, depth, is_size)
        return self._found[key]

    def _evaluate(self, value: Value, depth: int, is_size: bool) -> Elements | None:
        elements, node = self._sizes.elements(value), value.producer
        if elements is not None or value.data is not None:
            return elements
        if value in self._sizes.undefined:
            raise UndefinedSize(self._sizes.undefined[value])
        if node is not None and self._enters(node):
            elements = self._count(value, node)
            rule = None if elements is not None or symbols_of(node.attrs) else _rule_of(node)
            moves = rule is not None and rule is not _pointwise and rule is not _reduced
            if rule is not None:
                elements = rule(node, lambda v: self.elements(v, depth + 1, is_size and moves))
        if elements is None:
            elements = self._bounded(value, is_size)
        return None if elements is None else np.asarray(elements, object).reshape(value.shape)

    def _count(self, value: Value, node: Node) -> Elements | None:
        """Return a number of elements that a run counts; None for anything else."""
        return None

    def _bounded(self, value: Value, is_size: bool) -> Elements | None:
        """Return data-dependent numbers with bounds; None for anything else."""
        return None


# Rules: the elements of a node's result from those of its operands; None if unknown.

Find = Callable[[Optional[Value]], Optional[Elements]]
Rule = Callable[[Node, Find], Optional[Elements]]


def _rule_of(node: Node) -> Rule | None:
    op = node.operator
    if node.op in _RULES:
        return _RULES[node.op]
    if isinstance(op, (PointwiseOp, Cast, BitCast, PowInteger)):
        return _pointwise
    return _moved if op.has(Trait.MOVES_ELEMENTS) else None


def _all_elements(node: Node, find: Find) -> list[Elements] | None:
    """Return the elements of all operands; None if one is unknown."""
    elements = []
    for value in node.inputs:
        part = find(value)
        if part is None:
            return None
        elements.append(part)
    return elements


def _elementwise(function: Callable, *operands: Elements) -> Elements:
    return np.asarray(np.frompyfunc(function, len(operands), 1)(*operands), object)


def _pointwise(node: Node, find: Find) -> Elements | None:
    """Evaluate an operator. Raises UndefinedSize if other implementations may round differently."""
    operands, dtype = _all_elements(node, find), node.output.dtype.name
    if operands is None:
        return None
    types = {v.dtype.name for v in (*node.inputs, *node.outputs) if v is not None}
    exact = node.has(Trait.EXACT, Trait.CORRECTLY_ROUNDED)
    if types & {*FLOATS, *HALF} and not exact:
        raise inexact_error(node.op, *operands[0].flat)
    results = _elementwise(lambda *x: combine(node.op, x, dtype, node.attrs), *operands)
    for expr in results.flat:
        require_defined(expr)
    return results


def _slices(x: Elements, axis: int) -> list[Elements]:
    """Return the slices along an axis as arrays; an element alone is an array, too."""
    return [np.asarray(part, object) for part in np.moveaxis(x, axis, 0)]


def _folded(op: str, parts: Sequence[Elements], dtype: str) -> Elements:
    """Combine parts from the first to the last by a binary operator."""
    pair = lambda a, b: combine(op, [a, b], dtype)  # noqa: E731
    return reduce(lambda a, b: _elementwise(pair, a, b), parts)


_FOLDS = {
    "reduce_max": "max",
    "reduce_mean": "add",
    "reduce_min": "min",
    "reduce_prod": "mul",
    "reduce_sum": "add",
    "reduce_sum_square": "add",
}


def _reduced(node: Node, find: Find) -> Elements | None:
    x, dtype, axes = find(node.inputs[0]), node.output.dtype.name, node.attrs["axes"]
    if x is None:
        return None
    count = int(np.prod([x.shape[axis] for axis in axes]))
    if not count or (dtype in FLOATS and count > 2 and _FOLDS[node.op] in ("add", "mul")):
        return None  # the order of a float sum differs between implementations
    if node.op == "reduce_sum_square":
        x = _folded("mul", [x, x], dtype)
    for axis in sorted(axes, reverse=True):
        x = _folded(_FOLDS[node.op], _slices(x, axis), dtype)
    if node.op == "reduce_mean":
        x = _folded("div", [x, object_array([leaf(count, dtype)], ())], dtype)
    return x


def _cumulative(node: Node, find: Find) -> Elements | None:
    x, dtype, axis = find(node.inputs[0]), node.output.dtype.name, node.attrs["axis"]
    if x is None or (dtype in FLOATS and x.shape[axis] > 2):
        return None
    op, start = ("add", 0) if node.op == "cumulative_sum" else ("mul", 1)
    parts = _slices(x, axis)[:: -1 if node.attrs["reverse"] else 1]
    totals = [_folded(op, parts[: i + 1], dtype) for i in range(len(parts))]
    if node.attrs["exclusive"] and parts:
        first = object_array([leaf(start, dtype)] * parts[0].size, parts[0].shape)
        totals = [first, *totals[:-1]]
    sums = totals[:: -1 if node.attrs["reverse"] else 1]
    return np.stack(sums, axis) if sums else x


def _moved(node: Node, find: Find) -> Elements | None:
    """Evaluate an operator that moves elements of its first operand; the others are constants."""
    first, *others = node.inputs
    if any(v is None or v.data is None for v in others):
        return None
    x = find(first)
    if x is None:
        return None
    result = node.operator.evaluate([x, *(v.data for v in others if v is not None)], node.attrs)
    return None if result is None else result[0]


def _concatenated(node: Node, find: Find) -> Elements | None:
    parts = _all_elements(node, find)
    return None if parts is None else np.concatenate(parts, node.attrs["axis"])


def _sliced(node: Node, find: Find) -> Elements | None:
    """Return the elements of a slice; skipped parts of a concat need not be known."""
    x, (start, *more) = node.inputs[0], node.attrs["starts"] or (0,)
    size, step = (node.attrs["sizes"] or (1,))[0], (node.attrs["steps"] or (1,))[0]
    joined = concat_of(x) if step == 1 and not more else None
    for part in () if joined is None else joined.inputs:
        extent = part.shape[0]  # type: ignore[union-attr]
        if isinstance(extent, int) and start + size <= extent:
            elements = find(part)
            return None if elements is None else elements[start : start + size]
        if not isinstance(extent, int) or start < extent:
            break
        start -= extent
    return _moved(node, find)


def _counted(node: Node, find: Find) -> Elements | None:
    """Return the elements of a range of known length."""
    a = node.attrs
    return object_array(
        [leaf(a["start"] + i * a["step"]) for i in range(a["count"])], (a["count"],)
    )


def _scattered(node: Node, find: Find) -> Elements | None:
    """Return the elements after a scatter, as torch's ``index_copy`` replaces an extent."""
    x, indices, updates = find(node.inputs[0]), node.inputs[1], find(node.inputs[2])
    if x is None or updates is None or indices is None or indices.data is None:
        return None
    result = node.operator.evaluate([x, indices.data, updates], node.attrs)
    return None if result is None else result[0]


_RULES: dict[str, Rule] = {
    **dict.fromkeys(_FOLDS, _reduced),
    **dict.fromkeys(("cumulative_product", "cumulative_sum"), _cumulative),
    "concat": _concatenated,
    "iota": _counted,
    "scatter_elements": _scattered,
    "scatter_nd": _scattered,
    "slice": _sliced,
}


MAX_BOUND = 1 << 24  # larger bounds of data-dependent numbers are not used
MAX_OPEN_BOUND = 1 << 12  # larger bounds follow from INT_MAX if a dimension has no bound
MAX_EXACT_WEIGHT = 256  # a run computes a longer expression once, as a size of its own


def extents_of(ctx: OperatorContext, numbers: np.ndarray) -> list[SymInt] | None:
    """Return integers as extents, exact or data-dependent; None if one may be negative or is
    unbounded."""
    if not all(exact_extent(expr) is not None or _is_extent(expr) for expr in numbers.flat):
        return None
    return [_to_extent(ctx, expr) for expr in numbers.flat]


def _is_extent(expr: SizeExpr) -> bool:
    ends = bounds(expr)
    if ends is None or ends[0] < 0:
        return False
    return ends[1] <= INT_MAX or any(s.is_unbounded for s in expr.symbols)


def to_extent(ctx: OperatorContext, expr: SizeExpr) -> SymInt | None:
    """Return an integer as an extent, exact or data-dependent; None if it is unbounded."""
    value = extents_of(ctx, np.asarray(expr, object))
    return None if value is None else value[0]


def _to_extent(ctx: OperatorContext, expr: SizeExpr) -> SymInt:
    extent = exact_extent(expr)
    if isinstance(extent, int):
        return extent
    if extent is not None and (extent.weight <= MAX_EXACT_WEIGHT or not _is_extent(expr)):
        return extent
    low, high = bounds(expr)  # type: ignore[misc]
    if high > MAX_OPEN_BOUND and any(s.is_unbounded for s in expr.symbols):
        high = INT_MAX  # has no bound either: each run checks it
    scalar = emit_expression(ctx, cast_to(expr, "int64"))
    return ctx.data_dependent_extent(scalar, low, high, "size")


def emit_expression(ctx: OperatorContext, expr: SizeExpr) -> Value:
    """Emit a scalar for the run, rounded after each operator as in the network.

    Float32 operators are computed in float64, which rounds to the same float32, so that no C
    compiler fuses two of them.
    """
    values: dict[bytes, Value] = {}

    def visit(each: SizeExpr) -> Value:
        if each.key not in values:
            values[each.key] = _emit_operator(ctx, each, [visit(o) for o in each.operands])
        return values[each.key]

    return visit(expr)


def _emit_operator(ctx: OperatorContext, expr: SizeExpr, operands: Iterable[Value]) -> Value:
    if not expr.op:
        if expr.dtype in ("float32", "float64", "bool"):
            return ctx.const(np.asarray(expr.value, expr.dtype))
        return ctx.cast(ctx.integer_tensor(np.asarray(expr.value, object)), expr.dtype)
    if expr.is_cast:
        return _round_to(ctx, *operands, expr.dtype)
    wide = [ctx.cast(v, "float64") if v.dtype.name == "float32" else v for v in operands]
    return _round_to(ctx, ctx.emit(expr.op, wide, **expr.attrs), expr.dtype)


def _round_to(ctx: OperatorContext, value: Value, dtype: str) -> Value:
    if dtype not in HALF:
        return ctx.cast(value, dtype)
    return ctx.emit("cast", [ctx.cast(ctx.cast(value, "float32"), dtype)], to="float32")
