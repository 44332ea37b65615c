"""Weights with blockwise quantisation, bit-packed in bytes; they stay packed in the library."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.compiler.sdk.arithmetic import ceil_div, round_up
from tvmrt.compiler.sdk.frontend import NodeContext, checked_indices, emit_matmul, stored_type
from tvmrt.compiler.sdk.graph import DTYPES, Value, normalize_axis, pack_interleaved
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op, reject_inputs, require_attributes

MAX_KERNEL_BLOCK = 256  # maximum block size of the kernel


@ms_op(
    "MatMulNBits",
    takes=(
        "a: E=float[*A], b: uint8[*B], scales: E[*S], zero_points?: any[*Z], g_idx?: int32[_], "
        "bias?: E[_]"
    ),
    attributes=(
        "K: int 1.., N: int 1.., accuracy_level?: int, bits?: int 2..8, block_size: int 16.., "
        "weight_prepacked?: int"
    ),
)
def matmul_n_bits(ctx: NodeContext) -> Value:
    """Multiply by weights whose columns are in blocks, each with its scale and zero point."""
    require_attributes(ctx, weight_prepacked=0)
    reject_inputs(ctx, g_idx=4)
    x, columns = ctx.required(0), ctx.attr("N")
    if x.shape[-1] != ctx.attr("K"):
        raise ValueError(f"{x.type} has no rows of K = {ctx.attr('K')}")
    bits, block = ctx.attr("bits", 4), ctx.attr("block_size")
    if bits not in (2, 4, 8):
        raise UnsupportedError(f"weights of {bits} bits; 2, 4 and 8 are supported")
    integers, scales, points = _weights(ctx, bits, block)
    y = multiply_by_blocks(ctx, x, integers.reshape(columns, -1), scales, points, bits, block)
    return ctx.add_optional(y, ctx.input(5))


def multiply_by_blocks(
    ctx: NodeContext,
    x: Value,
    integers: np.ndarray,
    scales: np.ndarray,
    points: np.ndarray | None,
    bits: int,
    block: int,
) -> Value:
    """Multiply rows of x by weights (integer - point) * scale. ``integers`` [N, K or more] have
    ``scales`` and ``points`` [N, blocks] for each ``block`` along K; a single block is wider."""
    width = x.shape[-1]
    if scales.shape[1] == 1:
        block = round_up(width, 16 if width <= MAX_KERNEL_BLOCK else MAX_KERNEL_BLOCK)
    if block > MAX_KERNEL_BLOCK and block % MAX_KERNEL_BLOCK == 0:
        # narrower blocks with the same scales have a kernel
        repeats = ceil_div(block, MAX_KERNEL_BLOCK)
        scales, points = (v if v is None else np.repeat(v, repeats, 1) for v in (scales, points))
        block = MAX_KERNEL_BLOCK
    count = ceil_div(width, block)
    scales, points = (v if v is None else v[:, :count] for v in (scales, points))
    missing = max(count * block - integers.shape[1], 0)
    integers = np.pad(integers, ((0, 0), (0, missing)))[:, : count * block]
    if block % 16 == 0 and block <= MAX_KERNEL_BLOCK and x.dtype.name == "float32":
        rows = ctx.reshape(x, (prod(x.shape[:-1]), width))
        packed = pack_interleaved(integers.reshape(len(integers), count, block), bits)
        operands = [rows, *(v if v is None else ctx.const(v) for v in (packed, scales, points))]
        y = ctx.emit("matmul_blocks", operands, bits=bits, block=block)
        return ctx.reshape(y, (*x.shape[:-1], len(integers)))
    if points is None:
        points = np.full_like(scales, 1 << (bits - 1))
    scales, points = (np.repeat(v, block, axis=1) for v in (scales, points))
    weights = ((integers.astype(np.float32) - points) * scales)[:, :width].T
    return emit_matmul(ctx, x, ctx.const(np.ascontiguousarray(weights), x.dtype.numpy))


def _weights(
    ctx: NodeContext, bits: int, block: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return integers [N, blocks, block] in bytes; float32 scales, zero points [N, blocks]."""
    rows, blocks = ctx.attr("N"), ceil_div(ctx.attr("K"), block)
    packed = ctx.constant_operand(1, "the packed weights")
    if packed.size * 8 != rows * blocks * block * bits:
        raise ValueError(f"{packed.size} bytes are not {rows} rows of {blocks} blocks of {block}")
    integers = unpack_constant(packed.reshape(rows, blocks, -1), bits)
    scales = ctx.constant_operand(2, "the scales")
    if scales.size != rows * blocks:
        raise ValueError(f"{scales.size} scales for {rows} rows of {blocks} blocks")
    points = ctx.constant_operand(3, "the zero points")
    if points is not None and points.dtype == np.uint8:
        points = unpack_constant(points.reshape(rows, -1), bits)[:, :blocks]
    if points is not None:
        points = points.reshape(rows, blocks).astype(np.float32)
    return integers, scales.reshape(rows, blocks).astype(np.float32), points


