"""Element-wise operators with two operands."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.arithmetic import multiplier
from tvmrt.compiler.sdk.graph import Value
from tvmrt.plugins.tflite.frontend.activation import apply_activation
from tvmrt.plugins.tflite.frontend.context import INT8_TYPES, QUANTIZED, OpContext
from tvmrt.plugins.tflite.frontend.multipliers import (
    activation_name,
    f32,
    power_of_two,
    quantized_bounds,
    ratio,
)
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.requantize import (
    clamp_and_cast,
    scale_fixed_point,
    subtract_zero_point,
)


def is_quantized(ctx: OpContext, first: str, *more: str) -> bool:
    """Return whether operand 0 has quantisation parameters and one of the given types."""
    tensor = ctx.tensor(0)
    return tensor.dtype in (first, *more) and tensor.quantization is not None


@tflite_op(ADD=5, SUB=5, MUL=7, DIV=2)
def arithmetic(ctx: OpContext) -> Value:
    name = ctx.op.name
    if not is_quantized(ctx, *QUANTIZED):
        result = ctx.emit(_ir_name(ctx), [ctx.required(0), ctx.required(1)])
        return apply_activation(ctx, result)
    if name in ("ADD", "SUB"):
        return _sum(ctx)
    if name == "MUL":
        return _product(ctx)
    return _quotient(ctx)


def _ir_name(ctx: OpContext) -> str:
    """Return the name of the IR's operator: add, sub, mul or div."""
    return ctx.op.name.lower()


def _scales(ctx: OpContext) -> tuple[np.float32, np.float32, np.float32, int]:
    """Return the scales of both operands and of the result, and the result's zero point."""
    y_scale, zero = ctx.per_tensor(ctx.result())
    return ctx.per_tensor(ctx.tensor(0))[0], ctx.per_tensor(ctx.tensor(1))[0], y_scale, zero


def _sum(ctx: OpContext) -> Value:
    a, b, y, _ = _scales(ctx)
    op, activation = _ir_name(ctx), activation_name(ctx.options["act"])
    is_int16 = ctx.tensor(0).dtype == "int16"
    if is_int16 and ctx.options["pot_scale_int16"]:
        powers = [power_of_two(scale) for scale in (a, b, y)]
        if None not in powers:
            return _shifted_sum(ctx, powers, op, activation)
    bits = 15 if is_int16 else 20
    twice = f32(2) * max(a, b)
    parts = [multiplier(ratio(float(scale), float(twice))) for scale in (a, b)]
    real = ratio(float(twice), float(f32(f32(1 << bits) * y)))
    op = "fixed_sum" if ctx.op.name == "ADD" else "fixed_difference"
    return _pair(ctx, op, parts, bits, real, activation)


def _pair(
    ctx: OpContext, op: str, parts: list[tuple[int, int]], bits: int, real: float, activation: str
) -> Value:
    """Emit a fixed-point operator on both operands; ``parts`` holds a multiplier for each."""
    y_scale, zero = ctx.per_tensor(ctx.result())
    (m, e), (low, high) = (
        multiplier(real),
        quantized_bounds(activation, y_scale, zero, ctx.result().dtype),
    )
    sides = {}
    for side, index, (part_m, part_e) in zip("ab", (0, 1), parts):
        at = ctx.per_tensor(ctx.tensor(index))[1]
        sides |= {f"{side}_zero": at, f"{side}_m": part_m, f"{side}_e": part_e}
    return ctx.emit(
        op, [ctx.required(0), ctx.required(1)], **sides, bits=bits, m=m, e=e, y_zero=zero, low=low,
        high=high,
    )  # fmt: skip


def _shifted_sum(ctx: OpContext, powers: list, op: str, activation: str) -> Value:
    """Add or subtract int16 operands with power-of-two scales by shifting one of them."""
    shifts = [power - powers[2] for power in powers[:2]]
    if max(shifts) > 0 or 0 not in shifts or min(shifts) < -31:
        raise ValueError(
            f"its scales must be powers of two, not 2 ** {powers[0]}, {powers[1]} and {powers[2]}"
        )
    terms = [
        ctx.cast(ctx.required(i), "int32")
        if not shift
        else ctx.emit("fixed_shift", [ctx.cast(ctx.required(i), "int32"), ctx.const(-shift, "i4")])
        for i, shift in enumerate(shifts)
    ]
    return clamp_and_cast(ctx, ctx.emit(op, terms), 0, activation)


def _product(ctx: OpContext) -> Value:
    a, b, y, _ = _scales(ctx)
    real = float(ratio(f32(a * b), y))
    activation = activation_name(ctx.options["act"])
    return _pair(ctx, "fixed_pair_product", [(0, 0), (0, 0)], 0, real, activation)


def _quotient(ctx: OpContext) -> Value:
    """Divide by Newton's reciprocal of the divisor, normalised to the range 1 to 2."""
    a, b, y, zero = _scales(ctx)
    m, e = multiplier(float(ratio(a, f32(b * y))))
    p, q = (ctx.formula(subtract_zero_point(ctx, i)) for i in (0, 1))
    negative = q < 0
    p, q = (negative.where(-v, v) for v in (p, q))
    zeros = q.apply("leading_zeros")
    inverse = ((q << zeros) & 2**31 - 1).apply("fixed_reciprocal")
    headroom = (p ^ (p >> 31)).apply("leading_zeros") - 1
    raised = p.apply("fixed_scale_by", inverse, headroom)
    # e - (31 - zeros) - room
    scaled_down = raised.apply("fixed_scale_by", m, zeros + (e - 31) - headroom)
    return clamp_and_cast(ctx, scaled_down.value, zero, activation_name(ctx.options["act"]))


