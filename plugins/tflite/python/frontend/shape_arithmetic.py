"""Shape arithmetic in the network, tracked symbolically element by element.

Converters that leave the batch open compute shapes with ``SHAPE``, ``STRIDED_SLICE``, ``PACK``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from tvmrt.compiler.frontend.data_propagation import (
    Elements,
    apply_rule,
    divide_truncated,
    elementwise,
    equal,
    known_elements,
    take,
    where,
)
from tvmrt.compiler.ir import Value
from tvmrt.plugins.tflite.frontend.context import OpContext


def evaluate(ctx: OpContext) -> list[Value] | None:
    """Evaluate an operator on shape elements; return None if it is not shape arithmetic."""
    rule, known = _RULES.get(ctx.op.name), ctx.importer.extents
    if rule is None or ctx.op.is_custom or not any(v in known for v in ctx.inputs):
        return None
    operands = [known_elements(v, known) for v in ctx.inputs]
    if any(o is None for o in operands) or ctx.options.get("act"):
        return None
    parts = apply_rule(rule, ctx, operands)
    if parts is None:
        return None
    return [ctx.integer_tensor(part, ctx.result(i).dtype) for i, part in enumerate(parts)]


def _known(*operands: Elements) -> list[list[int]]:
    """Return control operands as integers; raise UndecidedExtent if one is a symbolic extent."""
    return [[int(n) for n in operand.reshape(-1)] for operand in operands]


def _unpack(ctx: OpContext, x: Elements) -> list[Elements]:
    axis = ctx.options["axis"]
    return [np.take(x, i, axis) for i in range(x.shape[axis])]


def _gather(ctx: OpContext, x: Elements, indices: Elements) -> Elements | None:
    return None if ctx.options["batch_dims"] else take(x, indices, ctx.options["axis"])


def _slice(ctx: OpContext, x: Elements, starts: Elements, sizes: Elements) -> Elements:
    parts = zip(*_known(starts, sizes))
    return x[tuple(slice(a, None if n == -1 else a + n) for a, n in parts)]


def _strided_slice(ctx: OpContext, x: Elements, *operands: Elements) -> Elements | None:
    """Slice a one-dimensional shape tensor."""
    o = ctx.options
    if x.ndim != 1 or any(p.size != 1 for p in operands):
        return None
    if o["ellipsis_mask"] or o["new_axis_mask"]:
        return None
    (begin,), (end,), (step,) = _known(*operands)
    if o["shrink_axis_mask"]:
        return np.asarray(x[begin], object)
    first = None if o["begin_mask"] else begin
    last = None if o["end_mask"] else end + (begin if o["offset"] else 0)
    return x[slice(first, last, step)]


def _reshape(ctx: OpContext, x: Elements, shape: Elements | None = None) -> Elements:
    wanted = ctx.options["new_shape"] if shape is None else _known(shape)[0]
    return x.reshape(ctx.result().shape if wanted is None else wanted)


def _reduce(function: Callable) -> Callable:
    def rule(ctx: OpContext, x: Elements, axes: Elements) -> Elements | None:
        if x.ndim != 1 or _known(axes)[0] not in ([0], [-1]):
            return None
        total = function(x.tolist())
        return np.asarray([total] if ctx.options["keep_dims"] else total, object)

    return rule


_RULES: dict[str, Callable] = {
    "ADD": elementwise(lambda a, b: a + b),
    "CAST": lambda ctx, x: x if ctx.result().dtype in ("int32", "int64") else None,
    "CONCATENATION": lambda ctx, *parts: np.concatenate(parts, ctx.options["axis"]),
    "DIV": elementwise(divide_truncated),
    "EQUAL": elementwise(equal),
    "EXPAND_DIMS": lambda ctx, x, axis: np.expand_dims(x, _known(axis)[0][0]),
    "FLOOR_DIV": elementwise(lambda a, b: a // b),
    "FLOOR_MOD": elementwise(lambda a, b: a % b),
    "GATHER": _gather,
    "MAXIMUM": elementwise(lambda a, b: a if a >= b else b),
    "MINIMUM": elementwise(lambda a, b: a if a <= b else b),
    "MUL": elementwise(lambda a, b: a * b),
    "NEG": lambda ctx, x: -x,
    "PACK": lambda ctx, *parts: np.stack(parts, ctx.options["axis"]),
    "REDUCE_PROD": _reduce(prod),
    "RESHAPE": _reshape,
    "SELECT": where,
    "SELECT_V2": where,
    "SLICE": _slice,
    "SQUEEZE": lambda ctx, x: np.squeeze(x, tuple(ctx.options["squeeze_dims"] or ()) or None),
    "STRIDED_SLICE": _strided_slice,
    "SUB": elementwise(lambda a, b: a - b),
    "SUM": _reduce(sum),
    "UNPACK": _unpack,
}
