"""Broadcasting along axes whose extents a run finds: each of them may be 1."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes import SymInt, bounds, data_dependent_symbols, lower_bound, sym_max

from .tensor_expressions import TensorExpr, require

NodeContext = Any  # of ``context``, which imports this module


def broadcast_operands(ctx: NodeContext, operands: Sequence[Value | None]) -> list[Value | None]:
    """Return the operands of a pointwise operator; each run repeats those of extent 1."""
    result, shapes = list(operands), [v.shape for v in operands if v is not None]
    for axis in range(-max(map(len, shapes), default=0), 0):
        common = common_extent(ctx, {s[axis] for s in shapes if len(s) >= -axis})
        if common is not None:
            result = [v if v is None else repeat(ctx, v, axis, common) for v in result]
    return result


def common_extent(ctx: NodeContext, extents: Collection[SymInt]) -> SymInt | None:
    """Return the extent to which others broadcast, and let each run check that they do. None if
    no run finds them and they may be equal, or if they are assumed to be."""
    several = sorted({*extents} - {1}, key=repr)
    certain = [n for n in several if isinstance(n, int) or lower_bound(n) > 1]
    ends = [bounds(a - b) for a, b in combinations(several, 2)]
    differ = any(low > 0 or high < 0 for low, high in ends)
    found = data_dependent_symbols(*several) and (certain or ctx.importer.request.is_general)
    if len(several) < 2 or len(certain) == len(several) or not (differ or found):
        return None
    if certain:
        common = certain[0]
    else:
        size = TensorExpr(ctx, ctx.integer_tensor(np.asarray(several, object)))
        each = [size.at(i) for i in range(len(several))]
        found = reduce(lambda a, b: a.equals(1).where(b, a), each)
        most = reduce(sym_max, several)
        common = ctx.data_dependent_extent(found.value, 0, most, "common size")
    others = [n for n in several if n != common]
    size = TensorExpr(ctx, ctx.integer_tensor(np.asarray(others, object)))
    fits = size.equals(common).logical_or(size.equals(1)).cast("int64")
    require(fits, [1] * len(others), size.value, "shape", f"1 or {common!r} elements")
    return common


def repeat(ctx: NodeContext, x: Value, axis: int, extent: SymInt) -> Value:
    """Repeat x along an axis, counted from the end, if it has one element in a run."""
    n = x.shape[axis] if len(x.shape) >= -axis else 1
    if isinstance(n, int) or n == extent:
        return x
    places = TensorExpr(ctx, ctx.iota(extent)).minimum(n - 1)
    return ctx.emit("gather", [x, places.value], axis=axis + len(x.shape))
