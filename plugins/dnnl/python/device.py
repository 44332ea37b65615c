"""dnnl: oneDNN on the CPU. What it takes, and why it leaves the rest; the other half is the plug-in
``src_runtime/devices/dnnl``, which turns each region into a list of oneDNN's primitives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmrt.compiler import processor
from tvmrt.compiler.devices.base import Context, Device
from tvmrt.compiler.devices.registry import register
from tvmrt.compiler.ir import Node, Region, Value
from tvmrt.compiler.ir.float_to_int import to_integers
from tvmrt.compiler.ir.quantized import is_per_tensor
from tvmrt.compiler.ir.recurrent import ACTIVATIONS, speak_plainly
from tvmrt.compiler.ir.region import DENSE_LAYOUT
from tvmrt.plugins.dnnl.byte_lines import line_of, without_lines

MAX_RANK = 6  # oneDNN has matrix products and plain layouts of so many dimensions

Check = Callable[[Node], "str | None"]

_UNARY = "relu sigmoid tanh exp log sqrt abs round softplus neg reciprocal".split()
_BINARY = "add sub mul div max min equal less less_equal greater greater_equal".split()
_REDUCTIONS = "reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_sum_square".split()
_REDUCIBLE = {"conv", "conv_transpose", "matmul"}
# What a region is worth having for: everything else is cheaper beside the CPU's own kernels.
_HEAVY = {"conv", "conv_transpose", "matmul", "qconv", "qmatmul", *ACTIVATIONS}


def _floats(node: Node, *values: Value | None) -> str | None:
    """Why not, if one of the values is no float32."""
    for value in values:
        if value is not None and value.dtype.name != "float32":
            return f"oneDNN computes {node.op} in float32, not in {value.dtype}"
    return None


def _all_floats(node: Node) -> str | None:
    return _floats(node, *node.inputs, *node.outputs)


def _binary(node: Node) -> str | None:
    a, b = node.inputs
    reason = _floats(node, a, b)
    if reason is not None:
        return reason
    shape = node.output.shape
    full = [v.shape == shape for v in (a, b)]
    if not any(full):
        return "oneDNN broadcasts one operand of two"
    if node.op == "div" and not full[0] and not _is_scalar(a):
        return "oneDNN does not broadcast what is divided"
    return None


def _is_scalar(value: Value) -> bool:
    return value.is_constant and value.type.size == 1


def _power(node: Node) -> str | None:
    if not _is_scalar(node.inputs[1]):
        return "oneDNN raises to constant powers only"
    return _floats(node, *node.inputs)


def _prelu(node: Node) -> str | None:
    if node.inputs[0].shape != node.output.shape:
        return "oneDNN's prelu does not broadcast what flows through it"
    return _floats(node, *node.inputs)


def _conv(node: Node) -> str | None:
    if not node.inputs[1].is_constant:
        return "the weights are computed at run time"
    return _all_floats(node)


def _matmul(node: Node) -> str | None:
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    b, out = node.inputs[1], node.output
    if bias is not None and b.type.rank == 2:
        last = bias.shape[-1] if bias.shape else 1
        if bias.type.size not in (last, out.type.size):
            return "oneDNN adds a bias of one number, or of one a column"
    if bias is not None and bias.type.rank > max(out.type.rank, 2):
        return "the bias has more dimensions than the product"
    return _all_floats(node)


def _pool(node: Node) -> str | None:
    x, out = node.inputs[0], node.output
    rows = zip(
        x.shape[2:],
        out.shape[2:],
        *(node.attrs[key] for key in ("kernel", "strides", "dilations", "pads_before")),
        node.attrs["pads_after"],
    )
    for n, m, kernel, stride, dilation, before, after in rows:
        span = (kernel - 1) * dilation + 1
        beyond = (m - 1) * stride + span - n - before
        if max(before, beyond) >= span:
            return "a window lies in the padding alone"
        if node.attrs.get("count_pads") and beyond > after:
            return "oneDNN would count elements beyond the padding"
    if node.op in ("qmax_pool", "qavg_pool"):
        return None
    return _all_floats(node)


def _reduction(node: Node) -> str | None:
    if not node.attrs["axes"]:
        return "there is nothing to reduce"
    return _all_floats(node)


def _layer_norm(node: Node) -> str | None:
    if not node.attrs["centre"]:
        return "oneDNN normalises around the mean only"
    return _all_floats(node)


def _lrn(node: Node) -> str | None:
    if node.attrs["size"] % 2 == 0:
        return "oneDNN normalises over an odd number of channels"
    if node.inputs[0].type.rank != 4:
        return "oneDNN normalises over the channels of images"
    return _all_floats(node)


def nearest_places(extent: int, out: int) -> np.ndarray:
    """The elements that oneDNN's nearest-neighbour resampling takes along an axis."""
    place = np.maximum((np.arange(out) + 0.5) * extent / out - 0.5, 0)
    return to_integers(np.minimum(np.floor(place + 0.5), extent - 1), np.int32)


def _pick(node: Node) -> str | None:
    x = node.inputs[0]
    if not 3 <= x.type.rank <= 5:
        return "oneDNN resizes images of 1 to 3 spatial axes"
    for axis, places in zip(node.attrs["axes"], node.inputs[1:]):
        if axis < 2 or not places.is_constant:
            return "oneDNN resizes spatial axes only"
        if not np.array_equal(places.data, nearest_places(x.shape[axis], places.type.size)):
            return "the nearest neighbours are chosen in another way than oneDNN's"
    return _floats(node, x)


def _movable(node: Node) -> str | None:
    for value in [*node.inputs, *node.outputs]:
        if value.dtype.name not in ("float32", "int8", "uint8", "int32"):
            return f"oneDNN moves no elements of type {value.dtype}"
    return None


