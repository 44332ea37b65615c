"""Kernels on quantised tensors.

Sums of products are exact in 32 bits. The following steps are rounded as the operators define, so
multiplications and additions must not be contracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from tvmrt.compiler.ir import Node
from tvmrt.compiler.ir.quantized import storage_range
from tvmrt.plugins.opencl.kernel import Kernel, Operand, cl_type
from tvmrt.plugins.opencl.kernels import (
    _count_padded,
    _pixels,
    _spatial,
    _spatial_triple,
    _window,
    kernel,
)


def _wide(node: Node) -> str | None:
    """Return why kernels, which compute in int32, refuse a node; contracts state its types."""
    wide = any(v is not None and v.dtype.name == "uint32" for v in node.inputs)
    return "the OpenCL kernel of dequantize computes in int32" if wide else None


_exact = partial(kernel, helpers="#pragma OPENCL FP_CONTRACT OFF\n", refuses=_wide)


def _round(k: Kernel, value: str, zero: str, low: str, high: str) -> None:
    """Write out[i] = clamp(round(value) + zero, low, high); NaN becomes the minimum."""
    k.line(f"const float v = {value};")
    k.line(f"const float least = (float)({low} - {zero}), most = (float)({high} - {zero});")
    k.line("const float kept = v > least ? fmin(v, most) : least;")
    k.line(f"out[i] = ({cl_type(k.result)})((int)rint(kept) + {zero});")


def _finish(k: Kernel, node: Node, value: str) -> None:
    """Write the rounded result with the node's attributes."""
    names = (k.scalar(node.attrs[key]) for key in ("y_zero", "low", "high"))
    _round(k, value, *names)


def _broadcast(operand: Operand, shape) -> Operand:
    return Operand(operand.buffer, operand.at.expand(shape))


