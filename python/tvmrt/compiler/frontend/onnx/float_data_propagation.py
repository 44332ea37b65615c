"""Shape inference through floats and booleans, see ``frontend.size_expressions``.

The nodes are imported like any others. In addition, the dependence of each element on the sizes of
a run is tracked. A shape made of these elements is an exact extent if one is valid at all sizes.
Otherwise it is data-dependent, with bounds from interval arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from tvmrt.compiler.frontend.data_propagation import MAX_TRACKED_ELEMENTS, Elements, known_elements
from tvmrt.compiler.frontend.size_expressions import (
    FLOATS,
    MAX_EXTENT,
    SizeExpr,
    bounds,
    cast_to,
    combine,
    constant_value,
    exact_extent,
    leaf,
)
from tvmrt.compiler.ir import Value, constant
from tvmrt.compiler.ir.extent import SymInt, UndecidedExtent
from tvmrt.error import UnsupportedError

from .context import NodeContext
from .data_propagation import RULES
from .legalize_types import round_to_half, stored_type
from .tensor_expressions import TensorExpr

MAX_ROOT = 1 << 22  # smaller integers have an integer float32 root only if it is exact

_TYPES = {
    TensorProto.FLOAT16: "float16",
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
}
_INTEGERS = {TensorProto.INT32: "int32", TensorProto.INT64: "int64"}


def propagate(ctx: NodeContext) -> list[Value] | None:
    """Return the integer result of a node on floats, booleans or a quotient of sizes as extents;
    None for any other node."""
    dtype = _integers_of(ctx)
    found = None if dtype is None else _result(ctx)
    if found is None:
        return None
    new_extents = [to_extent(ctx, cast_to(expr, "int64")) for expr in found.reshape(-1)]
    if any(each is None for each in new_extents):
        return None
    array = np.empty(len(new_extents), object)
    array[:] = new_extents
    return [ctx.integer_tensor(array.reshape(found.shape), dtype)]


def _integers_of(ctx: NodeContext) -> str | None:
    """Return the type of a node's result if it is an integer type tracked here."""
    if ctx.op == "Div" and ctx.required(0).dtype.is_int:
        return ctx.required(0).dtype.name
    if not any(v in ctx.importer.sizes.expressions for v in ctx.inputs):
        return None
    if ctx.op == "Cast":
        return _INTEGERS.get(ctx.attr("to"))
    is_choice = ctx.op == "Where" and ctx.required(1).dtype.is_int
    return ctx.required(1).dtype.name if is_choice else None


def record_sizes(ctx: NodeContext, outputs: Sequence[Any] | None) -> Sequence[Any] | None:
    """Record how the results of a node depend on sizes. Return the results, with those that are
    equal at all sizes as constants."""
    if not outputs or ctx.node.domain not in ("", "ai.onnx"):
        return outputs
    first = outputs[0]
    if not isinstance(first, Value) or first.data is not None or first.type.rank > 2:
        return outputs
    if first.dtype.name not in (*FLOATS, "bool"):
        return outputs
    found = _result(ctx)
    if found is None:
        return outputs
    parts = found if isinstance(found, list) else [found]
    return [_record_size(ctx, value, part) for value, part in zip(outputs, parts)]


def _record_size(ctx: NodeContext, value: Value, found: Elements) -> Value:
    fixed = [_constant_size(expr) for expr in found.reshape(-1)]
    if all(each is not None for each in fixed):
        array = np.asarray(fixed, value.dtype.numpy).reshape(found.shape)
        return constant(array, value.name, value.type.source)
    ctx.importer.sizes.expressions[value] = found
    return value


def _constant_size(expr: SizeExpr) -> float | bool | None:
    """Return a number that is constant without trial of all sizes, or a constant comparison."""
    if not expr.symbols or expr.dtype == "bool":
        return constant_value(expr)
    ratio = expr.ratio
    if ratio is None or not ratio.is_exact or not isinstance(ratio.numerator, int):
        return None
    return ratio.numerator / ratio.denominator


