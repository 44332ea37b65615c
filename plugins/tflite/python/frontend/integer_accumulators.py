"""Exact accumulators of integer products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.requantize import Accumulators

MatmulFunction = Callable[..., Value]


def of_type(op: str, x: Value) -> str:
    """Return the name of an integer product for the element type of its activations."""
    return f"{op}_int16" if x.dtype.name == "int16" else op


def accumulate_integers(
    ctx: OpContext,
    x: Value,
    w: Value,
    product: MatmulFunction,
    channel_shape: tuple[int, ...],
    axis: int,
    operands: tuple[int, int, int] = (0, 1, 2),
) -> Accumulators:
    """Return the accumulators of (x - x_zero) * (w - w_zero) plus bias, and their scales.

    ``product`` computes them from [x, w, 1.0, bias, w_zero]. ``channel_shape`` is the
    shape in which per-channel numbers broadcast over the accumulators. ``axis`` is the channel axis
    of the weights in the file; ``operands`` are the operator's indices of x, weights and bias.
    """
    x_scale, x_zero = ctx.per_tensor(ctx.tensor(operands[0]))
    if w.dtype.name not in ("int8", "uint8"):
        raise UnsupportedError(f"{x.dtype} activations with {w.dtype} weights")
    q = ctx.quantization(ctx.tensor(operands[1]))
    if q.per_axis and q.axis != axis:
        raise UnsupportedError(f"weights with scales along axis {q.axis}")
    w_zero = None if not q.zero.any() else q.zero.astype(np.int32)
    bias = ctx.input(operands[2])
    if bias is not None and bias.dtype.name not in ("int32", "int64"):
        raise UnsupportedError(f"a bias of {bias.dtype}")
    is_int16 = x.dtype.name == "int16"
    folded = None
    if bias is not None and bias.is_constant and not is_int16 and bias.dtype.name == "int32":
        folded, bias = bias, None
    one, zeros = ctx.const(1.0, np.float32), None if w_zero is None else ctx.const(w_zero)

    settings = {"x_zero": 0, "to": "int64"} if is_int16 else {"x_zero": x_zero, "to": "int32"}
    total = product([x, w, one, folded, zeros], **settings)
    if bias is not None:
        shape = (bias.type.size, *channel_shape[1:])
        total = ctx.emit("add", [total, ctx.cast(ctx.reshape(bias, shape), total.dtype.name)])
    if is_int16 and bias is not None and bias.dtype.name == "int32":
        total = ctx.cast(total, "int32")
    return Accumulators(total, x_scale, q.scale, channel_shape, x.dtype.name == "uint8")