@tflite_op(SQUARED_DIFFERENCE=2)
def squared_difference(ctx: OpContext) -> Value:
    if not is_quantized(ctx, *QUANTIZED):
        difference = ctx.emit("sub", [ctx.required(0), ctx.required(1)])
        return ctx.emit("mul", [difference, difference])
    a, b, y, zero = _scales(ctx)
    # 8-bit operands have spare bits for a fraction; squaring int16 would overflow with them
    bits = 7 if is_quantized(ctx, *INT8_TYPES) else 0
    twice = f32(2) * max(a, b)
    terms = []
    for i, scale in enumerate((a, b)):
        x = ctx.emit("mul", [subtract_zero_point(ctx, i), ctx.const(1 << bits, np.int32)])
        terms.append(scale_fixed_point(ctx, x, ratio(float(scale), float(twice))))
    difference = ctx.emit("sub", terms)
    real = ratio(float(f32(twice * twice)), float(f32(f32(1 << 2 * bits) * y)))
    return clamp_and_cast(
        ctx, scale_fixed_point(ctx, ctx.emit("mul", [difference, difference]), real), zero
    )


_BINARY = {
    "MAXIMUM": "max", "MINIMUM": "min", "LOGICAL_AND": "logical_and", "LOGICAL_OR": "logical_or",
    "POW": "pow",
}  # fmt: skip


@tflite_op(MAXIMUM=4, MINIMUM=4, LOGICAL_AND=1, LOGICAL_OR=1, POW=1)
def binary(ctx: OpContext) -> Value:
    return ctx.emit(_BINARY[ctx.op.name], [ctx.required(0), ctx.required(1)])


_COMPARISONS = {
    "EQUAL": "equal", "NOT_EQUAL": "equal", "LESS": "less", "LESS_EQUAL": "less_equal",
    "GREATER": "greater", "GREATER_EQUAL": "greater_equal",
}  # fmt: skip


@tflite_op(EQUAL=5, NOT_EQUAL=4, LESS=3, LESS_EQUAL=3, GREATER=3, GREATER_EQUAL=3)
def comparison(ctx: OpContext) -> Value:
    sides = [ctx.required(0), ctx.required(1)]
    if is_quantized(ctx, *INT8_TYPES):  # LiteRT compares int16 operands as plain integers
        for i in (0, 1):
            m, e = multiplier(float(ctx.per_tensor(ctx.tensor(i))[0]))
            raised = ctx.emit("mul", [subtract_zero_point(ctx, i), ctx.const(256, np.int32)])
            sides[i] = ctx.emit("fixed_scale", [raised, ctx.const(m, "i4"), ctx.const(e, "i4")])
    y = ctx.emit(_COMPARISONS[ctx.op.name], sides)
    return ctx.emit("logical_not", [y]) if ctx.op.name == "NOT_EQUAL" else y


@tflite_op(FLOOR_DIV=3, FLOOR_MOD=2)
def floor_division(ctx: OpContext) -> Value:
    a, b = ctx.required(0), ctx.required(1)
    if ctx.op.name == "FLOOR_MOD":
        return ctx.emit("floor_mod", [a, b])
    if a.dtype.is_float:
        return ctx.emit("floor", [ctx.emit("div", [a, b])])
    rest = ctx.emit("floor_mod", [a, b])
    return ctx.emit("div", [ctx.emit("sub", [a, rest]), b])


@tflite_op(ATAN2=1)
def angle(ctx: OpContext) -> Value:
    """Return the angle of (x, y) from -pi to pi, by atan of the smaller over the larger part."""
    y, x = (ctx.formula(ctx.required(i)) for i in (0, 1))
    whole = f"int{x.value.dtype.bits}"
    signs = [v.apply("bit_cast", to=whole) for v in (x, y)]  # also the sign of -0.0
    left, below = (v < 0 for v in signs)
    width, height = abs(x), abs(y)
    low, high = width.minimum(height), width.maximum(height)
    part = low.equals(high).where(1, low / high)  # equal: also two infinities
    turn = high.equals(0).where(0, part).apply("atan")
    steep = height > width
    for condition, most in ((steep, np.pi / 2), (left, np.pi), (below, 0)):
        turn = condition.where(most - turn, turn)
    return turn.value


@tflite_op(BITWISE_XOR=1, RIGHT_SHIFT=1)
def bitwise(ctx: OpContext) -> Value:
    a, b = ctx.required(0), ctx.required(1)
    if ctx.op.name == "RIGHT_SHIFT":
        return ctx.emit("shift_right", [a, ctx.clamp(b, 0, a.dtype.bits - 1)])
    return ctx.emit("logical_xor" if a.dtype.name == "bool" else "bit_xor", [a, b])


@tflite_op(ADD_N=1)
def add_n(ctx: OpContext) -> Value:
    total = ctx.required(0)
    for i in range(1, len(ctx.inputs)):
        total = ctx.emit("add", [total, ctx.required(i)])
    return total


@tflite_op(SELECT=5, SELECT_V2=4)
def select(ctx: OpContext) -> Value:
    condition, a, b = (ctx.required(i) for i in range(3))
    if ctx.op.name == "SELECT" and condition.type.rank < a.type.rank:
        # a condition with one element per row selects whole rows
        condition = ctx.reshape(
            condition, (*condition.shape, *[1] * (a.type.rank - 1))[: a.type.rank]
        )
    return ctx.emit("where", [condition, a, b])
