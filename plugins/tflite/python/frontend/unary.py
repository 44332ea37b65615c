"""Element-wise operators with one operand."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tvmrt.compiler.sdk.arithmetic import (
    inverse_square_root,
    logistic_fraction,
    multiplier,
    shift,
    tanh_fraction,
)
from tvmrt.compiler.sdk.graph import DTYPES, Value, symbols_of
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.arithmetic import is_quantized
from tvmrt.plugins.tflite.frontend.context import INT8_TYPES, QUANTIZED, OpContext
from tvmrt.plugins.tflite.frontend.lookup_tables_int8 import (
    float_table,
    positive,
    result_table,
    scale_array,
    table,
)
from tvmrt.plugins.tflite.frontend.lookup_tables_int16 import function, sigmoid
from tvmrt.plugins.tflite.frontend.model_file import known_type
from tvmrt.plugins.tflite.frontend.multipliers import f32, ratio
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.requantize import (
    clamp_and_cast,
    scale_fixed_point,
    subtract_zero_point,
)

_PLAIN = {
    "ABS": "abs", "NEG": "neg", "CEIL": "ceil", "FLOOR": "floor", "ROUND": "round", "COS": "cos",
    "SIN": "sin", "EXP": "exp", "LOG": "log", "SQRT": "sqrt", "LOGISTIC": "sigmoid",
    "TANH": "tanh", "SIGN": "sign", "LOGICAL_NOT": "logical_not",
}  # fmt: skip


# The following functions round each step to float32 as LiteRT does: it decides the entries that
# lie halfway between two integers.
def _gelu(x: np.ndarray) -> np.ndarray:
    from math import erfc

    x = x.astype(np.float32)
    tail = np.vectorize(erfc)((x * f32(-np.sqrt(0.5))).astype(np.float64)).astype(np.float32)
    return f32(0.5) * x * tail


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float32)
    inner = f32(np.sqrt(2 / np.pi)) * (x + f32(0.044715) * x * x * x)
    return f32(0.5) * x * (f32(1) + np.tanh(inner.astype(np.float64)).astype(np.float32))


def _logistic(x: np.ndarray) -> np.ndarray:
    return f32(1) / (f32(1) + np.exp(-x).astype(np.float32))


# Real functions that 8-bit operands compute by table lookup.
_REAL: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "LOGISTIC": _logistic,
    "TANH": np.tanh,
    "EXP": np.exp,
    "ELU": lambda x: np.where(x < 0, np.expm1(x), x),
}


@tflite_op(ABS=5, NEG=1, CEIL=1, FLOOR=1, ROUND=1, COS=1, SIN=1, EXP=2, SQRT=2, LOGISTIC=3, TANH=3)
def unary(ctx: OpContext) -> Value:
    x, name = ctx.required(0), ctx.op.name
    if is_quantized(ctx, "int16"):
        return _unary_int16(ctx, name)
    if not is_quantized(ctx, *INT8_TYPES):
        return ctx.emit(_PLAIN[name], [x])
    if ctx.micro and name in ("LOGISTIC", "TANH"):
        return _micro_table(ctx, name)
    if name in _REAL:
        return float_table(ctx, _REAL[name])
    x_scale, y_scale = ctx.per_tensor(ctx.tensor(0))[0], ctx.per_tensor(ctx.result())[0]
    if name == "ABS":
        m, e = multiplier(float(ratio(x_scale, y_scale)))
        same = x_scale == y_scale
        return result_table(ctx, lambda q: np.abs(q) if same else scale_array(np.abs(q), m, e))
    if name == "SQRT":

        def root(q: np.ndarray) -> np.ndarray:
            real = np.sqrt(np.maximum(x_scale * q.astype(np.float32), f32(0)))
            return np.floor(ratio(real, y_scale))

        return result_table(ctx, root)
    _check_one_scale(ctx)
    return result_table(ctx, lambda q: -q)


def _unary_int16(ctx: OpContext, name: str) -> Value:
    if name in ("LOGISTIC", "TANH"):
        return sigmoid(ctx, name == "TANH")
    if name == "EXP":
        return function(ctx, np.exp)
    if name == "NEG":
        _check_one_scale(ctx)
        return clamp_and_cast(
            ctx, ctx.emit("neg", [subtract_zero_point(ctx, 0)]), ctx.per_tensor(ctx.result())[1]
        )
    (x_scale, _), (y_scale, zero) = ctx.per_tensor(ctx.tensor(0)), ctx.per_tensor(ctx.result())
    size = ctx.emit("abs", [subtract_zero_point(ctx, 0)])
    same = x_scale == y_scale
    return clamp_and_cast(
        ctx, size if same else scale_fixed_point(ctx, size, float(ratio(x_scale, y_scale))), zero
    )


def _check_one_scale(ctx: OpContext) -> None:
    (x_scale, _), (y_scale, _) = ctx.per_tensor(ctx.tensor(0)), ctx.per_tensor(ctx.result())
    if x_scale != y_scale:
        raise UnsupportedError(
            f"{ctx.op.name} of tensor {ctx.tensor(0).name}, {ctx.tensor(0).dtype}, with another "
            "scale than its result"
        )


def _micro_table(ctx: OpContext, name: str) -> Value:
    """Compute 8-bit LOGISTIC or TANH as TensorFlow Lite Micro does: in fixed point with four
    integer bits."""
    scale = float(ctx.per_tensor(ctx.tensor(0))[0])
    m, e = multiplier(scale * 2.0**27)
    radius = math.floor(15 * 2.0**27 / 2.0**e)
    fn, bits, lowest, low = (
        (logistic_fraction, 8, 0, -128) if name == "LOGISTIC" else (tanh_fraction, 7, -128, 0)
    )
    unsigned = ctx.result().dtype == "uint8"

    def entries(q: np.ndarray) -> np.ndarray:
        clipped = np.clip(q, -radius, radius)
        y = shift(fn(scale_array(clipped, m, e), 4), np.int64(31 - bits)).astype(np.int64)
        y = np.where(q <= -radius, lowest, np.where(q >= radius, (1 << 8) - 1 + lowest, y))
        return np.clip(y + low, -128, 127) + (128 if unsigned else 0)

    return table(ctx, entries)


@tflite_op(LOG=2)
def log(ctx: OpContext) -> Value:
    if not is_quantized(ctx, *QUANTIZED):
        return ctx.emit("log", [ctx.required(0)])
    y_scale, zero = ctx.per_tensor(ctx.result())
    lowest = f32(np.iinfo(ctx.required(0).dtype.numpy).min - zero) * y_scale
    fn = positive(np.log, lowest)
    return function(ctx, fn) if ctx.tensor(0).dtype == "int16" else float_table(ctx, fn)


@tflite_op(RSQRT=3, SQUARE=1)
def square_or_rsqrt(ctx: OpContext) -> Value:
    x = ctx.required(0)
    if is_quantized(ctx, *QUANTIZED):
        return _inverse_root(ctx, x)
    if ctx.op.name == "SQUARE":
        return ctx.emit("mul", [x, x])
    return ctx.emit("reciprocal", [ctx.emit("sqrt", [x])])


def _inverse_root(ctx: OpContext, x: Value) -> Value:
    if x.dtype.bits != 8:
        highest = f32(32767) * ctx.per_tensor(ctx.result())[0]
        return function(ctx, positive(lambda v: f32(1) / np.sqrt(v.astype(np.float32)), highest))
    x_scale, y_scale = ctx.per_tensor(ctx.tensor(0))[0], ctx.per_tensor(ctx.result())[0]
    m, e = multiplier(float(ratio(f32(1), f32(np.sqrt(x_scale) * y_scale))))

    def entry(q: int) -> int:
        if q <= 0:
            return 2**31 - 1
        n, f = inverse_square_root(q)
        fine = scale_array(np.asarray(1), n, f + 20)
        return int(scale_array(fine, m, e - 20))

    return result_table(ctx, lambda q: np.array([entry(int(n)) for n in q]))


@tflite_op(ELU=1)
def elu(ctx: OpContext) -> Value:
    x = ctx.required(0)
    if is_quantized(ctx, *INT8_TYPES):
        return float_table(ctx, _REAL["ELU"])
    a = ctx.formula(x)
    return (a > 0).where(a, a.apply("expm1")).value


@tflite_op(GELU=2)
def gelu(ctx: OpContext) -> Value:
    x, clipped = ctx.required(0), ctx.options["approximate"]
    if is_quantized(ctx, *QUANTIZED):
        fn = _gelu_tanh if clipped else _gelu
        return float_table(ctx, fn) if x.dtype.bits == 8 else function(ctx, fn)
    a = ctx.formula(x)
    if clipped:
        cube = (a * a) * (a * 0.044715)
        bent = ((a + cube) * np.sqrt(2 / np.pi)).apply("tanh")
    else:
        bent = (a * np.sqrt(0.5)).apply("erf")
    return (a * 0.5 * (bent + 1)).value


@tflite_op(HARD_SWISH=1)
def hard_swish(ctx: OpContext) -> Value:
    x = ctx.required(0)
    if is_quantized(ctx, *INT8_TYPES):
        return _hard_swish_table(ctx)
    bent = ctx.clamp(ctx.emit("add", [x, ctx.like(3, x)]), 0, 6)
    return ctx.emit("mul", [ctx.emit("mul", [x, bent]), ctx.like(1 / 6, x)])


def _hard_swish_table(ctx: OpContext) -> Value:
    """Compute HARD_SWISH in 16-bit fixed point."""
    x_scale, y_scale = ctx.per_tensor(ctx.tensor(0))[0], ctx.per_tensor(ctx.result())[0]
    fine = f32(x_scale / f32(128))
    m_out, e_out = multiplier(float(ratio(fine, y_scale)))
    m_bend, e_bend = multiplier(float(f32(fine / f32(f32(3) / f32(32768)))))
    m_out, m_bend = (min((m + (1 << 15)) >> 16, 32767) for m in (m_out, m_bend))
    if e_out > 0:
        raise UnsupportedError("the scale of its result is too small relative to its operand's")

    def entries(q: np.ndarray) -> np.ndarray:
        v = q * 128
        product = _multiply_q15(v, m_out)
        bend = _sat16(v << (e_bend - 1)) if e_bend > 0 else v
        bend = _multiply_q15(bend, m_bend)
        if e_bend > 0:
            bend = _sat16(bend * 2)
        elif e_bend < 0:
            bend = _shift(bend, -e_bend)
        bend = (bend + (1 << 15)) >> 1
        both = bend * product
        y = np.sign(both) * (np.abs(both) >> 15)
        return _shift(y, -e_out)

    return result_table(ctx, entries)


def _multiply_q15(a: np.ndarray, b: int) -> np.ndarray:
    """Return a * b as 15-bit fractions, rounded half up."""
    return np.minimum((a * b + (1 << 14)) >> 15, 32767)


def _sat16(x: np.ndarray) -> np.ndarray:
    return np.clip(x, -32768, 32767)


def _shift(x: np.ndarray, n: int) -> np.ndarray:
    rest, mask = x & ((1 << n) - 1), (1 << n) - 1
    return (x >> n) + (rest > (mask >> 1) + (x < 0))


@tflite_op(CAST=9)
def cast(ctx: OpContext) -> Value:
    return ctx.cast(ctx.required(0), known_type(ctx.result().dtype))


@tflite_op(LOGICAL_NOT=1, SIGN=2, ZEROS_LIKE=1)
def plain(ctx: OpContext) -> Value:
    x = ctx.required(0)
    if ctx.op.name == "ZEROS_LIKE":
        if symbols_of(x.shape):
            return ctx.emit("expand", [ctx.like(0, x)], shape=x.shape)
        return ctx.const(np.zeros(x.shape, x.dtype.numpy))
    return ctx.emit(_PLAIN[ctx.op.name], [x])


@tflite_op(BITCAST=1)
def bit_cast(ctx: OpContext) -> Value:
    """Reinterpret bits as another type; a different element size adds or removes a last axis."""
    x, to = ctx.required(0), DTYPES[known_type(ctx.result().dtype)]
    if x.dtype.bits == to.bits:
        return x if x.dtype == to else ctx.emit("bit_cast", [x], to=to.name)
    narrow, wide = (f"uint{bits}" for bits in sorted((x.dtype.bits, to.bits)))
    shifts = np.arange(0, max(x.dtype.bits, to.bits), min(x.dtype.bits, to.bits))
    if x.dtype.bits > to.bits:
        whole = ctx.reshape(_bits_as(ctx, x, wide), (*x.shape, 1))
        parts = ctx.emit("shift_right", [whole, ctx.const(shifts, wide)])
        return _bits_as(ctx, ctx.cast(parts, narrow), to.name)
    if not x.shape or x.shape[-1] != shifts.size:
        raise ValueError(f"{x.type} cannot be converted to {to}")
    parts = ctx.cast(_bits_as(ctx, x, narrow), wide)
    parts = ctx.emit("shift_left", [parts, ctx.const(shifts, wide)])
    axes = (x.type.rank - 1,)
    return _bits_as(ctx, ctx.emit("reduce_sum", [parts], axes=axes, keepdims=False), to.name)


def _bits_as(ctx: OpContext, x: Value, to: str) -> Value:
    return x if x.dtype.name == to else ctx.emit("bit_cast", [x], to=to)
