"""xnnpack: convolutional networks by XNNPACK on the CPU. What it takes, and why it leaves the
rest; the other half is the plug-in ``src_runtime/devices/xnnpack``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmrt.compiler.ir import Node, Region, Value

from .base import Context, Device, Refusal
from .registry import register

MAX_RANK = 4  # of XNNPACK's images, whose channels are innermost

Check = Callable[[Node], "str | None"]

_UNARY = "relu sigmoid abs neg ceil floor round sqrt".split()
_BINARY = "add sub mul div".split()
# What a region is worth having for: everything else is cheaper beside the CPU's own kernels.
_HEAVY = {"conv", "conv_transpose", "matmul", "qconv", "qmatmul"}


def _weights(node: Node) -> str | None:
    if all(v is None or v.is_constant for v in node.inputs[1:]):
        return None
    return "the weights are computed at run time"


def _window(node: Node) -> str | None:
    if node.inputs[0].type.rank < 3:
        return "XNNPACK's windows have one or two axes"
    return _weights(node)


def _conv_transpose(node: Node) -> str | None:
    attrs, w = node.attrs, node.inputs[1]
    axes = ("strides", "dilations", "pads_before", "out_spatial")
    rows = zip(node.inputs[0].shape[2:], w.shape[2:], *(attrs[key] for key in axes))
    for n, kernel, stride, dilation, before, out in rows:
        if out + before - (n - 1) * stride - (kernel - 1) * dilation - 1 >= stride:
            return "XNNPACK adds less than a stride to the result"
    return _window(node)


def _matmul(node: Node) -> str | None:
    a, b = node.inputs[:2]
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if a.type.rank != 2 or b.type.rank != 2:
        return "XNNPACK multiplies matrices without batches"
    if bias is not None and (bias.type.size != b.shape[1] or bias.shape[-1:] != b.shape[1:]):
        return "XNNPACK adds a bias of one number a column"
    return _weights(node)


def _pool(node: Node) -> str | None:
    attrs, extents = node.attrs, node.inputs[0].shape[2:]
    keys = ("kernel", "strides", "dilations", "pads_before")
    rows = zip(extents, node.output.shape[2:], *(attrs[key] for key in keys))
    padded = False
    for n, m, kernel, stride, dilation, before in rows:
        span = (kernel - 1) * dilation + 1
        beyond = (m - 1) * stride + span - n - before
        if max(before, beyond) >= span:
            return "a window lies in the padding alone"
        padded = padded or before > 0 or beyond > 0
    if np.prod(attrs["kernel"]) == 1:
        return "a window of one element is no pooling to XNNPACK"
    if node.op in ("max_pool", "qmax_pool"):
        return _window(node)
    if any(dilation != 1 for dilation in attrs["dilations"]):
        return "XNNPACK's means have no dilation"
    if padded and attrs["count_pads"]:
        return "XNNPACK's means do not count padding"
    return _window(node)


def _mean(node: Node) -> str | None:
    rank = node.inputs[0].type.rank
    if rank < 3 or tuple(node.attrs["axes"]) != tuple(range(2, rank)):
        return "XNNPACK's means are those of all pixels"
    return None


def _is_number(value: Value) -> bool:
    return value.is_constant and value.type.size == 1


def _binary(node: Node) -> str | None:
    rank = node.output.type.rank
    if any(not v.is_constant and v.type.rank != rank for v in node.inputs):
        return "XNNPACK's images broadcast to images"
    return None


def _bound(node: Node) -> str | None:
    a, b = node.inputs
    for number, other in ((a, b), (b, a)):
        if _is_number(number):
            if np.isnan(number.data).any():
                return "a bound is no number"
            if other.shape != node.output.shape:
                return "the number has more axes than what it bounds"
            return None
    return _binary(node)


def _prelu(node: Node) -> str | None:
    x, slope = node.inputs
    if x.shape != node.output.shape or not slope.is_constant:
        return "XNNPACK's slopes are constants, one of all or one a channel"
    if slope.type.size == 1:
        return None if np.isfinite(slope.data).all() else "a slope is not finite"
    axis = 1 if x.type.rank > 2 else x.type.rank - 1
    wide = (1,) * (x.type.rank - slope.type.rank) + tuple(slope.shape)
    if wide != tuple(n if i == axis else 1 for i, n in enumerate(x.shape)):
        return "XNNPACK's slopes are constants, one of all or one a channel"
    return None


def _softmax(node: Node) -> str | None:
    rank = node.inputs[0].type.rank
    if node.attrs.get("log") or node.attrs["axis"] != (1 if rank > 2 else rank - 1) or rank < 2:
        return "XNNPACK's softmax is that of channels"
    return None


def _is_plain(value: Value) -> bool:
    """Whether the order of elements is the same with channels innermost."""
    shape = value.shape
    return len(shape) < 3 or shape[1] == 1 or all(n == 1 for n in shape[2:])


def _reshape(node: Node) -> str | None:
    if _is_plain(node.inputs[0]) and _is_plain(node.output):
        return None
    return "the order of channels would change"


def _pad(node: Node) -> str | None:
    if node.attrs["mode"] != "constant":
        return "XNNPACK pads by constants"
    return _weights(node)


def _is_byte(value: Value) -> bool:
    return value.dtype.name in ("int8", "uint8")


def _one(value: Value | None) -> bool:
    """Whether a constant is the same number for all channels; one left out is."""
    return value is None or bool((value.data == value.data.flat[0]).all())


def _in_range(least: float, *ratios: float) -> str | None:
    if all(least <= ratio < 256 for ratio in ratios):
        return None
    return f"XNNPACK's ratios of scales lie between {least:g} and 256"


def _quantized(node: Node) -> str | None:
    """Of products: XNNPACK's operands have one type, and signed weights are around 0."""
    x, w, scale = node.inputs[:3]
    zero = node.inputs[4] if len(node.inputs) > 4 else None
    if not x.dtype == w.dtype == node.output.dtype:
        return f"XNNPACK multiplies {x.dtype} by {x.dtype} to {x.dtype}"
    if w.dtype.name == "int8" and zero is not None and zero.data.any():
        return "XNNPACK's signed weights are around 0"
    if (w.dtype.name == "uint8" or node.op == "qmatmul") and not (_one(scale) and _one(zero)):
        return "XNNPACK has one scale for these weights"
    return _in_range(2.0**-32, *scale.data.flat)