@_exact("quantize")
def quantize(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    index = k.split("i", node.output.shape, "o")
    x, scale, zero = (k.load(_broadcast(o, node.output.shape), index) for o in operands)
    low, high = (k.scalar(n) for n in storage_range(node.output.dtype))
    k.line(f"const int zero = {zero};")
    _round(k, f"{x} / {scale}", "zero", low, high)


@_exact("dequantize")
def dequantize(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    index = k.split("i", node.output.shape, "o")
    q, scale, zero = (k.load(_broadcast(o, node.output.shape), index) for o in operands)
    k.line(f"out[i] = (float)((int){q} - (int){zero}) * {scale};")


# Products ---------------------------------------------------------------------------------------


def _per_channel(k: Kernel, operand: Operand, channel: str) -> str:
    """Return a scalar, or the value of a channel."""
    flat = operand.buffer.type.size
    return f"{k.pointer(operand.buffer)}[{channel if flat > 1 else 0}]"


def _begin_sum(k: Kernel, operands: Sequence[Operand | None], channel: str) -> str:
    """Declare the sum; return the subtraction of the weights' zero point."""
    bias, zero = (operands[n] if len(operands) > n else None for n in (3, 4))
    k.line(f"int acc = {_per_channel(k, bias, channel) if bias else 0};")
    if zero is None:
        return ""
    k.line(f"const int w_zero = {_per_channel(k, zero, channel)};")
    return " - w_zero"


def _end_sum(k: Kernel, node: Node, scale: str) -> None:
    to = node.attrs["to"]
    if to == "int32":
        k.line("out[i] = acc;")
    elif to == "float32":
        k.line(f"out[i] = (float)acc * {scale};")
    else:
        _finish(k, node, f"(float)acc * {scale}")


@_exact("qconv")
def qconv(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    x, w = _spatial(operands[0]), _spatial(operands[1])
    o = _pixels(k, node)
    per_group, channels = node.output.shape[1] // node.attrs["groups"], w.at.shape[1]
    less = _begin_sum(k, operands, o[1])
    x_zero = k.scalar(node.attrs["x_zero"])
    k.line(f"const int first = {o[1]} / {k.scalar(per_group)} * {k.scalar(channels)};")
    k.line(f"for (int c = 0; c < {k.scalar(channels)}; ++c) {{")
    index = _window(k, node, w.at.shape[2:], x.at.shape[2:])
    weight = k.load(w, [o[1], "c", "kz", "ky", "kx"])
    k.line(f"acc += ({k.load(x, [o[0], '(first + c)', *index])} - {x_zero}) * ({weight}{less});")
    k.line("}}}}")
    _end_sum(k, node, _per_channel(k, operands[2], o[1]))


@_exact("qmatmul", "qmatmul_computed")
def qmatmul(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    shape = node.output.shape
    inner = operands[0].at.shape[-1]
    a = _broadcast(operands[0], (*shape[:-2], shape[-2], inner))
    b = _broadcast(operands[1], (*shape[:-2], inner, shape[-1]))
    o = k.split("i", shape, "o")
    less = _begin_sum(k, operands, o[-1])
    if node.operator.weights is None:
        less = f" - {k.scalar(node.attrs['w_zero'])}"
    x_zero = k.scalar(node.attrs["x_zero"])
    k.line(f"for (int r = 0; r < {k.scalar(inner)}; ++r)")
    left, right = k.load(a, [*o[:-1], "r"]), k.load(b, [*o[:-2], "r", o[-1]])
    k.line(f"  acc += ({left} - {x_zero}) * ({right}{less});")
    _end_sum(k, node, _per_channel(k, operands[2], o[-1]))


# Bytes ------------------------------------------------------------------------------------------


@_exact("table")
def table(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    x, entries = operands
    index = k.split("i", node.output.shape, "o")
    entry = f"{k.pointer(entries.buffer)}[(uchar){k.load(x, index)}]"
    k.line(f"out[i] = as_{cl_type(k.result)}({entry});")


@_exact("qadd", "qmul")
def pair(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    attrs = node.attrs
    index = k.split("i", node.output.shape, "o")
    for name, operand in zip("ab", operands):
        steps = f"{k.load(operand, index)} - {k.scalar(attrs[f'{name}_zero'])}"
        k.line(f"const float {name} = (float)({steps}) * {k.number(attrs[f'{name}_scale'])};")
    _finish(k, node, f"(a {node.operator.symbol} b) / {k.number(attrs['y_scale'])}")


@_exact("qmax_pool")
def max_pool(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    x = _spatial(operands[0])
    o = _pixels(k, node)
    k.line(f"int acc = {k.scalar(storage_range(node.output.dtype)[0])};")
    index = _window(k, node, _spatial_triple(node.attrs["kernel"], 1), x.at.shape[2:])
    k.line(f"acc = max(acc, (int){k.load(x, [o[0], o[1], *index])});")
    k.line("}}}")
    k.line("out[i] = acc;")


@_exact("qavg_pool", "qavg_pool_zero_first")
def average_pool(k: Kernel, node: Node, operands: Sequence[Operand | None]) -> None:
    """A mean over the whole image is an exact integer sum, scaled once; other means sum floats."""
    attrs = node.attrs
    x, taps = _spatial(operands[0]), _spatial_triple(attrs["kernel"], 1)
    o = _pixels(k, node)
    whole = taps == x.at.shape[2:] and not any((*attrs["pads_before"], *attrs["pads_after"]))
    zero = k.scalar(attrs["x_zero"])
    k.line("int met = 0;")
    k.line("int sum = 0;" if whole else "float sum = 0.0f;")
    index = _window(k, node, taps, x.at.shape[2:])
    steps = f"({k.load(x, [o[0], o[1], *index])} - {zero})"
    factor = "" if whole else f"(float){{}} * {k.number(attrs['x_scale'])}"
    k.line(f"sum += {factor.format(steps) if factor else steps};")
    k.line("++met;")
    k.line("}}}")
    if attrs.get("count_pads"):
        _count_padded(k, node, taps, x.at.shape[2:])
    if whole:
        scale = k.number(attrs["x_scale"] / (attrs["y_scale"] * prod(taps)))
        _finish(k, node, f"(float)sum * {scale}")
    else:
        value = f"sum / (float)met / {k.number(attrs['y_scale'])}"
        if node.op == "qavg_pool_zero_first":
            shift, (low, high) = k.number(attrs["y_zero"]), (attrs["low"], attrs["high"])
            _round(k, f"{value} + {shift}", *(k.scalar(n) for n in (0, low, high)))
        else:
            _finish(k, node, value)
