"""Reshape to a run-time shape, up to the declared shape of the result, and to a shape with an
extent that is 0 in some runs: such a 0 copies the input's extent.

With ``allowzero=0`` an element 0 of the shape means the input's extent at that index. This includes
computed elements: ``[-1, N]`` for an input ``[2, 4, N]`` means ``[8, N]`` in a run with N above 0,
and ``[0, 4]`` in a run with N = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tvmrt.compiler.frontend.shapes import infer_extent
from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.data_dependent_dims import SIZES_AT_WHICH
from tvmrt.compiler.ir.sizes import (
    INT_MAX,
    Extent,
    SymInt,
    all_sizes,
    bounds,
    data_dependent_symbols,
    exact_quotient,
    extent_text,
    is_unbounded,
    lower_bound,
    sym_max,
    sym_sum,
    symbols_of,
    upper_bound,
)
from tvmrt.compiler.ir.sizes.assumptions import known_sign, primitive_part

from .context import NodeContext
from .dynamic_slice import result_shape
from .fixed_values import declare_result, unknown_operand
from .tensor_expressions import TensorExpr, require


def import_reshape(ctx: NodeContext) -> Value:
    """Reshape the first operand to the run-time shape in the second one. Raises UnsupportedError if
    its rank is unknown, or if memory is planned before a run and bounds are not declared."""
    x, operand = ctx.required(0), ctx.required(1)
    what, rank = f"shape (input 1, {operand.name})", operand.type.size
    if not isinstance(rank, int):
        raise unknown_operand(ctx, operand, what, declare_result())
    sizes = _requested_extents(ctx, x, TensorExpr.from_integer(ctx, operand))
    shape = result_shape(ctx, sizes, [None] * rank, operand, what)
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
    is_inferred = ctx.importer.request.is_general or not named or fixed % named or fixed == named
    if -1 in requested and is_inferred:
        return None
    shape = [fixed // named if n == -1 else n for n in requested]
    missing = prod(shape) - x.type.size
    low, high = bounds(missing)
    if not isinstance(missing, Extent) or not low <= 0 <= high:
        return None
    extents = ctx.integer_tensor(np.asarray(shape, object))
    size = TensorExpr.from_integer(ctx, extents).reduce("reduce_prod").reshape(1)
    as_many = f"{SIZES_AT_WHICH}results have as many elements as {x.name} has"
    fits = require(size, [x.type.size], extents, "shape", as_many)
    if ctx.builder.guard is None:  # later nodes read the result, so its shape is known to be valid
        for symbol in data_dependent_symbols(shape):
            symbol.zeros.append(primitive_part(missing))
    return ctx.with_shape(x, shape, fits)


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
    negative = sym_sum(sym_max(-n, 0) for n in requested if n != -1 and lower_bound(n) < 0)
    rest = (size - quotient * others).reshape(1)
    if negative != 0:  # no extent but -1 is below 0; the rest is not, either
        rest = rest + TensorExpr(ctx, ctx.integer_tensor(np.asarray([negative], object)))
    text = f"a shape {_as_text(requested)} that divides the elements of {x.name}"
    fits = require(rest, [0], numbers, "shape", text)
    shape[axis] = extent
    return ctx.with_shape(x, shape, fits)


def _as_text(shape: Sequence[SymInt]) -> str:
    return f"[{', '.join(map(extent_text, shape))}]"


def resolve_zero_extents(
    input_extents: Sequence[SymInt], shape: Sequence[SymInt], free: int | None
) -> list[SymInt]:
    """Return the extents of the result; extents that are 0 in a run become the input's.

    ``input_extents``: the extents of the input. ``free``: the index of -1 in the shape, for which
    ``shape`` has the inferred extent. If the standard makes a run invalid, such as ``[8, N]`` with
    N = 0, the shape is kept.
    """
    zero = {
        i: sym_max(1 - n, 0)  # 1 if the extent is 0, else 0
        for i, (n, own) in enumerate(zip(shape, input_extents))
        if i != free and can_be_zero(n) and not _is_zero_with(own, n)
    }
    result = list(shape)
    if not zero:
        return result
    copied = [n + input_extents[i] * zero[i] if i in zero else n for i, n in enumerate(shape)]
    if free is None:
        # only a result without elements has as many elements as the input, which is then empty
        # along another axis than that of the 0, or the copied extent is 0
        empties = {i for i, n in enumerate(input_extents) if can_be_zero(n)}
        zero = {i: is_zero for i, is_zero in zero.items() if empties - {i}}
        if not any(can_be_zero(input_extents[i] if i in zero else n) for i, n in enumerate(shape)):
            return result
        empty = sym_max(1 - prod(copied), 0)
        for i, is_zero in zero.items():
            result[i] = shape[i] + input_extents[i] * is_zero * empty
        return result
    copied[free] = shape[free] * prod(1 - is_zero for is_zero in zero.values())
    return copied


def _is_zero_with(own: SymInt, n: SymInt) -> bool:
    """Return whether an extent is known to be 0 in each run with an ``n`` of 0: its multiple, or a
    fraction of it."""
    return own == 0 or exact_quotient(own, n) is not None or isinstance(exact_quotient(n, own), int)


def can_be_zero(n: SymInt) -> bool:
    """Return whether an extent may be 0 in a run that passes the checks so far."""
    if not isinstance(n, Extent) or lower_bound(n) > 0 or known_sign(n - 1) is False:
        return n == 0
    symbols = symbols_of(n)
    sizes = all_sizes(symbols) if len(symbols) == 1 else None
    return bounds(n)[1] >= 0 if sizes is None else bool(np.any(n.at(sizes) == 0))