def unpack_constant(packed: np.ndarray, bits: int) -> np.ndarray:
    """Unpack the integers in bytes, lowest bits first, along the last axis."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    integers = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return integers.reshape(*packed.shape[:-1], -1)


_FP4 = (0, 2 / 384, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
)  # fmt: skip
_BNB_LEVELS = ((*_FP4, *(-v for v in _FP4)), _NF4)  # of 4 bits, by the attribute quant_type


@ms_op(
    "MatMulBnb4",
    takes="a: E=float[*A], b: uint8[_], absmax: E[_]",
    attributes=(
        "K: int 1.., N: int 1.., block_size: int 16.., quant_type: int 0..1, "
        "training_mode?: int 0..0, transB?: int 0..1"
    ),
)
def matmul_bnb4(ctx: NodeContext) -> Value:
    """Multiply by weights [N, K] in the formats of bitsandbytes, which become floats."""
    require_attributes(ctx, transB=1)
    x, shape, block = ctx.required(0), (ctx.attr("N"), ctx.attr("K")), ctx.attr("block_size")
    packed = ctx.constant_operand(1, "the packed weights")
    largest = ctx.constant_operand(2, "absmax")
    size = prod(shape)
    if packed.size != ceil_div(size, 2) or largest.size != ceil_div(size, block):
        raise ValueError(
            f"{packed.size} bytes and {largest.size} scales are not {shape} weights in blocks of "
            f"{block}"
        )
    numbers = np.stack([packed >> 4, packed & 15], -1).reshape(-1)[:size]
    levels = np.array(_BNB_LEVELS[ctx.attr("quant_type")], np.float32)
    scales = np.repeat(largest.reshape(-1).astype(np.float32), block)[:size]
    weights = np.ascontiguousarray((levels[numbers] * scales).reshape(shape).T)
    return emit_matmul(ctx, x, ctx.const(weights, x.dtype.numpy))


@ms_op(
    "GatherBlockQuantized",
    takes="data: any[*D], indices: index[*I], scales: E=float[*], zero_points?: any[*]",
    attributes="bits?: int 2..8, block_size?: int 0.., gather_axis?: int, quantize_axis?: int",
)
def gather_block_quantized(ctx: NodeContext) -> Value:
    """Gather rows of a table quantised in blocks; only the gathered rows are unpacked."""
    data, indices, scales = (ctx.required(i) for i in range(3))
    bits, block = ctx.attr("bits", 4), ctx.attr("block_size", 128)
    rank = len(data.shape)
    axis = normalize_axis(ctx.attr("gather_axis", 0), rank)
    along = normalize_axis(ctx.attr("quantize_axis", 1), rank)
    if data.dtype.name not in ("int8", "uint8") or bits not in (2, 4, 8):
        raise UnsupportedError(
            f"a table of {data.dtype} with {bits} bits; 2, 4 and 8 are supported"
        )
    if axis == along:
        raise UnsupportedError("gathering along the block axis")
    if block < 16 or block & (block - 1):
        raise ValueError(f"block_size is {block}; it must be a power of two, at least 16")
    taken = checked_indices(ctx, indices, data.shape[axis])
    count, kind = len(indices.shape), stored_type(data)
    if kind is not None and bits != DTYPES[kind].bits:
        raise ValueError(f"a table of {kind} has no elements of {bits} bits")

    def unpack(packed: Value) -> Value:
        return emit_unpack(ctx, packed, bits) if kind is None else packed

    def gather_rows(table: Value) -> Value:
        return ctx.emit("gather", [table, taken], axis=axis)

    integers = unpack(gather_rows(data))
    quantized_axis = along + (count - 1 if along > axis else 0)
    extent = integers.shape[quantized_axis]
    scale = _repeat_blocks(ctx, gather_rows(scales), quantized_axis, block, extent)
    if ctx.input(3) is not None:
        point = unpack(gather_rows(ctx.required(3)))
        blocks = ceil_div(extent, block)
        point = _repeat_blocks(
            ctx, ctx.slice_axis(point, quantized_axis, 0, blocks), quantized_axis, block, extent
        )
        point = ctx.cast(point, scale.dtype.name)
    else:
        point = ctx.like(1 << (bits - 1) if kind is None else 0, scale)
    shifted = ctx.emit("sub", [ctx.cast(integers, scale.dtype.name), point])
    return ctx.emit("mul", [shifted, scale])


def emit_unpack(ctx: NodeContext, packed: Value, bits: int) -> Value:
    """Emit the unpacking of the integers in bytes, lowest bits first, along the last axis."""
    if bits == 8:
        return packed
    column = ctx.reshape(packed, (*packed.shape, 1))
    shifts = ctx.const(np.arange(0, 8, bits), np.uint8)
    integers = ctx.emit("shift_right", [column, shifts])
    integers = ctx.emit("bit_and", [integers, ctx.const((1 << bits) - 1, np.uint8)])
    return ctx.reshape(integers, (*packed.shape[:-1], packed.shape[-1] * (8 // bits)))


def _repeat_blocks(ctx: NodeContext, x: Value, axis: int, block: int, extent: int) -> Value:
    """Repeat each element ``block`` times along an axis; cut the axis to ``extent``."""
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    dequantized = (*before, x.shape[axis], block, *after)
    x = ctx.expand(ctx.reshape(x, (*before, x.shape[axis], 1, *after)), dequantized)
    x = ctx.reshape(x, (*before, dequantized[axis] * block, *after))
    return ctx.slice_axis(x, axis, 0, extent)
