"""Preprocessing of columns: scaling, normalisation, imputation, binarisation."""

from __future__ import annotations

import math

import numpy as np

from tvmrt.compiler.sdk.frontend import NodeContext, onnx_op
from tvmrt.compiler.sdk.graph import Value
from tvmrt.plugins.onnx_ml.operators import classifier_outputs
from tvmrt.plugins.onnx_ml.operators.domain import DOMAIN


def _by_column(ctx: NodeContext, numbers: list, x: Value, what: str) -> Value:
    """Return a constant with one number for all columns, or one per column."""
    columns = x.shape[-1] if x.shape else 1
    if len(numbers) not in (1, columns):
        raise ValueError(f"{what} has {len(numbers)} elements, expected 1 or {columns}")
    return ctx.const(numbers, x.dtype.numpy)


@onnx_op("Scaler", domain=DOMAIN)
def scaler(ctx: NodeContext) -> Value:
    x = ctx.cast(classifier_outputs.to_float(ctx, ctx.required(0)), "float32")
    offset, scale = ctx.attr("offset") or [0.0], ctx.attr("scale") or [1.0]
    moved = ctx.emit("sub", [x, _by_column(ctx, offset, x, "offset")])
    return ctx.emit("mul", [moved, _by_column(ctx, scale, x, "scale")])


@onnx_op("Normalizer", domain=DOMAIN)
def normalizer(ctx: NodeContext) -> Value:
    x = ctx.cast(classifier_outputs.to_float(ctx, ctx.required(0)), "float32")
    norm = ctx.attr("norm", "MAX")
    axes = (len(x.shape) - 1,)
    if norm == "MAX":
        size = ctx.emit("reduce_max", [x], axes=axes, keepdims=1)
    elif norm == "L1":
        size = ctx.emit("reduce_sum", [ctx.emit("abs", [x])], axes=axes, keepdims=1)
    elif norm == "L2":
        squared_norm = ctx.emit("reduce_sum_square", [x], axes=axes, keepdims=1)
        size = ctx.emit("sqrt", [squared_norm])
    else:
        raise ValueError(f"unknown norm {norm}; MAX, L1 or L2 expected")
    none = ctx.emit("equal", [size, ctx.like(0.0, size)])
    return ctx.emit("div", [x, ctx.emit("where", [none, ctx.like(1.0, size), size])])


@onnx_op("Imputer", domain=DOMAIN)
def imputer(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    floats, ints = ctx.attr("imputed_value_floats"), ctx.attr("imputed_value_int64s")
    values = floats if x.dtype.is_float else ints
    if not values:
        kind = "floats" if x.dtype.is_float else "int64s"
        raise ValueError(f"imputed_value_{kind} must be given for {x.dtype}")
    replaced = (
        ctx.attr("replaced_value_float", 0.0)
        if x.dtype.is_float
        else ctx.attr("replaced_value_int64", 0)
    )
    if x.dtype.is_float and math.isnan(replaced):
        gap = ctx.emit("is_nan", [x])
    else:
        gap = ctx.emit("equal", [x, ctx.like(replaced, x)])
    return ctx.emit("where", [gap, _by_column(ctx, values, x, "the imputed values"), x])


@onnx_op("Binarizer", domain=DOMAIN)
def binarizer(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    threshold = np.asarray(ctx.attr("threshold", 0.0), np.float32)
    if x.dtype.is_int:
        threshold = np.floor(np.clip(threshold, -(2.0**31), 2.0**31 - 1))  # x > 1.5 is x > 1
    return ctx.cast(ctx.emit("greater", [x, ctx.like(threshold, x)]), x.dtype.name)
