"""dnnl: convolutions and matmuls on the CPU by oneDNN, with fused epilogues. The other half is the
plug-in ``plugins/dnnl/src``, which converts each region to a list of oneDNN primitives."""

from __future__ import annotations

from itertools import product

import numpy as np

from tvmrt.compiler import processor
from tvmrt.compiler.devices.base import Context, Device
from tvmrt.compiler.devices.registry import register
from tvmrt.compiler.ir import Node, Region, Value
from tvmrt.compiler.ir.region import DENSE_LAYOUT

MAX_RANK = 6  # maximum rank of a oneDNN matmul

_FLOATS = ("conv", "conv_transpose", "matmul")
_INT8_TYPES = ("qconv", "qmatmul")
_SUM = ((), ("add",))  # a bias, or another layer's result
_ACTIVATION = ((), ("relu",), ("max",), ("min",), ("max", "min"))


def _floats(node: Node) -> str | None:
    for value in (*node.operands(), *node.outputs):
        if value.dtype.name != "float32":
            return f"oneDNN computes {node.op} in float32, not in {value.dtype}"
    return None


def _conv(node: Node) -> str | None:
    if not node.inputs[1].is_constant:
        return "the weights are computed at run time"
    if not 3 <= node.output.type.rank <= 5:
        return "oneDNN's windows have one to three axes"
    return _floats(node)


def _matmul(node: Node) -> str | None:
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    a, b, out = *node.inputs[:2], node.output
    if min(a.type.rank, b.type.rank, out.type.rank) < 2:
        return "oneDNN multiplies matrices"
    if bias is not None and b.type.rank == 2:
        if bias.type.size not in (bias.shape[-1] if bias.shape else 1, out.type.size):
            return "oneDNN adds a bias of one number, or of one a column"
    elif bias is not None and bias.type.rank > out.type.rank:
        return "the bias has more dimensions than the product"
    return _floats(node)


def _add(node: Node) -> str | None:
    if all(v.shape != node.output.shape for v in node.inputs):
        return "oneDNN broadcasts one operand of two"
    return _floats(node)


def _bound(node: Node) -> str | None:
    flows = [v for v in node.inputs if not _is_number(v)]
    if len(flows) == 1 and flows[0].shape == node.output.shape:
        return _floats(node)
    return "oneDNN's bounds are constant numbers"


def _is_number(value: Value) -> bool:
    return value.is_constant and value.type.size == 1 and not np.isnan(value.data).any()


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
    if not _has_exact_int8_matmul():
        return "oneDNN has no exact int8 matmul on a processor without VNNI"
    return None


def _has_exact_int8_matmul() -> bool:
    """Return whether oneDNN has int8 products with 32-bit accumulators. Without VNNI it adds pairs
    in 16 bits, which overflow, and halves the weights of signed inputs."""
    vnni = {"avx512_vnni", "avx_vnni"}
    return processor.machine() != "x86_64" or bool(processor.flags() & vnni)


_CHECKS = {
    "conv": _conv,
    "conv_transpose": _conv,
    "matmul": _matmul,
    "add": _add,
    "relu": _floats,
    "max": _bound,
    "min": _bound,
    "qconv": _quantized,
    "qmatmul": _quantized,
}


@register
class OneDnnDevice(Device):
    """oneDNN: convolutions and matmuls of float32 and int8, with fused add, relu and clip."""

    name = "dnnl"
    layout = "channels_last"
    layout_alone = "dense"  # oneDNN converts image layouts faster than the CPU's kernels
    version = 1  # version of the nodes' meaning, as in dnnl.c
    patterns = (
        *((op, *a, *f, *b) for op, a, f, b in product(_FLOATS, _SUM, _ACTIVATION, _SUM)),
        *((op,) for op in _INT8_TYPES),
    )

    def refuses(self, context: Context) -> str | None:
        if context.runtime == "crt":
            return "oneDNN needs an operating system"
        return None

    def supports(self, node: Node) -> str | None:
        check = _CHECKS.get(node.op)
        if check is None:
            return f"oneDNN has no {node.op} here"
        for value in (*node.operands(), *node.outputs):
            if value.type.rank > MAX_RANK:
                return f"a tensor of rank {value.type.rank} is too large for oneDNN"
            if value.type.size == 0:
                return "there is nothing to compute"
        return check(node)

    def optimize(self, region: Region) -> Region:
        if region.layout == DENSE_LAYOUT:  # lets the plan be made before the first call
            region.nodes[0].attrs["borders"] = "dense"
        return region
