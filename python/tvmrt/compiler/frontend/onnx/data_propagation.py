"""Shape inference on values: nodes that compute with extents, element by element.

Exporters write a shape as ``Shape``, ``Gather``, ``Mul``, ``Concat``; Reshape reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from onnx import TensorProto

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
from tvmrt.compiler.frontend.dims import MAX_EXPONENT
from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.extent import sym_max, sym_min
from tvmrt.compiler.ir.op import normalize_axis
from tvmrt.compiler.ir.rounding import ceil_div

from .context import NodeContext


def propagate(ctx: NodeContext) -> list[Value] | None:
    """Return the results of a node on extents; None if it is not shape arithmetic."""
    rule = RULES.get(ctx.op) if ctx.node.domain in ("", "ai.onnx") else None
    known = ctx.extents
    if rule is None or not any(v in known for v in ctx.inputs):
        return None
    operands = [known_elements(v, known) for v in ctx.inputs]
    if any(v is not None and o is None for v, o in zip(ctx.inputs, operands)):
        return None
    parts = apply_rule(rule, ctx, operands)
    if parts is None:
        return None
    dtype = _type_of(ctx)
    return [ctx.integer_tensor(part, dtype) for part in parts]


def _type_of(ctx: NodeContext) -> str:
    """Return the element type of a node's result."""
    if ctx.op == "Equal":
        return "bool"
    if ctx.op == "Cast":
        return "int32" if ctx.attr("to") == TensorProto.INT32 else "int64"
    return ctx.required(1 if ctx.op == "Where" else 0).dtype.name


def _numbers(ctx: NodeContext, name: str, given: Elements | None) -> list[int] | None:
    """Return the integers of an attribute or of a constant operand."""
    if given is None:
        return ctx.attr(name)
    return [int(n) for n in given.reshape(-1)]


def _slice(ctx: NodeContext, x: Elements, *operands: Elements | None) -> Elements:
    names = ("starts", "ends", "axes", "steps")
    given = [*operands, *[None] * (4 - len(operands))]
    starts, ends, axes, steps = (
        _numbers(ctx, name, operand) for name, operand in zip(names, given)
    )
    axes = list(range(len(starts))) if axes is None else axes
    selection = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps or [1] * len(starts)):
        selection[axis] = slice(start, end, step)
    return x[tuple(selection)]


def _squeeze(ctx: NodeContext, x: Elements, axes: Elements | None = None) -> Elements:
    wanted = _numbers(ctx, "axes", axes)
    return np.squeeze(x, None if wanted is None else tuple(wanted))


def _unsqueeze(ctx: NodeContext, x: Elements, axes: Elements | None = None) -> Elements:
    wanted = _numbers(ctx, "axes", axes) or []
    rank = x.ndim + len(wanted)
    return np.expand_dims(x, tuple(normalize_axis(a, rank) for a in wanted))


def _reshape(ctx: NodeContext, x: Elements, shape: Elements) -> Elements:
    wanted = [int(n) for n in shape.reshape(-1)]
    if not ctx.attr("allowzero", 0):
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    return x.reshape(wanted)


def _reduced(function: Callable) -> Callable:
    def rule(ctx: NodeContext, x: Elements, axes: Elements | None = None) -> Elements | None:
        wanted = _numbers(ctx, "axes", axes)
        if x.ndim != 1 or wanted not in (None, [], [0], [-1]):
            return None
        total = function(x.tolist())
        return np.asarray([total] if ctx.attr("keepdims", 1) else total, object)

    return rule


def _split(ctx: NodeContext, x: Elements, sizes: Elements | None = None) -> list[Elements] | None:
    wanted, axis = _numbers(ctx, "split", sizes), normalize_axis(ctx.attr("axis", 0), x.ndim)
    if wanted is None:
        count = len(ctx.node.output)
        size = ceil_div(x.shape[axis], count)  # the last part may be smaller
        return np.split(x, [size * i for i in range(1, count)], axis)
    return np.split(x, np.cumsum(wanted)[:-1], axis)


def _power(ctx: NodeContext, x: Elements, by: Elements) -> Elements | None:
    times = int(by.reshape(-1)[0]) if by.size == 1 else -1
    if not 0 <= times <= MAX_EXPONENT:
        return None
    return np.asarray(np.frompyfunc(lambda n: prod([n] * times), 1, 1)(x), object)


def _scatter(
    ctx: NodeContext, x: Elements, indices: Elements, updates: Elements
) -> Elements | None:
    """Scatter into a vector, as torch's ``index_copy`` replaces one extent of a shape."""
    if x.ndim != 1 or indices.size != updates.size or ctx.attr("reduction", "none") != "none":
        return None
    result = x.copy()
    for index, update in zip(indices.reshape(-1).tolist(), updates.reshape(-1).tolist()):
        result[int(index)] = update
    return result


def _clip(
    ctx: NodeContext, x: Elements, low: Elements | None = None, high: Elements | None = None
) -> Elements:
    for limit, rule in ((low, elementwise(sym_max)), (high, elementwise(sym_min))):
        # a limit of one element counts as a scalar, whatever its shape
        x = x if limit is None else rule(ctx, x, limit.reshape(()))
    return x


RULES: dict[str, Callable] = {
    "Add": elementwise(lambda a, b: a + b),
    "Cast": lambda ctx, x: x if ctx.attr("to") in (TensorProto.INT32, TensorProto.INT64) else None,
    "Clip": _clip,
    "Concat": lambda ctx, *parts: np.concatenate(parts, ctx.attr("axis")),
    "Div": elementwise(divide_truncated),
    "Equal": elementwise(equal),
    "Gather": lambda ctx, x, indices: take(x, indices, ctx.attr("axis", 0)),
    "Identity": lambda ctx, x: x,
    "Max": elementwise(sym_max),
    "Min": elementwise(sym_min),
    "Mod": elementwise(lambda a, b: a % b),
    "Mul": elementwise(lambda a, b: a * b),
    "Neg": lambda ctx, x: -x,
    "Pow": _power,
    "ReduceProd": _reduced(prod),
    "ReduceSum": _reduced(sum),
    "Reshape": _reshape,
    "ScatterElements": _scatter,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Sub": elementwise(lambda a, b: a - b),
    "Transpose": lambda ctx, x: x.transpose(ctx.attr("perm", range(x.ndim)[::-1])),
    "Unsqueeze": _unsqueeze,
    "Where": where,
}