def _result(ctx: NodeContext) -> Any:
    """Return the elements of a node's result; None if they do not follow from sizes."""
    rule = _RULES.get(ctx.op)
    known = ctx.importer.sizes.expressions
    reads_floats = any(v in known for v in ctx.inputs)
    if rule is None or ctx.node.domain not in ("", "ai.onnx"):
        return None
    if not reads_floats and not any(v in ctx.extents for v in ctx.inputs):
        return None
    operands = [_elements(ctx, v) for v in ctx.inputs]
    if any(v is not None and o is None for v, o in zip(ctx.inputs, operands)):
        return None
    try:
        return rule(ctx, *operands)
    except UndecidedExtent:
        return None


def _elements(ctx: NodeContext, value: Value | None) -> Elements | None:
    """Return the elements of an operand as numbers if all are known."""
    if value is None or stored_type(value) not in (None, "float16"):
        return None
    result = ctx.importer.sizes.expressions.get(value)
    if result is not None:
        return result
    found = known_elements(value, ctx.extents)
    if found is None and value.data is not None and value.dtype.name in FLOATS:
        data = value.data
        found = data.astype(object) if data.size <= MAX_TRACKED_ELEMENTS else None
    if found is None:
        return None
    dtype = value.dtype.name if value.dtype.name in (*FLOATS, "bool") else "int64"
    array = np.empty(found.shape, object)
    array.reshape(-1)[:] = [leaf(each, dtype) for each in found.reshape(-1)]
    return array


# Conversions of numbers to extents.


def scale_extent(ctx: NodeContext, extent: SymInt, factor: SizeExpr) -> SymInt | None:
    """Return floor(extent * factor) in float32; None if it is unbounded."""
    product = combine("mul", [cast_to(leaf(extent), "float32"), factor], "float32")
    return to_extent(ctx, cast_to(combine("floor", [product], "float32"), "int64"))


def to_extent(ctx: NodeContext, expr: SizeExpr) -> SymInt | None:
    """Return an int64 number as an extent, exact or data-dependent; None if it is unbounded."""
    result = exact_extent(expr)
    if result is not None:
        return result
    counts = ctx.importer.sizes.expression_extents
    key = (expr.key, ctx.builder.guard, ctx.importer.graph)
    if key not in counts:
        ends = bounds(expr)
        if ends is None or not 0 <= ends[0] <= ends[1] <= MAX_EXTENT:
            return None
        counts[key] = ctx.data_dependent_extent(emit_expression(ctx, expr).value, *ends, "size")
    return counts[key]


def scale_keeping_ratio(
    ctx: NodeContext, sizes: Sequence[SizeExpr], extents: Sequence[SizeExpr], better: str
) -> list[SymInt]:
    """Return all extents times one common quotient of a size and an extent, rounded half up.
    ``better``: the comparison that selects it. Raises UnsupportedError if a result is unbounded."""

    def product(a: SizeExpr, b: SizeExpr) -> SizeExpr:
        return combine("mul", [a, b], "int64")

    size, extent = sizes[0], extents[0]
    for other, across in zip(sizes[1:], extents[1:]):
        pair = [product(other, extent), product(size, across)]
        is_better = combine(better, pair, "bool")
        size = combine("where", [is_better, other, size], "int64")
        extent = combine("where", [is_better, across, extent], "int64")
    result = []
    for n in extents:
        twice = combine("add", [product(leaf(2), product(size, n)), extent], "int64")
        result.append(to_extent(ctx, floor_quotient(twice, product(leaf(2), extent))))
    if any(n is None for n in result):
        raise UnsupportedError(
            "the sizes that keep the aspect ratio are unbounded; declare closer bounds"
        )
    return result  # type: ignore[return-value]


def range_length(ctx: NodeContext) -> SymInt | None:
    """Return the length of a Range whose operands are floats computed from sizes."""
    if not any(v in ctx.importer.sizes.expressions for v in ctx.inputs):
        return None
    operands = [_elements(ctx, v) for v in ctx.inputs]
    if any(o is None or o.size != 1 for o in operands):
        return None
    start, limit, step = (o.reshape(-1)[0] for o in operands)
    difference = cast_to(combine("sub", [limit, start], limit.dtype), "float64")
    found = combine("div", [difference, cast_to(step, "float64")], "float64")
    found = combine("max", [combine("ceil", [found], "float64"), leaf(0.0, "float64")], "float64")
    return to_extent(ctx, cast_to(found, "int64"))


