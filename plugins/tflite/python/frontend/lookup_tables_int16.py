"""Functions of quantised int16 as tables with linear interpolation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmrt.compiler.sdk.arithmetic import logistic_entries, to_integers
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


def lookup(ctx: OpContext, x: Value, entries: np.ndarray) -> Value:
    """Interpolate the table at x, int32 in the range of int16; each entry covers 128 values. The
    slope wraps around as int16, and the result is correct modulo 2 ** 16."""
    index = ctx.emit("shift_right", [x, ctx.const(7, np.int32)])
    index = ctx.emit("add", [index, ctx.const(256, np.int32)])
    fraction = ctx.emit("bit_and", [x, ctx.const(127, np.int32)])
    base, slope = (
        ctx.emit("gather", [ctx.const(part, np.int32), index], axis=0)
        for part in (entries[:-1], np.diff(entries).astype(np.int16))
    )
    part = ctx.emit("add", [ctx.emit("mul", [slope, fraction]), ctx.const(64, np.int32)])
    return ctx.emit("add", [base, ctx.emit("shift_right", [part, ctx.const(7, np.int32)])])


def sigmoid(ctx: OpContext, tanh: bool) -> Value:
    """Compute LOGISTIC or TANH of int16."""
    v = _table_units(ctx, tanh)
    bits = 8 if tanh else 9
    entries = logistic_entries()
    saturated = (65535 << 8) if tanh else (32767 << 10)
    steps = np.append(np.diff(entries), 0)
    size = ctx.emit("abs", [v])
    index = ctx.emit("shift_right", [size, ctx.const(bits, np.int32)])
    index = ctx.clamp(index, None, 255)
    base = ctx.emit("gather", [ctx.const(entries << bits, np.int32), index], axis=0)
    slope = ctx.emit("gather", [ctx.const(steps, np.int32), index], axis=0)
    fraction = ctx.emit("bit_and", [size, ctx.const((1 << bits) - 1, np.int32)])
    interpolated = ctx.emit("add", [base, ctx.emit("mul", [slope, fraction])])
    beyond = ctx.emit("greater_equal", [index, ctx.const(255, np.int32)])
    r = ctx.emit("where", [beyond, ctx.const(saturated, np.int32), interpolated])
    positive = ctx.emit("greater_equal", [v, ctx.const(0, np.int32)])
    middle = (1 << 23, 128, 127, 8) if tanh else (0, 512, 511, 10)
    above = ctx.emit("add", [r, ctx.const(middle[1] - middle[0], np.int32)])
    top = middle[0] if tanh else 1 << 25
    below = ctx.emit("sub", [ctx.const(top + middle[2], np.int32), r])
    y = ctx.emit("where", [positive, above, below])
    return ctx.cast(ctx.emit("shift_right", [y, ctx.const(middle[3], np.int32)]), "int16")


def _table_units(ctx: OpContext, tanh: bool) -> Value:
    """Return the operand scaled to units of the table's index."""
    scale = ctx.per_tensor(ctx.tensor(0))[0]
    x = ctx.cast(ctx.required(0), "int32")
    power = power_of_two(scale)
    if power is not None and 0 <= 12 + power <= (1 if tanh else 0):
        return ctx.emit("mul", [x, ctx.const(3 << (12 + power), np.int32)])
    product, n = float(scale) * 4096 * 3, 0
    while product <= 32767 / 2 and n <= 30:
        n, product = n + 1, product * 2
    x = ctx.emit("mul", [x, ctx.const(int(product), np.int32)])
    if n:
        x = ctx.emit("add", [x, ctx.const(1 << (n - 1), np.int32)])
        x = ctx.emit("shift_right", [x, ctx.const(n, np.int32)])
    return x


def function(ctx: OpContext, fn: Callable[[np.ndarray], np.ndarray]) -> Value:
    """Compute a real function by a table in float32."""
    (x_scale, x_zero), (y_scale, y_zero) = (
        ctx.per_tensor(ctx.tensor(0)),
        ctx.per_tensor(ctx.result()),
    )
    entries = entries_of(fn, x_scale, x_zero, y_scale, y_zero, f32)
    return ctx.cast(lookup(ctx, ctx.cast(ctx.required(0), "int32"), entries), "int16")
