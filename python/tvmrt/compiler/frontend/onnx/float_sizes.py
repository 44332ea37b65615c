"""Shape inference through floats and booleans, see ``frontend.size_numbers``.

The nodes are imported like any others. In addition, the dependence of each element on the sizes of
a run is tracked. A shape made of these elements is an exact extent if one is valid at all sizes.
Otherwise it is data-dependent, with bounds from interval arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from tvmrt.compiler.frontend.extents import MOST_ELEMENTS, Elements, elements_of
from tvmrt.compiler.frontend.size_numbers import (
    FLOATS,
    MAX_EXTENT,
    SizeNumber,
    bounds,
    cast_to,
    combined,
    constant_value,
    exact_extent,
    leaf,
)
from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.extent import SymInt, UndecidedExtent
from tvmrt.error import UnsupportedError

from .arithmetic import Numbers
from .context import NodeContext
from .extents import RULES
from .halves import rounded

MAX_ROOT = 1 << 22  # smaller integers have an integer float32 root only if it is exact

_TYPES = {
    TensorProto.FLOAT16: "float16",
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
}
_INTEGERS = {TensorProto.INT32: "int32", TensorProto.INT64: "int64"}


def follow(ctx: NodeContext) -> list[Value] | None:
    """Return the integer result of a node on floats, booleans or a quotient of sizes as extents;
    None for any other node."""
    dtype = _integers_of(ctx)
    found = None if dtype is None else _result(ctx)
    if found is None:
        return None
    wholes = [as_whole(ctx, cast_to(number, "int64")) for number in found.reshape(-1)]
    if any(each is None for each in wholes):
        return None
    array = np.empty(len(wholes), object)
    array[:] = wholes
    return [ctx.whole_numbers(array.reshape(found.shape), dtype)]


def _integers_of(ctx: NodeContext) -> str | None:
    """Return the type of a node's result if it is an integer type tracked here."""
    if ctx.op == "Div" and ctx.required(0).dtype.is_int:
        return ctx.required(0).dtype.name
    if not any(v in ctx.importer.size_numbers for v in ctx.inputs):
        return None
    if ctx.op == "Cast":
        return _INTEGERS.get(ctx.attr("to"))
    is_choice = ctx.op == "Where" and ctx.required(1).dtype.is_int
    return ctx.required(1).dtype.name if is_choice else None


def note(ctx: NodeContext, outputs: Sequence[Any] | None) -> Sequence[Any] | None:
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
    return [_noted(ctx, value, part) for value, part in zip(outputs, parts)]


def _noted(ctx: NodeContext, value: Value, found: Elements) -> Value:
    fixed = [_fixed(number) for number in found.reshape(-1)]
    if all(each is not None for each in fixed):
        array = np.asarray(fixed, value.dtype.numpy).reshape(found.shape)
        return ctx.alike(ctx.const(array), value)
    ctx.importer.size_numbers[value] = found
    return value


def _fixed(number: SizeNumber) -> float | bool | None:
    """Return a number that is constant without trial of all sizes, or a constant comparison."""
    if not number.symbols or number.dtype == "bool":
        return constant_value(number)
    ratio = number.ratio
    if ratio is None or not ratio.is_exact or not isinstance(ratio.number, int):
        return None
    return ratio.number / ratio.divisor


def _result(ctx: NodeContext) -> Any:
    """Return the elements of a node's result; None if they do not follow from sizes."""
    rule = _RULES.get(ctx.op)
    known = ctx.importer.size_numbers
    reads_floats = any(v in known for v in ctx.inputs)
    if rule is None or ctx.node.domain not in ("", "ai.onnx"):
        return None
    if not reads_floats and not any(v in ctx.importer.extents for v in ctx.inputs):
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
    if value is None or ctx.half_of(value) not in (None, "float16"):
        return None
    known = ctx.importer.size_numbers.get(value)
    if known is not None:
        return known
    found = elements_of(value, ctx.importer.extents)
    if found is None and value.data is not None and value.dtype.name in FLOATS:
        data = value.data
        found = data.astype(object) if data.size <= MOST_ELEMENTS else None
    if found is None:
        return None
    dtype = value.dtype.name if value.dtype.name in (*FLOATS, "bool") else "int64"
    array = np.empty(found.shape, object)
    array.reshape(-1)[:] = [leaf(each, dtype) for each in found.reshape(-1)]
    return array


# Conversions of numbers to extents.


def scaled(ctx: NodeContext, extent: SymInt, factor: SizeNumber) -> SymInt | None:
    """Return floor(extent * factor) in float32; None if it is unbounded."""
    product = combined("mul", [cast_to(leaf(extent), "float32"), factor], "float32")
    return as_whole(ctx, cast_to(combined("floor", [product], "float32"), "int64"))