def emit_expression(ctx: NodeContext, expr: SizeExpr) -> TensorExpr:
    """Emit a scalar for the run, rounded after each operator as in the network.

    Float32 operators are computed in float64, which rounds to the same float32, so that no C
    compiler fuses two of them.
    """
    found: dict[bytes, TensorExpr] = {}

    def visit(each: SizeExpr) -> TensorExpr:
        if each.key not in found:
            found[each.key] = _emit_operator(ctx, each, [visit(o) for o in each.operands])
        return found[each.key]

    return visit(expr)


def _emit_operator(ctx: NodeContext, expr: SizeExpr, operands: Sequence[TensorExpr]) -> TensorExpr:
    if not expr.op:
        value = expr.value
        if expr.dtype == "int64":
            return TensorExpr(ctx, ctx.integer_tensor(np.asarray(value, object)))
        return TensorExpr(
            ctx, ctx.const(np.asarray(value, expr.dtype).astype(_run_time_type(expr.dtype)))
        )
    if expr.is_cast:
        return _round_to(ctx, operands[0], expr.dtype)
    wide = [o.cast("float64") if o.value.dtype.name == "float32" else o for o in operands]
    op = "div" if expr.op == "quotient" else expr.op
    return _round_to(ctx, TensorExpr(ctx, ctx.emit(op, [o.value for o in wide])), expr.dtype)


def _run_time_type(dtype: str) -> str:
    """Return the run-time type for numbers of a type."""
    return "float32" if dtype == "float16" else dtype


def _round_to(ctx: NodeContext, numbers: TensorExpr, dtype: str) -> TensorExpr:
    result = numbers.cast(_run_time_type(dtype))
    if dtype == "float16":
        return TensorExpr(ctx, round_to_half(ctx.builder, result.value, dtype))
    return result


# Rules: from operators and the numbers of their operands to the numbers of the result.


def _pointwise(op: str, dtype: str | None = None) -> Callable:
    """Return a rule for an elementwise operator with broadcasting; variadic ones fold left."""

    def rule(ctx: NodeContext, *operands: Elements) -> Elements:
        def apply(*numbers: SizeExpr) -> SizeExpr:
            return combine(op, numbers, dtype or numbers[-1].dtype)

        if len(operands) == 1:
            return _apply_elementwise(apply, *operands)
        total = operands[0]
        for operand in operands[1:]:
            total = _apply_elementwise(apply, total, operand)
        return total

    return rule


def _apply_elementwise(function: Callable, *operands: Elements) -> Elements:
    return np.asarray(np.frompyfunc(function, len(operands), 1)(*operands), object)


def _divide(ctx: NodeContext, x: Elements, by: Elements) -> Elements | None:
    if ctx.required(0).dtype.name in FLOATS:
        return _pointwise("div")(ctx, x, by)
    return (
        _apply_elementwise(floor_quotient, x, by)
        if all(map(_is_positive, by.reshape(-1)))
        else None
    )


def _is_positive(expr: SizeExpr) -> bool:
    ends = bounds(expr)
    return ends is not None and ends[0] > 0


def floor_quotient(expr: SizeExpr, divisor: SizeExpr) -> SizeExpr:
    """Return the floor of an integer quotient. Raises UndecidedExtent if it may be negative."""
    ends = bounds(expr)
    if ends is None or ends[0] < 0:
        raise UndecidedExtent(f"{expr!r} / {divisor!r} may be below 0")
    return combine("quotient", [expr, divisor], "int64")


def _cast(ctx: NodeContext, x: Elements) -> Elements | None:
    """Cast numbers. Half precision is computed in float32 and rounded only by conversions."""
    to = ctx.attr("to")
    if to in _INTEGERS and any(expr.dtype == "int64" for expr in x.flat):
        return None  # extents are tracked already
    if to not in _TYPES and to not in _INTEGERS:
        return None
    kinds = ["int64" if to in _INTEGERS else _TYPES[to]]
    if stored_type(ctx.required(0)) is not None:
        kinds.insert(0, "float16")
    if kinds[-1] == "float16":
        kinds.append("float32")
    for kind in kinds:
        x = _apply_elementwise(lambda expr, kind=kind: cast_to(expr, kind), x)
    return x


