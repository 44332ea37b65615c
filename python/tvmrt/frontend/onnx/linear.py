"""Matrix products."""

from __future__ import annotations

from tvmrt.ir import Value

from .context import NodeContext
from .registry import onnx_op


@onnx_op("MatMul")
def matmul(ctx: NodeContext) -> Value:
    a, b = ctx.required(0), ctx.required(1)
    drop_row, drop_column = len(a.shape) == 1, len(b.shape) == 1
    if drop_row:
        a = ctx.reshape(a, (1, *a.shape))
    if drop_column:
        b = ctx.reshape(b, (*b.shape, 1))
    out = ctx.emit("matmul", [a, b])
    shape = list(out.shape)
    if drop_column:
        del shape[-1]
    if drop_row:
        del shape[-1 if drop_column else -2]
    return ctx.reshape(out, shape)


@onnx_op("Gemm")
def gemm(ctx: NodeContext) -> Value:
    a, b, c = ctx.required(0), ctx.required(1), ctx.input(2)
    a = ctx.transpose(a, (1, 0)) if ctx.attr("transA", 0) else a
    b = ctx.transpose(b, (1, 0)) if ctx.attr("transB", 0) else b
    alpha, beta = ctx.attr("alpha", 1.0), ctx.attr("beta", 1.0)
    if alpha != 1.0:
        # scaling the constant side costs nothing at run time
        if b.is_constant:
            b = ctx.emit("mul", [b, ctx.scalar_like(alpha, b)])
        else:
            a = ctx.emit("mul", [a, ctx.scalar_like(alpha, a)])
    out = ctx.emit("matmul", [a, b])
    if c is None or beta == 0.0:
        return out
    if beta != 1.0:
        c = ctx.emit("mul", [c, ctx.scalar_like(beta, c)])
    return ctx.emit("add", [out, c])