def _qconv(node: Node) -> str | None:
    return _quantized(node) or _window(node)


def _qmatmul(node: Node) -> str | None:
    if node.inputs[0].type.rank != 2:
        return "XNNPACK multiplies matrices without batches"
    return _quantized(node) or _weights(node)


def _same_bytes(node: Node) -> str | None:
    if any(v.dtype != node.output.dtype for v in node.inputs):
        return "XNNPACK's 8-bit operands have one type"
    return None


def _qadd(node: Node) -> str | None:
    a, b, y = (node.attrs[f"{name}_scale"] for name in "aby")
    if min(a, b, y) <= 0:
        return "a scale is not positive"
    ratios = (a / y, b / y) if node.op == "qadd" else (a * b / y,)
    return _same_bytes(node) or _in_range(2.0**-10 if node.op == "qadd" else 2.0**-16, *ratios)


def _qavg_pool(node: Node) -> str | None:
    attrs, x = node.attrs, node.inputs[0]
    if tuple(attrs["kernel"]) != tuple(x.shape[2:]) or any(n != 1 for n in node.output.shape[2:]):
        return "XNNPACK's 8-bit means are those of all pixels"
    if min(attrs["x_scale"], attrs["y_scale"]) <= 0:
        return "a scale is not positive"
    return _same_bytes(node) or _in_range(2.0**-8, attrs["x_scale"] / attrs["y_scale"])


def _converted(node: Node) -> str | None:
    scale, zero = node.inputs[1:3]
    if not (scale.is_constant and zero.is_constant and scale.type.size == zero.type.size == 1):
        return "XNNPACK's tensors have one scale and one zero point, which are constant"
    if not _is_byte(zero):
        return f"XNNPACK has no quantised {zero.dtype}"
    if scale.dtype.name != "float32" or not 0 < float(scale.data.flat[0]) < np.inf:
        return "a scale is no positive float32"
    return None