def as_whole(ctx: NodeContext, number: SizeNumber) -> SymInt | None:
    """Return an int64 number as an extent, exact or data-dependent; None if it is unbounded."""
    found = exact_extent(number)
    if found is not None:
        return found
    counts = ctx.importer.size_counts
    key = (number.key, ctx.builder.guard, ctx.importer.graph)
    if key not in counts:
        ends = bounds(number)
        if ends is None or not 0 <= ends[0] <= ends[1] <= MAX_EXTENT:
            return None
        counts[key] = ctx.found(computed(ctx, number).value, *ends, "size")
    return counts[key]


def scaled_alike(
    ctx: NodeContext, sizes: Sequence[SizeNumber], extents: Sequence[SizeNumber], better: str
) -> list[SymInt]:
    """Return all extents times one common quotient of a size and an extent, rounded half up.
    ``better``: the comparison that selects it. Raises UnsupportedError if a result is unbounded."""

    def product(a: SizeNumber, b: SizeNumber) -> SizeNumber:
        return combined("mul", [a, b], "int64")

    size, extent = sizes[0], extents[0]
    for other, across in zip(sizes[1:], extents[1:]):
        pair = [product(other, extent), product(size, across)]
        is_better = combined(better, pair, "bool")
        size = combined("where", [is_better, other, size], "int64")
        extent = combined("where", [is_better, across, extent], "int64")
    found = []
    for n in extents:
        twice = combined("add", [product(leaf(2), product(size, n)), extent], "int64")
        found.append(as_whole(ctx, whole_quotient(twice, product(leaf(2), extent))))
    if any(n is None for n in found):
        raise UnsupportedError(
            "the sizes that keep the aspect ratio are unbounded; declare closer bounds"
        )
    return found  # type: ignore[return-value]


def count_of_range(ctx: NodeContext) -> SymInt | None:
    """Return the length of a Range whose operands are floats computed from sizes."""
    if not any(v in ctx.importer.size_numbers for v in ctx.inputs):
        return None
    operands = [_elements(ctx, v) for v in ctx.inputs]
    if any(o is None or o.size != 1 for o in operands):
        return None
    start, limit, step = (o.reshape(-1)[0] for o in operands)
    apart = cast_to(combined("sub", [limit, start], limit.dtype), "float64")
    found = combined("div", [apart, cast_to(step, "float64")], "float64")
    found = combined("max", [combined("ceil", [found], "float64"), leaf(0.0, "float64")], "float64")
    return as_whole(ctx, cast_to(found, "int64"))


def computed(ctx: NodeContext, number: SizeNumber) -> Numbers:
    """Emit a scalar for the run, rounded after each operator as in the network.

    Float32 operators are computed in float64, which rounds to the same float32, so that no C
    compiler fuses two of them.
    """
    found: dict[bytes, Numbers] = {}

    def visit(each: SizeNumber) -> Numbers:
        if each.key not in found:
            found[each.key] = _emitted(ctx, each, [visit(o) for o in each.operands])
        return found[each.key]

    return visit(number)


def _emitted(ctx: NodeContext, number: SizeNumber, operands: Sequence[Numbers]) -> Numbers:
    if not number.op:
        value = number.value
        if number.dtype == "int64":
            return Numbers(ctx, ctx.whole_numbers(np.asarray(value, object)))
        return Numbers(ctx, ctx.const(np.asarray(value, number.dtype).astype(_wide(number.dtype))))
    if number.op == "cast":
        return _rounded_to(ctx, operands[0], number.dtype)
    wide = [o.cast("float64") if o.value.dtype.name == "float32" else o for o in operands]
    op = "div" if number.op == "quotient" else number.op
    return _rounded_to(ctx, Numbers(ctx, ctx.emit(op, [o.value for o in wide])), number.dtype)


def _wide(dtype: str) -> str:
    """Return the run-time type for numbers of a type."""
    return "float32" if dtype == "float16" else dtype


def _rounded_to(ctx: NodeContext, numbers: Numbers, dtype: str) -> Numbers:
    found = numbers.cast(_wide(dtype))
    if dtype == "float16":
        return Numbers(ctx, rounded(ctx.builder, found.value, dtype))
    return found


# Rules: from operators and the numbers of their operands to the numbers of the result.


def _pointwise(op: str, dtype: str | None = None) -> Callable:
    """Return a rule for an elementwise operator with broadcasting; variadic ones fold left."""

    def rule(ctx: NodeContext, *operands: Elements) -> Elements:
        def apply(*numbers: SizeNumber) -> SizeNumber:
            return combined(op, numbers, dtype or numbers[-1].dtype)

        if len(operands) == 1:
            return _each(apply, *operands)
        total = operands[0]
        for operand in operands[1:]:
            total = _each(apply, total, operand)
        return total

    return rule