def _where(ctx: NodeContext, condition: Elements, x: Elements, y: Elements) -> Elements:
    def choose(c: SizeExpr, a: SizeExpr, b: SizeExpr) -> SizeExpr:
        return a if a == b else combine("where", [c, a, b], a.dtype)

    return _apply_elementwise(choose, condition, x, y)


def _clip(
    ctx: NodeContext, x: Elements, low: Elements | None = None, high: Elements | None = None
) -> Elements:
    for op, limit in (("max", low), ("min", high)):
        x = x if limit is None else _pointwise(op)(ctx, x, limit)
    return x


def _reciprocal(ctx: NodeContext, x: Elements) -> Elements:
    return _apply_elementwise(
        lambda expr: combine("div", [leaf(1.0, expr.dtype), expr], expr.dtype), x
    )


def _power(ctx: NodeContext, x: Elements, by: Elements) -> Elements | None:
    """Powers that all C libraries round alike: 1, 2, and roots of integers below MAX_ROOT, where
    only exact roots round to an integer."""
    times = by.reshape(-1)[0].value if by.size == 1 and not by.reshape(-1)[0].op else None
    if times == 1:
        return x
    if times == 2:
        return _pointwise("mul")(ctx, x, x)
    whole = all(
        n.ratio is not None and n.ratio.is_exact and n.ratio.denominator == 1 for n in x.flat
    )
    if times != 0.5 or not whole or not all(map(_is_near_root, x.flat)):
        return None
    return _pointwise("sqrt")(ctx, x)


def _is_near_root(expr: SizeExpr) -> bool:
    ends = bounds(expr)
    return ends is not None and 0 <= ends[0] and ends[1] < MAX_ROOT


def _reduced(op: str) -> Callable:
    def rule(ctx: NodeContext, x: Elements, axes: Elements | None = None) -> Elements | None:
        wanted = ctx.attr("axes")
        if axes is not None:
            wanted = [expr.value for expr in axes.reshape(-1)]
        if x.ndim != 1 or not x.size or wanted not in (None, [], [0], [-1]):
            return None
        total = x[0]
        for expr in x[1:]:
            total = combine(op, [total, expr], expr.dtype)
        array = np.empty(1, object)
        array[0] = total
        return array if ctx.attr("keepdims", 1) else array.reshape(())

    return rule


def _move_elements(ctx: NodeContext, x: Elements, *operands: Elements | None) -> Any:
    """Apply the extents' rules for operators that only move elements."""
    floats = x.reshape(-1)[0].dtype if x.size else "float32"
    if ctx.op == "Concat":
        return np.concatenate([x, *(o for o in operands if o is not None)], ctx.attr("axis"))
    if ctx.op == "ScatterElements" or floats == "int64":
        return None
    plain = [None if o is None else _values(o) for o in operands]
    return RULES[ctx.op](ctx, x, *plain)


def _values(numbers: Elements) -> Elements:
    array = np.empty(numbers.shape, object)
    array.reshape(-1)[:] = [expr.value for expr in numbers.reshape(-1)]
    return array


_RULES: dict[str, Callable] = {
    **{op: _pointwise(op.lower()) for op in (
        "Abs", "Add", "Ceil", "Floor", "Max", "Min", "Mul", "Neg", "Round", "Sqrt", "Sub",
    )},
    **{op: _move_elements for op in (
        "Concat", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Unsqueeze",
    )},
    "And": _pointwise("logical_and", "bool"),
    "Cast": _cast,
    "Clip": _clip,
    "Div": _divide,
    "Equal": _pointwise("equal", "bool"),
    "Greater": _pointwise("greater", "bool"),
    "GreaterOrEqual": _pointwise("greater_equal", "bool"),
    "Less": _pointwise("less", "bool"),
    "LessOrEqual": _pointwise("less_equal", "bool"),
    "Not": _pointwise("logical_not", "bool"),
    "Or": _pointwise("logical_or", "bool"),
    "Pow": _power,
    "Reciprocal": _reciprocal,
    "ReduceMax": _reduced("max"),
    "ReduceMin": _reduced("min"),
    "ReduceProd": _reduced("mul"),
    "ReduceSum": _reduced("add"),
    "Where": _where,
}  # fmt: skip