def _meanings(node: Node) -> dict[Value, tuple[float | None, int | None]]:
    """Scale and zero point of the 8-bit tensors of a node, as far as it tells them."""
    attrs = node.attrs
    if node.op in ("quantize", "dequantize"):
        tensor = node.output if node.op == "quantize" else node.inputs[0]
        return {tensor: (np.float32(node.inputs[1].data.item()), int(node.inputs[2].data.item()))}
    names = {"a": 0, "b": 1} if node.op in ("qadd", "qmul") else {"x": 0}
    rows = [(name, node.inputs[i]) for name, i in names.items()] + [("y", node.output)]
    found: dict[Value, tuple[float | None, int | None]] = {}
    for name, tensor in rows:
        scale, zero = attrs.get(f"{name}_scale"), attrs.get(f"{name}_zero")
        meaning = (None if scale is None else np.float32(scale), zero)
        if found.setdefault(tensor, meaning) != meaning:
            return {tensor: (np.float32("nan"), zero)}  # twice an operand, and differently
    return found


def _contradiction(region: Region) -> Node | None:
    """The first node that reads a tensor as other numbers than a node before."""
    known: dict[Value, list[float | int | None]] = {}
    for node in region.nodes:
        moved = node.op in ("reshape", "qmax_pool") and _is_byte(node.output)
        meanings = (
            {}
            if moved or not any(map(_is_byte, (*node.operands(), *node.outputs)))
            else _meanings(node)
        )
        if moved:  # the result has the operand's meaning, known now or later
            known[node.output] = known.setdefault(node.inputs[0], [None, None])
        for tensor, meaning in meanings.items():
            row = known.setdefault(tensor, [None, None])
            for i, number in enumerate(meaning):
                if number is not None and row[i] is not None and row[i] != number:
                    return node
                row[i] = number if number is not None else row[i]
    return None


_CHECKS: dict[str, Check] = {
    **dict.fromkeys(_UNARY, lambda node: None),
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(("max", "min"), _bound),
    **dict.fromkeys(("max_pool", "avg_pool"), _pool),
    "conv": _window,
    "conv_transpose": _conv_transpose,
    "matmul": _matmul,
    "reduce_mean": _mean,
    "prelu": _prelu,
    "softmax": _softmax,
    "reshape": _reshape,
    "pad": _pad,
    "qconv": _qconv,
    "qmatmul": _qmatmul,
    "qadd": _qadd,
    "qmul": _qadd,
    "qavg_pool": _qavg_pool,
    "qmax_pool": _pool,
    "quantize": _converted,
    "dequantize": _converted,
}
_FREE = {*_BINARY, "max", "min"}  # either operand may be a constant
_BYTES = {"qconv", "qmatmul", "qadd", "qmul", "qavg_pool", "qmax_pool", "reshape"}


def _type(node: Node, value: Value) -> str | None:
    if value.dtype.name == "float32" or node.op in ("quantize", "dequantize"):
        return None
    if node.op in _BYTES and (_is_byte(value) or value.is_constant):
        return None
    return f"XNNPACK computes {node.op} not of {value.dtype}"


@register
class Xnnpack(Device):
    """XNNPACK: convolutions, products and pooling of floats and of 8-bit integers, and what is
    pointwise around them."""

    name = "xnnpack"
    layout = "channels_last"

    def refuses(self, context: Context) -> str | None:
        """It is a shared library with threads."""
        if context.runtime == "crt":
            return "XNNPACK needs an operating system"
        return None

    def supports(self, node: Node) -> str | None:
        check = _CHECKS.get(node.op)
        if check is None:
            return f"XNNPACK has no {node.op} here"
        for value in (*node.operands(), *node.outputs):
            reason = _type(node, value)
            if reason is not None:
                return reason
            if value.type.rank > MAX_RANK:
                return f"XNNPACK's tensors have at most {MAX_RANK} axes"
            if value.type.size == 0:
                return "there is nothing to compute"
        if node.inputs[0] is not None and node.inputs[0].is_constant and node.op not in _FREE:
            return "its operand is a constant"
        return check(node)

    def evaluate(self, region: Region) -> str | None:
        if not _HEAVY.intersection(node.op for node in region.nodes):
            return "a region without products is no work for XNNPACK"
        node = _contradiction(region)
        if node is not None:
            return Refusal("a tensor of it is read by other scales before", node)
        return None
