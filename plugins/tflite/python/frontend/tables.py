"""Functions of one quantised byte as tables of all its values, computed here once and for all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmrt.compiler.ir import DTYPES, Value
from tvmrt.compiler.ir.fixed_point import round_away, scale
from tvmrt.compiler.ir.float_to_int import to_integers
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.multipliers import f32, quantized_bounds, ratio


def scale_array(x: np.ndarray, m: int, e: int) -> np.ndarray:
    """Integers times the multiplier (m, e) in fixed point, as int64."""
    return scale(np.asarray(x, np.int32), np.int32(m), np.int32(e)).astype(np.int64)


def positive(
    fn: Callable[[np.ndarray], np.ndarray], otherwise: np.floating
) -> Callable[[np.ndarray], np.ndarray]:
    """A function of positive numbers, such as a logarithm, with one value for all others: tables of
    it have neither a pole nor what is not a number."""

    def of_all(x: np.ndarray) -> np.ndarray:
        above = x > 0
        return np.where(above, fn(np.where(above, x, x.dtype.type(1))), x.dtype.type(otherwise))

    return of_all


def table(ctx: OpContext, fn: Callable[[np.ndarray], np.ndarray], index: int = 0) -> Value:
    """The result of ``fn``, which is given every value of the operand less its zero point (int64)
    and gives those of the result, in the range of its type."""
    x, (_, zero) = ctx.required(index), ctx.per_tensor(ctx.tensor(index))
    to = ctx.result().dtype
    values = np.arange(256, dtype=np.uint8).view(x.dtype.numpy).astype(np.int64)
    entries = to_integers(fn(values - zero), DTYPES[to].numpy)
    return ctx.emit("table", [x, ctx.const(entries.view(np.uint8))], to=to)


def result_table(
    ctx: OpContext, fn: Callable[[np.ndarray], np.ndarray], activation: str = "NONE"
) -> Value:
    """The same of a function that gives the result less its zero point, in any range."""
    scale, zero = ctx.per_tensor(ctx.result())
    low, high = quantized_bounds(activation, scale, zero, ctx.result().dtype)
    return table(ctx, lambda q: np.clip(fn(q) + zero, low, high))


def real_table(ctx: OpContext, fn: Callable[[np.ndarray], np.ndarray]) -> Value:
    """The same of a function of real numbers, which is given float64 and rounded to float32 as the
    C library's functions of float32 are, or all but."""
    x_scale = ctx.per_tensor(ctx.tensor(0))[0]
    y_scale = ctx.per_tensor(ctx.result())[0]

    def entries(q: np.ndarray) -> np.ndarray:
        real = f32(x_scale) * q.astype(np.float32)
        with np.errstate(all="ignore"):
            value = fn(real.astype(np.float64)).astype(np.float32) * ratio(f32(1), y_scale)
        return to_integers(round_away(value.astype(np.float64)), np.int32).astype(np.int64)

    return result_table(ctx, entries)
