"""Shapes, layout changes, joining and selecting."""

from __future__ import annotations

import numpy as np

from tvmrt.ir import Value

from .context import NodeContext
from .registry import onnx_op


@onnx_op("Constant")
def constant(ctx: NodeContext) -> Value:
    for name in ("value", "value_float", "value_floats", "value_int", "value_ints"):
        value = ctx.attr(name)
        if value is not None:
            dtype = {"value_float": np.float32, "value_floats": np.float32}.get(name)
            if name in ("value_int", "value_ints"):
                dtype = np.int64
            return ctx.const(value, dtype)
    raise ValueError("a Constant without a numeric value")


@onnx_op("Shape")
def shape(ctx: NodeContext) -> Value:
    extents = np.asarray(ctx.required(0).shape, np.int64)
    return ctx.const(extents[slice(ctx.attr("start", 0), ctx.attr("end"))])


@onnx_op("Reshape")
def reshape(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    wanted = ctx.attr_or_input("shape", 1)
    if not ctx.attr("allowzero", 0):
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    if -1 in wanted:
        known = int(np.prod([n for n in wanted if n != -1], dtype=np.int64))
        if known == 0 or x.type.size % known:
            raise ValueError(f"{x.type} does not reshape to {wanted}")
        wanted[wanted.index(-1)] = x.type.size // known
    return ctx.reshape(x, wanted)


@onnx_op("Flatten")
def flatten(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    axis = ctx.attr("axis", 1)
    axis += len(x.shape) if axis < 0 else 0
    lead = int(np.prod(x.shape[:axis], dtype=np.int64))
    return ctx.reshape(x, (lead, int(np.prod(x.shape[axis:], dtype=np.int64))))


@onnx_op("Transpose")
def transpose(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    return ctx.transpose(x, ctx.attr("perm", list(range(len(x.shape)))[::-1]))


@onnx_op("Concat")
def concat(ctx: NodeContext) -> Value:
    parts = [ctx.required(i) for i in range(len(ctx.inputs))]
    return parts[0] if len(parts) == 1 else ctx.emit("concat", parts, axis=ctx.attr("axis"))