def _slice(node: Node) -> str | None:
    if any(step < 1 for step, n in zip(node.attrs["steps"], node.attrs["sizes"]) if n > 1):
        return "oneDNN does not read backwards"
    return _movable(node)


def _cast(node: Node) -> str | None:
    if node.output.dtype.name != "float32" or node.inputs[0].dtype.name not in (
        "int8",
        "uint8",
        "int32",
    ):
        return "oneDNN rounds where casts truncate"
    return None


def _quantized(node: Node) -> str | None:
    w, w_zero = node.inputs[1], node.inputs[4] if len(node.inputs) > 4 else None
    zero = 0 if w.dtype.name == "int8" else 128
    if w_zero is None:
        fits = zero == 0
    else:
        fits = w_zero.is_constant and bool(np.all(w_zero.data == zero))
    if not fits:
        return f"oneDNN needs {w.dtype} weights around {zero}"
    if not all(v is None or v.is_constant for v in node.inputs[1:4]):
        return "weights, scales or biases are computed at run time"
    if not _multiplies_bytes_exactly():
        return "oneDNN has no exact products of bytes on a processor without VNNI"
    return None


def _is_byte(value: Value) -> bool:
    return value.dtype.name in ("int8", "uint8")


def _bytewise(node: Node) -> str | None:
    """Between bytes, or between bytes and floats by one scale and one zero point."""
    if node.op in ("quantize", "dequantize") and not is_per_tensor(node):
        return "oneDNN's conversions have one constant scale and zero point here"
    for value in (node.inputs[0], node.output):
        if not _is_byte(value) and value.dtype.name != "float32":
            return f"oneDNN converts no elements of type {value.dtype}"
    return None


def _table(node: Node) -> str | None:
    if line_of(node) is None:
        return "oneDNN has no tables, and this one is no line between two scales"
    return None


def _multiplies_bytes_exactly() -> bool:
    """Whether oneDNN has 32-bit sums of products of bytes. Without VNNI it adds them in pairs of 16
    bits, which overflow, and halves the weights of signed inputs."""
    vnni = {"avx512_vnni", "avx_vnni"}
    return processor.machine() != "x86_64" or bool(processor.flags() & vnni)


def _recurrent(node: Node) -> str | None:
    attrs = node.attrs
    names = tuple(row[0] for row in attrs["activations"])
    if names != ACTIVATIONS[node.op]:
        return f"oneDNN's {node.op} has the activations {', '.join(ACTIVATIONS[node.op])}"
    if np.isfinite(attrs.get("clip", np.inf)):
        return "oneDNN's cells do not clip"
    if attrs.get("input_forget"):
        return "oneDNN's cells do not couple their gates"
    states = 3 if node.op == "rnn" else 4
    if any(v is not None for v in node.inputs[states:]):
        return "oneDNN's cells have neither peepholes nor lengths of sequences here"
    if not node.inputs[1].is_constant:
        return "the recurrence weights are computed at run time"
    return _floats(node, *node.inputs, *node.outputs)


_CHECKS: dict[str, Check] = {
    **dict.fromkeys(_UNARY, _all_floats),
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys(("conv", "conv_transpose"), _conv),
    **dict.fromkeys(("max_pool", "avg_pool", "qmax_pool", "qavg_pool"), _pool),
    **dict.fromkeys(("qadd", "quantize", "dequantize"), _bytewise),
    **dict.fromkeys(("reshape", "transpose", "concat", "identity"), _movable),
    **dict.fromkeys(("qconv", "qmatmul"), _quantized),
    **dict.fromkeys(ACTIVATIONS, _recurrent),
    "table": _table,
    "pow": _power,
    "prelu": _prelu,
    "matmul": _matmul,
    "softmax": _all_floats,
    "layer_norm": _layer_norm,
    "group_norm": _all_floats,
    "lrn": _lrn,
    "pick": _pick,
    "slice": _slice,
    "cast": _cast,
}


@register
class Dnnl(Device):
    """oneDNN: products of floats and of 8-bit integers, pooling, normalisation, recurrent cells,
    and what is pointwise around them."""

    name = "dnnl"
    layout = "channels_last"
    layout_alone = "dense"  # oneDNN changes the layout of images faster than the CPU's kernels
    precisions = ("bfloat16",)
    version = 1  # of the meaning of nodes, as in dnnl.c

    def refuses(self, context: Context) -> str | None:
        if context.runtime == "crt":
            return "oneDNN needs an operating system"
        return None

    def supports(self, node: Node) -> str | None:
        check = _CHECKS.get(node.op)
        if check is None:
            return f"oneDNN has no {node.op}"
        for value in [*(v for v in node.inputs if v is not None), *node.outputs]:
            if value.type.rank > MAX_RANK:
                return f"a tensor of rank {value.type.rank} is too large for oneDNN"
            if value.type.size == 0:
                return "there is nothing to compute"
        return check(node)

    def evaluate(self, region: Region) -> str | None:
        if not any(node.op in _HEAVY for node in region.nodes):
            return "a region without products or recurrent cells is no work for oneDNN"
        return None

    def optimize(self, region: Region) -> Region:
        without_lines(region.graph)
        if region.layout == DENSE_LAYOUT:  # so that the plan is made for that before the first call
            region.nodes[0].attrs["borders"] = "dense"
        speak_plainly(region.nodes)  # of cells that supports() has found to be oneDNN's own
        reduced = region.options.get("precision") == "bfloat16"
        for node in region.nodes:
            if reduced and node.op in _REDUCIBLE:
                node.attrs["precision"] = "bfloat16"
        return region
