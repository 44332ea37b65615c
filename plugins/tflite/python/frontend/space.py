"""Moves between space, channels and batch, and image resizing."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.arithmetic import to_integers
from tvmrt.compiler.sdk.graph import Value
from tvmrt.plugins.tflite.frontend.arithmetic import is_quantized
from tvmrt.plugins.tflite.frontend.context import QUANTIZED, OpContext
from tvmrt.plugins.tflite.frontend.registry import tflite_op


@tflite_op(SPACE_TO_DEPTH=2)
def space_to_depth(ctx: OpContext) -> Value:
    x, b = ctx.required(0), ctx.options["block_size"]
    n, h, w, c = x.shape
    if b < 1 or h % b or w % b:
        raise ValueError(f"{x.type} is not divisible into blocks of {b}")
    split = ctx.reshape(x, (n, h // b, b, w // b, b, c))
    return ctx.reshape(ctx.transpose(split, (0, 1, 3, 2, 4, 5)), (n, h // b, w // b, b * b * c))


@tflite_op(DEPTH_TO_SPACE=2)
def depth_to_space(ctx: OpContext) -> Value:
    x, b = ctx.required(0), ctx.options["block_size"]
    n, h, w, c = x.shape
    if b < 1 or c % (b * b):
        raise ValueError(f"{x.type} is not divisible into blocks of {b}")
    split = ctx.reshape(x, (n, h, w, b, b, c // (b * b)))
    return ctx.reshape(ctx.transpose(split, (0, 1, 3, 2, 4, 5)), (n, h * b, w * b, c // (b * b)))


@tflite_op(SPACE_TO_BATCH_ND=4)
def space_to_batch(ctx: OpContext) -> Value:
    x, blocks = ctx.required(0), ctx.int_operand(1, "the blocks")
    pads = np.asarray(ctx.constant_operand(2, "the padding")).reshape(-1, 2)
    m = len(blocks)
    if pads.shape[0] != m or x.type.rank <= m or min(blocks) < 1 or pads.min() < 0:
        raise ValueError(f"blocks {blocks} and padding {pads.tolist()} do not fit {x.type}")
    rest = x.type.rank - m - 1
    before = (0, *(int(n) for n in pads[:, 0]), *[0] * rest)
    after = (0, *(int(n) for n in pads[:, 1]), *[0] * rest)
    zero = ctx.per_tensor(ctx.result())[1] if is_quantized(ctx, *QUANTIZED) else 0
    if pads.any():
        x = ctx.emit("pad", [x, ctx.like(zero, x)], before=before, after=after, mode="constant")
    if any(n % b for n, b in zip(x.shape[1:], blocks)):
        raise ValueError(f"{x.type} has no blocks of {blocks}")
    split = [n for pair in ((k // b, b) for k, b in zip(x.shape[1:], blocks)) for n in pair]
    y = ctx.reshape(x, (x.shape[0], *split, *x.shape[m + 1 :]))
    order = (*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, y.type.rank))
    y = ctx.transpose(y, order)
    sizes = [k // b for k, b in zip(x.shape[1:], blocks)]
    return ctx.reshape(y, (x.shape[0] * int(np.prod(blocks)), *sizes, *x.shape[m + 1 :]))


@tflite_op(BATCH_TO_SPACE_ND=4)
def batch_to_space(ctx: OpContext) -> Value:
    x, blocks = ctx.required(0), ctx.int_operand(1, "the blocks")
    crops = np.asarray(ctx.constant_operand(2, "the crops")).reshape(-1, 2)
    m, count = len(blocks), int(np.prod(blocks))
    if crops.shape[0] != m or x.type.rank <= m or count < 1 or x.shape[0] % count:
        raise ValueError(f"blocks {blocks} and crops {crops.tolist()} do not fit {x.type}")
    batch = x.shape[0] // count
    y = ctx.reshape(x, (*blocks, batch, *x.shape[1:]))
    order = [m]
    for i in range(m):
        order += [m + 1 + i, i]
    y = ctx.transpose(y, (*order, *range(2 * m + 1, y.type.rank)))
    sizes = [n * b for n, b in zip(x.shape[1:], blocks)]
    y = ctx.reshape(y, (batch, *sizes, *x.shape[m + 1 :]))
    for i, (first, last) in enumerate(crops.tolist()):
        y = ctx.slice_axis(y, i + 1, first, sizes[i] - first - last)
    return y


def _extents(ctx: OpContext) -> tuple[list[int], bool, bool]:
    extents = ctx.int_operand(1, "the size")
    if len(extents) != 2 or min(extents) < 1 or len(ctx.required(0).shape) != 4:
        raise ValueError(f"{ctx.required(0).type} cannot be resized to {extents}")
    return extents, bool(ctx.options["align_corners"]), bool(ctx.options["half_pixel_centers"])


@tflite_op(RESIZE_NEAREST_NEIGHBOR=4)
def resize_nearest(ctx: OpContext) -> Value:
    x, (extents, align, half) = ctx.required(0), _extents(ctx)
    f32 = np.float32
    for axis, out in zip((1, 2), extents):
        n = x.shape[axis]
        corners = align and out > 1
        scale = f32(n - 1) / f32(out - 1) if corners else f32(n) / f32(out)
        at = (np.arange(out, dtype=np.float32) + f32(0.5 if half else 0)) * scale
        # in float64, adding a half to a float32 is exact
        indices = np.floor(at.astype(np.float64) + 0.5) if align else np.floor(at)
        indices = to_integers(np.clip(indices, 0, n - 1), np.int32)
        x = ctx.emit("pick", [x, ctx.const(indices)], axes=(axis,))
    return x


@tflite_op(RESIZE_BILINEAR=4)
def resize_bilinear(ctx: OpContext) -> Value:
    x, (extents, align, half) = ctx.required(0), _extents(ctx)
    if is_quantized(ctx, "int8", "int16"):
        return _bilinear_fixed(ctx, x, extents, align, half)
    taps = [_taps(x.shape[axis], out, axis, align, half) for axis, out in zip((1, 2), extents)]
    if is_quantized(ctx, "uint8"):
        return _bilinear_uint8(ctx, x, *taps)
    for axis, ((low, a), (high, b)) in zip((1, 2), taps):
        sides = (_weighted(ctx, x, axis, indices, part) for indices, part in ((low, a), (high, b)))
        x = ctx.emit("add", list(sides))
    return x


def _taps(n: int, out: int, axis: int, align: bool, half: bool) -> tuple:
    """Return the two source coordinates of each output element along an axis, with weights."""
    f32 = np.float32
    corners = align and out > 1
    scale = f32(n - 1) / f32(out - 1) if corners else f32(n) / f32(out)
    at = np.arange(out, dtype=np.float32)
    at = (at + f32(0.5)) * scale - f32(0.5) if half else at * scale
    low = to_integers(np.clip(np.floor(at), 0, n - 1), np.int32)
    high = to_integers(np.clip(np.ceil(at), 0, n - 1), np.int32)
    part = (at - low).astype(np.float32).reshape([-1 if d == axis else 1 for d in range(4)])
    return (low, 1 - part), (high, part)


def _weighted(ctx: OpContext, x: Value, axis: int, indices: np.ndarray, part: np.ndarray) -> Value:
    picked = ctx.emit("pick", [x, ctx.const(indices)], axes=(axis,))
    return ctx.emit("mul", [picked, ctx.const(part, picked.dtype.numpy)])


def _bilinear_uint8(ctx: OpContext, x: Value, rows: tuple, columns: tuple) -> Value:
    """Resize uint8 as LiteRT's kernel does: sum the four elements in its order in float32, then add
    a half. The generated C computes in double and rounds after each operation, so that compilers
    cannot fuse multiplications and additions."""

    def round_to_float32(value: Value) -> Value:
        return ctx.cast(ctx.cast(value, "float32"), "float64")

    x, total = ctx.cast(x, "float64"), ctx.const(0.0, np.float64)
    for indices, part in columns:
        for tap in rows:
            side = round_to_float32(_weighted(ctx, x, 1, *tap))
            term = round_to_float32(_weighted(ctx, side, 2, indices, part))
            total = round_to_float32(ctx.emit("add", [total, term]))
    return ctx.cast(round_to_float32(ctx.emit("add", [total, ctx.const(0.5, np.float64)])), "uint8")


def _bilinear_fixed(ctx: OpContext, x: Value, extents: list[int], align: bool, half: bool) -> Value:
    """Resize integers with ten fraction bits along each axis."""
    to, bits = ("int64" if x.dtype.bits == 16 else "int32"), 10
    y = ctx.cast(x, to)
    for axis, out in zip((1, 2), extents):
        n = x.shape[axis]
        if align and out > 1:
            step = (1024 * (n - 1) + (out - 1) // 2) // (out - 1)
        else:
            step = (1024 * n + out // 2) // out
        at = np.arange(out, dtype=np.int64) * step + ((step // 2 - 512) if half else 0)
        low = np.maximum((np.sign(at) * (np.abs(at) >> bits)), 0)
        high = np.minimum(np.sign(at + 1023) * (np.abs(at + 1023) >> bits), n - 1)
        part = (at - 1024 * low).reshape([-1 if d == axis else 1 for d in range(4)])
        low, high = (np.clip(p, 0, n - 1).astype(np.int32) for p in (low, high))
        a, b = (ctx.emit("pick", [y, ctx.const(p)], axes=(axis,)) for p in (low, high))
        a = ctx.emit("mul", [a, ctx.const((1024 - part).astype(to))])
        y = ctx.emit("add", [a, ctx.emit("mul", [b, ctx.const(part.astype(to))])])
    away = ctx.emit("where", [
        ctx.emit("greater", [y, ctx.like(0, y)]), ctx.like(1 << 19, y), ctx.like(-(1 << 19), y)
    ])  # fmt: skip
    y = ctx.emit("div", [ctx.emit("add", [y, away]), ctx.like(1 << 20, y)])
    info = np.iinfo(x.dtype.numpy)
    return ctx.cast(ctx.clamp(y, int(info.min), int(info.max)), x.dtype.name)
