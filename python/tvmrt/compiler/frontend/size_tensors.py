"""Numbers computed from sizes as extents and as tensors of a run."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.computed_sizes.expression import (
    HALF,
    SizeExpr,
    bounds,
    cast_to,
    exact_extent,
)
from tvmrt.compiler.ir.sizes import INT_MAX, SymInt

from .context import OperatorContext

MAX_BOUND = 1 << 24  # larger bounds of data-dependent numbers are not used


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
    if extent is not None:
        return extent
    low, high = bounds(expr)  # type: ignore[misc]
    if high > MAX_BOUND and any(s.is_unbounded for s in expr.symbols):
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
