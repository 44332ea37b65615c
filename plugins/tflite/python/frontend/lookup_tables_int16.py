"""Functions of quantised int16 as tables with linear interpolation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmrt.compiler.sdk.arithmetic import logistic_entries, to_integers
from tvmrt.compiler.sdk.frontend import TensorExpr
from tvmrt.compiler.sdk.graph import Value
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.multipliers import f32, power_of_two


def _round_away(x: np.ndarray) -> np.ndarray:
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def entries_of(
    fn: Callable[[np.ndarray], np.ndarray],
    x_scale: float,
    x_zero: int,
    y_scale: float,
    y_zero: int,
    real: type = np.float32,
) -> np.ndarray:
    """Return 513 table entries over the range of int16. ``fn`` is evaluated in float64; the
    entries are computed from it in ``real``. NaN, such as the difference of two results that
    overflow ``real``, becomes 0."""
    low, high = (real(x_scale) * real(q - x_zero) for q in (-32768, 32767))
    y_low, y_high = (real(y_scale) * real(q - y_zero) for q in (-32768, 32767))
    step = real((high - low) / real(512))
    half = real(step / real(2))
    factor = real(real(65536) / (y_high - y_low))
    at = low + np.arange(512).astype(real) * step
    with np.errstate(all="ignore"):
        a, m, n, last = (
            np.asarray(fn(x.astype(np.float64)), real) * factor
            for x in (at, at + half, low + np.arange(1, 513).astype(real) * step, np.asarray(high))
        )
        middle = _round_away((n + _round_away(a)) / 2)
        error = _round_away((middle - _round_away(m)) / 2)
    entries = np.clip(_round_away(a) - error, -32768, 32767)
    entries = np.append(entries, np.clip(_round_away(last), -32768, 32767))
    return to_integers(entries, np.int64)


def lookup(ctx: OpContext, x: TensorExpr, entries: np.ndarray) -> TensorExpr:
    """Interpolate the table at x, int32 in the range of int16; each entry covers 128 values. The
    slope wraps around as int16, and the result is correct modulo 2 ** 16."""
    index = (x >> 7) + 256
    fraction = x & 127
    base, slope = (
        _gather(ctx, part, index) for part in (entries[:-1], np.diff(entries).astype(np.int16))
    )
    return base + ((slope * fraction + 64) >> 7)


def _gather(ctx: OpContext, table: np.ndarray, index: TensorExpr) -> TensorExpr:
    return ctx.formula(ctx.emit("gather", [ctx.const(table, np.int32), index.value], axis=0))


def sigmoid(ctx: OpContext, tanh: bool) -> Value:
    """Compute LOGISTIC or TANH of int16."""
    v = _table_units(ctx, tanh)
    bits = 8 if tanh else 9
    entries = logistic_entries()
    saturated = (65535 << 8) if tanh else (32767 << 10)
    steps = np.append(np.diff(entries), 0)
    size = abs(v)
    index = (size >> bits).clamp(None, 255)
    base, slope = _gather(ctx, entries << bits, index), _gather(ctx, steps, index)
    interpolated = base + slope * (size & (1 << bits) - 1)
    r = (index >= 255).where(saturated, interpolated)
    positive = v >= 0
    middle = (1 << 23, 128, 127, 8) if tanh else (0, 512, 511, 10)
    above = r + (middle[1] - middle[0])
    below = (middle[0] if tanh else 1 << 25) + middle[2] - r
    return (positive.where(above, below) >> middle[3]).cast("int16").value


def _table_units(ctx: OpContext, tanh: bool) -> TensorExpr:
    """Return the operand scaled to units of the table's index."""
    scale = ctx.per_tensor(ctx.tensor(0))[0]
    x = ctx.formula(ctx.required(0)).cast("int32")
    power = power_of_two(scale)
    if power is not None and 0 <= 12 + power <= (1 if tanh else 0):
        return x * (3 << (12 + power))
    product, n = float(scale) * 4096 * 3, 0
    while product <= 32767 / 2 and n <= 30:
        n, product = n + 1, product * 2
    x = x * int(product)
    return (x + (1 << (n - 1))) >> n if n else x


def function(ctx: OpContext, fn: Callable[[np.ndarray], np.ndarray]) -> Value:
    """Compute a real function by a table in float32."""
    (x_scale, x_zero), (y_scale, y_zero) = (
        ctx.per_tensor(ctx.tensor(0)),
        ctx.per_tensor(ctx.result()),
    )
    entries = entries_of(fn, x_scale, x_zero, y_scale, y_zero, f32)
    x = ctx.formula(ctx.required(0)).cast("int32")
    return lookup(ctx, x, entries).cast("int16").value
