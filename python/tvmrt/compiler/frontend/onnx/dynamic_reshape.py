"""Reshape to a run-time shape, up to the declared shape of the result."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tvmrt.compiler.frontend.shapes import infer_extent
from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes import (
    INT_MAX,
    Extent,
    SymInt,
    bounds,
    data_dependent_symbols,
    extent_text,
    is_unbounded,
    lower_bound,
    sym_max,
    upper_bound,
)
from tvmrt.compiler.ir.sizes.assumptions import primitive_part
from tvmrt.error import UnsupportedError

from .context import NodeContext
from .fixed_values import declare_result, unknown_operand
from .reshape_zero_extents import can_be_zero
from .tensor_expressions import TensorExpr, require


def import_reshape(ctx: NodeContext) -> Value:
    """Reshape the first operand to the run-time shape in the second one, of extents up to the
    declared ones. Raises UnsupportedError if the result's rank or bounds are not declared."""
    x, operand = ctx.required(0), ctx.required(1)
    declared = ctx.importer.declared_bounds(ctx.node.output[0])
    if declared is None:
        raise unknown_operand(ctx, operand, f"shape (input 1, {operand.name})", declare_result())
    if len(declared) != operand.type.size:
        raise UnsupportedError(
            f"the result is declared with rank {len(declared)}, but the shape "
            f"operand has {operand.shape[0]} elements"
        )
    sizes = _requested_extents(ctx, x, TensorExpr.from_integer(ctx, operand))
    shape = [
        ctx.data_dependent_extent(sizes.at(d).value, 0, upper_bound(n), f"extent of axis {d}")
        for d, n in enumerate(declared)
    ]
    found = reshape_data_dependent(ctx, x, shape)
    return ctx.reshape(x, shape) if found is None else found


def _requested_extents(ctx: NodeContext, x: Value, requested: TensorExpr) -> TensorExpr:
    """Return the wanted extents, with 0 replaced by the extent of x and -1 inferred."""
    rank = requested.shape[0]
    if not ctx.attr("allowzero", 0):
        own = [*x.shape[:rank], *[0] * (rank - len(x.shape))]
        requested = requested.equals(0).where(requested.like(own), requested)
    others = requested.equals(-1).where(1, requested).reduce("reduce_prod")
    return requested.equals(-1).where(others.like(prod(x.shape)) / others, requested)


def reshape_data_dependent(ctx: NodeContext, x: Value, requested: Sequence[SymInt]) -> Value | None:
    """Reshape x to a shape with data-dependent extents in place of extents of x, such as the two
    equal sides of an image whose pixels are one axis of x. A run with a different size fails.

    None if the extents are those of x itself, or if -1 cannot be inferred.
    """
    declared = [n for n in requested if n != -1]
    shared = set(data_dependent_symbols(x.shape)) & set(data_dependent_symbols(declared))
    if shared or infer_extent(x, declared) is not None:
        return None
    fixed = prod(n for n in x.shape if isinstance(n, int))
    named = prod(n for n in declared if isinstance(n, int))
    if -1 in requested and (not named or fixed % named):
        return None
    shape = [fixed // named if n == -1 else n for n in requested]
    missing = prod(shape) - x.type.size
    low, high = bounds(missing)
    if not isinstance(missing, Extent) or not low <= 0 <= high:
        return None
    extents = ctx.integer_tensor(np.asarray(shape, object))
    size = TensorExpr.from_integer(ctx, extents).reduce("reduce_prod").reshape(1)
    as_many = f"results of as many elements as {x.name} has"
    fits = require(size, [x.type.size], extents, "shape", as_many)
    if ctx.builder.guard is None:  # later nodes read the result, so its shape is known to be valid
        for symbol in data_dependent_symbols(shape):
            symbol.zeros.append(primitive_part(missing))
    return ctx.emit("choice", [fits, x, x], shape=tuple(shape))


def infer_in_run(ctx: NodeContext, x: Value, requested: Sequence[SymInt], axis: int) -> Value:
    """Reshape x to a shape whose axis ``axis`` is -1, where no expression of the sizes divides the
    elements of x. Each run divides, and checks that nothing remains."""
    shape = list(requested)
    for i, n in enumerate(requested[: 0 if ctx.attr("allowzero", 0) else len(x.shape)]):
        if i != axis and can_be_zero(n):
            shape[i] = n + x.shape[i] * sym_max(1 - n, 0)
    product, total = prod(n for n in shape if n != -1), prod(x.shape)
    numbers = ctx.integer_tensor(np.asarray([total, product], object))
    size, others = (TensorExpr(ctx, numbers).at(i) for i in range(2))
    quotient = size / others
    most = upper_bound(total) // max(lower_bound(product), 1)
    high = INT_MAX if is_unbounded(total) else most
    extent = ctx.data_dependent_extent(quotient.value, 0, high, f"extent of axis {axis}")
    rest = (size - quotient * others).reshape(1)
    text = f"a shape {_as_text(shape)} that divides the elements of {x.name}"
    fits = require(rest, [0], numbers, "shape", text)
    shape[axis] = extent
    return ctx.emit("choice", [fits, x, x], shape=tuple(shape))


def _as_text(shape: Sequence[SymInt]) -> str:
    return f"[{', '.join(map(extent_text, shape))}]"
