"""Activation functions, as chains of simpler pointwise operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf, pi, prod, sqrt
from typing import NamedTuple

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.op import normalize_axis
from tvmrt.compiler.ir.sizes import lower_bound

from .context import NodeContext
from .matmul import scale_by
from .registry import onnx_op

_SELU_ALPHA = 1.67326319217681884765625
_SELU_GAMMA = 1.05070102214813232421875


def _add_constant(ctx: NodeContext, x: Value, amount: float) -> Value:
    return x if amount == 0.0 else ctx.emit("add", [x, ctx.like(amount, x)])


def leaky_relu(ctx: NodeContext, x: Value, alpha: float) -> Value:
    return ctx.emit("prelu", [x, ctx.like(alpha, x)])


def thresholded_relu(ctx: NodeContext, x: Value, alpha: float) -> Value:
    above = ctx.emit("greater", [x, ctx.like(alpha, x)])
    return ctx.emit("where", [above, x, ctx.like(0, x)])


def elu(ctx: NodeContext, x: Value, alpha: float, slope: float = 1.0) -> Value:
    """Return x if it is positive, else alpha * (exp(x / slope) - 1)."""
    below = ctx.emit("min", [x, ctx.like(0, x)])
    curve = scale_by(ctx, ctx.emit("expm1", [scale_by(ctx, below, 1.0 / slope)]), alpha)
    positive = ctx.emit("greater", [x, ctx.like(0, x)])
    return ctx.emit("where", [positive, x, curve])


def selu(ctx: NodeContext, x: Value, alpha: float, gamma: float) -> Value:
    return scale_by(ctx, elu(ctx, x, alpha), gamma)


def hard_sigmoid(ctx: NodeContext, x: Value, alpha: float, beta: float) -> Value:
    """Return alpha * x + beta, clamped to 0..1."""
    line = _add_constant(ctx, scale_by(ctx, x, alpha), beta)
    return ctx.clamp(line, 0, 1)


def hard_swish(ctx: NodeContext, x: Value, alpha: float, beta: float) -> Value:
    return ctx.emit("mul", [x, hard_sigmoid(ctx, x, alpha, beta)])


def softsign(ctx: NodeContext, x: Value) -> Value:
    return ctx.emit("div", [x, _add_constant(ctx, ctx.emit("abs", [x]), 1.0)])


class Activation(NamedTuple):
    """A function of a tensor, and the node attributes it takes with their defaults."""

    function: Callable[..., Value]
    defaults: Mapping[str, float]


ACTIVATIONS = {
    "Celu": Activation(lambda ctx, x, alpha: elu(ctx, x, alpha, alpha), {"alpha": 1.0}),
    "Elu": Activation(elu, {"alpha": 1.0}),
    "HardSigmoid": Activation(hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    # 1/6 as in the specification's function body: float64 needs more than the float32 default
    "HardSwish": Activation(hard_swish, {"alpha": 1 / 6, "beta": 0.5}),
    "LeakyRelu": Activation(leaky_relu, {"alpha": 0.01}),
    "Selu": Activation(selu, {"alpha": _SELU_ALPHA, "gamma": _SELU_GAMMA}),
    "Softsign": Activation(softsign, {}),
    "ThresholdedRelu": Activation(thresholded_relu, {"alpha": 1.0}),
}


@onnx_op(*ACTIVATIONS)
def curve(ctx: NodeContext) -> Value:
    function, defaults = ACTIVATIONS[ctx.op]
    return function(
        ctx, ctx.required(0), **{name: ctx.attr(name, n) for name, n in defaults.items()}
    )


@onnx_op("Mish")
def mish(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    return ctx.emit("mul", [x, ctx.emit("tanh", [ctx.emit("softplus", [x])])])


def emit_swish(ctx: NodeContext, x: Value, alpha: float) -> Value:
    """Return x * sigmoid(alpha * x)."""
    return ctx.emit("mul", [x, ctx.emit("sigmoid", [scale_by(ctx, x, alpha)])])


@onnx_op("Swish")
def swish(ctx: NodeContext) -> Value:
    return emit_swish(ctx, ctx.required(0), ctx.attr("alpha", 1.0))


@onnx_op("SwiGLU")
def swiglu(ctx: NodeContext) -> Value:
    gate = emit_swish(ctx, ctx.required(0), ctx.attr("alpha", 1.0))
    return ctx.emit("mul", [gate, ctx.required(1)])


def emit_gelu(ctx: NodeContext, x: Value, tanh: bool = False) -> Value:
    """Return x / 2 * (1 + erf(x / sqrt(2))), or its approximation by tanh."""
    if tanh:
        cube = ctx.emit("mul", [ctx.emit("mul", [x, x]), x])
        inner = ctx.emit("add", [x, scale_by(ctx, cube, 0.044715)])
        curve = ctx.emit("tanh", [scale_by(ctx, inner, sqrt(2 / pi))])
    else:
        curve = ctx.emit("erf", [scale_by(ctx, x, sqrt(0.5))])
    return ctx.emit("mul", [scale_by(ctx, x, 0.5), _add_constant(ctx, curve, 1.0)])


@onnx_op("Gelu")
def gelu(ctx: NodeContext) -> Value:
    mode = ctx.attr("approximate", "none")
    if mode not in ("none", "tanh"):
        raise ValueError(f"approximate is {mode}; none or tanh expected")
    return emit_gelu(ctx, ctx.required(0), mode == "tanh")


@onnx_op("Shrink")
def shrink(ctx: NodeContext) -> Value:
    x, bias = ctx.required(0), ctx.attr("bias", 0.0)
    limit = ctx.attr("lambd", 0.5)
    zero = ctx.like(0, x)
    if x.dtype.name.startswith("uint"):  # no number is below -lambd
        limit, bias = max(limit, 0.0), max(bias, 0.0)  # as floats are cast to unsigned integers
        above = ctx.emit("greater", [x, ctx.like(limit, x)])
        return ctx.emit("where", [above, ctx.emit("sub", [x, ctx.like(bias, x)]), zero])
    above = ctx.emit("greater", [x, ctx.like(limit, x)])
    below = ctx.emit("less", [x, ctx.like(-limit, x)])
    lifted = ctx.emit("where", [below, _add_constant(ctx, x, bias), zero])
    return ctx.emit("where", [above, _add_constant(ctx, x, -bias), lifted])


@onnx_op("Softmax", "LogSoftmax")
def softmax(ctx: NodeContext) -> Value:
    """Softmax along one axis since opset 13; before, over all axes from ``axis`` on, flattened."""
    x = ctx.required(0)
    log = ctx.op == "LogSoftmax"
    axis, rows = _softmax_axis(ctx, x)
    return ctx.reshape(softmax_along(ctx, rows, axis, log), x.shape)


def softmax_along(ctx: NodeContext, x: Value, axis: int, log: bool = False) -> Value:
    """Softmax along one axis. The kernel takes float32; other types are decomposed."""
    if x.dtype.name == "float32":
        return ctx.emit("softmax", [x], axis=axis, log=log)
    largest = ctx.emit("reduce_max", [x], axes=(axis,), keepdims=1)
    shifted = ctx.emit("sub", [x, largest])
    powers = ctx.emit("exp", [shifted])
    total = ctx.emit("reduce_sum", [powers], axes=(axis,), keepdims=1)
    if log:
        return ctx.emit("sub", [shifted, ctx.emit("log", [total])])
    return ctx.emit("div", [powers, total])


@onnx_op("Hardmax")
def hardmax(ctx: NodeContext) -> Value:
    """Return 1 at the first of the largest elements, 0 elsewhere."""
    x = ctx.required(0)
    axis, rows = _softmax_axis(ctx, x)
    count = rows.shape[axis]
    if lower_bound(count) < 1:  # argmax needs an element
        after = tuple(int(d == axis) for d in range(len(rows.shape)))
        before, lowest = (0,) * len(after), ctx.like(-inf, rows)
        some = ctx.emit("pad", [rows, lowest], before=before, after=after, mode="constant")
    else:
        some = rows
    winner = ctx.emit("argmax", [some], axis=axis, keepdims=1, select_last=0)
    shape = [count if d == axis else 1 for d in range(len(rows.shape))]
    positions = ctx.reshape(ctx.iota(count, what="the axis"), shape)
    out = ctx.cast(ctx.emit("equal", [winner, positions]), x.dtype.name)
    return ctx.reshape(out, x.shape)


def _softmax_axis(ctx: NodeContext, x: Value) -> tuple[int, Value]:
    """Return the axis to normalise, and the input reshaped so that this is one axis."""
    axis = normalize_axis(ctx.attr("axis", -1 if ctx.opset >= 13 else 1), len(x.shape))
    if ctx.opset >= 13 or prod(x.shape[axis + 1 :]) == 1:
        return axis, x
    return 1, ctx.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))
