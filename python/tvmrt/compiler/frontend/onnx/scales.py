"""Quantisation and dequantisation, by scales and zero points of ONNX's three forms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmrt.compiler.ir import DTYPES, SourceType, Value
from tvmrt.compiler.ir.low_bit_types import WIDER, widen_constants
from tvmrt.compiler.ir.op import normalize_axis
from tvmrt.compiler.ir.quantized import dequantize_of
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.error import UnsupportedError

from .context import NodeContext
from .legalize_types import retype


def align_parameters(
    ctx: NodeContext, p: Value, shape: Sequence[int], axis: int, block: int = 0
) -> Value:
    """Reshape a scale or zero point so that it broadcasts to ``shape``.

    A single number becomes a scalar, one per slice lies along ``axis``, blocks are repeated.
    """
    if p.type.size == 1:
        return ctx.reshape(p, ())
    axis = normalize_axis(axis, len(shape))
    if block:
        return _repeat_blocks(ctx, p, shape, axis, block)
    if len(p.shape) != 1 or p.shape[0] != shape[axis]:
        raise ValueError(f"parameters {p.type} do not fit axis {axis} of shape {list(shape)}")
    return ctx.reshape(p, [p.shape[0] if d == axis else 1 for d in range(len(shape))])


def _repeat_blocks(ctx: NodeContext, p: Value, shape, axis: int, block: int) -> Value:
    blocks = ceil_div(shape[axis], block)
    expected = (*shape[:axis], blocks, *shape[axis + 1 :])
    if p.shape != expected:
        raise ValueError(f"parameters {p.type} do not fit blocks of {block} in {list(shape)}")
    split = (*shape[:axis], blocks, 1, *shape[axis + 1 :])
    wide = (*shape[:axis], blocks, block, *shape[axis + 1 :])
    joined = (*shape[:axis], blocks * block, *shape[axis + 1 :])
    out = ctx.reshape(ctx.expand(ctx.reshape(p, split), wide), joined)
    return ctx.slice_axis(out, axis, 0, shape[axis])


def dequantize(
    ctx: NodeContext, q: Value, scale: Value, zero: Value | None, axis: int = 1, block: int = 0
) -> Value:
    """Return (q - zero) * scale. Without a zero point, and for floats, it is 0."""
    scale = ctx.widen(scale)
    zero = None if zero is None else widen_constants(ctx.builder, zero)
    if q.dtype.is_low_bit or q.dtype.is_float:
        if zero is not None and zero.is_constant and zero.data.astype(np.float32).any():
            raise ValueError("the zero point of a floating-point type must be 0")
        q, zero = ctx.widen(q), None
    elif zero is None:
        zero = ctx.const(0, q.dtype.numpy)
    stays_packed = q.producer is not None and q.producer.op == "widen"
    if block and stays_packed and q.shape[axis] % block == 0:
        return _dequantize_blocks(ctx, q, scale, zero, normalize_axis(axis, len(q.shape)), block)
    scale = align_parameters(ctx, scale, q.shape, axis, block)
    return _dequantize(
        ctx, q, scale, None if zero is None else align_parameters(ctx, zero, q.shape, axis, block)
    )


def unpack_weights(ctx: NodeContext, x: Value) -> Value:
    """Unpack the constant of a dequantised packed tensor to one byte per element, which integer
    kernels read. Other values are returned unchanged."""
    node = dequantize_of(x)
    if node is None:
        return x
    q = widen_constants(ctx.builder, node.inputs[0])
    return ctx.emit("dequantize", [q, *node.inputs[1:]]) if q.is_constant else x


def _dequantize(ctx: NodeContext, q: Value, scale: Value, zero: Value | None) -> Value:
    if zero is None:
        return ctx.emit("mul", [ctx.cast(q, scale.dtype.name), scale])
    return ctx.emit("dequantize", [q, scale, zero])


def _dequantize_blocks(ctx: NodeContext, q: Value, scale: Value, zero, axis, block) -> Value:
    """Dequantise with an extra axis of blocks, along which the parameters broadcast."""
    blocked_shape = (*q.shape[:axis], q.shape[axis] // block, block, *q.shape[axis + 1 :])
    if scale.shape != (*blocked_shape[: axis + 1], *blocked_shape[axis + 2 :]):
        raise ValueError(f"parameters {scale.type} do not fit blocks of {block} in {q.type}")
    parameter_shape = (*blocked_shape[: axis + 1], 1, *blocked_shape[axis + 2 :])
    scale = ctx.reshape(scale, parameter_shape)
    if zero is not None and zero.shape:  # an omitted zero point is a scalar
        zero = ctx.reshape(zero, parameter_shape)
    return ctx.reshape(_dequantize(ctx, ctx.reshape(q, blocked_shape), scale, zero), q.shape)


def quantize(
    ctx: NodeContext,
    x: Value,
    scale: Value,
    zero: Value | None,
    axis: int = 1,
    block: int = 0,
    default: str = "uint8",
    saturate: bool = True,
) -> Value:
    """Return saturate(round(x / scale) + zero); the default is 0 of the ``default`` type."""
    scale = align_parameters(ctx, scale, x.shape, axis, block)
    if zero is None:
        zero = ctx.const(np.zeros((), DTYPES[default].numpy))
    kind = zero.type.element
    if WIDER.get(kind) == "float32":
        x = ctx.emit("div", [ctx.cast(x, "float32"), ctx.cast(scale, "float32")])
        if kind == "float4_e2m1fn":
            x = ctx.emit("add", [x, align_parameters(ctx, zero, x.shape, axis, block)])
        return ctx.convert(x, kind, saturate)
    zero = align_parameters(ctx, zero, x.shape, axis, block)
    if zero.dtype.name not in ("int8", "uint8", "int16", "uint16"):
        raise UnsupportedError(f"quantising to {zero.dtype} is not supported; use 8 or 16 bits")
    q = ctx.emit("quantize", [ctx.cast(x, "float32"), ctx.cast(scale, "float32"), zero])
    return _clamp_to_type(ctx, q, kind) if kind in WIDER else q


def _clamp_to_type(ctx: NodeContext, q: Value, kind: str) -> Value:
    """Clamp quantised elements to the range of a packed type."""
    count = 1 << DTYPES[kind].bits
    low = -count // 2 if q.dtype.is_signed else 0
    return retype(ctx.clamp(q, low, low + count - 1), SourceType(kind))
