"""Element-wise arithmetic, comparison, logic and activations."""

from __future__ import annotations

from tvmrt.ir import Value

from .context import NodeContext
from .registry import onnx_op

_UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "BitwiseNot": "bit_not",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "is_nan",
    "Log": "log",
    "Neg": "neg",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}

_BINARY = {
    "Add": "add",
    "And": "logical_and",
    "BitwiseAnd": "bit_and",
    "BitwiseOr": "bit_or",
    "BitwiseXor": "bit_xor",
    "Div": "div",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Mul": "mul",
    "Or": "logical_or",
    "Sub": "sub",
    "Xor": "logical_xor",
}

_VARIADIC = {"Max": "max", "Min": "min", "Sum": "add"}


@onnx_op(*_UNARY)
def unary(ctx: NodeContext) -> Value:
    return ctx.emit(_UNARY[ctx.op], [ctx.required(0)])


@onnx_op(*_BINARY)
def binary(ctx: NodeContext) -> Value:
    return ctx.emit(_BINARY[ctx.op], [ctx.required(0), ctx.required(1)])


@onnx_op(*_VARIADIC)
def variadic(ctx: NodeContext) -> Value:
    result = ctx.required(0)
    for index in range(1, len(ctx.inputs)):
        result = ctx.emit(_VARIADIC[ctx.op], [result, ctx.required(index)])
    return result


@onnx_op("Clip")
def clip(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    low, high = ctx.input(1), ctx.input(2)
    if ctx.opset < 11:
        low = None if ctx.attr("min") is None else ctx.scalar_like(ctx.attr("min"), x)
        high = None if ctx.attr("max") is None else ctx.scalar_like(ctx.attr("max"), x)
    if low is not None:
        x = ctx.emit("max", [x, low])
    if high is not None:
        x = ctx.emit("min", [x, high])
    return x


@onnx_op("Identity", "Dropout")
def identity(ctx: NodeContext) -> Value:
    return ctx.required(0)
