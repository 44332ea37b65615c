"""Functions of one 8-bit operand as 256-entry tables, computed at compile time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmrt.compiler.sdk.arithmetic import round_away, scale, to_integers
from tvmrt.compiler.sdk.graph import DTYPES, Value
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.multipliers import f32, quantized_bounds, ratio


def scale_array(x: np.ndarray, m: int, e: int) -> np.ndarray:
    """Multiply integers by the quantized multiplier (m, e) in fixed point, as int64."""
    return scale(np.asarray(x, np.int32), np.int32(m), np.int32(e)).astype(np.int64)


def positive(
    fn: Callable[[np.ndarray], np.ndarray], otherwise: np.floating
) -> Callable[[np.ndarray], np.ndarray]:
    """Extend a function of positive numbers, such as a logarithm, by one value for all others, so
    that its table has neither a pole nor NaN."""

    def of_all(x: np.ndarray) -> np.ndarray:
        above = x > 0
        return np.where(above, fn(np.where(above, x, x.dtype.type(1))), x.dtype.type(otherwise))

    return of_all


def table(ctx: OpContext, fn: Callable[[np.ndarray], np.ndarray], index: int = 0) -> Value:
    """Emit a table lookup of ``fn``, which maps operand values minus the zero point (int64) to
    result values within the range of the result's type."""
    x, (_, zero) = ctx.required(index), ctx.per_tensor(ctx.tensor(index))
    to = ctx.result().dtype
    values = np.arange(256, dtype=np.uint8).view(x.dtype.numpy).astype(np.int64)
    entries = to_integers(fn(values - zero), DTYPES[to].numpy)
    return ctx.emit("table", [x, ctx.const(entries.view(np.uint8))], to=to)


def result_table(
    ctx: OpContext, fn: Callable[[np.ndarray], np.ndarray], activation: str = "NONE"
) -> Value:
    """Emit a table lookup of ``fn``, which gives results minus the zero point, without clamping."""
    scale, zero = ctx.per_tensor(ctx.result())
    low, high = quantized_bounds(activation, scale, zero, ctx.result().dtype)
    return table(ctx, lambda q: np.clip(fn(q) + zero, low, high))


def float_table(ctx: OpContext, fn: Callable[[np.ndarray], np.ndarray]) -> Value:
    """Emit a table lookup of a real function. ``fn`` is evaluated in float64 and rounded to
    float32, which matches the C library's float32 functions in nearly all cases."""
    x_scale = ctx.per_tensor(ctx.tensor(0))[0]
    y_scale = ctx.per_tensor(ctx.result())[0]

    def entries(q: np.ndarray) -> np.ndarray:
        real = f32(x_scale) * q.astype(np.float32)
        with np.errstate(all="ignore"):
            value = fn(real.astype(np.float64)).astype(np.float32) * ratio(f32(1), y_scale)
        return to_integers(round_away(value.astype(np.float64)), np.int32).astype(np.int64)

    return result_table(ctx, entries)