def _each(function: Callable, *operands: Elements) -> Elements:
    return np.asarray(np.frompyfunc(function, len(operands), 1)(*operands), object)


def _divided(ctx: NodeContext, x: Elements, by: Elements) -> Elements | None:
    if ctx.required(0).dtype.name in FLOATS:
        return _pointwise("div")(ctx, x, by)
    return _each(whole_quotient, x, by) if all(map(_is_positive, by.reshape(-1))) else None


def _is_positive(number: SizeNumber) -> bool:
    ends = bounds(number)
    return ends is not None and ends[0] > 0


def whole_quotient(number: SizeNumber, divisor: SizeNumber) -> SizeNumber:
    """Return the floor of an integer quotient. Raises UndecidedExtent if it may be negative."""
    ends = bounds(number)
    if ends is None or ends[0] < 0:
        raise UndecidedExtent(f"{number!r} / {divisor!r} may be below 0")
    return combined("quotient", [number, divisor], "int64")


def _cast(ctx: NodeContext, x: Elements) -> Elements | None:
    """Cast numbers. Half precision is computed in float32 and rounded only by conversions."""
    to = ctx.attr("to")
    if to in _INTEGERS and any(number.dtype == "int64" for number in x.flat):
        return None  # extents are tracked already
    if to not in _TYPES and to not in _INTEGERS:
        return None
    kinds = ["int64" if to in _INTEGERS else _TYPES[to]]
    if ctx.half_of(ctx.required(0)) is not None:
        kinds.insert(0, "float16")
    if kinds[-1] == "float16":
        kinds.append("float32")
    for kind in kinds:
        x = _each(lambda number, kind=kind: cast_to(number, kind), x)
    return x


def _where(ctx: NodeContext, condition: Elements, x: Elements, y: Elements) -> Elements:
    def choose(c: SizeNumber, a: SizeNumber, b: SizeNumber) -> SizeNumber:
        return a if a == b else combined("where", [c, a, b], a.dtype)

    return _each(choose, condition, x, y)


def _clip(
    ctx: NodeContext, x: Elements, low: Elements | None = None, high: Elements | None = None
) -> Elements:
    for op, limit in (("max", low), ("min", high)):
        x = x if limit is None else _pointwise(op)(ctx, x, limit)
    return x


def _reciprocal(ctx: NodeContext, x: Elements) -> Elements:
    return _each(lambda number: combined("div", [leaf(1.0, number.dtype), number], number.dtype), x)


def _power(ctx: NodeContext, x: Elements, by: Elements) -> Elements | None:
    """Powers that all C libraries round alike: 1, 2, and roots of integers below MAX_ROOT, where
    only exact roots round to an integer."""
    times = by.reshape(-1)[0].value if by.size == 1 and not by.reshape(-1)[0].op else None
    if times == 1:
        return x
    if times == 2:
        return _pointwise("mul")(ctx, x, x)
    whole = all(n.ratio is not None and n.ratio.is_exact and n.ratio.divisor == 1 for n in x.flat)
    if times != 0.5 or not whole or not all(map(_is_near_root, x.flat)):
        return None
    return _pointwise("sqrt")(ctx, x)


def _is_near_root(number: SizeNumber) -> bool:
    ends = bounds(number)
    return ends is not None and 0 <= ends[0] and ends[1] < MAX_ROOT


def _reduced(op: str) -> Callable:
    def rule(ctx: NodeContext, x: Elements, axes: Elements | None = None) -> Elements | None:
        wanted = ctx.attr("axes")
        if axes is not None:
            wanted = [number.value for number in axes.reshape(-1)]
        if x.ndim != 1 or not x.size or wanted not in (None, [], [0], [-1]):
            return None
        total = x[0]
        for number in x[1:]:
            total = combined(op, [total, number], number.dtype)
        array = np.empty(1, object)
        array[0] = total
        return array if ctx.attr("keepdims", 1) else array.reshape(())

    return rule


def _moved(ctx: NodeContext, x: Elements, *operands: Elements | None) -> Any:
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
    array.reshape(-1)[:] = [number.value for number in numbers.reshape(-1)]
    return array


_RULES: dict[str, Callable] = {
    **{op: _pointwise(op.lower()) for op in (
        "Abs", "Add", "Ceil", "Floor", "Max", "Min", "Mul", "Neg", "Round", "Sqrt", "Sub",
    )},
    **{op: _moved for op in (
        "Concat", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Unsqueeze",
    )},
    "And": _pointwise("logical_and", "bool"),
    "Cast": _cast,
    "Clip": _clip,
    "Div": _divided,
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
